package data

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gospml/gospml/data/random"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patterns is a source whose image of a row holds numbers made of the row, with errors where asked.
type patterns struct {
	bad   map[int]error
	panic map[int]bool
	delay func(row int)
	reads atomic.Int64
	open  atomic.Int64
}

func (p *patterns) NewReader(ReadOptions) (Reader, error) {
	p.open.Add(1)
	return patternReader{p}, nil
}
func (p *patterns) Close() error { return nil }

type patternReader struct{ *patterns }

func (p patternReader) Close() error {
	p.open.Add(-1)
	return nil
}

func (p patternReader) Read(row, w, h int, dst []byte) error {
	p.reads.Add(1)
	if p.delay != nil {
		p.delay(row)
	}
	fill(dst, row)
	if p.panic[row] {
		panic("index out of range")
	}
	return p.bad[row]
}

func fill(dst []byte, row int) {
	for i := range dst {
		dst[i] = byte(random.Mix(uint64(row), uint64(i)))
	}
}

func patternSet(n int, p *patterns) *Dataset {
	d := &Dataset{Name: "patterns", Classes: []string{"x"}, Split: make([]Split, n), Labels: make([]int8, n), Source: p}
	for i := range n {
		d.Images = append(d.Images, fmt.Sprintf("%d.jpg", i))
	}
	return d
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newLoader(t testing.TB, d *Dataset, opt LoaderOptions) *Loader {
	t.Helper()
	if opt.Log == nil {
		opt.Log = quiet()
	}
	if opt.Width == 0 {
		opt.Width, opt.Height = 5, 3
	}
	l, err := NewLoader(d, opt)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// record walks over a plan and returns what came, checking that each image is the one of its row.
func record(t *testing.T, l *Loader, p Plan) (batches []string) {
	t.Helper()
	want := make([]byte, l.image)
	for b, err := range l.Batches(context.Background(), p) {
		require.NoError(t, err)
		require.Len(t, b.Images, b.Len())
		require.Len(t, b.Flip, b.Len())
		for i, row := range b.Rows {
			fill(want, row)
			require.True(t, bytes.Equal(want, b.Images[i]), "batch %d, image %d is not that of row %d", b.Index, i, row)
			if p.Flip != nil {
				require.Equal(t, p.Flip(row), b.Flip[i])
			}
		}
		batches = append(batches, fmt.Sprint(b.Index, b.Rows, b.Flip, b.Skipped))
	}
	return batches
}

func TestBatches(t *testing.T) {
	l := newLoader(t, patternSet(10, &patterns{}), LoaderOptions{Workers: 3})
	order := []int{9, 3, 3, 0, 7, 1, 2}
	require.Equal(t, []string{
		"0 [9 3 3] [false false false] []",
		"1 [0 7 1] [false false false] []",
		"2 [2] [false] []",
	}, record(t, l, Plan{Order: order, BatchSize: 3}))
	require.Len(t, record(t, l, Plan{Order: order, BatchSize: 3, DropLast: true}), 2)
	require.Equal(t, []string{"2 [2] [true] []"}, record(t, l, Plan{Order: order, BatchSize: 3, Start: 2, Flip: func(r int) bool { return r == 2 }}))
	require.Empty(t, record(t, l, Plan{Order: order, BatchSize: 3, Start: 3}))
	require.Empty(t, record(t, l, Plan{BatchSize: 3}))
	require.Equal(t, []string{"0 [9 3 3 0 7 1 2] [false false false false false false false] []"}, record(t, l, Plan{Order: order, BatchSize: 100}))
}

// TestWorkerCounts: batches do not depend on workers, prefetch, cache, or how long an image takes.
func TestWorkerCounts(t *testing.T) {
	const n = 203
	rows := make([]int, n)
	bad := map[int]error{}
	for i := range rows {
		rows[i] = i
		if i%17 == 3 {
			bad[i] = errors.New("damaged")
		}
	}
	plan := Plan{Order: Shuffled(rows, 5, 1), BatchSize: 16, Flip: SeededFlip(5, 1)}
	var want []string
	for _, workers := range []int{1, 2, 7, 40} {
		for _, prefetch := range []int{1, 5} {
			for _, images := range []int64{0, 50, 1000} {
				p := &patterns{bad: bad, panic: map[int]bool{21: true}, delay: func(row int) {
					if row%13 == 0 {
						time.Sleep(time.Millisecond)
					}
				}}
				l := newLoader(t, patternSet(n, p), LoaderOptions{Workers: workers, Prefetch: prefetch, CacheBytes: images * 45})
				for range 2 {
					got := record(t, l, plan)
					if want == nil {
						want = got
					}
					require.Equal(t, want, got, "%d workers, %d ahead, cache of %d", workers, prefetch, images)
				}
				require.Len(t, l.Broken(), len(bad)+1)
			}
		}
	}
	require.Len(t, want, 13)
}

func TestShuffled(t *testing.T) {
	rows := []int{4, 8, 15, 16, 23, 42}
	a, b := Shuffled(rows, 1, 1), Shuffled(rows, 1, 2)
	require.Equal(t, a, Shuffled(rows, 1, 1))
	require.NotEqual(t, a, b)
	require.ElementsMatch(t, rows, a)
	require.Equal(t, []int{4, 8, 15, 16, 23, 42}, rows)
}

func TestBrokenImages(t *testing.T) {
	var log bytes.Buffer
	p := &patterns{bad: map[int]error{2: errors.New("the file is cut off"), 5: errors.New("no image")}, panic: map[int]bool{6: true}}
	l := newLoader(t, patternSet(9, p), LoaderOptions{Workers: 2, Log: slog.New(slog.NewTextHandler(&log, nil))})
	plan := Plan{Order: []int{0, 2, 4, 5, 6, 2, 8, 1, 3}, BatchSize: 3}
	want := []string{"0 [0 4] [false false] [2]", "2 [8 1 3] [false false false] []"}
	require.Equal(t, want, record(t, l, plan)) // batch 1 has no image at all
	require.Equal(t, want, record(t, l, plan))
	broken := l.Broken()
	require.Len(t, broken, 3)
	require.EqualError(t, broken[0], "row 2, 2.jpg: the file is cut off")
	require.EqualError(t, broken[2], "row 6, 6.jpg: the decoder failed: index out of range")
	require.Equal(t, 3, strings.Count(log.String(), "image left out"), "each is said once:\n%s", &log)
	require.Contains(t, log.String(), `row=2 file=2.jpg reason="the file is cut off"`)

	all := newLoader(t, patternSet(2, &patterns{bad: map[int]error{0: errors.New("bad"), 1: errors.New("bad")}}), LoaderOptions{})
	var last error
	for b, err := range all.Batches(context.Background(), Plan{Order: []int{0, 1}, BatchSize: 1}) {
		require.Nil(t, b)
		last = err
	}
	require.EqualError(t, last, "data: patterns: not one image could be read; the first: row 0, 0.jpg: bad")
}

func TestShortageEndsTheWalk(t *testing.T) {
	p := &patterns{bad: map[int]error{4: fmt.Errorf("open: %w", syscall.EMFILE)}}
	l := newLoader(t, patternSet(9, p), LoaderOptions{Workers: 2})
	var last error
	for _, err := range l.Batches(context.Background(), Plan{Order: []int{0, 1, 2, 3, 4, 5}, BatchSize: 2}) {
		last = err
	}
	require.ErrorIs(t, last, syscall.EMFILE)
	require.ErrorContains(t, last, "4.jpg")
	require.Empty(t, l.Broken(), "a machine without file handles says nothing about the image")
}

func TestLoaderErrors(t *testing.T) {
	d := patternSet(4, &patterns{})
	for want, opt := range map[string]LoaderOptions{
		"sides must be 1 to": {},
		"images of 5 x -1":   {Width: 5, Height: -1},
		"none may be neg":    {Width: 5, Height: 5, Workers: -1},
	} {
		_, err := NewLoader(d, opt)
		require.ErrorContains(t, err, want)
	}
	_, err := NewLoader(&Dataset{Name: "features"}, LoaderOptions{Width: 1, Height: 1})
	require.ErrorContains(t, err, "features has no images")

	l := newLoader(t, d, LoaderOptions{})
	for want, p := range map[string]Plan{
		"batch size 0":                      {Order: []int{1}},
		"place 1 of the order is row 4":     {Order: []int{1, 4}, BatchSize: 1},
		"place 0 of the order is row -1":    {Order: []int{-1}, BatchSize: 1},
		"first batch 3, but the plan has b": {Order: []int{1, 2}, BatchSize: 1, Start: 3},
		"at most 8589934592 are allowed":    {Order: make([]int, 200_000_000), BatchSize: 1 << 40},
	} {
		n := 0
		for b, err := range l.Batches(context.Background(), p) {
			require.Nil(t, b)
			require.ErrorContains(t, err, want)
			n++
		}
		require.Equal(t, 1, n)
	}
	for range l.Batches(context.Background(), Plan{Order: []int{1}, BatchSize: 1}) {
		for b, err := range l.Batches(context.Background(), Plan{Order: []int{1}, BatchSize: 1}) {
			require.Nil(t, b)
			require.ErrorContains(t, err, "in use")
		}
	}
	require.NoError(t, l.Close())
	for _, err := range l.Batches(context.Background(), Plan{Order: []int{1}, BatchSize: 1}) {
		require.ErrorContains(t, err, "closed")
	}
}

// settled checks that no goroutine was added. A goroutine that has finished its work may still be counted for a moment.
func settled(t *testing.T, before int, after string) {
	t.Helper()
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("workers stay after %s: %d goroutines, %d before", after, runtime.NumGoroutine(), before)
}

// TestConcurrentStop leaves walks in every way, at every batch; goleak finds a worker that stays.
func TestConcurrentStop(t *testing.T) {
	rows := make([]int, 64)
	for i := range rows {
		rows[i] = i
	}
	p := &patterns{delay: func(row int) { time.Sleep(50 * time.Microsecond) }}
	l := newLoader(t, patternSet(64, p), LoaderOptions{Workers: 4, Prefetch: 3, CacheBytes: 20 * 45})
	plan := Plan{Order: rows, BatchSize: 4}
	before := runtime.NumGoroutine()
	for stop := range 17 {
		seen := 0
		for _, err := range l.Batches(context.Background(), plan) { // leave the loop
			require.NoError(t, err)
			if seen++; seen > stop {
				break
			}
		}
		settled(t, before, "a break")

		ctx, cancel := context.WithCancel(context.Background())
		seen, last := 0, error(nil)
		for _, err := range l.Batches(ctx, plan) { // cancel
			if last = err; err != nil {
				continue
			}
			if seen++; seen > stop {
				cancel()
			}
		}
		cancel()
		if stop < 12 {
			require.ErrorIs(t, last, context.Canceled, "cancelled after batch %d", stop)
		}
		settled(t, before, "a cancel")

		func() { // panic in the loop body
			defer func() { require.Equal(t, "stop", recover()) }()
			for range l.Batches(context.Background(), plan) {
				panic("stop")
			}
		}()
		require.Len(t, record(t, l, plan), 16, "the next walk is whole")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range l.Batches(ctx, plan) {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, l.Close())
	require.Zero(t, p.open.Load(), "readers stay open")
}

// TestConcurrentLoaders runs several loaders over one data set at once.
func TestConcurrentLoaders(t *testing.T) {
	rows := make([]int, 200)
	for i := range rows {
		rows[i] = i
	}
	d := patternSet(200, &patterns{bad: map[int]error{7: errors.New("bad")}})
	var wg sync.WaitGroup
	for k := range 6 {
		l := newLoader(t, d, LoaderOptions{Workers: 3, CacheBytes: 100 * 45})
		wg.Go(func() {
			for epoch := range 4 {
				if got := record(t, l, Plan{Order: Shuffled(rows, uint64(k), epoch), BatchSize: 7}); len(got) != 29 {
					t.Errorf("%d batches", len(got))
				}
			}
		})
	}
	wg.Wait()
}

// TestSteadyState: once the cache is warm, a walk allocates for itself but not for its images.
func TestSteadyState(t *testing.T) {
	const n = 4096
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	l := newLoader(t, patternSet(n, &patterns{}), LoaderOptions{Workers: 2, CacheBytes: 1 << 30})
	walk := func() {
		for _, err := range l.Batches(context.Background(), Plan{Order: rows, BatchSize: 64}) {
			require.NoError(t, err)
		}
	}
	walk()
	allocs := testing.AllocsPerRun(5, walk)
	require.Less(t, allocs, 120.0, "for %d images", n)
}

func BenchmarkLoaderOverhead(b *testing.B) {
	const n = 4096
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	l := newLoader(b, patternSet(n, &patterns{}), LoaderOptions{Workers: 2, CacheBytes: 1 << 30, Width: 8, Height: 8})
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range l.Batches(context.Background(), Plan{Order: rows, BatchSize: 64}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/image")
}
