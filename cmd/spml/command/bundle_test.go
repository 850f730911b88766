//go:build linux

package command

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBundle runs a bundle where there is nothing but glibc: no shell, no /proc, no C++ library, no libtorch, no Python.
func TestBundle(t *testing.T) {
	dir := tinySet(t, 2)
	run, root := filepath.Join(dir, "run"), filepath.Join(dir, "root")
	code, _, stderr := spml(t, nil, "train", "--data", dir, "--method", "an", "--backbone", "resnet18", "--image-size", "32", "--epochs", "1", "--run", run)
	require.Zero(t, code, stderr)
	program := filepath.Join(dir, "spml")
	out, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput()
	require.NoError(t, err, string(out))
	require.NoError(t, os.Mkdir(root, 0o755))

	out, err = exec.Command(program, "bundle", run, filepath.Join(root, "app")).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `\d+ MB; needs Linux with glibc 2\.\d+ or newer\nfirst prediction after \d`, string(out))
	size, err := folderSize(filepath.Join(root, "app"))
	require.NoError(t, err)
	require.Less(t, size, int64(600e6))
	require.FileExists(t, filepath.Join(root, "app", "Dockerfile"))
	out, err = exec.Command(program, "bundle", run, filepath.Join(root, "app")).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "exists already")

	copyGLIBC(t, program, root)
	photo, err := os.ReadFile(filepath.Join(dir, "images", "01.png"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "photo.png"), photo, 0o644))
	inRoot := func(args ...string) (string, error) {
		cmd := exec.Command("/app/spml", args...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/none"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	there, err := inRoot("predict", "/app/model", "/photo.png", "--format", "csv")
	require.NoError(t, err, there)
	_, here, _ := spml(t, nil, "predict", run, filepath.Join(dir, "images", "01.png"), "--format", "csv")
	_, there, _ = strings.Cut(there, "photo.png,")
	_, here, _ = strings.Cut(here, "01.png,")
	require.Equal(t, here, there)
	require.NotEmpty(t, there)

	require.NoError(t, os.Rename(filepath.Join(root, "app", "libtorch"), filepath.Join(root, "elsewhere")))
	said, err := inRoot("predict", "/app/model", "/photo.png")
	require.Error(t, err, "the libtorch beside the program was not the one that ran")
	require.Contains(t, said, "GOSPML_CACHE")
}

// copyGLIBC copies the loader of a program and glibc's libraries, and nothing else, into a root.
func copyGLIBC(t *testing.T, program, root string) {
	t.Helper()
	f, err := elf.Open(program)
	require.NoError(t, err)
	defer f.Close()
	interp, err := f.Section(".interp").Data()
	require.NoError(t, err)
	loader := strings.TrimRight(string(interp), "\x00")
	real, err := filepath.EvalSymlinks(loader)
	require.NoError(t, err)
	lib := filepath.Dir(real) // glibc's libraries lie beside its loader
	for to, from := range map[string]string{
		loader: real, lib + "/libc.so.6": lib + "/libc.so.6", lib + "/libm.so.6": lib + "/libm.so.6", lib + "/libdl.so.2": lib + "/libdl.so.2",
		lib + "/libpthread.so.0": lib + "/libpthread.so.0", lib + "/librt.so.1": lib + "/librt.so.1", lib + "/libutil.so.1": lib + "/libutil.so.1",
	} {
		b, err := os.ReadFile(from)
		require.NoError(t, err)
		to = filepath.Join(root, to)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755))
		require.NoError(t, os.WriteFile(to, b, 0o755))
	}
}
