//go:build linux

package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/third_party/native"
)

// TestDoctorOfDamagedLibraries: a library that is cut, changed or replaced is a finding with the command that mends it,
// never the doctor's end.
func TestDoctorOfDamagedLibraries(t *testing.T) {
	st, err := native.Describe()
	require.NoError(t, err)
	require.NotNil(t, st.Torch)
	cache := t.TempDir()
	lib := filepath.Join(cache, "lib", native.BuildKey())
	require.NoError(t, os.MkdirAll(lib, 0o755))
	for _, l := range st.Libs {
		b, err := os.ReadFile(l.Path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(lib, l.Name), b, 0o755))
	}
	env := []string{"GOSPML_CACHE=" + cache, "LIBTORCH=" + st.Torch.Dir, "GOSPML_LIB="}
	code, _, stderr := spml(t, env, "setup") // notes the hashes; there is nothing to build
	require.Zero(t, code, stderr)
	code, out, stderr := spml(t, env, "doctor")
	require.Zero(t, code, out+stderr)
	require.Contains(t, out, "are what was installed")

	victim := filepath.Join(lib, "libgospml-cpu.so")
	sound, err := os.ReadFile(victim)
	require.NoError(t, err)
	info, err := os.Stat(victim)
	require.NoError(t, err)
	flipped := append([]byte(nil), sound...)
	for i := 0x2000; i < len(flipped); i += 64 {
		flipped[i] ^= 0xff
	}
	for name, do := range map[string]func() error{
		"cut":      func() error { return os.Truncate(victim, info.Size()*6/10) },
		"empty":    func() error { return os.Truncate(victim, 0) },
		"flipped":  func() error { return os.WriteFile(victim, flipped, 0o755) },
		"replaced": func() error { return os.Rename(filepath.Join(lib, "libgospml-image.so"), victim) },
		"link":     func() error { return os.Symlink("/lib/x86_64-linux-gnu/libc.so.6", victim) },
	} {
		if name == "link" {
			require.NoError(t, os.Remove(victim))
		}
		image, err := os.ReadFile(filepath.Join(lib, "libgospml-image.so"))
		require.NoError(t, err)
		require.NoError(t, do(), name)
		if name == "flipped" { // as a failing disk does, without a new time
			require.NoError(t, os.Chtimes(victim, info.ModTime(), info.ModTime()))
		}
		code, out, stderr := spml(t, env, "doctor")
		require.Equal(t, exitMissing, code, "%s: %s%s", name, out, stderr)
		require.Contains(t, out, victim+" is damaged", name)
		require.Contains(t, out, "setup", name)
		require.NoError(t, os.Remove(victim))
		require.NoError(t, os.WriteFile(victim, sound, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(lib, "libgospml-image.so"), image, 0o755))
	}
	require.NoError(t, os.Chmod(cache, 0o777))
	code, out, _ = spml(t, env, "doctor")
	require.Equal(t, exitMissing, code)
	require.Contains(t, out, "everybody may write")
	require.Contains(t, out, "run: chmod -R o-w "+cache)
}
