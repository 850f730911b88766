package jit

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// TestDamagedBytes: an archive with any byte changed is refused by a sentence, or loads where nothing reads that byte.
func TestDamagedBytes(t *testing.T) {
	whole, err := os.ReadFile(testroot.Testdata("jit", "scripted.pt"))
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "damaged.pt")
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 400 {
		b := bytes.Clone(whole)
		for range 1 + r.IntN(3) {
			b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
		}
		if r.IntN(8) == 0 {
			b = b[:r.IntN(len(b))]
		}
		require.NoError(t, os.WriteFile(path, b, 0o600))
		m, err := Load(path)
		if err != nil {
			refused++
			require.Less(t, len(err.Error()), 20_000)
			continue
		}
		require.NoError(t, m.Close())
	}
	require.Greater(t, refused, 100)
}

// TestDamagedCode changes the code of an archive, with right checksums, which is what TorchScript's parser has to
// stand: each file loads or is an error. It runs in processes of its own, so that one that ends is seen. What keeps the
// parser busy is counted, for it cannot be interrupted.
func TestDamagedCode(t *testing.T) {
	if from := os.Getenv("GOSPML_DAMAGED"); from != "" {
		loadDamaged(t, from)
		return
	}
	files := 1000
	if testroot.Nightly() {
		files = 5000
	}
	busy := 0
	for from := 0; from < files; {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDamagedCode$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("GOSPML_DAMAGED=%d %d", from, files))
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var late atomic.Bool
		patience := time.AfterFunc(10*time.Second, func() {
			late.Store(true)
			_ = cmd.Process.Kill()
		})
		last, rest := -1, ""
		for lines := bufio.NewScanner(out); lines.Scan(); patience.Reset(20 * time.Second) {
			if _, err := fmt.Sscanf(lines.Text(), "loading %d", &last); err != nil {
				rest += lines.Text() + "\n"
			}
		}
		patience.Stop()
		switch err := cmd.Wait(); {
		case err == nil:
			require.Equal(t, files-1, last)
		case late.Load():
			busy++
			require.Less(t, busy, files/100, "file %d", last)
		default:
			t.Fatalf("file %d: %v\n%.2000s%.2000s", last, err, rest, said.String())
		}
		from = last + 1
	}
	if busy > 0 {
		t.Logf("%d of %d files kept the parser busy for 10 s", busy, files)
	}
}

// loadDamaged loads the files of a range, "FROM TO".
func loadDamaged(t *testing.T, span string) {
	var from, to int
	_, err := fmt.Sscan(span, &from, &to)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "damaged.pt")
	for i := from; i < to; i++ {
		writeMutant(t, rand.New(rand.NewPCG(3, uint64(i))), path)
		fmt.Printf("loading %d\n", i)
		m, err := Load(path)
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e, "file %d", i)
			continue
		}
		_, _ = m.Methods() // compiles
		require.NoError(t, m.Close())
	}
}

// writeMutant copies the archive with a few bytes of one code entry or pickle changed, repeated or cut out. In every
// fourth the pickles of the places in the code are unreadable too, which libtorch's own text of an error asks for.
func writeMutant(t *testing.T, r *rand.Rand, path string) {
	t.Helper()
	z, err := zip.OpenReader(testroot.Testdata("jit", "scripted.pt"))
	require.NoError(t, err)
	defer z.Close()
	var victims []string
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, ".py") || strings.HasSuffix(f.Name, "pkl") {
			victims = append(victims, f.Name)
		}
	}
	victim, lost := victims[r.IntN(len(victims))], r.IntN(4) == 0
	out, err := os.Create(path)
	require.NoError(t, err)
	defer out.Close()
	w := zip.NewWriter(out)
	for _, f := range z.File {
		in, err := f.Open()
		require.NoError(t, err)
		b, err := io.ReadAll(in)
		require.NoError(t, err)
		switch {
		case lost && strings.HasSuffix(f.Name, ".debug_pkl"):
			b[0] = 0
		case f.Name == victim:
			b = mutate(r, b)
		}
		to, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: f.Method})
		require.NoError(t, err)
		_, err = to.Write(b)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
}

func mutate(r *rand.Rand, b []byte) []byte {
	for range 1 + r.IntN(4) {
		if len(b) == 0 {
			return []byte{0}
		}
		at := r.IntN(len(b))
		switch end := min(len(b), at+1+r.IntN(40)); r.IntN(4) {
		case 0:
			b[at] = byte(r.IntN(256))
		case 1:
			b = append(bytes.Clone(b[:at]), b[end:]...)
		case 2:
			b = append(append(bytes.Clone(b[:end]), b[at:end]...), b[end:]...)
		default:
			b[at] = "()[]:=,.*-\n 0x"[r.IntN(14)]
		}
	}
	return b
}

// TestExpandingCode: a small archive whose code expands far is refused before it is expanded.
func TestExpandingCode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bomb.pt")
	out, err := os.Create(path)
	require.NoError(t, err)
	w := zip.NewWriter(out)
	for _, name := range []string{"a/constants.pkl", "a/data.pkl", "a/code/__torch__.py"} {
		to, err := w.Create(name)
		require.NoError(t, err)
		zeros := make([]byte, 1<<20)
		for range 300 {
			if _, err = to.Write(zeros); err != nil || !strings.HasSuffix(name, ".py") {
				break
			}
		}
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, out.Close())
	_, err = Load(path)
	require.ErrorContains(t, err, "expands to")
}
