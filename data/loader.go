package data

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/caught"
)

// LoaderOptions are the choices of [NewLoader].
type LoaderOptions struct {
	Width, Height  int // every image is squashed to this size
	Read           ReadOptions
	Workers        int          // goroutines that decode; 0: GOMAXPROCS
	Prefetch       int          // finished batches that wait for the consumer; 0: 2
	Cache          CacheKind    // where squashed images are kept, so that later epochs decode nothing; "": auto
	CacheBytes     int64        // memory for the cache; 0: none
	CacheDir       string       // folder for a cache file, on a fast disk; "": none is made
	CacheFileBytes int64        // largest cache file
	Log            *slog.Logger // where a broken image and a full cache are said, once each; nil: slog.Default()
}

// Loader reads the images of a data set and gives them in batches. One loader serves training, validation and test
// rows: they are different plans over the same cache.
//
// A Loader serves one walk at a time: a second Batches while one runs is an error. Goroutines live only while a walk
// does.
type Loader struct {
	ds          *Dataset
	opt         LoaderOptions
	log         *slog.Logger
	image       int // bytes of one
	readers     []Reader
	slots       []*slot
	cache       *cache
	cacheAt     string
	busy        atomic.Bool
	broken      brokenRows
	cacheFailed sync.Once
}

// Batch is what the consumer gets: Len images, each with its row, so that pixels stay with their labels. Its slices are
// used again: they are valid until the loop body ends. The images may be views of the cache: they must not be written
// to.
type Batch struct {
	Index   int      // number of the batch in its plan
	Rows    []int    // [Len] rows of the data set
	Images  [][]byte // [Len] of [Height, Width, 3] RGB, not mirrored
	Flip    []bool   // [Len] whether the image is to be mirrored
	Skipped []int    // rows of this batch whose image is broken
	Width   int
	Height  int
}

// Len is the number of images.
func (b *Batch) Len() int { return len(b.Rows) }

// slot is a batch in the making and its memory.
type slot struct {
	batch  Batch
	rows   []int // as planned, broken ones too
	flip   []bool
	memory []byte        // of the images that are not in the cache
	views  [][]byte      // of each planned row; nil: broken
	left   atomic.Int32  // parts that are not finished
	done   chan struct{} // gets a value when left becomes 0
}

// part is the work of one worker at a time: images from … to-1 of a slot.
type part struct {
	slot     *slot
	from, to int
}

// NewLoader returns a loader of the images of ds.
func NewLoader(ds *Dataset, opt LoaderOptions) (*Loader, error) {
	if ds.Source == nil && ds.Features != nil {
		return nil, fmt.Errorf("data: %s has no images but features: train on them (--frozen --features data)", ds.Name)
	}
	if ds.Source == nil {
		return nil, fmt.Errorf("data: %s has no images: name their folder (option images)", ds.Name)
	}
	const maxSide, maxWorkers = 1 << 14, 1 << 14
	if opt.Width < 1 || opt.Height < 1 || opt.Width > maxSide || opt.Height > maxSide {
		return nil, fmt.Errorf("data: images of %d x %d: sides must be 1 to %d", opt.Width, opt.Height, maxSide)
	}
	if opt.Workers < 0 || opt.Prefetch < 0 || opt.CacheBytes < 0 || opt.CacheFileBytes < 0 {
		return nil, fmt.Errorf("data: %d workers, %d batches ahead, %d bytes of cache: none may be negative", opt.Workers, opt.Prefetch, opt.CacheBytes)
	}
	if opt.Workers > maxWorkers || opt.Prefetch > maxWorkers {
		return nil, fmt.Errorf("data: %d workers, %d batches ahead: want at most %d", opt.Workers, opt.Prefetch, maxWorkers)
	}
	if opt.Workers == 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	if opt.Prefetch == 0 {
		opt.Prefetch = 2
	}
	l := &Loader{ds: ds, opt: opt, log: opt.Log, image: opt.Width * opt.Height * 3}
	if l.log == nil {
		l.log = slog.Default()
	}
	var err error
	if l.cache, l.cacheAt, err = newCache(ds.N(), l.image, opt); err != nil {
		return nil, err
	}
	if l.cache == nil && (opt.CacheBytes > 0 || opt.CacheFileBytes > 0) && opt.Cache != CacheNone {
		l.log.Warn(l.cacheAt)
	}
	for range opt.Workers {
		r, err := ds.Source.NewReader(opt.Read)
		if err != nil {
			l.Close()
			return nil, err
		}
		l.readers = append(l.readers, r)
	}
	return l, nil
}

