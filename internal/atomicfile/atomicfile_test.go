package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// names lists the folder's entries, hidden ones too.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func TestWriteFileCreatesAndReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	require.NoError(t, WriteBytes(path, 0o600, []byte("one")))
	require.Equal(t, "one", content(t, path))
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), st.Mode().Perm())

	big := bytes.Repeat([]byte("0123456789"), 100_000) // several buffers
	require.NoError(t, WriteFile(path, 0o600, func(w io.Writer) error {
		for i := 0; i < len(big); i += 1000 {
			if _, err := w.Write(big[i : i+1000]); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(t, string(big), content(t, path))
	require.Equal(t, []string{"a"}, inFolder(t, dir))
}

func TestExistingModeIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.NoError(t, os.Chmod(path, 0o666)) // more than a usual umask lets through
	require.NoError(t, WriteBytes(path, 0o600, []byte("new")))
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o666), st.Mode().Perm())
}

func TestSymbolicLinkIsFollowed(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	real := filepath.Join(other, "real")
	require.NoError(t, os.WriteFile(real, []byte("old"), 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(real, link))
	require.NoError(t, WriteBytes(link, 0o600, []byte("new")))
	require.Equal(t, "new", content(t, real))
	st, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, st.Mode()&fs.ModeSymlink)

	require.NoError(t, os.Remove(real))
	require.ErrorContains(t, WriteBytes(link, 0o600, nil), "leads nowhere")
}

func TestLongNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("n", 255))
	require.NoError(t, WriteBytes(path, 0o600, []byte("x")))
	require.Equal(t, "x", content(t, path))
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, c := range []struct {
		path, want string
		is         error
	}{
		{"", "path is empty", nil},
		{dir, "not a regular file", nil},
		{fifo, "not a regular file", nil},
		{"/dev/null", "not a regular file", nil},
		{filepath.Join(plain, "x"), "not a directory", syscall.ENOTDIR},
		{filepath.Join(dir, "absent", "x"), "folder " + filepath.Join(dir, "absent"), fs.ErrNotExist},
	} {
		err := WriteBytes(c.path, 0o600, []byte("x"))
		require.ErrorContains(t, err, c.want, c.path)
		require.ErrorContains(t, err, "writing "+c.path)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, c.path)
		}
	}
	require.ElementsMatch(t, []string{"plain", "fifo"}, inFolder(t, dir))
}

func TestUnwritableFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o644))
	require.NoError(t, os.Chmod(dir, 0o555))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	defer os.Chmod(dir, 0o755)

	result := make(chan error)
	go func() {
		if os.Geteuid() == 0 { // root may write anywhere: this thread stops being root for files, and ends with the goroutine
			runtime.LockOSThread()
			syscall.Setfsuid(65534)
		}
		result <- WriteBytes(path, 0o644, []byte("new"))
	}()
	err := <-result
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, "cannot create a file in folder "+dir)
	require.NotContains(t, err.Error(), ".tmp-")
	require.Equal(t, "old", content(t, path))
}

func TestCallbackFailureKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	boom := errors.New("boom")
	err := WriteFile(path, 0o600, func(w io.Writer) error {
		w.Write(make([]byte, 2*bufferSize))
		return boom
	})
	require.ErrorIs(t, err, boom)
	require.Panics(t, func() {
		WriteFile(path, 0o600, func(w io.Writer) error { panic("boom") })
	})
	require.Equal(t, "old", content(t, path))
	require.Equal(t, []string{"a"}, inFolder(t, dir))
}

// faulty fails the call number at (counted over all calls that can fail) with err.
type faulty struct {
	system
	at, calls int
	err       error
	failed    string
}

func (s *faulty) fail(call string) error {
	s.calls++
	if s.calls-1 == s.at {
		s.failed = call
		return s.err
	}
	return nil
}

func (s *faulty) Create(path string, perm fs.FileMode) (file, error) {
	if err := s.fail("create"); err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f, err := s.system.Create(path, perm)
	return &faultyFile{f, s}, err
}

func (s *faulty) Rename(from, to string) error {
	if err := s.fail("rename"); err != nil {
		return err
	}
	return s.system.Rename(from, to)
}

func (s *faulty) SyncDir(dir string) error {
	if err := s.fail("syncdir"); err != nil {
		return err
	}
	return s.system.SyncDir(dir)
}

