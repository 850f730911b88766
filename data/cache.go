package data

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// CacheKind says where decoded images are kept for later epochs.
type CacheKind string

// "" is CacheAuto.
const (
	CacheAuto   CacheKind = "auto"   // memory where all images fit into LoaderOptions.CacheBytes; else a file where they fit there; else memory for those that fit
	CacheMemory CacheKind = "memory" //
	CacheFile   CacheKind = "file"   // a file without a name in LoaderOptions.CacheDir, mapped into memory for reading; it is gone with the process
	CacheNone   CacheKind = "none"
)

// cache keeps squashed images by row, up to a number of places. A place is filled once and not changed again, so that views of it stay valid until close. All
// methods but close are safe for many goroutines.
type cache struct {
	imageBytes int
	index      []atomic.Int32 // per row: place + 1, or one of the marks
	mu         sync.Mutex
	places     int
	used       int
	spare      []int // places whose image could not be read
	full       bool  // said already
	store      store
}

// store is the memory of a cache.
type store interface {
	// room returns the memory of a place to decode into, or nil where commit copies.
	room(place int) []byte
	commit(place int, image []byte) error
	// view returns a filled place.
	view(place int) []byte
	close() error
	kind() CacheKind
}

const (
	notCached  = 0
	beingKept  = -1
	blockBytes = 16 << 20
)

// newCache makes the cache of the options for rows images, or nil where there is none; why says in words what was chosen.
func newCache(rows, imageBytes int, o LoaderOptions) (c *cache, why string, err error) {
	need := int64(rows) * int64(imageBytes)
	kind := o.Cache
	if kind == "" {
		kind = CacheAuto
	}
	room := func(budget int64) int { return int(min(budget/int64(imageBytes), int64(rows))) }
	memory := func() (*cache, string, error) {
		n := room(o.CacheBytes)
		if n == 0 {
			return nil, fmt.Sprintf("the image cache of %d bytes is smaller than one image of %d: every epoch decodes", o.CacheBytes, imageBytes), nil
		}
		return &cache{imageBytes: imageBytes, index: make([]atomic.Int32, rows), places: n, store: newMemoryStore(n, imageBytes)}, fmt.Sprintf("memory for %d of %d images", n, rows), nil
	}
	file := func() (*cache, string, error) {
		n := room(o.CacheFileBytes)
		if n == 0 {
			return nil, fmt.Sprintf("the cache file of %d bytes is smaller than one image of %d: every epoch decodes", o.CacheFileBytes, imageBytes), nil
		}
		s, err := newFileStore(o.CacheDir, n, imageBytes)
		if err != nil {
			return nil, "", err
		}
		return &cache{imageBytes: imageBytes, index: make([]atomic.Int32, rows), places: n, store: s}, fmt.Sprintf("a file in %s for %d of %d images", o.CacheDir, n, rows), nil
	}
	switch kind {
	case CacheNone:
		return nil, "none", nil
	case CacheMemory:
		return memory()
	case CacheFile:
		return file()
	case CacheAuto:
		if need > o.CacheBytes && o.CacheFileBytes > o.CacheBytes && o.CacheDir != "" {
			if c, why, err = file(); err == nil {
				return c, why, nil
			}
			m, why, merr := memory()
			return m, fmt.Sprintf("%s, because the cache file cannot be made (%v)", why, err), merr
		}
		if o.CacheBytes == 0 {
			return nil, "none", nil
		}
		return memory()
	}
	return nil, "", fmt.Errorf("data: cache %q: choose auto, memory, file or none", kind)
}

// view returns a row's image, or nil. It must not be written to.
func (c *cache) view(row int) []byte {
	p := c.index[row].Load()
	if p <= 0 {
		return nil
	}
	return c.store.view(int(p - 1))
}

