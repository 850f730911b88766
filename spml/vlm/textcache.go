package vlm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
)

// TextCache is the per-user folder for text features, for Settings.Cache.
func TextCache() (string, error) {
	d, err := native.CacheDir()
	return filepath.Join(d, "text-features"), err
}

// textKey is what text features depend on.
type textKey struct {
	Format    int      `json:"format"`
	Libtorch  string   `json:"libtorch"`
	Weights   []string `json:"weights"` // SHA-256 of the files
	Config    any      `json:"config"`
	Stored    string   `json:"stored"`
	Type      string   `json:"type"` // of the arithmetic
	Templates []string `json:"templates"`
	Names     []string `json:"names"`
	Tokens    []int64  `json:"tokens"` // of all prompts: a folder may bring a tokenizer of its own
}

// cachedText is the file for the features of these names, or "" where there is none: no cache is asked for, or the
// model has no files.
func (l *Labeller) cachedText(names []string) (string, error) {
	s, m := &l.settings, l.model.Loaded()
	if s.Cache == "" || m == nil || len(m.Weights) == 0 {
		return "", nil
	}
	k := textKey{Format: 1, Libtorch: native.TorchVersion, Config: l.model.Config(), Stored: m.Stored, Type: arithmetic(l.model), Templates: s.Templates, Names: names}
	for _, w := range l.weights() {
		if _, err := os.Stat(w); errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		h, err := contentHash(s.Cache, w)
		if err != nil {
			return "", err
		}
		k.Weights = append(k.Weights, h)
	}
	for _, t := range s.Templates {
		ids, _, err := l.model.Tokenize(s.prompts(t, names))
		if err != nil {
			return "", err
		}
		if err := torch.Try(func() { k.Tokens = append(k.Tokens, torch.ToSlice[int64](ids)...); ids.Free() }); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return filepath.Join(s.Cache, hex.EncodeToString(sum[:])+".npy"), nil
}

// throughCache gives features [rows, columns] from a file, or makes them and keeps them there. A file that is damaged
// is made anew. That they cannot be kept is no error.
func (l *Labeller) throughCache(path string, rows, columns int, make func() (*torch.Tensor, error)) (*torch.Tensor, error) {
	if path == "" {
		return make()
	}
	t, err := readMatrix(path, "classes and this model's embeddings", rows, columns)
	if err == nil {
		l.source = "text features from " + path
		return t, nil
	}
	damaged := ""
	if !errors.Is(err, fs.ErrNotExist) {
		damaged = fmt.Sprintf(" (what was there could not be used: %v)", err)
	}
	if t, err = make(); err != nil {
		return nil, err
	}
	var values []float32
	if err := torch.Try(func() { values = torch.ToSlice[float32](t) }); err != nil {
		return nil, err
	}
	a, err := npy.New([]int64{int64(rows), int64(columns)}, values)
	if err != nil {
		return nil, err
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o775); err == nil {
		err = npy.Write(path, a)
	}
	if err != nil {
		l.source = fmt.Sprintf("text features are not kept: %v", err)
	} else {
		l.source = "text features made and kept in " + path + damaged
	}
	return t, nil
}

// contentHash is the SHA-256 of a file. It is kept by what the file system says of the file, so that a large model is
// read once.
func contentHash(dir, path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s", abs, st.Size(), st.ModTime().UnixNano(), identity(st)))
	known := filepath.Join(dir, "hashes", hex.EncodeToString(key[:]))
	if b, err := os.ReadFile(known); err == nil && len(b) == 2*sha256.Size {
		return string(b), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if err := os.MkdirAll(filepath.Dir(known), 0o775); err == nil {
		_ = atomicfile.WriteBytes(known, 0o664, []byte(sum)) // a shortcut alone
	}
	return sum, nil
}

// arithmetic names what the last bits of features depend on: the type, and the device where it is not the CPU.
func arithmetic(m *clip.Model) string {
	if d := m.Device(); d.Type != torch.DeviceCPU {
		return fmt.Sprint(m.DType(), " on ", d)
	}
	return fmt.Sprint(m.DType())
}
