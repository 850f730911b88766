package data

import (
	"bytes"
	"log/slog"
	"os"
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
	for _, kind := range []CacheKind{CacheMemory, CacheFile} {
		for _, c := range []struct {
			images      int64
			reads, logs int64
		}{{0, 200, 0}, {100, 100, 0}, {99, 101, 1}, {60, 140, 1}, {1, 199, 1}} {
			var log bytes.Buffer
			p := &patterns{}
			budget := c.images*45 + 44
			l := newLoader(t, patternSet(100, p), LoaderOptions{Workers: 3, Cache: kind, CacheBytes: budget, CacheDir: t.TempDir(), CacheFileBytes: budget, Log: slog.New(slog.NewTextHandler(&log, nil))})
			record(t, l, plan)
			record(t, l, plan)
			require.Equal(t, c.reads, p.reads.Load(), "%s of %d images", kind, c.images)
			if c.images > 0 {
				require.EqualValues(t, c.logs, strings.Count(log.String(), "cache is full"), "%s", &log)
			} else {
				require.Contains(t, log.String(), "smaller than one image")
			}
		}
	}
}

// TestCacheChoice: memory where everything fits, else a file where that holds more, and what cannot be is said.
func TestCacheChoice(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		o    LoaderOptions
		kind CacheKind
		why  string
	}{
		{LoaderOptions{CacheBytes: 1000, CacheDir: dir, CacheFileBytes: 1000}, CacheMemory, "memory for 10 of 10 images"},
		{LoaderOptions{CacheBytes: 999, CacheDir: dir, CacheFileBytes: 5000}, CacheFile, "for 10 of 10 images"},
		{LoaderOptions{CacheBytes: 999, CacheFileBytes: 5000}, CacheMemory, "memory for 9 of 10"},
		{LoaderOptions{CacheBytes: 999, CacheDir: dir + "/absent", CacheFileBytes: 5000}, CacheMemory, "because the cache file cannot be made"},
		{LoaderOptions{}, "", "none"},
		{LoaderOptions{Cache: CacheNone, CacheBytes: 1000}, "", "none"},
		{LoaderOptions{CacheBytes: 99}, "", "smaller than one image"},
	} {
		got, why, err := newCache(10, 100, c.o)
		require.NoError(t, err)
		require.Contains(t, why, c.why)
		if c.kind == "" {
			require.Nil(t, got)
		} else {
			require.Equal(t, c.kind, got.store.kind())
		}
		require.NoError(t, got.close())
	}
	_, _, err := newCache(10, 100, LoaderOptions{Cache: CacheFile, CacheDir: dir, CacheFileBytes: 1 << 62})
	require.NoError(t, err, "room for the rows is enough")
	_, _, err = newCache(1<<31, 1<<20, LoaderOptions{Cache: CacheFile, CacheDir: dir, CacheFileBytes: 1 << 62})
	require.ErrorContains(t, err, "bytes free")
	_, _, err = newCache(10, 100, LoaderOptions{Cache: "disk"})
	require.ErrorContains(t, err, "choose auto, memory, file or none")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "cache files have no name")
}

// TestCacheBlocks uses images so large that a block holds few. A place whose image cannot be read goes to another row.
func TestCacheBlocks(t *testing.T) {
	const size = blockBytes / 3
	c, _, err := newCache(10, size, LoaderOptions{CacheBytes: 7 * blockBytes / 3})
	require.NoError(t, err)
	require.Equal(t, 7, c.places)
	p, ok, _ := c.reserve(9)
	require.True(t, ok)
	_, again, _ := c.reserve(9)
	require.False(t, again, "the row has a place")
	c.release(9, p)
	image, fulls := make([]byte, 100), 0
	for row := range 10 {
		p, ok, full := c.reserve(row)
		if full {
			fulls++
		}
		if !ok {
			continue
		}
		room := c.store.room(p)
		require.Len(t, room, size)
		fill(room[:100], row)
		require.NoError(t, c.keep(row, p, room))
	}
	require.Equal(t, 1, fulls)
	for row := range 10 {
		if v := c.view(row); v != nil {
			fill(image, row)
			require.True(t, bytes.Equal(image, v[:100]), "row %d", row)
		} else {
			require.GreaterOrEqual(t, row, 7)
		}
	}
}

// TestConcurrentCache: an image is seen whole or not at all while others put it.
func TestConcurrentCache(t *testing.T) {
	const rows, size = 64, 4096
	for i := range 20 {
		c, _, err := newCache(rows, size, LoaderOptions{Cache: []CacheKind{CacheMemory, CacheFile}[i%2], CacheBytes: rows / 2 * size, CacheFileBytes: rows / 2 * size, CacheDir: t.TempDir()})
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for row := range rows {
					want := bytes.Repeat([]byte{byte(row + 1)}, size)
					if v := c.view(row); v != nil && !bytes.Equal(want, v) {
						t.Errorf("row %d: half an image", row)
					}
					p, ok, _ := c.reserve(row)
					if !ok {
						continue
					}
					if row%5 == 0 {
						c.release(row, p)
						continue
					}
					to := want
					if room := c.store.room(p); room != nil {
						copy(room, want)
						to = room
					}
					if err := c.keep(row, p, to); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, c.close())
	}
}

// TestPlanShards: for any number of processes their parts are the whole, in order, and resuming gives the same.
func TestPlanShards(t *testing.T) {
	rows := make([]int, 103)
	for i := range rows {
		rows[i] = i
	}
	order := Shuffled(rows, 4, 2)
	p := &patterns{bad: map[int]error{}}
	l := newLoader(t, patternSet(103, p), LoaderOptions{Workers: 3})
	for world := 1; world <= 20; world++ {
		for _, dropLast := range []bool{false, true} {
			var parts [][][]int // [batch][rank] rows
			for rank := range world {
				plan := Plan{Order: order, BatchSize: 10, DropLast: dropLast, Rank: rank, World: world}
				n := 0
				for b, err := range l.Batches(t.Context(), plan) {
					require.NoError(t, err)
					require.Equal(t, n, b.Index)
					if n++; len(parts) < n {
						parts = append(parts, nil)
					}
					parts[b.Index] = append(parts[b.Index], append([]int{}, b.Rows...))
				}
				require.Equal(t, plan.Batches(), n, "rank %d of %d walks over every batch", rank, world)
				plan.Start = 7
				for b, err := range l.Batches(t.Context(), plan) {
					require.NoError(t, err)
					require.Equal(t, parts[b.Index][rank], append([]int{}, b.Rows...))
				}
			}
			var all []int
			for b, ranks := range parts {
				require.Len(t, ranks, world)
				for r, part := range ranks {
					all = append(all, part...)
					if b < 10 && r > 0 {
						require.LessOrEqual(t, max(len(part)-len(ranks[0]), len(ranks[0])-len(part)), 1, "parts are even")
					}
				}
			}
			want := order
			if dropLast {
				want = order[:100]
			}
			require.Equal(t, want, all, "%d processes", world)
		}
	}
	for _, bad := range []Plan{{Order: rows, BatchSize: 1, Rank: 2, World: 2}, {Order: rows, BatchSize: 1, Rank: 1}, {Order: rows, BatchSize: 1, Rank: -1, World: 3}} {
		for _, err := range l.Batches(t.Context(), bad) {
			require.ErrorContains(t, err, "it must be from 0")
		}
	}
}