// Close releases the decoders. No walk may be running.
func (l *Loader) Close() error {
	var err error
	for _, r := range l.readers {
		err = errors.Join(err, r.Close())
	}
	err = errors.Join(err, l.cache.close())
	l.readers, l.cache = nil, nil
	return err
}

// CachedIn says in words where decoded images are kept, for logs.
func (l *Loader) CachedIn() string { return l.cacheAt }

// Broken returns the images that could not be read so far, by row.
func (l *Loader) Broken() []Broken { return l.broken.list() }

// Batches walks over the plan:
//
//	for batch, err := range loader.Batches(ctx, plan) {
//		if err != nil { return err }
//		…
//	}
//
// An image that cannot be read is logged once with its reason, left out of its batch and of all later ones, and counted
// (see [Loader.Broken]); a batch without any image is not given. The walk ends with an error where the context is
// cancelled, where no image at all could be read, and where the machine lacks memory, file handles or the image library
// (that says nothing about the image). Leaving the loop early ends the workers too; each first finishes the image it is
// at.
func (l *Loader) Batches(ctx context.Context, p Plan) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		if l.readers == nil {
			yield(nil, errors.New("data: the loader is closed"))
			return
		}
		if !l.busy.CompareAndSwap(false, true) {
			yield(nil, errors.New("data: the loader is in use: it serves one walk at a time"))
			return
		}
		defer l.busy.Store(false)
		if err := p.check(l.ds.N(), l.image); err != nil {
			yield(nil, err)
			return
		}
		l.walk(ctx, p, yield)
	}
}

func (l *Loader) walk(ctx context.Context, p Plan, yield func(*Batch, error) bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)

	free, ready := make(chan *slot, l.opt.Prefetch+1), make(chan *slot, l.opt.Prefetch+1)
	for _, s := range l.takeSlots(p.most()) {
		free <- s
	}
	parts := make(chan part, 4*len(l.readers))
	walkers := func(f func()) { // a panic, of a caller's Flip, Source or logger too, ends the walk
		wg.Go(func() {
			if err := caught.Do(func() error { f(); return nil }); err != nil {
				cancel(err)
			}
		})
	}
	for _, r := range l.readers {
		walkers(func() { l.work(ctx, cancel, r, parts) })
	}
	walkers(func() { l.plan(ctx, p, free, ready, parts) })

	given := 0
	for range p.Batches() - p.Start {
		var s *slot
		select {
		case s = <-ready:
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
			return
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			yield(nil, context.Cause(ctx))
			return
		}
		s.compact()
		if n := s.batch.Len(); n > 0 || p.World > 1 {
			given += n
			if !yield(&s.batch, nil) {
				return
			}
		}
		free <- s
	}
	if broken := l.Broken(); given == 0 && len(broken) > 0 && p.Start < p.Batches() {
		yield(nil, fmt.Errorf("data: %s: not one image could be read; the first: %w", l.ds.Name, broken[0]))
	}
}

// takeSlots returns Prefetch + 1 slots for batches of that size, those of the last walk where they fit.
func (l *Loader) takeSlots(size int) []*slot {
	if len(l.slots) == 0 || cap(l.slots[0].rows) < size {
		l.slots = make([]*slot, l.opt.Prefetch+1)
		for i := range l.slots {
			l.slots[i] = &slot{rows: make([]int, size), flip: make([]bool, size), views: make([][]byte, size), memory: make([]byte, size*l.image),
				batch: Batch{Rows: make([]int, 0, size), Flip: make([]bool, 0, size), Images: make([][]byte, 0, size), Width: l.opt.Width, Height: l.opt.Height}}
		}
	}
	for _, s := range l.slots {
		s.done = make(chan struct{}, 1) // a cancelled walk may have left a value
	}
	return l.slots
}

