package native

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// internal/compat runs it with another version and its lock.
func TestEmbeddedLockVersion(t *testing.T) {
	l, err := embeddedLock()
	require.NoError(t, err)
	require.Equal(t, TorchVersion, l.Torch)
	require.Equal(t, "libtorch-"+TorchVersion, l.Dirs[setCPU], "FindTorch looks there")
	t.Log("libtorch", l.Torch)
}

func TestEmbeddedLock(t *testing.T) {
	l, err := embeddedLock()
	require.NoError(t, err)
	require.Equal(t, l.Dirs[setCPU], l.Dirs[setGPU], "libtorch_cuda.so finds the others by their relative place")

	_, unpacked, _ := l.sizes(setCPU)
	require.Less(t, unpacked, int64(700e6))
	require.Len(t, l.wheels(setCPU), 3)
	for _, f := range []string{"torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/lib/libgomp.so.1",
		"nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcupti.so.13"} {
		require.Contains(t, l.files(setCPU), f)
	}
	// What libtorch_cuda.so 2.11.0+cu130 names as needed.
	for _, lib := range []string{"torch_nvshmem.so", "c10_cuda.so", "cusparse.so.12", "cufft.so.12", "cufile.so.0", "cusparseLt.so.0",
		"nccl.so.2", "curand.so.10", "cublas.so.13", "cublasLt.so.13", "cudnn.so.9", "nvshmem_host.so.3", "cusolver.so.12", "nvJitLink.so.13"} {
		found := false
		for f := range l.files(setGPU) {
			found = found || strings.HasSuffix(f, "/lib"+lib)
		}
		require.True(t, found, lib)
	}
	for i := range l.Wheels {
		for set, k := range l.Wheels[i].Keep {
			var named int64
			for _, n := range k.Files {
				named += n
			}
			require.LessOrEqual(t, named, k.Unpacked, "%s %s", l.Wheels[i].Name, set)
		}
	}
}

func TestParseLockRefuses(t *testing.T) {
	good := `{"torch": "1", "dirs": {"cpu": "d"}, "wheels": [{"name": "a", "version": "1", "file": "a-1-py3-none-any.whl",
		"sha256": "` + strings.Repeat("0a", 32) + `", "size": 5, "keep": {"cpu": {"files": {"x/y": 3}, "trees": ["z/"], "unpacked": 3}}}]}`
	_, err := parseLock([]byte(good))
	require.NoError(t, err)
	for name, change := range map[string][2]string{
		"unknown field":         {`"size"`, `"bytes"`},
		"sha256":                {"0a0a", "0A0A"},
		"size":                  {`"size": 5`, `"size": 0`},
		"not a wheel's name":    {"a-1-py3-none-any.whl", "a-1.tar.gz"},
		"leaves the folder":     {"x/y", "../y"},
		"end in /":              {`"z/"`, `"z"`},
		"has no folder":         {`"keep": {"cpu"`, `"keep": {"other"`},
		"plain name":            {`"cpu": "d"`, `"cpu": "../d"`},
		"torch, dirs and wheel": {`"torch": "1"`, `"torch": ""`},
		"keeps nothing":         {`"keep": {"cpu": {"files": {"x/y": 3}, "trees": ["z/"], "unpacked": 3}}`, `"keep": {}`},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		require.NotEqual(t, good, text, name)
		_, err := parseLock([]byte(text))
		require.ErrorContains(t, err, name)
	}
}
