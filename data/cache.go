package data

import (
	"sync"
	"sync/atomic"
)

// cache keeps squashed images in memory up to a budget, by row. All methods are safe for many goroutines.
type cache struct {
	imageBytes int
	perBlock   int            // images a block
	index      []atomic.Int32 // per row: place + 1, or one of the marks
	mu         sync.Mutex
	blocks     [][]byte // made when their first place is given away; a place is read only after its index was stored
	places     int
	used       int
}

const (
	notCached  = 0
	beingKept  = -1
	cacheFull  = -2
	blockBytes = 16 << 20
)

// newCache returns a cache for at most budget bytes, or nil where not one image fits.
func newCache(rows, imageBytes int, budget int64) *cache {
	places := int(min(budget/int64(imageBytes), int64(rows)))
	if places == 0 {
		return nil
	}
	perBlock := max(1, min(blockBytes/imageBytes, places))
	return &cache{
		imageBytes: imageBytes,
		perBlock:   perBlock,
		index:      make([]atomic.Int32, rows),
		blocks:     make([][]byte, (places+perBlock-1)/perBlock),
		places:     places,
	}
}

func (c *cache) place(p int) []byte {
	at := p % c.perBlock * c.imageBytes
	return c.blocks[p/c.perBlock][at : at+c.imageBytes]
}

// get copies a row's image into dst and reports whether it had it.
func (c *cache) get(row int, dst []byte) bool {
	p := c.index[row].Load()
	if p <= 0 {
		return false
	}
	copy(dst, c.place(int(p-1)))
	return true
}

// put keeps a row's image. full reports that this was the first image without a place.
func (c *cache) put(row int, image []byte) (full bool) {
	if !c.index[row].CompareAndSwap(notCached, beingKept) {
		return false
	}
	c.mu.Lock()
	p := c.used
	c.used++
	if p >= c.places {
		c.mu.Unlock()
		c.index[row].Store(cacheFull)
		return p == c.places
	}
	if block := &c.blocks[p/c.perBlock]; *block == nil {
		*block = make([]byte, min(c.perBlock, c.places-p)*c.imageBytes)
	}
	c.mu.Unlock()
	copy(c.place(p), image)
	c.index[row].Store(int32(p + 1))
	return false
}
