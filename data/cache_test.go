package data

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCache(t *testing.T) {
	rows := make([]int, 100)
	for i := range rows {
		rows[i] = i
	}
	plan := Plan{Order: rows, BatchSize: 8}
	for _, c := range []struct {
		images      int64
		reads, logs int64
	}{{0, 200, 0}, {100, 100, 0}, {99, 101, 1}, {60, 140, 1}, {1, 199, 1}} {
		var log bytes.Buffer
		p := &patterns{}
		l := newLoader(t, patternSet(100, p), LoaderOptions{Workers: 3, CacheBytes: c.images*45 + 44, Log: slog.New(slog.NewTextHandler(&log, nil))})
		record(t, l, plan)
		record(t, l, plan)
		require.Equal(t, c.reads, p.reads.Load(), "cache of %d images", c.images)
		if c.images > 0 {
			require.EqualValues(t, c.logs, strings.Count(log.String(), "cache is full"), "%s", &log)
		} else {
			require.Contains(t, log.String(), "smaller than one image")
		}
	}
}

// TestCacheBlocks uses images so large that a block holds few.
func TestCacheBlocks(t *testing.T) {
	c := newCache(10, blockBytes/3, 7*blockBytes/3)
	require.Equal(t, 7, c.places)
	require.Len(t, c.blocks, 3)
	image, got := make([]byte, blockBytes/3), make([]byte, blockBytes/3)
	fulls := 0
	for row := range 10 {
		fill(image[:100], row)
		if c.put(row, image) {
			fulls++
		}
	}
	require.Equal(t, 1, fulls)
	for row := range 10 {
		if c.get(row, got) {
			fill(image[:100], row)
			require.True(t, bytes.Equal(image, got), "row %d", row)
		} else {
			require.GreaterOrEqual(t, row, 7)
		}
	}
	require.Nil(t, newCache(10, 100, 99))
}

// TestConcurrentCache: an image is seen whole or not at all while others put it.
func TestConcurrentCache(t *testing.T) {
	const rows, size = 64, 4096
	for range 20 {
		c := newCache(rows, size, rows/2*size)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				image, got := make([]byte, size), make([]byte, size)
				for row := range rows {
					if c.get(row, got) {
						if want := bytes.Repeat([]byte{byte(row + 1)}, size); !bytes.Equal(want, got) {
							t.Errorf("row %d: half an image", row)
						}
					}
					for i := range image {
						image[i] = byte(row + 1)
					}
					c.put(row, image)
				}
			})
		}
		wg.Wait()
	}
}
