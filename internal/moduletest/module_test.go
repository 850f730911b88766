package moduletest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/third_party/native"
)

// program is a service that knows nothing but the import path.
const program = `package main

import (
	"fmt"
	"os"

	"github.com/gospml/gospml/torch"
)

func main() {
	err := torch.Try(func() {
		x := torch.FromSlice([]float32{1, 2, 3, 4}, 2, 2).SetRequiresGrad(true)
		y := x.Matmul(x).Sum()
		y.Backward()
		fmt.Println(y.Item(), torch.ToSlice[float32](x.Grad()))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(4)
	}
}
`

// want follows from d sum(XX)/dX = 1·Xᵀ + Xᵀ·1.
const want = "54 [7 11 9 13]\n"

// packed is the version that the test serves.
var packed = module.Version{Path: "github.com/gospml/gospml", Version: "v0.0.1"}

// A service can use the module with `go get`, one setup command and nothing else. Libraries are taken from this
// checkout's cache, whose key holds every embedded source; the full form builds them from the installed module.
func TestModuleFromProxy(t *testing.T) {
	torch, err := native.FindTorch()
	require.NoError(t, err)
	dir := t.TempDir()
	proxy := filepath.Join(dir, "proxy")
	serve(t, proxy)

	service := filepath.Join(dir, "service")
	require.NoError(t, os.Mkdir(service, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(service, "main.go"), []byte(program), 0o644))
	s := &shell{t: t, dir: service, env: []string{
		"GOPROXY=" + proxies(t, proxy), "GOSUMDB=off", "GOWORK=off", "GOPRIVATE=", "GONOPROXY=",
		"GOMODCACHE=" + filepath.Join(dir, "mod"),
		// Without paths in the objects, the build cache serves the next run of this test too.
		"GOFLAGS=-modcacherw -trimpath",
		"GOSPML_CACHE=" + filepath.Join(dir, "cache"), "GOSPML_LIB=", "LIBTORCH=" + torch.Dir,
	}}
	s.must("go", "mod", "init", "example.com/service")
	s.must("go", "get", packed.Path+"@"+packed.Version)
	s.must("go", "mod", "tidy")
	s.must("go", "build", "-o", "service", ".")
	require.NotContains(t, s.must("go", "list", "-f", "{{.Dir}}", "-m", packed.Path), testroot.Module(), "the packed module is used")

	out, err := s.run(filepath.Join(service, "service"))
	require.Error(t, err, "there are no libraries yet")
	require.Contains(t, out, "run `"+native.SetupCommand+"`")
	require.Equal(t, 1, strings.Count(out, "\n"), "one sentence: %s", out)

	build := testroot.Nightly()
	if !build {
		built, err := native.LibDir()
		require.NoError(t, err)
		require.NoError(t, os.CopyFS(filepath.Join(dir, "cache", "lib", native.BuildKey()), os.DirFS(built)))
	}
	setup := strings.Fields(native.SetupCommand)
	out = s.must(setup[0], setup[1:]...)
	require.Contains(t, out, "from LIBTORCH")
	require.Equal(t, build, strings.Contains(out, "building "), out)
	require.Equal(t, want, s.must(filepath.Join(service, "service")))

	out = s.must(setup[0], setup[1:]...)
	require.NotContains(t, out, "building ")
	s.must("go", "mod", "verify")
}

// serve packs the working tree as a module zip, with the checks that proxies make, into a file proxy.
func serve(t *testing.T, proxy string) {
	t.Helper()
	at := filepath.Join(proxy, packed.Path, "@v")
	require.NoError(t, os.MkdirAll(at, 0o755))
	z, err := os.Create(filepath.Join(at, packed.Version+".zip"))
	require.NoError(t, err)
	require.NoError(t, modzip.Create(z, packed, sources(t)))
	require.NoError(t, z.Close())
	mod, err := os.ReadFile(filepath.Join(testroot.Module(), "go.mod"))
	require.NoError(t, err)
	info, err := json.Marshal(map[string]string{"Version": packed.Version, "Time": "2020-01-01T00:00:00Z"})
	require.NoError(t, err)
	for suffix, content := range map[string][]byte{".mod": mod, ".info": info} {
		require.NoError(t, os.WriteFile(filepath.Join(at, packed.Version+suffix), content, 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(at, "list"), []byte(packed.Version+"\n"), 0o644))
}

// proxies puts ours and the local module cache before the environment's own, so that nothing is downloaded twice.
func proxies(t *testing.T, ours string) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOPROXY", "GOMODCACHE").Output()
	require.NoError(t, err)
	env := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, env, 2)
	return fmt.Sprintf("file://%s,file://%s/cache/download,%s", ours, env[1], env[0])
}

// shell runs programs in a folder with some variables set.
type shell struct {
	t   *testing.T
	dir string
	env []string
}

func (s *shell) run(name string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.WithoutCancel(s.t.Context()), name, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *shell) must(name string, args ...string) string {
	s.t.Helper()
	out, err := s.run(name, args...)
	require.NoError(s.t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return out
}
