package emulator

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/spml/internal/oplib"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/torchtest"
)

// variable is set in processes that have the test device with spml's CUDA operators, emulated.
const variable = "GOSPML_EMULATED"

// Device gives what the body of a GPU test runs on: the card where there is one, else the test device with spml's CUDA
// operators, whose kernels are emulated. That one needs a process of its own, because it must be opened before the
// first backward: the test is then run there, its result is this test's, and here is false.
func Device(t testing.TB) (d torch.Device, here bool) {
	t.Helper()
	if cuda.DeviceCount() > 0 {
		if err := cuda.Available(); err != nil {
			t.Fatal(err)
		}
		return torch.CUDA(0), true
	}
	if os.Getenv(variable) != "" {
		d = torchtest.Device(t)
		library, err := operators()
		if err != nil {
			t.Fatal(err)
		}
		openOnce.Do(func() {
			if err := oplib.CPU(); err != nil {
				t.Fatal(err)
			}
			torchtest.LoadDeviceOps(t, library)
			oplib.Emulated.Store(true)
		})
		return d, true
	}
	if _, file, _, _ := runtime.Caller(0); !filepath.IsAbs(file) { // built with -trimpath, for another machine
		t.Skip("there is no card, and the sources of the kernels, which would be emulated, are not here")
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.count", "1")
	c.Env = append(os.Environ(), variable+"=1")
	out, err := c.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("with emulated kernels: %v\n%s", err, out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Fatalf("with emulated kernels it did not run:\n%s", out)
	}
	t.Log("no card: it passed with emulated kernels on the test device")
	return torch.Device{}, false
}

var openOnce sync.Once

// operators compiles spml/csrc/cuda for the test device, once a machine (two minutes of a compiler).
var operators = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	kernels := filepath.Dir(filepath.Dir(file))
	sum := sha256.New()
	csrc := filepath.Dir(kernels)
	for _, dir := range []string{csrc, filepath.Join(csrc, "loss"), kernels, filepath.Join(kernels, "emulator", "csrc"), filepath.Join(kernels, "emulator", "csrc", "c10", "cuda")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", fmt.Errorf("emulator: the sources of the kernels are not here: %w", err)
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); e.IsDir() || ext == ".md" || ext == ".go" || strings.HasSuffix(e.Name(), "_check.cpp") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s %d\n%s", e.Name(), len(text), text)
		}
	}
	table, err := os.ReadFile(filepath.Join(csrc, "pointwise.h"))
	if err != nil {
		return "", err
	}
	sources := map[string][]byte{"losses.h": lossHeaders(csrc, string(table))}
	for _, name := range []string{"pointwise.cu", "batch.cu", "input.cu", "pseudo.cu", "ops.cpp", "batch_ops.cpp", "input_ops.cpp", "pseudo_ops.cpp", "../problem.cpp"} {
		plain := strings.NewReplacer(".", "_", "/", "_").Replace(name) + ".cpp"
		sources[plain] = fmt.Appendf(nil, "#include %q // of sources with the hash %x\n", filepath.Join(kernels, name), sum.Sum(nil))
	}
	return native.CompileOps(context.Background(), "emulated", sources, "-O1", "-U_FORTIFY_SOURCE",
		"-Wno-unknown-pragmas", "-DGOSPML_EMULATED", "-DGOSPML_DEVICE=PrivateUse1",
		"-I.", "-I"+filepath.Join(kernels, "emulator", "csrc"))
})

var tableLine = regexp.MustCompile(`(?m)^  X\((\w+), \w+, [12], "`)

// lossHeaders includes the header of each pointwise loss, as CMakeLists.txt does.
func lossHeaders(csrc, table string) []byte {
	csrc, err := filepath.Abs(csrc)
	if err != nil {
		panic(err)
	}
	var out []byte
	for _, m := range tableLine.FindAllStringSubmatch(table, -1) {
		out = fmt.Appendf(out, "#include %q\n", filepath.Join(csrc, "loss", m[1]+".h"))
	}
	return out
}
