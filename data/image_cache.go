package data

import "sync"

// ImageCache keeps the decoded images of data sets for several runs on them. It is safe for many goroutines.
type ImageCache struct {
	mu     sync.RWMutex
	images map[imageKey][]byte
	left   int64
}

// imageKey has the data set beside the row, because drawn pictures change with the data's seed.
type imageKey struct {
	set       string
	row, w, h int
	turned    bool // as its EXIF orientation says
}

// NewImageCache makes a cache of at most so many bytes.
func NewImageCache(bytes int64) *ImageCache {
	return &ImageCache{images: map[imageKey][]byte{}, left: bytes}
}

// Share puts the cache before a data set's images.
func (c *ImageCache) Share(ds *Dataset) {
	if ds.Source != nil {
		ds.Source = &cachedSource{ds.Source, c, ds.Fingerprint()}
	}
}

type cachedSource struct {
	Source
	cache *ImageCache
	set   string
}

type cachedReader struct {
	Reader
	cache  *ImageCache
	set    string
	turned bool
}

func (s *cachedSource) NewReader(o ReadOptions) (Reader, error) {
	r, err := s.Source.NewReader(o)
	if err != nil {
		return nil, err
	}
	return &cachedReader{r, s.cache, s.set, o.Decode.ApplyEXIF}, nil
}

// ReadFile gives what the source gives: files are not cached.
func (s *cachedSource) ReadFile(row int, buf []byte) ([]byte, error) {
	raw, ok := s.Source.(RawSource)
	if !ok {
		return nil, errNoFiles
	}
	return raw.ReadFile(row, buf)
}

func (r *cachedReader) Read(row, w, h int, dst []byte) error {
	k, c := imageKey{r.set, row, w, h, r.turned}, r.cache
	c.mu.RLock()
	b := c.images[k]
	c.mu.RUnlock()
	if b != nil {
		copy(dst, b)
		return nil
	}
	if err := r.Reader.Read(row, w, h, dst); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := int64(len(dst)); c.images[k] == nil && c.left >= n {
		c.images[k] = append([]byte(nil), dst...)
		c.left -= n
	}
	return nil
}
