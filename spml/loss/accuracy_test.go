package loss_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// The errors that loss_math.h states of the vectorised functions, measured on every 997th float (on all of them: testdata/accuracy.cpp
// with 1 as argument, minutes).
func TestLanesAccuracy(t *testing.T) {
	require.NoError(t, loss.FusedAvailable())
	mine := torch.Call("spml::cpu_kernels")[0].(string)
	for _, set := range []struct {
		name  string
		flags []string
		most  map[string]float64
	}{
		{"generic", nil, map[string]float64{"exp_neg": 9e-8, "exp_any": 9e-8, "expm1_neg": 1e-7, "log_pos": 1.2e-7, "log1p_unit": 1.7e-7, "reciprocal": 6e-8}},
		{"avx2", []string{"-mavx2", "-mfma", "-mf16c"},
			map[string]float64{"exp_neg": 9e-8, "exp_any": 9e-8, "expm1_neg": 1e-7, "log_pos": 1.2e-7, "log1p_unit": 1.3e-7, "reciprocal": 6e-8}},
		{"avx512", []string{"-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mf16c"},
			map[string]float64{"exp_neg": 2.2e-7, "exp_any": 2.2e-7, "expm1_neg": 1e-7, "log_pos": 1.2e-7, "log1p_unit": 2e-7, "reciprocal": 1.2e-7}},
	} {
		t.Run(set.name, func(t *testing.T) {
			if mine == "generic" && set.name != mine || mine == "avx2" && set.name == "avx512" {
				t.Logf("not run: this processor's set is %s", mine)
				return
			}
			t.Parallel()
			program := filepath.Join(t.TempDir(), "accuracy")
			flags := append(set.flags, "-std=c++20", "-O2", fmt.Sprintf(`-DLANES="../../csrc/lanes_%s.h"`, set.name), filepath.Join("testdata", "accuracy.cpp"), "-o", program)
			out, err := exec.Command("g++", flags...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			out, err = exec.Command(program, "997").CombinedOutput()
			require.NoError(t, err)
			seen := 0
			for line := range strings.Lines(string(out)) {
				var name string
				var worst float64
				_, err := fmt.Sscan(line, &name, &worst)
				require.NoError(t, err)
				require.Contains(t, set.most, name)
				require.LessOrEqual(t, worst, set.most[name], name)
				require.Greater(t, worst, set.most[name]/3, "%s: what is stated is far from what is", name)
				seen++
			}
			require.Len(t, set.most, seen)
		})
	}
}
