package cuda

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/gospml/gospml/cuda/internal/abi"
	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
)

// ErrNoDevice is the error where there is no NVIDIA card or no driver for it.
var ErrNoDevice = errors.New("no CUDA device")

// setup is what makes a machine with a card ready.
var setup = native.SetupCommand + " --gpu"

var load = sync.OnceValue(func() error {
	if reason := abi.Driver(); reason != "" {
		return fmt.Errorf("cuda: %w: %s", ErrNoDevice, reason)
	}
	if err := torch.Available(); err != nil { // which comes to open, where libtorch was not loaded yet
		return err
	}
	return open()
})

// open opens the CUDA part of a libtorch that is loaded. It must not call package torch.
var open = sync.OnceValue(func() error {
	t, err := native.FindTorch()
	if err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	if !t.HasGPU() {
		return fmt.Errorf("cuda: %s has no CUDA part; run `%s`", t.Dir, setup)
	}
	path, err := native.FindLib("libgospml-cuda.so")
	if err != nil {
		return fmt.Errorf("cuda: %s", strings.ReplaceAll(err.Error(), "`"+native.SetupCommand+"`", "`"+setup+"`"))
	}
	if err := abi.Open(t.PreloadGPU(), path); err != nil {
		return fmt.Errorf("cuda: %w; run `%s`", err, setup)
	}
	if v := abi.CompiledFor(); v != native.TorchVersion {
		return fmt.Errorf("cuda: %s was built for libtorch %s, not %s; run `%s`", path, v, native.TorchVersion, setup)
	}
	if r := abi.Ready(); r.Message != "" || r.W[0] == 0 {
		return errors.New("cuda: libtorch was used before its CUDA part was open, and looks for it only once: use package cuda or torch before other code that calls libtorch")
	}
	go relieve()
	return nil
})

// libtorch looks for its CUDA part once, at the first seed, convolution or backward, and starts autograd's threads for
// the devices that are there then: where there is a card, that part is opened as soon as libtorch is, also for a
// program that uses the card later. What fails is said when the card is asked for.
func init() {
	hook.Loaded(func() {
		if abi.Driver() == "" {
			_ = open()
		}
	})
}

// Available returns nil where a card can be used, else what is missing; see ErrNoDevice.
func Available() error { return load() }

// relieve gives the allocator, when it has found no room, the tensors that the program has dropped but not freed.
func relieve() {
	for abi.WaitPressure() {
		abi.AnswerPressure(hook.Collect())
	}
}

// DeviceCount is the number of cards that the driver shows, 0 where there is none.
func DeviceCount() int { return abi.DeviceCount() }

// call runs an entry of the library.
func call(what string, f func() abi.Result) (abi.Result, error) {
	if err := Available(); err != nil {
		return abi.Result{}, err
	}
	r := f()
	if r.Message == "" {
		return r, nil
	}
	e := &torch.Error{Kind: torch.KindRuntime, Op: "cuda: " + what, Msg: r.Message}
	if r.OutOfMemory {
		e.Kind = torch.KindOutOfMemory
	}
	return r, e
}

func do(what string, f func() abi.Result) error {
	_, err := call(what, f)
	return err
}
