package safetensors

import (
	"hash"

	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"github.com/gospml/gospml/internal/atomicfile"
	"io"
	"os"
)

// WriteSum is Write that gives the SHA-256 of the file too, as Hash would: it is computed beside the writing, from what
// was meant to be written.
func WriteSum(path string, tensors []Tensor, metadata map[string]string) (sum string, err error) {
	plan, err := newPlan(tensors, metadata)
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", path, err)
	}
	s := &summing{h: sha256.New()}
	err = atomicfile.WriteFile(path, 0o664, func(w io.Writer) error {
		s.w = w
		return plan.write(s)
	})
	return hex.EncodeToString(s.h.Sum(nil)), err
}

// summing hashes what passes, a large piece on another core while it is written.
type summing struct {
	w io.Writer
	h hash.Hash
}

func (s *summing) Write(p []byte) (int, error) {
	if len(p) < 1<<16 {
		s.h.Write(p)
		return s.w.Write(p)
	}
	done := make(chan struct{})
	go func() {
		s.h.Write(p)
		close(done)
	}()
	n, err := s.w.Write(p)
	<-done
	return n, err
}

// Hash returns the SHA-256 of a file's bytes in hexadecimal, as sha256sum prints it. Run records name weights by it.
func Hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