// plan cuts the walk into parts and hands them to the workers, batch after batch.
func (l *Loader) plan(ctx context.Context, p Plan, free <-chan *slot, ready chan<- *slot, parts chan<- part) {
	defer close(parts)
	step := max(1, min(32, p.most()/(4*len(l.readers))))
	for b := p.Start; b < p.Batches(); b++ {
		var s *slot
		select {
		case s = <-free:
		case <-ctx.Done():
			return
		}
		rows := p.rows(b)
		s.batch.Index = b
		s.rows, s.flip, s.views = append(s.rows[:0], rows...), s.flip[:len(rows)], s.views[:len(rows)]
		for i, r := range rows {
			s.flip[i] = p.Flip != nil && p.Flip(r)
		}
		s.left.Store(int32((len(rows) + step - 1) / step))
		if len(rows) == 0 {
			s.done <- struct{}{}
		}
		ready <- s // has room for every slot
		for from := 0; from < len(rows); from += step {
			select {
			case parts <- part{s, from, min(from+step, len(rows))}:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *Loader) work(ctx context.Context, cancel context.CancelCauseFunc, r Reader, parts <-chan part) {
	for p := range parts {
		for i := p.from; i < p.to; i++ {
			if ctx.Err() != nil {
				return
			}
			view, err := l.read(r, p.slot.rows[i], p.slot.memory[i*l.image:][:l.image:l.image])
			if isShortage(err) {
				cancel(fmt.Errorf("data: %s: %w", l.ds.Images[p.slot.rows[i]], err))
				return
			}
			if err != nil {
				view = nil
			}
			p.slot.views[i] = view
		}
		if p.slot.left.Add(-1) == 0 {
			p.slot.done <- struct{}{}
		}
	}
}

// read returns a row's image: a view of the cache, or memory after it was filled; nil where it is broken.
func (l *Loader) read(r Reader, row int, memory []byte) ([]byte, error) {
	if err := l.broken.get(row); err != nil {
		return nil, err
	}
	if l.cache == nil {
		return memory, l.decode(r, row, memory)
	}
	if v := l.cache.view(row); v != nil {
		return v, nil
	}
	place, kept, full := l.cache.reserve(row)
	if full {
		l.log.Warn("the image cache is full: the other images are decoded in every epoch", "images", l.cache.places, "bytes", l.cache.places*l.image)
	}
	if !kept {
		return memory, l.decode(r, row, memory)
	}
	to := memory
	if room := l.cache.store.room(place); room != nil {
		to = room // decoded in its place: nothing is copied
	}
	if err := l.decode(r, row, to); err != nil {
		l.cache.release(row, place)
		return nil, err
	}
	if err := l.cache.keep(row, place, to); err != nil {
		l.cacheFailed.Do(func() { l.log.Warn("the image cache cannot be written: images are decoded again", "reason", err) })
	}
	return to, nil
}

// decode reads a row's image into dst.
func (l *Loader) decode(r Reader, row int, dst []byte) error {
	err := safeRead(r, row, l.opt.Width, l.opt.Height, dst)
	if err != nil && !isShortage(err) && l.broken.add(Broken{row, l.ds.Images[row], err}) {
		l.log.Warn("image left out: it cannot be read", "row", row, "file", l.ds.Images[row], "reason", err)
	}
	return err
}

// safeRead turns a decoder's panic into an error of its image.
func safeRead(r Reader, row, w, h int, dst []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder failed: %v", p)
		}
	}()
	return r.Read(row, w, h, dst)
}

// isShortage reports errors of the machine, which say nothing about the image.
func isShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, pixel.ErrLibrary)
}

// compact lists the images that could be read.
func (s *slot) compact() {
	b := &s.batch
	b.Rows, b.Flip, b.Skipped, b.Images = b.Rows[:0], b.Flip[:0], b.Skipped[:0], b.Images[:0]
	for i, row := range s.rows {
		if s.views[i] == nil {
			b.Skipped = append(b.Skipped, row)
			continue
		}
		b.Rows, b.Flip, b.Images = append(b.Rows, row), append(b.Flip, s.flip[i]), append(b.Images, s.views[i])
	}
}

// brokenRows is the list of broken images. All methods are safe for many goroutines.
type brokenRows struct {
	n     atomic.Int32 // so that the common case takes no lock
	mu    sync.Mutex
	byRow map[int]Broken
}

func (b *brokenRows) get(row int) error {
	if b.n.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.byRow[row]; ok {
		return e.Err
	}
	return nil
}

// add reports whether the row is new.
func (b *brokenRows) add(e Broken) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.byRow[e.Row]; known {
		return false
	}
	if b.byRow == nil {
		b.byRow = map[int]Broken{}
	}
	b.byRow[e.Row] = e
	b.n.Add(1)
	return true
}

func (b *brokenRows) list() []Broken {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Broken, 0, len(b.byRow))
	for _, e := range b.byRow {
		out = append(out, e)
	}
	slices.SortFunc(out, func(x, y Broken) int { return x.Row - y.Row })
	return out
}
