//go:build linux

package command

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/semver"
)

// TestBundle runs a bundle where there is nothing but glibc: no shell, no /proc, no C++ library, no libtorch, no
// Python.
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

	app := filepath.Join(root, "app")
	oldSystem(t, app)
	// Here the system's C++ runtime is newer than GCC 11's; in the root below there is none.
	cmd := exec.Command(filepath.Join(app, "spml"), "predict", filepath.Join(app, "model"), filepath.Join(dir, "images", "01.png"))
	cmd.Env = []string{"LD_DEBUG=files", "PATH=/none"}
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "libstdc++.so.6")
	require.NotContains(t, string(out), filepath.Join("lib", "cxx"))

	requireLicences(t, filepath.Join(root, "app"))

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

// oldSystem reads which versions of the system's symbols everything in a bundle imports, but the C++ runtime that older
// systems do not take: RHEL 9 and Ubuntu 22.04 have glibc 2.34 and the libstdc++ of GCC 11.
func oldSystem(t *testing.T, app string) {
	t.Helper()
	read := 0
	require.NoError(t, filepath.WalkDir(app, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(filepath.Dir(path)) == "cxx" {
			return err
		}
		f, err := elf.Open(path)
		if err != nil {
			return nil // no program or library
		}
		defer f.Close()
		read++
		needs, err := f.DynamicVersionNeeds()
		for _, n := range needs {
			for _, v := range n.Needs {
				for _, most := range []string{"GLIBC_2.34", "GLIBCXX_3.4.29", "CXXABI_1.3.13"} {
					name, numbers, _ := strings.Cut(most, "_")
					if own, of, _ := strings.Cut(v.Dep, "_"); own == name && of != "PRIVATE" {
						require.LessOrEqual(t, semver.Compare("v"+fill(of), "v"+fill(numbers)), 0, "%s wants %s of %s", path, v.Dep, n.Name)
					}
				}
			}
		}
		return err
	}))
	require.GreaterOrEqual(t, read, 9)
}

// fill makes three numbers of one or two.
func fill(version string) string {
	return version + strings.Repeat(".0", 2-strings.Count(version, "."))
}

// requireLicences: every file of a bundle is in its list with its hash, a licence, and texts that are there.
func requireLicences(t *testing.T, dir string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "spdx.json"))
	require.NoError(t, err)
	var d struct {
		Version string `json:"spdxVersion"`
		Files   []struct {
			Name      string `json:"fileName"`
			Concluded string `json:"licenseConcluded"`
			Comment   string
			Checksums []struct {
				Algorithm string
				Value     string `json:"checksumValue"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(b, &d))
	require.Equal(t, "SPDX-2.3", d.Version)
	listed := map[string]bool{"./spdx.json": true}
	texts := 0
	for _, f := range d.Files {
		listed[f.Name] = true
		content, err := os.ReadFile(filepath.Join(dir, f.Name))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%x", sha256.Sum256(content)), f.Checksums[1].Value, f.Name)
		require.NotContains(t, f.Concluded, "NOASSERTION", f.Name)
		require.NotEmpty(t, f.Concluded, f.Name)
		if strings.HasPrefix(f.Name, "./licences/") || strings.Contains(f.Name, ".dist-info/") {
			continue
		}
		names, ok := strings.CutPrefix(f.Comment, "licence texts: ")
		require.True(t, ok, "%s has no licence text", f.Name)
		for _, name := range strings.Split(names, ", ") {
			st, err := os.Stat(filepath.Join(dir, name))
			require.NoError(t, err, f.Name)
			require.Greater(t, st.Size(), int64(100), name)
			texts++
		}
	}
	require.Greater(t, texts, 30)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			name, _ := filepath.Rel(dir, path)
			require.True(t, listed["./"+name], "%s is not in spdx.json", name)
		}
		return err
	}))
	for _, name := range []string{"gospml", "go", "gcc-runtime", "libjpeg-turbo", "clip-vocabulary", "modules/github.com_spf13_cobra"} {
		require.FileExists(t, filepath.Join(dir, "licences", name+".txt"))
	}
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
