package emulator

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// programs are the kernel files; each has a program in csrc that checks it.
var programs = []string{"pointwise", "batch", "input", "pseudo"}

func compiler(t *testing.T) string {
	t.Helper()
	for _, c := range []string{os.Getenv("CXX"), "c++", "g++"} {
		if p, err := exec.LookPath(c); c != "" && err == nil {
			return p
		}
	}
	t.Fatal("the emulator needs a C++ compiler: apt-get install g++")
	return ""
}

// compile builds the program that checks a kernel file of csrc, a folder like spml/csrc.
func compile(t *testing.T, csrc, name, optimise string) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, name)
	table, err := os.ReadFile(filepath.Join(csrc, "pointwise.h"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "losses.h"), lossHeaders(csrc, string(table)), 0o600))
	kernels := filepath.Join(csrc, "cuda")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, compiler(t), "-std=c++20", optimise, "-U_FORTIFY_SOURCE", "-Wall", "-Wextra",
		"-Wno-unknown-pragmas", "-Wno-unused-function", "-DEMULATOR_POISON", "-DGOSPML_EMULATED",
		"-fsanitize=alignment,bounds", "-fsanitize-undefined-trap-on-error", "-I"+filepath.Join(kernels, "emulator", "csrc"), "-I"+dir, "-x", "c++",
		filepath.Join(kernels, name+".cu"), filepath.Join(kernels, "emulator", "csrc", name+"_check.cpp"), "-o", program).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// TestKernels compares every kernel, with every loss, type, odd shape, mask and place in memory, with plain loops over
// the same formulas.
func TestKernels(t *testing.T) {
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			program := compile(t, filepath.Join("..", ".."), name, "-O1")
			compiled := time.Since(start)
			out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), " 0 wrong")
			t.Logf("%s (compiled in %.0f s, ran in %.0f s)", strings.TrimSpace(string(out)), compiled.Seconds(), (time.Since(start) - compiled).Seconds())
		})
	}
}

// broken is an edit of a kernel file that its program has to find.
type broken struct{ name, program, file, old, new string }

// What breaks on purpose.
var breaks = []broken{
	{"a chunk more than there is", "pointwise", "pointwise.cu", "chunk + kChunk <= l.n;", "chunk < l.n;"},
	{"one element less at the end", "pointwise", "pointwise.cu", "l.n - at < N ? l.n - at : N", "l.n - at < N ? l.n - at - 1 : N"},
	{"a wrong stride", "pointwise", "pointwise.cu", "(i * kThreads + static_cast<int>(threadIdx.x)) * N", "(i * (kThreads - 1) + static_cast<int>(threadIdx.x)) * N"},
	{"vectors at any address", "pointwise", "pack.cuh", "return reinterpret_cast<uintptr_t>(p) % (sizeof(T) * N) == 0;", "return p || true;"},
	{"labels swapped", "pointwise", "pointwise.cu", "static_cast<T>(ys.v[j]), static_cast<T>(ws.v[j])", "static_cast<T>(ws.v[j]), static_cast<T>(ys.v[j])"},
	{"a row's neighbour", "pointwise", "pack.cuh", "if (++column == classes)", "if (++column > classes)"},
	{"no scale", "pointwise", "pointwise.cu", "l.scale = l.reduction == 2 ? 1", "l.scale = l.reduction != 2 ? 1"},
	{"a count without its guard", "pointwise", "pointwise.cu", "terms > 0 ? 1 / terms : 0;\n}", "1 / terms;\n}"},
	{"no barrier before the sums of warps are read", "pointwise", "reduce.cuh", "sums[threadIdx.x / 32] = s;\n  __syncthreads();", "sums[threadIdx.x / 32] = s;"},
	{"no barrier before the sums of warps are written again", "batch", "reduce.cuh", "__syncthreads(); // of an earlier call", "// of an earlier call"},
	{"a barrier for some", "pointwise", "reduce.cuh", "__syncthreads(); // of an earlier call", "if (threadIdx.x < 64) __syncthreads();"},
	{"half a warp is summed", "pointwise", "reduce.cuh", "for (int d = 16; d; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);\n  __sync", "for (int d = 8; d; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);\n  __sync"},
	{"a shuffle for some", "pointwise", "reduce.cuh", "if (threadIdx.x < 32)\n", "if (threadIdx.x < 16)\n"},
	{"an order that depends on the blocks", "pointwise", "pointwise.cu", "if (threadIdx.x == 0) l.partial[blockIdx.x] = total;",
		"static int turn = 0;\n  if (threadIdx.x == 0) l.partial[turn++ % gridDim.x] = total;"},
	{"inputs swapped", "batch", "batch.cu", "x[k] = in[k][j];", "x[k] = in[Inputs - 1 - k][j];"},
	{"an output of its neighbour", "batch", "batch.cu", "out[k][j] = y[k];", "out[Outputs - 1 - k][j] = y[k];"},
	{"a late number forgotten", "batch", "batch.cu", "l.late[k].factor * *l.late[k].value", "*l.late[k].value"},
	{"no barrier before the row is overwritten", "batch", "batch.cu", "  __syncthreads();\n  const double each", "  const double each"},
	{"the anchor among its own positives", "batch", "batch.cu", "if (j == i) continue;", ""},
	{"an empty slot in the denominator", "batch", "batch.cu", "j != i && id[j] >= 0", "j != i"},
	{"the table of levels is not there yet", "input", "input.cu", "  __syncthreads();\n  const int64_t plane", "  const int64_t plane"},
	{"a flip by one too many", "input", "input.cu", "x = l.width - 1 - x", "x = l.width - x"},
	{"channels swapped", "input", "input.cu", "Last ? at % 3 : at / plane", "Last ? at / plane : at % 3"},
	{"rows for columns", "input", "input.cu", "image + x * 3 + c, l.width * 3)", "image + x * 3 + c, 3)"},
	{"no barrier after the bins are empty", "pseudo", "pseudo.cu", "bins[threadIdx.x] = 0;\n    __syncthreads();", "bins[threadIdx.x] = 0;"},
	{"ties to the higher class", "pseudo", "pseudo.cu", "votes & ((1u << lane) - 1)", "votes & ~((2u << lane) - 1)"},
	{"a strip's ties twice", "pseudo", "pseudo.cu", "before += all;", "before += 2 * all;"},
	{"no barrier between strips", "pseudo", "pseudo.cu", "before += all;\n    __syncthreads();", "before += all;"},
	{"the worst patch for the best", "pseudo", "pseudo.cu", "? best : worst;", "? worst : best;"},
	{"the count is not cleared", "pseudo", "pseudo.cu", "if (threadIdx.x == 0) free = 0;", ""},
	{"an index beyond shared memory", "pseudo", "pseudo.cu", "__shared__ unsigned of_warp[kThreadsOfPhoto / 32];", "__shared__ unsigned of_warp[kThreadsOfPhoto / 32 - 1];"},
}

