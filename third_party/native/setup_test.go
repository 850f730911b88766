package native

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test binary be the process that is killed in TestKilledDownload.
func TestMain(m *testing.M) {
	if os.Getenv("GOSPML_TEST_KEY") != "" {
		fmt.Print(BuildKey())
		os.Exit(0)
	}
	if path := os.Getenv("GOSPML_TEST_SETUP_WITH"); path != "" {
		text, err := os.ReadFile(path)
		if err == nil {
			var l *lock
			if l, err = parseLock(text); err == nil {
				_, err = setup(context.Background(), os.Stdout, Options{}, l)
			}
		}
		fmt.Println(err)
		os.Exit(1)
	}
	if script := os.Getenv("GOSPML_TEST_RUN"); script != "" {
		fmt.Println(run(context.Background(), exec.Command("sh", "-c", script)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestFetchOnce(t *testing.T) {
	w := newWorld(t)
	res, err := w.setup(Options{})
	require.NoError(t, err)
	require.True(t, res.Fetched)
	require.False(t, res.Built)
	require.Equal(t, "cache", res.Torch.Source)
	require.Equal(t, filepath.Join(w.cache, "libtorch-2.11.0", "torch"), res.Torch.Dir)
	require.Equal(t, 2, w.downloads())
	require.Contains(t, w.output.String(), "2 wheels")
	require.Contains(t, w.output.String(), "2.11.0+cu130, from cache")
	w.requireClean("libtorch-2.11.0")
	require.NoFileExists(t, filepath.Join(res.Torch.Dir, "lib", "libunwanted.so"))
	require.NoFileExists(t, filepath.Join(res.Torch.Dir, "lib", "libtorch_cuda.so"))

	found, err := FindTorch()
	require.NoError(t, err)
	require.Equal(t, res.Torch, found)

	res, err = w.setup(Options{})
	require.NoError(t, err)
	require.False(t, res.Fetched)
	require.Equal(t, 2, w.downloads(), "a second run downloads nothing")
}

// pip must be asked for the wheel's own tags, not those of the machine's Python.
func TestPipArguments(t *testing.T) {
	w := newWorld(t)
	_, err := w.setup(Options{})
	require.NoError(t, err)
	b, err := os.ReadFile(w.log)
	require.NoError(t, err)
	lines := strings.Split(string(b), "\n")
	for _, arg := range []string{"--no-deps", "--only-binary=:all:", "--python-version=311", "--implementation=cp", "--require-hashes"} {
		require.Contains(t, lines[0], " "+arg)
	}
	require.Contains(t, lines[0], "--abi=cp311 --platform=manylinux_2_28_x86_64 ")
	require.Contains(t, lines[1], "--abi=none --platform=manylinux2014_x86_64 --platform=manylinux_2_17_x86_64 ")
}

func TestFetchGPU(t *testing.T) {
	w := newWorld(t)
	_, err := w.setup(Options{})
	require.NoError(t, err)
	res, err := w.setup(Options{GPU: true})
	require.NoError(t, err)
	require.True(t, res.Fetched)
	require.Equal(t, 4, w.downloads(), "torch's wheel again for its CUDA part, the runtime's for nvcc")
	w.requireClean("libtorch-2.11.0", "nvcc-1")
	require.True(t, res.Torch.hasGPU())
	require.FileExists(t, filepath.Join(res.Torch.Dir, "lib", "libtorch_cpu.so"))
	st, err := os.Stat(filepath.Join(w.cache, "nvcc-1", "nvidia", "cu13", "bin", "nvcc"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), st.Mode())
	_, err = w.setup(Options{GPU: true})
	require.NoError(t, err)
	require.Equal(t, 4, w.downloads())
}

func TestForceFetchesAgain(t *testing.T) {
	w := newWorld(t)
	_, err := w.setup(Options{})
	require.NoError(t, err)
	lib := filepath.Join(w.cache, "libtorch-2.11.0", "torch", "lib", "libtorch_cpu.so")
	st, err := os.Stat(lib)
	require.NoError(t, err)
	writeFile(t, lib, strings.Repeat("?", int(st.Size())), 0o644) // damaged, with the right size
	_, fetched, err := getTorch(t.Context(), &w.output, w.lock, w.cache, Options{Force: true})
	require.NoError(t, err)
	require.True(t, fetched)
	b, err := os.ReadFile(lib)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(b, []byte("libtorch")))
}

func TestIncompleteCacheIsMended(t *testing.T) {
	w := newWorld(t)
	_, err := w.setup(Options{})
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(w.cache, "libtorch-2.11.0", "nvidia", "cu13", "lib", "libcudart.so.13")))
	res, err := w.setup(Options{})
	require.NoError(t, err)
	require.True(t, res.Fetched)
	require.FileExists(t, filepath.Join(w.cache, "libtorch-2.11.0", "nvidia", "cu13", "lib", "libcudart.so.13"))
}

func TestBadDownloadsAreRefused(t *testing.T) {
	for mode, parts := range map[string][]string{
		"truncated": {"torch-2.11.0-cp311", "has 100 bytes instead of", "run setup again"},
		"altered":   {"torch-2.11.0-cp311", "is not the locked file (SHA-256", "run setup again"},
		"offline":   {"No matching distribution found", "LIBTORCH"},
		"breaks":    {"connection reset", "run setup again", "LIBTORCH"},
	} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t)
			t.Setenv("FAKE_MODE", mode)
			_, err := w.setup(Options{})
			requireSentence(t, err, parts...)
			w.requireClean()
			if mode == "breaks" {
				require.Equal(t, downloadAttempts, w.downloads())
			}
			_, err = FindTorch()
			require.ErrorIs(t, err, ErrNotFound)

			t.Setenv("FAKE_MODE", "")
			_, err = w.setup(Options{})
			require.NoError(t, err)
			w.requireClean("libtorch-2.11.0")
		})
	}
}

