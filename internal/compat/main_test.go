package main

import (
	"archive/zip"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/third_party/native"
)

const root = "../.."

// The overlay gives a program the other version and its lock.
func TestOverlay(t *testing.T) {
	t.Chdir(root)
	wd, err := os.Getwd()
	require.NoError(t, err)
	locks, err := filepath.Glob(folder + "/libtorch-*.lock")
	require.NoError(t, err)
	older, newer := 0, 0
	for _, path := range locks {
		version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "libtorch-"), ".lock")
		require.NotEqual(t, native.TorchVersion, version)
		if before(version, native.TorchVersion) {
			older++
		} else {
			newer++
		}
		over, err := overlay(wd, t.TempDir(), version)
		require.NoError(t, err)
		// The overlaid package agrees with itself: the lock's version is the constant's.
		test := command(context.Background(), wd, os.Environ(), "go", "test", "-overlay", over, "-count=1", "-run", "^TestEmbeddedLockVersion$", "-v", "./third_party/native")
		out, err := test.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "libtorch "+version)
	}
	require.Positive(t, older)
	require.Positive(t, newer)
	empty := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(empty, "third_party/native"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(empty, "third_party/native/find.go"), []byte("package native\n"), 0o600))
	_, err = overlay(empty, t.TempDir(), "1.0.0")
	require.ErrorContains(t, err, "has no line const TorchVersion")
}

// before compares versions "2.9.1" and "2.11.0" number by number.
func before(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i])
		y, _ := strconv.Atoi(bs[i])
		if x != y {
			return x < y
		}
	}
	return len(as) < len(bs)
}

func TestEnvironment(t *testing.T) {
	got := environment([]string{"A=1", "LIBTORCH=/x", "GOSPML_CACHE=/y", "GOSPML_LIB=/z"}, "/c")
	require.Equal(t, []string{"A=1", "GOSPML_CACHE=/c"}, got)
}

func TestCounts(t *testing.T) {
	events := `{"Action":"pass","Package":"github.com/gospml/gospml/torch","Test":"TestSchemas"}
not json
{"Action":"output","Package":"github.com/gospml/gospml/torch","Test":"TestAt","Output":"what went wrong\n"}
{"Action":"fail","Package":"github.com/gospml/gospml/torch","Test":"TestAt"}
{"Action":"skip","Package":"github.com/gospml/gospml/torch","Test":"TestNo"}
{"Action":"fail","Package":"github.com/gospml/gospml/torch"}
`
	file := filepath.Join(t.TempDir(), "events")
	require.NoError(t, os.WriteFile(file, []byte(events), 0o600))
	r, out := &result{}, &strings.Builder{}
	require.NoError(t, r.test(command(t.Context(), ".", os.Environ(), "cat", file), out))
	require.Equal(t, &result{passed: 1, skipped: 1, failed: []string{"torch TestAt", "torch"}, names: []string{"TestSchemas"}}, r)
	require.Equal(t, "not json\nwhat went wrong\nskipped: torch TestNo\n", out.String())
	require.ErrorContains(t, (&result{}).test(command(t.Context(), ".", os.Environ(), "false"), out), "go test")
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	wheel := func(name string, members ...string) string {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		require.NoError(t, err)
		z := zip.NewWriter(f)
		for _, m := range members {
			w, err := z.Create(m)
			require.NoError(t, err)
			_, err = w.Write([]byte("12345"))
			require.NoError(t, err)
		}
		require.NoError(t, z.Close())
		require.NoError(t, f.Close())
		return path
	}
	torch := wheel("torch-9.1.0-3-cp311-cp311-manylinux_2_28_x86_64.whl", "torch/lib/libtorch_cpu.so", "torch/lib/libtorch_cuda.so", "torch/include/a.h", "torch/include/b.h", "torch/version.py")
	cupti := wheel("nvidia_cuda_cupti_cu12-12.8.90-py3-none-any.whl", "nvidia/cuda_cupti/lib/libcupti.so.12", "nvidia/cuda_cupti/lib/libother.so.12")
	var out strings.Builder
	require.NoError(t, writeLock(&out, []string{torch, cupti}))
	var got struct {
		Torch  string
		Dirs   map[string]string
		Wheels []wheelRecord
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &got))
	require.Equal(t, "9.1.0", got.Torch)
	require.Equal(t, map[string]string{"cpu": "libtorch-9.1.0"}, got.Dirs)
	require.Equal(t, keep{Files: map[string]int64{"torch/lib/libtorch_cpu.so": 5, "torch/version.py": 5}, Trees: []string{"torch/include/"}, Unpacked: 20}, got.Wheels[0].Keep["cpu"])
	require.Equal(t, "nvidia-cuda-cupti-cu12", got.Wheels[1].Name)
	require.Equal(t, keep{Files: map[string]int64{"nvidia/cuda_cupti/lib/libcupti.so.12": 5}, Trees: []string{}, Unpacked: 5}, got.Wheels[1].Keep["cpu"])
	require.ErrorContains(t, writeLock(&out, []string{cupti}), "want torch")
	require.ErrorContains(t, writeLock(&out, nil), "pip download")
	require.ErrorContains(t, writeLock(&out, []string{wheel("torch-1-py3-none-any.whl", "x")}), "nothing that a build needs")
}

// What failed is read as from a real run: leaves, their parents, packages.
func TestJudge(t *testing.T) {
	failed := []string{"torch TestA/x/1", "torch TestA/x", "torch TestA", "torch TestB", "torch/nn", "torch TestC/deep/er", "torch TestC/deep", "torch TestC", "torch"}
	asKnown, unexpected, stale := judge(failed, map[string]string{"torch TestA/x": "words", "torch TestC": "all of it", "torch TestD": "gone"})
	require.Equal(t, []string{"torch TestA/x/1: words", "torch TestC/deep/er: all of it"}, asKnown)
	require.Equal(t, []string{"torch TestB", "torch/nn"}, unexpected)
	require.Equal(t, []string{"torch TestD"}, stale)
}

// Every version that has a lock has a file of differences that can be read, with those of all versions.
func TestKnownFiles(t *testing.T) {
	t.Chdir(root)
	locks, err := filepath.Glob(filepath.Join(folder, "libtorch-*.lock"))
	require.NoError(t, err)
	require.Len(t, locks, 2)
	for _, l := range locks {
		k, err := known(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(l), "libtorch-"), ".lock"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(k), 3)
	}
}
