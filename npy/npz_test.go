package npy

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/stretchr/testify/require"
)

func TestNumpyArchives(t *testing.T) {
	z, err := OpenNPZ(testroot.Testdata("npy", "stored.npz"), 0) // nothing expands
	require.NoError(t, err)
	require.Equal(t, []string{"labels", "images", "n"}, z.Names())
	labels, err := z.Read("labels")
	require.NoError(t, err)
	require.Equal(t, []int64{3, 3}, labels.Shape)
	values, err := labels.Float32()
	require.NoError(t, err)
	require.Equal(t, []float32{1, 0, 0, 0, 1, 0, 0, 0, 1}, values)
	images, err := z.Read("images")
	require.NoError(t, err)
	names, err := images.Strings()
	require.NoError(t, err)
	require.Equal(t, []string{"a.jpg", "b.jpg"}, names)
	_, err = z.Read("nothing")
	require.ErrorContains(t, err, `array "nothing" of `+z.path)
	require.NoError(t, z.Close())
	_, err = z.Read("labels")
	require.ErrorIs(t, err, os.ErrClosed)

	z, err = OpenNPZ(testroot.Testdata("npy", "deflated.npz"), DefaultLimit)
	require.NoError(t, err)
	defer z.Close()
	require.ElementsMatch(t, []string{"arr_0", "z"}, z.Names())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			a, err := z.Read("arr_0")
			if err != nil {
				t.Error(err)
				return
			}
			v, _ := a.Float32()
			for i := range v {
				if v[i] != float32(i) {
					t.Errorf("element %d is %v", i, v[i])
				}
			}
			if a, err = z.Read("z"); err != nil || !bytes.Equal(a.Data, make([]byte, 80000)) {
				t.Error("z is not 10,000 zeros", err)
			}
		})
	}
	wg.Wait()
}

type entry struct {
	header zip.FileHeader
	data   []byte // as in the file where raw, else before compression
	raw    bool
}

