package data

import (
	"fmt"

	"github.com/gospml/gospml/data/random"
)

// Plan is one walk over images: which rows, in which order, in batches of which size. Batches are a function of the plan alone, whatever the number of
// workers. (A broken image is left out of its batch.)
type Plan struct {
	Order     []int // rows in the order in which they come; read during the walk, so it must not change
	BatchSize int
	DropLast  bool // leave out a last batch that is not full
	Start     int  // the first batch to give: an interrupted walk goes on here
	// Rank and World share the walk among World processes: of each batch, process Rank gets its part, the same rows in the same order for every number of
	// processes, none twice and none left out. Every process walks over the same number of batches; a part of the last one may be empty. World 0 is 1.
	Rank, World int
	// Flip says for each row whether its image is to be mirrored; nil: none. See SeededFlip. It is called on one goroutine, in order.
	Flip func(row int) bool
}

// Batches is the number of batches from the first, Start not counted.
func (p *Plan) Batches() int {
	if p.BatchSize < 1 {
		return 0
	}
	if p.DropLast {
		return len(p.Order) / p.BatchSize
	}
	return (len(p.Order) + p.BatchSize - 1) / p.BatchSize
}

// rows are the rows of a batch, of this process's part of it.
func (p *Plan) rows(b int) []int {
	all := p.Order[b*p.BatchSize : min((b+1)*p.BatchSize, len(p.Order))]
	if p.World < 2 {
		return all
	}
	return all[len(all)*p.Rank/p.World : len(all)*(p.Rank+1)/p.World]
}

// most is the largest number of rows of a batch.
func (p *Plan) most() int {
	n := min(p.BatchSize, len(p.Order))
	if p.World > 1 {
		n = (n + p.World - 1) / p.World
	}
	return n
}

const maxBatchBytes int64 = 8 << 30

func (p *Plan) check(rows, imageBytes int) error {
	if p.BatchSize < 1 {
		return fmt.Errorf("data: batch size %d, must be at least 1", p.BatchSize)
	}
	if n := p.Batches(); p.Start < 0 || p.Start > n {
		return fmt.Errorf("data: first batch %d, but the plan has batches 0 to %d", p.Start, n-1)
	}
	if p.World < 0 || p.Rank < 0 || p.Rank >= max(p.World, 1) {
		return fmt.Errorf("data: process %d of %d: it must be from 0 to below their number", p.Rank, p.World)
	}
	if n := p.most(); int64(n) > maxBatchBytes/int64(imageBytes) {
		return fmt.Errorf("data: a batch of %d images of %d bytes: at most %d are allowed", n, imageBytes, maxBatchBytes)
	}
	for i, r := range p.Order {
		if r < 0 || r >= rows {
			return fmt.Errorf("data: place %d of the order is row %d, but the data set has rows 0 to %d", i, r, rows-1)
		}
	}
	return nil
}

// Shuffled returns rows in a random order that depends on (seed, epoch) alone. (The reference recipes draw their orders from one numpy generator
// for all epochs instead: [random.RandomState.Permutation].)
func Shuffled(rows []int, seed uint64, epoch int) []int {
	out := make([]int, len(rows))
	for i, j := range random.New(uint32(random.Mix(seed, uint64(epoch)))).Permutation(len(rows)) {
		out[i] = rows[j]
	}
	return out
}

// SeededFlip returns a fair coin for each row that depends on (seed, epoch, row) alone, for [Plan.Flip].
func SeededFlip(seed uint64, epoch int) func(row int) bool {
	return func(row int) bool { return random.Coin(seed, epoch, row) }
}
