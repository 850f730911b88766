// Package spelling guesses which name a mistyped one means.
package spelling

// Nearest is the name that a mistyped one most likely means, "" where none is near.
func Nearest(name string, names []string) string {
	best, least := "", len(name)/2+1
	for _, n := range names {
		if len(name)-len(n) >= least {
			continue // as many letters have to go, and a text of a megabyte is not compared
		}
		if d := Distance(name, n); d < least {
			best, least = n, d
		}
	}
	return best
}

// Distance is the number of bytes to insert, remove, replace or exchange with a neighbour (optimal string alignment).
func Distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		rows[2][0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[1][j]+1, rows[2][j-1]+1, rows[1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[0][j-2]+1)
			}
			rows[2][j] = d
		}
		rows[0], rows[1], rows[2] = rows[1], rows[2], rows[0]
	}
	return rows[1][len(b)]
}
