package loss_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch"
)

// TestFused compares every fused form with its composed one.
func TestFused(t *testing.T) {
	require.NoError(t, loss.FusedAvailable())
	n := 0
	for _, e := range loss.Entries() {
		if e.Fused == nil {
			continue
		}
		n++
		require.True(t, torch.Has(e.Fused.Op) && torch.Has(e.Fused.Op+"_fwd"), e.Fused.Op)
		t.Run(e.ID, func(t *testing.T) { losstest.Fused(t, e.ID, settings[e.ID]...) })
	}
	require.GreaterOrEqual(t, n, 19)
}

// The kernels for other processors than this one; the variable is read once, hence a process for each.
func TestFusedKernels(t *testing.T) {
	if os.Getenv("GOSPML_NATIVE") == "1" {
		t.Skip("the libraries hold this processor's kernels alone")
	}
	for _, set := range []string{"avx2", "generic"} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			c := exec.Command(os.Args[0], "-test.run=^(TestFused|TestKernelSet)$", "-test.short")
			c.Env = append(os.Environ(), "GOSPML_CPU="+set)
			out, err := c.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
	c := exec.Command(os.Args[0], "-test.run=^TestKernelSet$")
	c.Env = append(os.Environ(), "GOSPML_CPU=fast")
	out, err := c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), `GOSPML_CPU is "fast", want one of avx512, avx2, generic`)
}

func TestKernelSet(t *testing.T) {
	require.NoError(t, loss.FusedAvailable())
	got := torch.Call("spml::cpu_kernels")[0]
	if want := os.Getenv("GOSPML_CPU"); want != "" {
		require.Equal(t, want, got)
	}
	require.Contains(t, []string{"avx512", "avx2", "generic"}, got)
}

// No function of the files for AVX may be visible to the linker: it could take one of them for every processor.
func TestNoWeakSymbols(t *testing.T) {
	dir := filepath.Join("..", "csrc")
	table, err := os.ReadFile(filepath.Join(dir, "pointwise.h"))
	require.NoError(t, err)
	for set, flags := range map[string][]string{
		"avx512": {"-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c"},
		"avx2":   {"-mavx2", "-mfma", "-mf16c"},
	} {
		objects := map[string][]string{"set": nil, "batch": nil, "frozen": nil}
		for _, line := range regexp.MustCompile(`(?m)^  X\((\w+), (\w+), (\d), `).FindAllStringSubmatch(string(table), -1) {
			objects["kernels of "+line[1]] = []string{"-DGOSPML_LOSS=" + line[1], "-DGOSPML_FUNCTOR=" + line[2], "-DGOSPML_LABELS=" + line[3],
				fmt.Sprintf(`-DGOSPML_LOSS_HEADER="loss/%s.h"`, line[1])}
		}
		require.Greater(t, len(objects), 10)
		for name, defines := range objects {
			t.Run(set+" "+name, func(t *testing.T) {
				file := strings.Fields(name)[0] + "_" + set + ".cpp"
				t.Parallel()
				object := filepath.Join(t.TempDir(), "object.o")
				// -O1 takes a third of the time that -O0 does on code that is inlined by force, and inlines less than the -O3 of
				// the build.
				args := slices.Concat([]string{"-std=c++20", "-O1", "-fno-exceptions", "-c", filepath.Join(dir, file), "-o", object}, flags, defines)
				out, err := exec.Command("g++", args...).CombinedOutput()
				require.NoError(t, err, "%s", out)
				symbols, err := exec.Command("nm", "--defined-only", "-P", object).Output()
				require.NoError(t, err)
				visible := 0
				for line := range strings.Lines(string(symbols)) {
					kind := strings.Fields(line)[1]
					require.NotContains(t, "WwVvu", kind, "%s: %s", file, line)
					if kind == strings.ToUpper(kind) {
						visible++
					}
				}
				require.Equal(t, 1, visible, "the table of kernels alone")
			})
		}
	}
}

func TestImpl(t *testing.T) {
	_, err := loss.New("smile-encoder", "", nil, loss.Options{Impl: loss.Fused})
	require.ErrorContains(t, err, "smile-encoder has no fused form")
	_, err = loss.New("an", "", nil, loss.Options{Impl: "fast"})
	require.ErrorContains(t, err, `impl "fast" is none of auto, composed, fused`)

	z := torch.FromSlice([]float32{1, -2}, 1, 2).SetRequiresGrad(true)
	b := loss.Batch{Logits: z, Observed: torch.FromSlice([]int8{1, 0}, 1, 2)}
	for _, c := range []struct {
		impl loss.Impl
		fn   string
	}{{"", "an"}, {loss.Auto, "an"}, {loss.Fused, "an"}, {loss.Composed, "DivBackward1"}} {
		l, err := loss.New("an", "", nil, loss.Options{Impl: c.impl})
		require.NoError(t, err)
		v, err := l.Value(b)
		require.NoError(t, err)
		require.Equal(t, c.fn, v.GradFn())
		require.InDelta(t, 0.2200949, v.Item(), 1e-6)
	}
}

// A number on the labels is no constant to the composed form, so the fused one says that it has no gradient for it.
func TestFusedLabelGradient(t *testing.T) {
	l, err := loss.New("an", "", nil, loss.Options{})
	require.NoError(t, err)
	_, err = l.Value(loss.Batch{Logits: torch.Zeros(torch.S(1, 2)), Observed: torch.Zeros(torch.S(1, 2)).SetRequiresGrad(true)})
	require.ErrorContains(t, err, "no gradient with respect to labels; use impl=composed")
}

// Bits do not depend on the number of threads.
func TestFusedThreads(t *testing.T) {
	before := torch.NumThreads()
	defer func() { require.NoError(t, torch.SetNumThreads(before)) }()
	l, err := loss.New("em", "coco", nil, loss.Options{Impl: loss.Fused})
	require.NoError(t, err)
	e, err := loss.Lookup("em")
	require.NoError(t, err)
	b, _, _ := losstest.Batch(e, losstest.Shape{B: 1031, C: 313, DType: torch.Float32, Seed: 1})
	var first float64
	for _, n := range []int{1, 2, 3, 7} {
		require.NoError(t, torch.SetNumThreads(n))
		v, _, err := loss.ValueGrad(l, b)
		require.NoError(t, err)
		if n == 1 {
			first = v.Item()
			require.False(t, math.IsNaN(first) || first == 0)
		}
		require.Equal(t, first, v.Item(), "%d threads", n)
	}
}
