package gpucheck

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/third_party/native"
)

// program stands for a test program: it lists its tests, and each does what its name says.
const program = `#!/bin/sh
case $1 in
-test.list)
	case $(basename "$0") in
	cuda.test) all="TestGPUDevice TestGPUPinned TestGPUOrderOfUse TestGPUGraph TestGPUFailedCapture TestGPUMemory TestGPUHooks TestOther" ;;
	train.test) all="TestGPUTrain TestGPUSpeed" ;;
	clip.test) all="TestGPUClipEqualsCPU" ;;
	*) all="TestGPUFused TestOther" ;;
	esac
	for t in $all; do
		echo $t | grep -E "$2"
	done
	echo "ok  	0.1s" ;;
-test.run)
	case $2 in
	*Pinned*) echo "panic: in the test"; exit 2 ;;
	*Memory*) sleep 60 ;;
	*Hooks*) echo "--- SKIP: TestGPUHooks (0.00s)" ;;
	*FailedCapture*) echo "--- FAIL: TestGPUFailedCapture (0.00s)"; exit 1 ;;
	*) [ "$2" = '^$' ] || echo "--- PASS: $2 (0.00s)" ;;
	esac
	case "$*" in *test.bench*) printf 'goos: linux\nBenchmarkGPULosses/an/float32-8 \t 50\t 123.4 ns/op\t 0.81 of-copy\nPASS\n' ;; esac ;;
esac
`

// bundle is a folder like that of make gpu-check, and a PATH in which a driver's tool is.
func bundle(t *testing.T) (dir, path string) {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	put := func(file, text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o700)) }
	for _, name := range []string{"cuda", "loss", "input", "label", "train", "clip"} {
		put(filepath.Join(dir, name+".test"), program)
	}
	put(filepath.Join(dir, "golden"), "#!/bin/sh\necho \"433 cases of $*\"\n")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lib"), 0o700))
	put(filepath.Join(dir, "lib", "libturbojpeg.so.0"), "")
	put(filepath.Join(bin, "nvidia-smi"), "#!/bin/sh\necho 'NVIDIA of a test'\n")
	script, err := os.ReadFile(filepath.Join(testroot.Module(), ".ci", "gpu-run.sh"))
	require.NoError(t, err)
	put(filepath.Join(dir, "run.sh"), string(script))
	return dir, bin + ":" + os.Getenv("PATH")
}

func run(t *testing.T, dir, path string, env []string, groups ...string) (output string, code int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(dir, "run.sh"), groups...)
	c.Env = append(append(os.Environ(), "PATH="+path, "PYTHON=false", "LIMIT=2", "OUT="), env...)
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// TestRunsToTheEnd: a test that panics, fails or hangs ends alone; each has a line, a log and its time.
func TestRunsToTheEnd(t *testing.T) {
	dir, path := bundle(t)
	results := filepath.Join(t.TempDir(), "a folder", "results")
	out, code := run(t, dir, path, []string{"OUT=" + results})
	require.Equal(t, 1, code, out)
	summary, err := os.ReadFile(filepath.Join(results, "summary.tsv"))
	require.NoError(t, err)
	got := map[string]string{}
	for line := range strings.Lines(string(summary)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		require.Len(t, f, 4, line)
		got[f[0]+" "+f[1]] = f[2]
	}
	for name, want := range map[string]string{
		"facts nvidia-smi": "pass", "facts turbojpeg": "pass", "facts TestGPUDevice": "pass", "facts TestGPUPinned": "fail", "order TestGPUOrderOfUse": "pass",
		"kernels TestGPUFused": "pass", "kernels golden-float64": "pass", "kernels golden-float32": "pass", "graphs TestGPUGraph": "pass", "graphs TestGPUFailedCapture": "fail",
		"memory TestGPUMemory": "limit", "train TestGPUHooks": "skip", "train TestGPUTrain": "pass", "clip TestGPUClipEqualsCPU": "pass", "figures losses": "pass",
		"figures losses_pytorch": "skip", "figures TestGPUSpeed": "pass",
	} {
		require.Equal(t, want, got[name], "%s\n%s", name, out)
	}
	require.NotContains(t, out, "TestOther")
	require.Contains(t, out, "panic: in the test", "the last words of what failed")
	log, err := os.ReadFile(filepath.Join(results, "kernels", "golden-float64.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "check --device cuda --impl fused --dtype float64")
	table, err := os.ReadFile(filepath.Join(results, "losses.csv"))
	require.NoError(t, err)
	require.Equal(t, "BenchmarkGPULosses/an/float32-8,123.4,ns/op,0.81,of-copy\n", string(table))
}

// TestGroups: one by name, beside the script; a name that there is not.
func TestGroups(t *testing.T) {
	dir, path := bundle(t)
	out, code := run(t, dir, path, nil, "order", "clip")
	require.Zero(t, code, out)
	summary, err := os.ReadFile(filepath.Join(dir, "out", "summary.tsv"))
	require.NoError(t, err)
	require.NotContains(t, string(summary), "kernels")
	out, code = run(t, dir, path, nil, "kernel")
	require.Equal(t, 64, code)
	require.Contains(t, out, "there is no group kernel; there are: facts order kernels graphs memory train clip figures")
}

// build puts a program of the bundle in its place.
func build(t *testing.T, dir, name string, arguments ...string) {
	t.Helper()
	out := filepath.Join(dir, name)
	require.NoError(t, os.RemoveAll(out))
	c := exec.CommandContext(t.Context(), "go", append(append(arguments[:len(arguments)-1:len(arguments)-1], "-o", out),
		arguments[len(arguments)-1])...)
	c.Dir = testroot.Module()
	text, err := c.CombinedOutput()
	require.NoError(t, err, "%s", text)
}

// libraries puts this machine's libraries into the bundle's folder.
func libraries(t *testing.T, dir string) {
	t.Helper()
	libs, err := native.LibDir()
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "lib")))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "lib"), os.DirFS(libs)))
}

