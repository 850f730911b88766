package cuda

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// TestCode: the architectures are those that CMakeLists.txt compiles for, and every card gets what runs on it.
func TestCode(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testroot.Module(), "CMakeLists.txt"))
	require.NoError(t, err)
	var compiled []int
	m := regexp.MustCompile(`GOSPML_CUDA_ARCHS "([\d;]+)"`).FindSubmatch(text)
	require.NotNil(t, m)
	for a := range strings.SplitSeq(string(m[1]), ";") {
		n, err := strconv.Atoi(a)
		require.NoError(t, err)
		compiled = append(compiled, n)
	}
	require.Equal(t, compiled, Architectures)
	for capability, want := range map[[2]int]string{
		{7, 0}: "no kernels: they want compute capability 7.5", {7, 5}: "machine code of sm_75", {8,
			0}: "machine code of sm_80",
		{8, 6}: "machine code of sm_80", {8, 9}: "machine code of sm_80", {9, 0}: "machine code of sm_90",
		{10, 0}: "PTX of compute_90, which the driver compiles once", {12,
			0}: "PTX of compute_90, which the driver compiles once",
	} {
		how, ok := Code(capability[0], capability[1])
		require.Equal(t, want, how)
		require.Equal(t, capability[0] > 7 || capability[1] >= 5, ok)
	}
	require.Equal(t, "NVIDIA H200, 141.0 GB, compute capability 9.0 (machine code of sm_90)",
		Properties{Name: "NVIDIA H200", Major: 9, TotalMemory: 141e9}.String())
}