// reserve gives a row a place; ok is false where another goroutine is at it or no place is left. full reports the first row without one.
func (c *cache) reserve(row int) (place int, ok, full bool) {
	if !c.index[row].CompareAndSwap(notCached, beingKept) {
		return 0, false, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.spare); n > 0 {
		place, c.spare = c.spare[n-1], c.spare[:n-1]
		return place, true, false
	}
	if c.used == c.places {
		c.index[row].Store(notCached)
		full, c.full = !c.full, true
		return 0, false, full
	}
	c.used++
	return c.used - 1, true, false
}

// keep makes the image of a reserved place visible.
func (c *cache) keep(row, place int, image []byte) error {
	if err := c.store.commit(place, image); err != nil {
		c.release(row, place)
		return err
	}
	c.index[row].Store(int32(place + 1))
	return nil
}

// release gives a reserved place back.
func (c *cache) release(row, place int) {
	c.mu.Lock()
	c.spare = append(c.spare, place)
	c.mu.Unlock()
	c.index[row].Store(notCached)
}

func (c *cache) close() error {
	if c == nil {
		return nil
	}
	return c.store.close()
}

// memoryStore is blocks that are made when their first place is given away.
type memoryStore struct {
	imageBytes, perBlock, places int
	mu                           sync.Mutex
	blocks                       []atomic.Pointer[[]byte]
}

func newMemoryStore(places, imageBytes int) *memoryStore {
	perBlock := max(1, min(blockBytes/imageBytes, places))
	return &memoryStore{imageBytes: imageBytes, perBlock: perBlock, places: places, blocks: make([]atomic.Pointer[[]byte], (places+perBlock-1)/perBlock)}
}

func (s *memoryStore) room(p int) []byte {
	b := &s.blocks[p/s.perBlock]
	if b.Load() == nil {
		s.mu.Lock()
		if b.Load() == nil {
			block := make([]byte, min(s.perBlock, s.places-p/s.perBlock*s.perBlock)*s.imageBytes)
			b.Store(&block)
		}
		s.mu.Unlock()
	}
	return s.view(p)
}

func (s *memoryStore) view(p int) []byte {
	at := p % s.perBlock * s.imageBytes
	return (*s.blocks[p/s.perBlock].Load())[at : at+s.imageBytes : at+s.imageBytes]
}

func (s *memoryStore) commit(int, []byte) error { return nil }
func (s *memoryStore) close() error             { return nil }
func (s *memoryStore) kind() CacheKind          { return CacheMemory }

// fileStore is a file that has no name any more. It is written with calls, which report a full disk, and read through a mapping: nobody can cut the
// file short, so a read cannot fault.
type fileStore struct {
	imageBytes int
	file       *os.File
	mapped     []byte
}

func newFileStore(dir string, places, imageBytes int) (*fileStore, error) {
	f, err := os.CreateTemp(dir, "images-*.cache")
	if err != nil {
		return nil, fmt.Errorf("data: the cache file cannot be made: %w", err)
	}
	size := int64(places) * int64(imageBytes)
	var st unix.Statfs_t
	err = os.Remove(f.Name())
	if err == nil {
		if err = unix.Fstatfs(int(f.Fd()), &st); err == nil && int64(st.Bavail)*int64(st.Bsize) < size {
			err = fmt.Errorf("%s has %d bytes free, %d are needed: %w", dir, int64(st.Bavail)*int64(st.Bsize), size, unix.ENOSPC)
		}
	}
	if err == nil {
		err = f.Truncate(size)
	}
	var m []byte
	if err == nil {
		m, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("data: the cache file cannot be made: %w", err), f.Close())
	}
	return &fileStore{imageBytes, f, m}, nil
}

func (s *fileStore) room(int) []byte { return nil }

func (s *fileStore) commit(p int, image []byte) error {
	_, err := s.file.WriteAt(image, int64(p)*int64(s.imageBytes))
	return err
}

func (s *fileStore) view(p int) []byte {
	at := p * s.imageBytes
	return s.mapped[at : at+s.imageBytes : at+s.imageBytes]
}

func (s *fileStore) close() error    { return errors.Join(unix.Munmap(s.mapped), s.file.Close()) }
func (s *fileStore) kind() CacheKind { return CacheFile }
