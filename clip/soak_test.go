package clip

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// resident is the process's memory in MiB.
func resident(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kb >> 10
}

// Sixteen goroutines encode 10,000 random pictures through one model: neither tensors nor memory grow. `bench/clip soak` does it at full size.
func TestConcurrentSoak(t *testing.T) {
	const pictures, goroutines = 10000, 16
	c, _, err := Load(filepath.Join(testroot.Testdata("clip", "variants"), "oc_nonsquare"), LoadOptions{})
	require.NoError(t, err)
	m, err := NewModel(c, Options{DType: torch.BFloat16})
	require.NoError(t, err)
	defer m.Close()
	encode := func(n int) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for int(next.Add(1)) <= n {
					x := torch.Randn(torch.S(1, 3, 12, 20))
					y, err := m.EncodeImage(t.Context(), x)
					if err != nil {
						t.Error(err)
						return
					}
					x.Free()
					y.Free()
				}
			})
		}
		wg.Wait()
	}
	encode(2000)
	collect()
	live, before := torch.Live(), resident(t)
	encode(pictures)
	collect()
	require.LessOrEqual(t, torch.Live(), live)
	if os.Getenv("ASAN_OPTIONS") == "" { // the address sanitizer keeps what is freed for a while
		require.LessOrEqual(t, resident(t), before+24, "MiB")
	}
}

// Attention that is written out and libtorch's blockwise one give the same.
func TestAttentionForms(t *testing.T) {
	dir := filepath.Join(testroot.Testdata("clip", "variants"), "oc_nonsquare")
	e, _, err := nn.LoadSafetensors(filepath.Join(dir, "expected.safetensors"))
	require.NoError(t, err)
	encode := func() *torch.Tensor {
		c, _, err := Load(dir, LoadOptions{})
		require.NoError(t, err)
		m, err := NewModel(c, Options{DType: torch.BFloat16})
		require.NoError(t, err)
		defer m.Close()
		y, err := m.EncodeImage(t.Context(), e["pixel_values"])
		require.NoError(t, err)
		return y
	}
	written := encode()
	defer func(n int) { composedBytes = n }(composedBytes)
	composedBytes = 0
	blockwise := encode()
	require.Greater(t, cosine(written, blockwise), 0.9995)
	require.Greater(t, cosine(e["image_features"], blockwise), 0.998)
}