// A wheel whose hash is right but whose content is not what the lock says is refused too.
func TestWheelWithoutLockedMember(t *testing.T) {
	w := newWorld(t)
	w.lock.Wheels[1].Keep[setCPU].Files["nvidia/cu13/lib/libcudart.so.13"] = 7
	_, err := w.setup(Options{})
	requireSentence(t, err, "member nvidia/cu13/lib/libcudart.so.13 has 6 bytes instead of 7")
	w.requireClean()
}

func TestWheelMemberOutsideFolder(t *testing.T) {
	dir := t.TempDir()
	wh := makeWheel(t, dir, "evil-1-py3-none-any.whl", map[string]string{"a/../../evil": "x"})
	wh.Keep = map[string]keep{setCPU: {Trees: []string{"a/"}}}
	err := unpackWheel(filepath.Join(dir, wh.File), &wh, filepath.Join(dir, "tree"), []string{setCPU})
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(dir, "evil"))
}

// A set-up that is killed while pip is writing leaves no process and nothing that is taken for libtorch.
func TestKilledDownload(t *testing.T) {
	w := newWorld(t)
	t.Setenv("FAKE_MODE", "hang")
	path := filepath.Join(w.dir, "test.lock")
	writeFile(t, path, lockJSON(t, w.lock), 0o644)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GOSPML_TEST_SETUP_WITH="+path)
	require.NoError(t, cmd.Start())
	pid := waitForPid(t, w.log+".pid")
	left, err := filepath.Glob(filepath.Join(w.cache, "*"+tempMark+"*"))
	require.NoError(t, err)
	require.Len(t, left, 1, "the download is under way")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()

	require.Eventually(t, func() bool { return !running(pid) }, 10*time.Second, 10*time.Millisecond, "pip outlived the set-up")
	_, err = FindTorch()
	require.ErrorIs(t, err, ErrNotFound)

	t.Setenv("FAKE_MODE", "")
	_, err = w.setup(Options{})
	require.NoError(t, err)
	w.requireClean("libtorch-2.11.0")
}

// waitForPid returns the process number that a program writes to a file.
func waitForPid(t *testing.T, path string) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		b, err := os.ReadFile(path)
		if err == nil {
			pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return pid > 0
	}, 20*time.Second, 10*time.Millisecond)
	return pid
}

// running reports whether the process exists and is no zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(b, []byte(") Z "))
}

func TestCancelledDownload(t *testing.T) {
	w := newWorld(t)
	t.Setenv("FAKE_MODE", "hang")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(500*time.Millisecond, cancel)
	_, err := setup(ctx, &w.output, Options{}, w.lock)
	require.ErrorIs(t, err, context.Canceled)
	w.requireClean()
}

