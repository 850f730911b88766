package native

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// verifyWheel refuses a file that is not, byte for byte, the locked wheel.
func verifyWheel(path string, wh *wheel) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("pip did not leave %s behind: %w", wh.File, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() != wh.Size {
		return fmt.Errorf("%s has %d bytes instead of %d: run setup again", wh.File, st.Size(), wh.Size)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("reading %s: %w", wh.File, err)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != wh.SHA256 {
		return fmt.Errorf("%s is not the locked file (SHA-256 %s instead of %s): run setup again, or look at what your package index serves",
			wh.File, sum, wh.SHA256)
	}
	return nil
}

// unpackWheel writes the members that the sets keep below dir, straight from the archive.
func unpackWheel(path string, wh *wheel, dir string, sets []string) error {
	z, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("%s: %w", wh.File, err)
	}
	defer z.Close()
	sizes := map[string]int64{}
	for _, m := range z.File {
		if strings.HasSuffix(m.Name, "/") || !wh.keeps(m.Name, sets) {
			continue
		}
		n, err := unpackMember(m, dir)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", wh.File, m.Name, err)
		}
		sizes[m.Name] = n
	}
	for _, s := range sets {
		for f, n := range wh.Keep[s].Files {
			if got, ok := sizes[f]; !ok || got != n {
				return fmt.Errorf("%s: member %s has %d bytes instead of %d", wh.File, f, got, n)
			}
		}
	}
	return nil
}

func unpackMember(m *zip.File, dir string) (int64, error) {
	if !filepath.IsLocal(m.Name) || !m.Mode().IsRegular() {
		return 0, fmt.Errorf("not a plain file inside the folder")
	}
	to := filepath.Join(dir, filepath.FromSlash(m.Name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return 0, err
	}
	in, err := m.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	mode := os.FileMode(0o644)
	if m.Mode()&0o100 != 0 {
		mode = 0o755
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(out, in) // checks the member's CRC at its end
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return n, err
}
