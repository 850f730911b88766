package train

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
)

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

// share puts the cache before a data set's images.
func (c *ImageCache) share(ds *data.Dataset) {
	if ds.Source != nil {
		ds.Source = &cachedSource{ds.Source, c, ds.Fingerprint()}
	}
}

type cachedSource struct {
	data.Source
	cache *ImageCache
	set   string
}

type cachedReader struct {
	data.Reader
	cache  *ImageCache
	set    string
	turned bool
}

func (s *cachedSource) NewReader(o data.ReadOptions) (data.Reader, error) {
	r, err := s.Source.NewReader(o)
	if err != nil {
		return nil, err
	}
	return &cachedReader{r, s.cache, s.set, o.Decode.ApplyEXIF}, nil
}

// ReadFile gives what the source gives: files are not cached.
func (s *cachedSource) ReadFile(row int, buf []byte) ([]byte, error) {
	raw, ok := s.Source.(data.RawSource)
	if !ok {
		return nil, fmt.Errorf("%w: the images are no files", ErrData)
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

// ExtractFeatures computes the backbone's features of every image of a configuration's data set and writes them to path
// (.npy), with the image names in a .txt file beside it, for config.Model.Features of runs that share them. Images that
// cannot be read have no row.
func ExtractFeatures(ctx context.Context, c config.Config, path string, ev Events) error {
	c.Run.Dir = ""
	c, err := prepare(c)
	if err != nil {
		return err
	}
	if c.Model.Weights == "" {
		return &config.Error{Msg: "features want --weights FILE"}
	}
	if err := torch.Available(); err != nil {
		return err
	}
	return compute.Guard(func() error {
		ds, err := c.Data.Open()
		if err != nil {
			return err
		}
		defer ds.Close()
		s, err := newSession(c, ds, ev)
		if err != nil {
			return err
		}
		n, err := newNetwork(s)
		if err != nil {
			return err
		}
		defer n.close()
		rows := make([]int, ds.N())
		for i := range rows {
			rows[i] = i
		}
		values, got, err := n.features(ctx, rows)
		if err != nil {
			return err
		}
		var names strings.Builder
		for _, r := range got {
			fmt.Fprintln(&names, ds.Images[r])
		}
		a, err := npy.New([]int64{int64(len(got)), int64(n.model.FeatureDim())}, values)
		if err != nil {
			return err
		}
		if err := npy.Write(path, a); err != nil {
			return err
		}
		return atomicfile.WriteBytes(strings.TrimSuffix(path, ".npy")+".txt", 0o644, []byte(names.String()))
	})
}