func archive(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range entries {
		create := w.CreateHeader
		if e.raw {
			create = w.CreateRaw
		}
		f, err := create(&e.header)
		require.NoError(t, err)
		_, err = f.Write(e.data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func parseNPZ(b []byte, limit int64) (*NPZ, error) {
	return ParseNPZ(bytes.NewReader(b), int64(len(b)), limit)
}

func TestNPZAbuse(t *testing.T) {
	one := file(dict("'<f4'", "False", "(2,)"), 8)
	zeros := file(dict("'|u1'", "False", "(1000000,)"), 1_000_000)
	plain := entry{header: zip.FileHeader{Name: "a.npy"}, data: one}
	raw := func(h zip.FileHeader) entry { return entry{header: h, data: one, raw: true} }
	squeezed := entry{header: zip.FileHeader{Name: "z.npy", Method: zip.Deflate}, data: zeros}
	n := uint64(len(one))

	// Two directory entries with the same place: the second's offset is set to the first's.
	overlapping := archive(t, plain, entry{header: zip.FileHeader{Name: "b.npy"}, data: one})
	second := bytes.LastIndex(overlapping, []byte("PK\x01\x02"))
	copy(overlapping[second+42:second+46], []byte{0, 0, 0, 0})
	damaged := archive(t, squeezed)
	damaged[len("PK")+200] ^= 0xff
	badCRC := archive(t, raw(zip.FileHeader{Name: "a.npy", CRC32: 1, CompressedSize64: n, UncompressedSize64: n}))

	for name, c := range map[string]struct {
		file  []byte
		limit int64
		want  string
	}{
		"empty":                    {nil, 0, "not a zip archive"},
		"an npy":                   {one, 0, "not a zip archive"},
		"cut":                      {overlapping[:len(overlapping)-1], 0, "not a zip archive"},
		"entry that is no array":   {archive(t, entry{header: zip.FileHeader{Name: "readme.txt"}}), 0, "does not end in .npy"},
		"array twice":              {archive(t, plain, plain), 0, "occurs twice"},
		"encrypted":                {archive(t, raw(zip.FileHeader{Name: "a.npy", Flags: 1, CompressedSize64: n, UncompressedSize64: n})), 0, "encrypted"},
		"method":                   {archive(t, raw(zip.FileHeader{Name: "a.npy", Method: 12, CompressedSize64: n, UncompressedSize64: n})), 0, "method 12"},
		"stored, sizes differ":     {archive(t, raw(zip.FileHeader{Name: "a.npy", CompressedSize64: n, UncompressedSize64: n + 1})), 0, "two sizes differ"},
		"larger than the file":     {archive(t, raw(zip.FileHeader{Name: "a.npy", CompressedSize64: 1 << 40, UncompressedSize64: 1 << 40})), 0, "beyond the end of the file"},
		"more than deflate can":    {archive(t, raw(zip.FileHeader{Name: "a.npy", Method: zip.Deflate, CompressedSize64: n, UncompressedSize64: 1 << 40})), 1 << 50, "more than deflate can"},
		"above the limit":          {archive(t, squeezed), 1_000_000, "the limit for all is 1000000"},
		"together above the limit": {archive(t, squeezed, entry{header: zip.FileHeader{Name: "y.npy", Method: zip.Deflate}, data: zeros}), 1_500_000, "the limit for all is 1500000"},
		"negative limit":           {archive(t, squeezed), -1, "the limit for all is -1"},
		"overlap":                  {overlapping, 0, "overlap"},
		"damaged":                  {damaged, 1 << 30, "read z: "},
		"checksum":                 {badCRC, 0, "read a: the archive is damaged (zip: checksum error)"},
		"claims too little":        {archive(t, raw(zip.FileHeader{Name: "a.npy", Method: zip.Deflate, CompressedSize64: n, UncompressedSize64: 1})), 1 << 30, "read a: "},
		"a pickle":                 {archive(t, entry{header: zip.FileHeader{Name: "a.npy"}, data: file(dict("'|O'", "False", "(2,)"), 8)}), 0, "read a: header: object arrays"},
		"forged shape":             {archive(t, entry{header: zip.FileHeader{Name: "a.npy"}, data: file(dict("'<f4'", "False", "(400000286720,)"), 8)}), 0, "only 8 follow the header"},
	} {
		t.Run(name, func(t *testing.T) {
			before := allocated()
			err := readArchive(c.file, c.limit)
			used := allocated() - before
			var fe *FormatError
			require.ErrorAs(t, err, &fe)
			require.ErrorContains(t, err, c.want)
			require.LessOrEqual(t, used, uint64(len(c.file)+1<<20+len(zeros)))
		})
	}
}

// readArchive opens an archive and reads all of it.
func readArchive(b []byte, limit int64) error {
	z, err := parseNPZ(b, limit)
	if err != nil {
		return err
	}
	for _, name := range z.Names() {
		if _, err := z.read(name); err != nil {
			var fe *FormatError
			if errors.As(err, &fe) {
				return &FormatError{Reason: "read " + name + ": " + fe.Reason}
			}
			return err
		}
	}
	return nil
}

// TestNPZDirectory: a directory larger than its cap is refused before it takes memory.
func TestNPZDirectory(t *testing.T) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i := range 150_000 {
		_, err := w.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("%x.npy", i)})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	before := allocated()
	_, err := parseNPZ(out.Bytes(), DefaultLimit)
	used := allocated() - before
	require.ErrorContains(t, err, "directory takes more than")
	t.Logf("archive of %d bytes, allocated %d", out.Len(), used)
	require.LessOrEqual(t, used, uint64(24<<20))
}

func TestNPZErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.npz")
	require.NoError(t, os.WriteFile(path, []byte("no zip"), 0o600))
	_, err := OpenNPZ(path, DefaultLimit)
	require.ErrorContains(t, err, "cannot read "+path)
	_, err = OpenNPZ(filepath.Dir(path), DefaultLimit)
	require.ErrorContains(t, err, "not a regular file")

	require.NoError(t, os.WriteFile(path, archive(t, entry{header: zip.FileHeader{Name: "a.npy"}, data: []byte("junk.....")}), 0o600))
	z, err := OpenNPZ(path, DefaultLimit)
	require.NoError(t, err)
	defer z.Close()
	_, err = z.Read("a")
	require.ErrorContains(t, err, `array "a" of `+path+": it does not begin with")

	boom := errors.New("boom")
	_, err = ParseNPZ(failing{boom}, 100, DefaultLimit)
	require.ErrorIs(t, err, boom)
	var fe *FormatError
	require.False(t, errors.As(err, &fe))
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

var _ io.ReaderAt = failing{}