func TestConcurrentSetups(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	fetched := make([]bool, 4)
	errs := make([]error, 4)
	for i := range fetched {
		wg.Go(func() {
			var out bytes.Buffer
			res, err := setup(t.Context(), &out, Options{}, w.lock)
			if errs[i] = err; err == nil {
				fetched[i] = res.Fetched
			}
		})
	}
	wg.Wait()
	n := 0
	for i := range fetched {
		require.NoError(t, errs[i])
		if fetched[i] {
			n++
		}
	}
	require.Equal(t, 1, n)
	require.Equal(t, 2, w.downloads())
}

func TestQuiet(t *testing.T) {
	w := newWorld(t)
	_, err := w.setup(Options{Quiet: true})
	require.NoError(t, err)
	require.Empty(t, w.output.String())
}

func TestLibtorchVariable(t *testing.T) {
	w := newWorld(t)
	t.Setenv("FAKE_MODE", "offline")
	own := filepath.Join(w.dir, "own")
	t.Setenv("LIBTORCH", own)
	_, err := w.setup(Options{})
	requireSentence(t, err, own, "libtorch_cpu.so", "unset it")
	require.ErrorIs(t, err, ErrNotFound)

	writeFile(t, filepath.Join(own, "lib", "libtorch_cpu.so"), "x", 0o644)
	_, err = w.setup(Options{})
	requireSentence(t, err, "no include folder", "unset it")

	writeFile(t, filepath.Join(own, "include/torch/csrc/api/include/torch/torch.h"), "", 0o644)
	writeFile(t, filepath.Join(own, "version.py"), "__version__ = '2.9.1+cpu'\n", 0o644)
	_, err = w.setup(Options{})
	requireSentence(t, err, "is libtorch 2.9.1+cpu, not 2.11.0")

	writeFile(t, filepath.Join(own, "version.py"), "__version__ = '2.11.0+cpu'\n", 0o644)
	res, err := w.setup(Options{})
	require.NoError(t, err)
	require.Equal(t, &Torch{Dir: own, Source: "LIBTORCH"}, res.Torch)
	require.Zero(t, w.downloads())

	_, err = w.setup(Options{GPU: true})
	requireSentence(t, err, "libtorch_cuda.so", "unset it")
}

func TestPythonTorch(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(w.dir, "site-packages", "torch")
	t.Setenv("FAKE_TORCH", dir)
	writeFile(t, filepath.Join(dir, "lib", "libtorch_cpu.so"), "x", 0o644)
	writeFile(t, filepath.Join(dir, "include/torch/csrc/api/include/torch/torch.h"), "", 0o644)
	writeFile(t, filepath.Join(dir, "version.py"), "__version__ = '2.11.0+cu130'\n", 0o644)
	res, err := w.setup(Options{})
	require.NoError(t, err)
	require.Equal(t, &Torch{Dir: dir, Source: "python"}, res.Torch)
	require.Contains(t, w.output.String(), "from python")
	require.Zero(t, w.downloads())

	// Found later without Python, also by the next set-up.
	t.Setenv("FAKE_TORCH", "")
	found, err := FindTorch()
	require.NoError(t, err)
	require.Equal(t, res.Torch, found)
	_, err = w.setup(Options{})
	require.NoError(t, err)
	require.Zero(t, w.downloads())

	// The installation is upgraded: it no longer counts, and setup says why and downloads.
	t.Setenv("FAKE_TORCH", dir)
	writeFile(t, filepath.Join(dir, "version.py"), "__version__ = '2.12.0'\n", 0o644)
	_, err = FindTorch()
	require.ErrorIs(t, err, ErrNotFound)
	res, err = w.setup(Options{})
	require.NoError(t, err)
	require.Contains(t, w.output.String(), "Python's torch is not used")
	require.Equal(t, "cache", res.Torch.Source)
	require.True(t, res.Fetched)
}

func TestNoPip(t *testing.T) {
	w := newWorld(t)
	t.Setenv("PATH", filepath.Join(w.dir, "nothing"))
	_, err := w.setup(Options{})
	requireSentence(t, err, "pip", "apt-get install -y python3-pip", "LIBTORCH")
	w.requireClean()
}

func TestUnwritableCache(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.dir, "file")
	writeFile(t, file, "", 0o644)
	t.Setenv("GOSPML_CACHE", filepath.Join(file, "cache"))
	_, err := w.setup(Options{})
	requireSentence(t, err, "set GOSPML_CACHE")
}

func TestCheckSpace(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, checkSpace(dir, 1000))
	requireSentence(t, checkSpace(dir, 1<<60), dir, "MB", "GOSPML_CACHE")
}
