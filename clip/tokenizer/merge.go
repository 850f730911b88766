package tokenizer

import (
	"container/heap"
	"math"
)

// short is the longest piece that merge handles by looking at all pairs after each merge; above it a heap keeps the cost from growing with the square.
const short = 48

// encode appends the ids of one piece. Among all neighbouring pairs the one of the lowest rank is merged, the leftmost first, until no pair has a
// rank. (The original merges all places of the pair at once; that is the same, because a merge of rank r makes no pair of a lower rank.)
func (v *vocabulary) encode(dst []int32, piece string) []int32 {
	if len(piece) <= short {
		var buf [short]int32
		return v.encodeShort(dst, v.symbols(buf[:0], piece))
	}
	return v.encodeLong(dst, v.symbols(make([]int32, 0, len(piece)), piece))
}

func (v *vocabulary) symbols(dst []int32, piece string) []int32 {
	for i := range len(piece) {
		dst = append(dst, v.byteSymbol[piece[i]])
	}
	dst[len(dst)-1] += 256
	return dst
}

func (v *vocabulary) encodeShort(dst, s []int32) []int32 {
	for len(s) > 1 {
		best, at := int32(math.MaxInt32), -1
		for i := range len(s) - 1 {
			if r, ok := v.ranks[pair(s[i], s[i+1])]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			break
		}
		s[at] = 512 + best
		s = append(s[:at+1], s[at+2:]...)
	}
	for _, x := range s {
		dst = append(dst, v.id(x))
	}
	return dst
}

// candidate is a pair that had a rank when it was found: the symbols at left and right.
type candidate struct {
	rank        int32
	left, right int32
	a, b        int32
}

type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, k int) bool {
	return c[i].rank < c[k].rank || c[i].rank == c[k].rank && c[i].left < c[k].left
}
func (c candidates) Swap(i, k int) { c[i], c[k] = c[k], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }
func (c *candidates) Pop() any {
	x := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return x
}

func (v *vocabulary) encodeLong(dst, s []int32) []int32 {
	n := int32(len(s))
	next, before := make([]int32, n), make([]int32, n)
	for i := range n {
		next[i], before[i] = i+1, i-1
	}
	var queue candidates
	look := func(left int32) (candidate, bool) {
		if left < 0 || next[left] >= n {
			return candidate{}, false
		}
		right := next[left]
		r, ok := v.ranks[pair(s[left], s[right])]
		return candidate{r, left, right, s[left], s[right]}, ok
	}
	for i := range n {
		if c, ok := look(i); ok {
			queue = append(queue, c)
		}
	}
	heap.Init(&queue)
	const gone = -1
	for len(queue) > 0 {
		c := heap.Pop(&queue).(candidate)
		if s[c.left] != c.a || s[c.right] != c.b || next[c.left] != c.right {
			continue // one of them was merged meanwhile
		}
		s[c.left], s[c.right] = 512+c.rank, gone
		after := next[c.right]
		next[c.left] = after
		if after < n {
			before[after] = c.left
		}
		for _, left := range []int32{before[c.left], c.left} {
			if x, ok := look(left); ok {
				heap.Push(&queue, x)
			}
		}
	}
	for _, x := range s {
		if x != gone {
			dst = append(dst, v.id(x))
		}
	}
	return dst
}
