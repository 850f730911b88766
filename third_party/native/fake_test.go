package native

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakePip answers like python3 and like `python3 -m pip download`, from a folder of wheels. $FAKE_MODE makes it fail.
const fakePip = `#!/bin/sh
if [ "$1" = -c ]; then
  case "$2" in *sys.executable*) echo "$0";; *) echo "$FAKE_TORCH";; esac
  exit 0
fi
shift 2 # -m pip
if [ "$1" = --version ]; then echo "pip 99.0 from nowhere"; exit 0; fi
for a; do
  case "$a" in
    --dest=*) dest=${a#--dest=};;
    --requirement=*) req=$(cut -d= -f1 "${a#--requirement=}");;
  esac
done
echo "$req $*" >> "$FAKE_LOG"
wheel=$(ls "$FAKE_WHEELS" | grep "^$req-")
case "$FAKE_MODE" in
  offline) echo "WARNING: Retrying after connection broken by NewConnectionError"; echo "ERROR: No matching distribution found for $req" >&2; exit 1;;
  breaks) echo "Downloading $wheel"; echo "ERROR: connection reset" >&2; exit 1;;
  hang) echo half > "$TMPDIR/half.whl"; echo $$ > "$FAKE_LOG.pid"; exec sleep 600;;
esac
mkdir -p "$dest"
cp "$FAKE_WHEELS/$wheel" "$dest/"
case "$FAKE_MODE" in
  truncated) head -c 100 "$FAKE_WHEELS/$wheel" > "$dest/$wheel";;
  altered) printf X | dd of="$dest/$wheel" bs=1 seek=60 conv=notrunc 2>/dev/null;;
esac
exit 0
`

// world is a machine with an empty cache, a fake pip and two fake wheels.
type world struct {
	t      *testing.T
	dir    string
	cache  string
	log    string // one line for each download
	lock   *lock
	output bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.cache, w.log = filepath.Join(w.dir, "cache"), filepath.Join(w.dir, "pip.log")
	wheels, bin := filepath.Join(w.dir, "wheels"), filepath.Join(w.dir, "bin")
	writeFile(t, filepath.Join(bin, "python3"), fakePip, 0o755)
	big := strings.Repeat("libtorch ", 5000)
	torch := makeWheel(t, wheels, "torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl", map[string]string{
		"torch/lib/libtorch_cpu.so": big, "torch/lib/libtorch_cuda.so": "cuda", "torch/lib/libunwanted.so": "no",
		"torch/include/torch/csrc/api/include/torch/torch.h": "// header",
		"torch/version.py": "__version__ = '2.11.0+cu130'\n",
	})
	torch.Keep = map[string]keep{
		setCPU: {Files: map[string]int64{"torch/lib/libtorch_cpu.so": int64(len(big)), "torch/version.py": 29}, Trees: []string{"torch/include/"}, Unpacked: 45100},
		setGPU: {Files: map[string]int64{"torch/lib/libtorch_cuda.so": 4}, Unpacked: 4},
	}
	rt := makeWheel(t, wheels, "runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", map[string]string{
		"nvidia/cu13/lib/libcudart.so.13": "cudart", "nvidia/cu13/bin/nvcc": "#!", "nvidia/cu13/include/cuda.h": "//",
	})
	rt.Keep = map[string]keep{
		setCPU:  {Files: map[string]int64{"nvidia/cu13/lib/libcudart.so.13": 6}, Unpacked: 6},
		setNVCC: {Files: map[string]int64{"nvidia/cu13/bin/nvcc": 2}, Trees: []string{"nvidia/cu13/include/"}, Unpacked: 4},
	}
	cmake := makeWheel(t, wheels, "cmake-1-py3-none-manylinux2014_x86_64.whl", map[string]string{"cmake/data/bin/cmake": "#!/bin/sh\necho cmake version 3.31.6\n"})
	cmake.Keep = map[string]keep{setTools: {Files: map[string]int64{"cmake/data/bin/cmake": 36}, Unpacked: 36}}
	ninja := makeWheel(t, wheels, "ninja-1-py3-none-manylinux2014_x86_64.whl", map[string]string{"ninja-1.data/scripts/ninja": "#!/bin/sh\n"})
	ninja.Keep = map[string]keep{setTools: {Files: map[string]int64{"ninja-1.data/scripts/ninja": 10}, Unpacked: 10}}
	text, err := json.Marshal(&lock{
		Torch: TorchVersion, Dirs: map[string]string{setCPU: "libtorch-" + TorchVersion, setGPU: "libtorch-" + TorchVersion, setNVCC: "nvcc-1", setTools: "tools-1"},
		Wheels: []wheel{torch, rt, cmake, ninja},
	})
	require.NoError(t, err)
	w.lock, err = parseLock(text)
	require.NoError(t, err)
	for k, v := range map[string]string{
		"GOSPML_CACHE": w.cache, "GOSPML_LIB": "", "LIBTORCH": "", "PATH": bin + ":/usr/bin:/bin",
		"FAKE_WHEELS": wheels, "FAKE_LOG": w.log, "FAKE_MODE": "", "FAKE_TORCH": "",
	} {
		t.Setenv(k, v)
	}
	w.pretendBuilt()
	return w
}

// pretendBuilt puts files where the built libraries go, so that a set-up has nothing to compile.
func (w *world) pretendBuilt() {
	w.t.Helper()
	dir, err := LibDir()
	require.NoError(w.t, err)
	for _, name := range append(Libraries(), CUDALibraries()...) {
		writeFile(w.t, filepath.Join(dir, name), "built", 0o755)
	}
}

func (w *world) setup(o Options) (*Result, error) {
	w.output.Reset()
	return setup(w.t.Context(), &w.output, o, w.lock)
}

// downloads counts the times that pip was asked for a wheel.
func (w *world) downloads() int {
	b, err := os.ReadFile(w.log)
	if os.IsNotExist(err) {
		return 0
	}
	require.NoError(w.t, err)
	return bytes.Count(b, []byte("\n"))
}

// requireClean checks that nothing but finished folders and the lock file are in the cache.
func (w *world) requireClean(want ...string) {
	w.t.Helper()
	entries, err := os.ReadDir(w.cache)
	require.NoError(w.t, err)
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	require.ElementsMatch(w.t, append(want, "lib", "setup.lock"), have)
}

// requireSentence checks that an error is one line that names what to do next.
func requireSentence(t *testing.T, err error, parts ...string) {
	t.Helper()
	require.Error(t, err)
	require.NotContains(t, err.Error(), "\n")
	for _, p := range parts {
		require.ErrorContains(t, err, p)
	}
}

func writeFile(t testing.TB, path, content string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), mode))
	require.NoError(t, os.Chmod(path, mode))
}

// makeWheel writes a wheel and returns its lock entry, which keeps nothing yet.
func makeWheel(t testing.TB, dir, file string, members map[string]string) wheel {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range members {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(0o644)
		if strings.Contains(name, "/bin/") || strings.Contains(name, "/scripts/") {
			h.SetMode(0o744)
		}
		f, err := z.CreateHeader(h)
		require.NoError(t, err)
		_, err = fmt.Fprint(f, content)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	writeFile(t, filepath.Join(dir, file), b.String(), 0o644)
	sum := sha256.Sum256(b.Bytes())
	parts := strings.Split(file, "-")
	return wheel{Name: parts[0], Version: parts[1], File: file, SHA256: hex.EncodeToString(sum[:]), Size: int64(b.Len())}
}

func lockJSON(t testing.TB, l *lock) string {
	t.Helper()
	b, err := json.Marshal(l)
	require.NoError(t, err)
	return string(b)
}
