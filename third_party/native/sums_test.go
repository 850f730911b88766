package native

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// harm is what happens to an installed library; each leaves the time as it was if it can.
var harm = map[string]func(t *testing.T, path, other string){
	"truncated": func(t *testing.T, path, _ string) {
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, st.Size()*6/10))
	},
	"flipped": func(t *testing.T, path, _ string) { flip(t, path, true) },
	"swapped": func(t *testing.T, path, other string) {
		b, err := os.ReadFile(other)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b, 0o755))
	},
	"link": func(t *testing.T, path, other string) {
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Symlink(other, path))
	},
	"gone": func(t *testing.T, path, _ string) { require.NoError(t, os.Remove(path)) },
}

// flip changes one byte, with the time of before if keep says so.
func flip(t *testing.T, path string, keep bool) {
	t.Helper()
	st, err := os.Stat(path)
	require.NoError(t, err)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(path, b, st.Mode()))
	if keep {
		require.NoError(t, os.Chtimes(path, st.ModTime(), st.ModTime()))
	}
}

// Set-up notices each kind of damage to each of libtorch's libraries, says so and mends it.
func TestSetupMendsDamage(t *testing.T) {
	for what, do := range harm {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.setup(Options{})
			require.NoError(t, err)
			cudart := filepath.Join(w.cache, "libtorch-2.11.0", "nvidia", "cu13", "lib", "libcudart.so.13")
			cpu := filepath.Join(w.cache, "libtorch-2.11.0", "torch", "lib", "libtorch_cpu.so")
			for _, lib := range []string{cpu, cudart} {
				before, err := os.ReadFile(lib)
				require.NoError(t, err)
				other := cpu
				if lib == cpu {
					other = cudart
				}
				do(t, lib, other)
				if what != "flipped" { // which only reading the whole file shows
					_, err = FindTorch()
					require.ErrorIs(t, err, ErrNotFound, "a program does not load it")
				}
				if what != "gone" {
					_, wrong := Verify()
					require.NotEmpty(t, wrong)
					require.ErrorIs(t, wrong[0], ErrDamaged)
					requireSentence(t, wrong[0], lib, "is damaged", "run `")
				}
				res, err := w.setup(Options{})
				require.NoError(t, err)
				require.True(t, res.Fetched)
				if what != "gone" {
					require.Contains(t, w.output.String(), lib+" is damaged")
				}
				after, err := os.ReadFile(lib)
				require.NoError(t, err)
				require.Equal(t, before, after)
				_, err = FindTorch()
				require.NoError(t, err)
				n, wrong := Verify()
				require.Empty(t, wrong)
				require.Equal(t, 6, n)
			}
		})
	}
}

// The same for our own libraries, which would be built again.
func TestOwnLibrariesAreChecked(t *testing.T) {
	for what, do := range harm {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.setup(Options{})
			require.NoError(t, err)
			dir, err := LibDir()
			require.NoError(t, err)
			lib := filepath.Join(dir, Libraries()[0])
			other := filepath.Join(w.dir, "other")
			writeFile(t, other, "another library", 0o755)
			do(t, lib, other)
			if what != "flipped" {
				_, err = FindLib(Libraries()[0])
				require.ErrorIs(t, err, ErrNotFound)
			}
			require.NoError(t, mendCache(&w.output, w.lock, w.cache, dir))
			require.False(t, installed(dir, Libraries()), "set-up builds it again")
		})
	}
}

// A library whose time has changed is read: with the same content it is taken and the time noted, with another it is refused.
func TestChangedTimeIsReadOnce(t *testing.T) {
	w := newWorld(t)
	_, err := w.setup(Options{})
	require.NoError(t, err)
	lib := filepath.Join(w.cache, "libtorch-2.11.0", "torch", "lib", "libtorch_cpu.so")
	when := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(lib, when, when))
	_, err = FindTorch()
	require.NoError(t, err)
	require.Equal(t, when.UnixNano(), readSums(filepath.Join(w.cache, "libtorch-2.11.0"))["torch/lib/libtorch_cpu.so"].Modified)
	flip(t, lib, false)
	_, err = FindTorch()
	require.ErrorIs(t, err, ErrDamaged)
	requireSentence(t, err, lib, "SHA-256", "run `")
}

// What an earlier version installed has no hashes; a library that is cut is refused all the same, wherever it lies.
func TestCutLibraryWithoutHashes(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	w := newWorld(t)
	dir, err := LibDir()
	require.NoError(t, err)
	name := Libraries()[0]
	writeFile(t, filepath.Join(dir, name), string(self), 0o755)
	_, err = FindLib(name)
	require.NoError(t, err)
	for _, n := range []int{20, 1000, len(self) * 6 / 10} {
		writeFile(t, filepath.Join(dir, name), string(self[:n]), 0o755)
		_, err = FindLib(name)
		require.ErrorIs(t, err, ErrDamaged, n)
	}
	require.NoError(t, mendCache(&w.output, w.lock, w.cache, dir))
	require.NoFileExists(t, filepath.Join(dir, name))

	own := filepath.Join(w.dir, "own")
	t.Setenv("LIBTORCH", own)
	writeFile(t, filepath.Join(own, "lib", "libtorch_cpu.so"), string(self[:len(self)/2]), 0o644)
	_, err = FindTorch()
	require.ErrorIs(t, err, ErrDamaged)
}

// A cache that anybody may write, or that is somebody else's, is named with the command that mends it.
func TestForeignCacheIsNamed(t *testing.T) {
	w := newWorld(t)
	_, err := w.setup(Options{})
	require.NoError(t, err)
	require.NotContains(t, w.output.String(), "warning")
	require.NoError(t, os.Chmod(filepath.Join(w.cache, "lib"), 0o777))
	_, wrong := Verify()
	require.Len(t, wrong, 1)
	requireSentence(t, wrong[0], "everybody may write", "chmod -R o-w "+w.cache)
	_, err = w.setup(Options{})
	require.NoError(t, err)
	require.Contains(t, w.output.String(), "warning: everybody may write")
	require.NoError(t, os.Chmod(filepath.Join(w.cache, "lib"), 0o755))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(w.cache, 12345, 12345))
		_, wrong = Verify()
		require.Len(t, wrong, 1)
		requireSentence(t, wrong[0], "belongs to another user (12345)", "chown", "GOSPML_CACHE")
	}
}

// Every start of a program pays this.
func BenchmarkFindTorch(b *testing.B) {
	if _, err := FindTorch(); err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		if _, err := FindTorch(); err != nil {
			b.Fatal(err)
		}
		for _, name := range Libraries() {
			if _, err := FindLib(name); err != nil && !strings.Contains(err.Error(), "not in") {
				b.Fatal(err)
			}
		}
	}
}
