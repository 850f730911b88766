package torchtest

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
)

//go:embed csrc/device.cpp
var deviceSource []byte

var openDevice = sync.OnceValue(func() error {
	if hook.Started() {
		return errors.New("the test device must be opened before the first backward of the process, which starts autograd's threads for the devices that are there; open it in TestMain or have a package of its own")
	}
	library, err := native.CompileOps(context.Background(), "testdevice", map[string][]byte{"device.cpp": deviceSource})
	if err != nil {
		return err
	}
	return torch.LoadOps(library)
})

// Device gives a device that is not the CPU on machines that have nothing else, to see that code puts its tensors where
// they belong. Its kernels are the CPU's and give the same bits, on one thread, but as on a card
//   - an operator that gets tensors of it and of the CPU, or of two such devices, fails and names itself, except for numbers (CPU tensors without
//     dimensions) where a card takes them too, and positions for index;
//   - its memory is out of reach: View, CopyFrom and kernels that were not written for it fail;
//   - random numbers come from the device's generator (the default one of the CPU), never from a Generator of the CPU's;
//   - backward runs on a thread of the device.
//
// There are two, with the indices 0 and 1. Autocast knows it. It is compiled when it is first asked for (half a minute
// of a compiler, once a machine), and must be opened before the first backward of the process.
func Device(t testing.TB) torch.Device {
	t.Helper()
	if err := openDevice(); err != nil {
		t.Fatalf("torchtest: %v", err)
	}
	return torch.Device{Type: torch.DevicePrivateUse1, Index: 0}
}

// Questions to the device's library.
const (
	askBytes = iota
	askHostCopies
	askRefusals
	setCapacity
	askPeak
	setWithinReach
	askWaits
	askUploads
	askUploaded
	askCollectives
)

func ask(what, value int) int {
	return torch.Call("testdevice::ask", what, value)[0].(int)
}

// DeviceBytes are the bytes that tensors of the test devices hold.
func DeviceBytes() int { return ask(askBytes, 0) }

// DevicePeak is the most that they held at once since DevicePeak was called last.
func DevicePeak() int { return ask(askPeak, 0) }

// DeviceReads counts how often values of the test devices came to the CPU: copies, and numbers read with Item. On a
// card each of them waits for all work that was queued before.
func DeviceReads() int { return ask(askHostCopies, 0) }

// DeviceWaits counts what on a card waits for all work that was queued before: copies from and to the CPU that do not
// say non_blocking, numbers read with Item, and operators whose result has a size that depends on values (nonzero).
func DeviceWaits() int { return ask(askWaits, 0) }

// DeviceUploads counts the copies from the CPU to the test devices, and their bytes.
func DeviceUploads() (copies, bytes int) { return ask(askUploads, 0), ask(askUploaded, 0) }

// DeviceCollectives counts what processes sent each other from test device to test device.
func DeviceCollectives() int { return ask(askCollectives, 0) }

// Processes with a test device each talk between the devices' memory, as cards do through NCCL.
func init() {
	hook.Collectives[int(torch.DevicePrivateUse1)] = hook.Collective{
		Name: "the test device's",
		Attach: func(group, _ uint64, _, _ int, _ time.Duration) error {
			return torch.Try(func() { torch.Call("testdevice::attach", int(group)) })
		},
	}
}

// DeviceRefusals counts the operators that the test devices refused because of where their tensors were.
func DeviceRefusals() int { return ask(askRefusals, 0) }

// LoadDeviceOps loads a library of operators with kernels of the test device's own (the dispatch key PrivateUse1). New
// tensors of the device lie within their reach from then on, and so within everybody's: what takes them for host memory
// is found no more in this process.
func LoadDeviceOps(t testing.TB, library string) {
	t.Helper()
	Device(t)
	ask(setWithinReach, 0)
	if err := torch.LoadOps(library); err != nil {
		t.Fatalf("torchtest: %v", err)
	}
}

// LimitDevice has tensors of the test devices end with out of memory where all of them together would hold more than
// bytes, until the test ends.
func LimitDevice(t testing.TB, bytes int) {
	t.Helper()
	Device(t)
	before := ask(setCapacity, bytes)
	t.Cleanup(func() { ask(setCapacity, before) })
}
