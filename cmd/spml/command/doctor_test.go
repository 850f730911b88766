//go:build linux

package command

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/third_party/native"
)

// TestDoctorOfCards: a card's name, memory, driver and how the kernels run on it; one that has none is a finding.
func TestDoctorOfCards(t *testing.T) {
	f := cardFinding(1, cuda.Properties{Name: "NVIDIA H200", Major: 9, TotalMemory: 150e9}, 140e9, "570.12")
	require.Equal(t,
		finding{"card", true,
			"cuda:1 NVIDIA H200, 150.0 GB, compute capability 9.0 (machine code of sm_90), 140.0 GB free, driver 570.12", ""}, f)
	f = cardFinding(0, cuda.Properties{Name: "Tesla V100", Major: 7, TotalMemory: 16e9}, 15e9, "")
	require.False(t, f.OK)
	require.Contains(t, f.Text, "no kernels: they want compute capability 7.5")
	require.Contains(t, f.Text, "no bfloat16")
	if cuda.DeviceCount() == 0 {
		require.Regexp(t, "^none, runs compute on the CPU \\(no CUDA device: ", cards()[0].Text)
	}
}

// TestPlanLimits: a loader that is slower than the steps is said.
func TestPlanLimits(t *testing.T) {
	p := train.Plan{Cores: 16, FeedPerSecond: 900, StepPerSecond: 1500}
	require.Equal(t,
		"decoding limits: 16 cores feed 900 images/s, the steps take 1500; once photos are decoded and kept, "+
			"the steps alone count", p.Limits())
	p.FeedPerSecond = 2000
	require.Empty(t, p.Limits())
	p = train.Plan{Cores: 2, FeedPerSecond: 300}
	require.Contains(t, p.Feeding(16), "from 300 images/s on; beside 16 cores from about 2400, assuming that")
	require.Empty(t, (&train.Plan{Cores: 2}).Feeding(16), "on features")
}

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
