//go:build cgo

package abi

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/third_party/native"
)

// Library is the file that holds the C ABI.
const Library = "libgospml-cpu.so"

// Loaded says which files Load opened; it is empty before.
var Loaded struct{ Torch, TorchSource, Library string }

// coreLibrary is the handle of our library once it is bound; the tables of dist and jit are asked of it.
var coreLibrary unsafe.Pointer

var load = sync.OnceValue(func() error {
	t, err := native.FindTorch()
	if err != nil {
		return &LoadError{trim(err)}
	}
	var core string
	defer limitSpinning()()
	for _, p := range t.Preload() {
		lib, msg := open(p)
		if lib == nil {
			return &LoadError{fmt.Sprintf("%s cannot be opened (%s); run `%s`", p, msg, native.SetupCommand)}
		}
		if filepath.Base(p) != "libtorch_cpu.so" {
			continue
		}
		core = p
		// Before our library: a foreign libtorch would end in undefined symbols.
		if v := torchVersion(torchABI(lib)); v != native.TorchVersion {
			return &LoadError{fmt.Sprintf("%s is libtorch %s, this module needs %s; %srun `%s`", p, v, native.TorchVersion, unset(t), native.SetupCommand)}
		}
	}
	if core == "" {
		return &LoadError{fmt.Sprintf("%s has no libtorch_cpu.so; run `%s`", t.Dir, native.SetupCommand)}
	}
	path, err := native.FindLib(Library)
	if err != nil {
		return &LoadError{trim(err)}
	}
	lib, msg := open(path)
	if lib == nil {
		return &LoadError{fmt.Sprintf("%s cannot be opened (%s); run `%s`", path, msg, native.SetupCommand)}
	}
	switch bind(lib, ABI) {
	case 1:
		return &LoadError{fmt.Sprintf("%s is not a gospml library (no gospml_torch_api); run `%s`", path, native.SetupCommand)}
	case 2:
		return &LoadError{fmt.Sprintf("%s has another ABI number than %d, it belongs to another version of gospml; run `%s`", path, ABI, native.SetupCommand)}
	}
	coreLibrary = lib
	if v := compiledFor(); v != native.TorchVersion {
		return &LoadError{fmt.Sprintf("%s was built for libtorch %s, not %s; run `%s`", path, v, native.TorchVersion, native.SetupCommand)}
	}
	setGoFunction()
	Loaded.Torch, Loaded.TorchSource, Loaded.Library = core, t.Source, path
	hook.Open()
	return nil
})

// Load opens libtorch and our library once and returns the same error ever after.
func Load() error { return load() }

// limitSpinning sets how long a waiting OpenMP thread spins before it sleeps, unless the environment says so itself;
// libgomp reads it while it is opened. Its own default (300,000 rounds, milliseconds) makes training four times slower
// as soon as anything else runs on the cores. The returned function takes the setting out of the environment again.
func limitSpinning() (restore func()) {
	const name, rounds = "GOMP_SPINCOUNT", "10000"
	if os.Getenv(name) != "" || os.Getenv("OMP_WAIT_POLICY") != "" {
		return func() {}
	}
	os.Setenv(name, rounds)
	return func() { os.Unsetenv(name) }
}

// torchVersion decodes aoti_torch_abi_version: one byte each for major, minor, patch from the top.
func torchVersion(v uint64) string {
	if v == 0 {
		return "of an unknown version"
	}
	return fmt.Sprintf("%d.%d.%d", v>>56, v>>48&0xff, v>>40&0xff)
}

// unset is the first half of what mends a libtorch that the environment names.
func unset(t *native.Torch) string {
	if t.Source == "LIBTORCH" {
		return "unset LIBTORCH and "
	}
	return ""
}

// trim takes the sentinel's words off an error of package native.
func trim(err error) string {
	return strings.TrimPrefix(err.Error(), native.ErrNotFound.Error()+": ")
}
