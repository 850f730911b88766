package train

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/npy"
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

// WithImages gives the runs under ctx a common cache.
func WithImages(ctx context.Context, c *ImageCache) context.Context {
	return context.WithValue(ctx, imagesKey{}, c)
}

type imagesKey struct{}

// share puts the context's cache before a data set's images, and says whether there is one.
func share(ctx context.Context, ds *data.Dataset) bool {
	c, ok := ctx.Value(imagesKey{}).(*ImageCache)
	if ok && ds.Source != nil {
		ds.Source = &cachedSource{ds.Source, c, ds.Fingerprint()}
	}
	return ok
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
// (.npy), with the image names in a .txt file beside it, for Config.Features of runs that share them. Images that
// cannot be read have no row.
func ExtractFeatures(ctx context.Context, c Config, path string, ev Events) error {
	c.Run = ""
	c, err := c.prepare()
	if err != nil {
		return err
	}
	if c.Weights == "" {
		return &ConfigError{Msg: "features want --weights FILE"}
	}
	if err := torch.Available(); err != nil {
		return err
	}
	return compute.Guard(func() error {
		ds, err := Open(c)
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

// TestScores reads the scores of a run's best epoch on the test part [n, C] with their rows of the data set.
func TestScores(dir string) (*Scores, error) {
	a, err := npy.Read(filepath.Join(dir, scoresFile))
	if err != nil {
		return nil, err
	}
	values, err := a.Float32()
	if err != nil {
		return nil, err
	}
	r, err := npy.Read(filepath.Join(dir, rowsFile))
	if err != nil {
		return nil, err
	}
	rows, err := r.Int64()
	if err != nil {
		return nil, err
	}
	if len(a.Shape) != 2 || int(a.Shape[0]) != len(rows) {
		return nil, fmt.Errorf("%w: %s and %s in %s do not belong together", ErrData, scoresFile, rowsFile, dir)
	}
	s := &Scores{Values: values, Rows: make([]int, len(rows))}
	for i, x := range rows {
		s.Rows[i] = int(x)
	}
	return s, nil
}

const (
	scoresFile = "test_scores.npy"
	rowsFile   = "test_rows.npy"
)

// write keeps scores beside a run.
func (s *Scores) write(dir string) error {
	a, err := npy.New([]int64{int64(len(s.Rows)), int64(len(s.Values) / max(len(s.Rows), 1))}, s.Values)
	if err != nil {
		return err
	}
	rows := make([]int64, len(s.Rows))
	for i, r := range s.Rows {
		rows[i] = int64(r)
	}
	b, err := npy.New([]int64{int64(len(rows))}, rows)
	if err != nil {
		return err
	}
	if err := npy.Write(filepath.Join(dir, scoresFile), a); err != nil {
		return err
	}
	return npy.Write(filepath.Join(dir, rowsFile), b)
}