// TestWithoutGPU: the tests of package cuda themselves, which skip here, end the script with 2; behind a driver that
// shows a card, but with a libtorch without its CUDA part, they fail with what to do, and the script goes on to its
// end.
func TestWithoutGPU(t *testing.T) {
	dir, path := bundle(t)
	build(t, dir, "cuda.test", "test", "-c", "./cuda")
	libraries(t, dir)
	text, code := run(t, dir, strings.SplitN(path, ":", 2)[1], []string{"LIMIT=60"}, "order", "graphs", "memory")
	require.Equal(t, 2, code, text)
	names := []string{"TestGPUOrderOfUse", "TestGPUGraph", "TestGPUFailedCapture", "TestGPURecorded", "TestGPUMemory",
		"TestGPUPressure"}
	for _, name := range names {
		require.Regexp(t, name+`\tskip\t`, text)
	}
	require.Contains(t, text, "no GPU was used")

	torch, err := native.FindTorch()
	require.NoError(t, err)
	if torch.HasGPU() {
		t.Log("libtorch has its CUDA part here: a driver that only says that it is there would not do")
		return
	}
	driver := t.TempDir()
	source := filepath.Join(driver, "driver.c")
	require.NoError(t,
		os.WriteFile(source,
			[]byte("int cuInit(unsigned f) { return 0; }\nint cuDeviceGetCount(int* n) { *n = 1; return 0; }\n"), 0o600))
	out, err := exec.CommandContext(t.Context(), "g++", "-x", "c", "-shared", "-fPIC", source, "-o",
		filepath.Join(driver, "libcuda.so.1")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, code = run(t, dir, path, []string{"LIMIT=60", "LD_LIBRARY_PATH=" + driver, "OUT=" + t.TempDir()}, "order",
		"graphs", "memory")
	require.Equal(t, 2, code, "nothing passed: %s", text)
	for _, name := range names {
		require.Regexp(t, name+`\tfail\t`, text)
	}
	require.Contains(t, text, "has no CUDA part; run `")
}

// TestDryRun: with DRY the figures' own programs run here, small and on the CPU, and the Python peers say what they
// would measure; every table is there with its columns.
func TestDryRun(t *testing.T) {
	dir, path := bundle(t)
	module := testroot.Module()
	build(t, dir, "loss.test", "test", "-c", "./spml/loss")
	build(t, dir, "side", "build", "./bench/side")
	libraries(t, dir)
	for _, peer := range []string{"losses_cuda", "loss_forms", "train_cuda", "lac", "clip_cuda", "damp_cuda"} {
		text, err := os.ReadFile(filepath.Join(module, "bench", "peers", peer+".py"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, peer+".py"), text, 0o600))
	}
	results := t.TempDir()
	python := os.Getenv("PEER_PYTHON") // with torch, torchvision and transformers: then the peers run too, tiny
	if python == "" {
		python = "python3"
	}
	text, code := run(t, dir, path, []string{"DRY=1", "PYTHON=" + python, "LIMIT=60", "OUT=" + results}, "figures")
	require.Zero(t, code, text)
	for name, want := range map[string]string{
		"losses.csv":         "BenchmarkGPULosses/copy/float32",
		"losses_pytorch.csv": "loss,dtype,form,us,of_copy",
		"train.csv":          "what,size,batch,precision,ms,images_per_s",
		"train_pytorch.csv":  "what,size,batch,precision,ms,images_per_s",
		"lac.csv":            "case,threads,rounds,ours_s,peer_s",
		"damp.csv":           "what,batch,precision,photos_per_s,views_per_s",
		"damp_pytorch.csv":   "what,batch,precision,photos_per_s,views_per_s",
		"clip.csv":           "model,batch,form,ours_ms,peer,peer_ms,ratio",
	} {
		table, err := os.ReadFile(filepath.Join(results, name))
		require.NoError(t, err, text)
		require.Contains(t, string(table), want, name)
		require.Regexp(t, "would measure", text)
	}
	for _, row := range []string{"mlp graph", "small_cnn  32  4  bf16", "jpegs", "BenchmarkGPULosses/gpr/bfloat16",
		"ResNet-50|resnet50 at 448", "ViT-L/14", "LAC's step"} {
		require.Regexp(t, row, text)
	}
}