type faultyFile struct {
	file
	sys *faulty
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.sys.fail("write"); err != nil {
		n, _ := f.file.Write(p[:len(p)/2]) // a full disk takes a part first
		return n, err
	}
	return f.file.Write(p)
}

func (f *faultyFile) Chmod(m fs.FileMode) error {
	if err := f.sys.fail("chmod"); err != nil {
		return err
	}
	return f.file.Chmod(m)
}

func (f *faultyFile) Sync() error {
	if err := f.sys.fail("sync"); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *faultyFile) Close() error {
	err := f.sys.fail("close")
	return errors.Join(f.file.Close(), err)
}

// TestEveryCallMayFail lets each single call fail in turn with a full disk and an input/output error.
func TestEveryCallMayFail(t *testing.T) {
	newContent := strings.Repeat("new ", bufferSize/2)
	for _, code := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		seen := map[string]bool{}
		for at := 0; ; at++ {
			dir := t.TempDir()
			path := filepath.Join(dir, "a")
			require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
			sys := &faulty{at: at, err: code}
			err := replace(path, 0o600, func(w io.Writer) error {
				_, err := io.WriteString(w, newContent[:10])
				if err == nil {
					_, err = io.WriteString(w, newContent[10:])
				}
				return err
			}, sys)
			require.Equal(t, []string{"a"}, names(t, dir), "call %d", at)
			if sys.failed == "" {
				require.NoError(t, err)
				require.Equal(t, newContent, content(t, path))
				break
			}
			seen[sys.failed] = true
			require.ErrorIs(t, err, code)
			if sys.failed == "syncdir" {
				require.Equal(t, newContent, content(t, path))
				require.ErrorContains(t, err, "in place")
			} else {
				require.Equal(t, "old", content(t, path), "call %d (%s)", at, sys.failed)
			}
		}
		for _, call := range []string{"create", "write", "chmod", "sync", "close", "rename", "syncdir"} {
			require.True(t, seen[call], "%s was never made to fail", call)
		}
	}
}

// TestKill ends a process that rewrites one file in a loop at odd moments: the file is always whole.
func TestKill(t *testing.T) {
	if path := os.Getenv("ATOMICFILE_KILL"); path != "" {
		for i := 0; ; i++ {
			if err := WriteBytes(path, 0o600, version(i)); err != nil {
				panic(err)
			}
			if i == 0 {
				fmt.Println("started")
			}
		}
	}
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.WriteFile(path, version(0), 0o600))
	for kill := range 15 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
		cmd.Env = append(os.Environ(), "ATOMICFILE_KILL="+path)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = out.Read(make([]byte, 8))
		require.NoError(t, err)
		time.Sleep(time.Duration(kill) * 1700 * time.Microsecond)
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		got := content(t, path)
		require.Len(t, got, len(version(0)))
		require.Equal(t, strings.Repeat(got[:8], len(got)/8), got, "a mixture after kill %d", kill)
	}
	// The next process that writes there removes what the killed ones left, and nothing else.
	dir := filepath.Dir(path)
	strange := []string{".a.tmp-", ".a.tmp-UPPER", "a.tmp-1", ".a.tmp-12345678901234", ".tmp"}
	for _, name := range append(strange, ".a.tmp-0left") {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, os.Symlink(path, filepath.Join(dir, ".a.tmp-link")))
	require.NoError(t, WriteFile(path, 0o600, func(w io.Writer) error {
		swept.Clear() // as another process would, while this one writes
		sweep(dir)
		_, err := w.Write(version(0))
		return err
	}))
	require.ElementsMatch(t, append(strange, "a", ".a.tmp-link"), inFolder(t, dir))
	require.Equal(t, string(version(0)), content(t, path))
}

// TestManySweepers: writers and sweepers of one folder do not take each other's files.
func TestManySweepers(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 200 {
				swept.Clear()
				if err := WriteBytes(filepath.Join(dir, fmt.Sprint(i)), 0o600, []byte("content")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, inFolder(t, dir), 8)
}

// TestAnyUmask: a file that everybody may write is made under no umask.
func TestAnyUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "a")
	require.NoError(t, WriteBytes(path, 0o666, nil))
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o664), st.Mode().Perm())
}

func inFolder(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func version(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%08d", i), 40_000) }