var entry = regexp.MustCompile(`^  X\((\w+), .*\)( *\\)?\n$`)

// few leaves two losses in each table, which is what finding a break needs and what keeps compiling short.
func few(file, text string) string {
	if file != "pointwise.h" && file != "batchwise.h" {
		return text
	}
	keep := []string{"an", "an_masked", "epr", "role", "keep"}
	var out []string
	for line := range strings.Lines(text) {
		if m := entry.FindStringSubmatch(line); m != nil && !slices.Contains(keep, m[1]) {
			if m[2] != "" {
				continue
			}
			line = "\n" // ends the macro
		}
		out = append(out, line)
	}
	return strings.Join(out, "")
}

// TestBreaks: each break of the list is found, by a comparison or by the emulator itself, and none by the compiler. The
// kernels are compiled for each, so a change runs one of each kind, and the night all.
func TestBreaks(t *testing.T) {
	for _, b := range testroot.Part(t, breaks, func(b broken) string { return b.name }, "labels swapped", "a wrong stride", "no barrier before the row is overwritten",
		"a barrier for some", "channels swapped", "the worst patch for the best") {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			copyTree(t, filepath.Join("..", ".."), dir, func(file, text string) string {
				if file == b.file {
					require.Equal(t, 1, strings.Count(text, b.old), "the text to break in %s", file)
					return strings.Replace(text, b.old, b.new, 1)
				}
				return text
			})
			out, err := exec.CommandContext(t.Context(), compile(t, dir, b.program, "-O0"), "quick").CombinedOutput()
			require.Error(t, err, "nobody found it: %s", out)
			require.NotErrorIs(t, err, context.Canceled)
			require.Regexp(t, "wrong: |emulator: ", string(out))
			first, _, _ := strings.Cut(string(out), "\n")
			t.Log(first)
		})
	}
}

// copyTree copies the headers of spml/csrc and the kernels; edit changes those of cuda/.
func copyTree(t *testing.T, from, to string, edit func(file, text string) string) {
	t.Helper()
	for _, dir := range []string{".", "loss", "cuda", filepath.Join("cuda", "emulator", "csrc")} {
		require.NoError(t, os.MkdirAll(filepath.Join(to, dir), 0o755))
		entries, err := os.ReadDir(filepath.Join(from, dir))
		require.NoError(t, err)
		for _, e := range entries {
			if e.IsDir() || dir == "." && filepath.Ext(e.Name()) != ".h" {
				continue
			}
			text, err := os.ReadFile(filepath.Join(from, dir, e.Name()))
			require.NoError(t, err)
			s := string(text)
			switch dir {
			case ".":
				s = few(e.Name(), s)
			case "cuda":
				s = edit(e.Name(), s)
			}
			require.NoError(t, os.WriteFile(filepath.Join(to, dir, e.Name()), []byte(s), 0o600), fmt.Sprint(dir))
		}
	}
}
