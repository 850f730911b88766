package torch

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gospml/gospml/internal/hook"
	"github.com/gospml/gospml/torch/internal/abi"
)

// Recorded is a step (forward, backward, optimizer) that runs from a list of kernels instead of from Go code: for small
// models, whose time is dispatch and autograd. On CUDA tensors the same step becomes a CUDA graph (import package
// cuda).
//
//	step := torch.Record(func(in []*torch.Tensor) []*torch.Tensor {
//		opt.ZeroGrad()
//		loss := model.Forward(in[0]).CrossEntropyLoss(in[1], nil, torch.ReductionMean)
//		loss.Backward()
//		opt.Step()
//		return []*torch.Tensor{loss}
//	})
//	defer step.Close()
//	for x, t := range batches {
//		out, err := step.Run(x, t)
//		…
//	}
//
// The first Run with inputs of new shapes runs the function as it is, so that optimizers make their state. The second
// one runs it under a recorder, which takes down every operator below autograd with its arguments. Further ones replay
// that list in one call: gradients and parameters get the same bits as without recording, and random operators draw the
// same numbers.
//
// Go code of the function runs in the first two calls only. What a replay would not repeat is therefore an error, at
// the line that does it: reading a value (Item, ToSlice, View), making a tensor from Go data, operators whose result's
// shape depends on values (Nonzero). Learning rates and the other numbers of optim's SGD, Adam and AdamW are read anew
// at each replay; where a layer's Training, or what ReplayIf watches, has changed, the next Run records anew, and so it
// does when a parameter shows other memory or the modes of the thread (NoGrad, autocast) differ. For any other Go
// variable that the function reads call Reset after changing it.
//
// Gradients are where eager code would have left them. A gradient that was none when the step was recorded is
// overwritten by replays.
//
// A Recorded is safe for many goroutines, which take turns.
type Recorded struct {
	mu    sync.Mutex
	f     func(inputs []*Tensor) []*Tensor
	steps map[string]*recordedStep
	last  *recordedStep
	order []string // keys, the oldest first
}

// keptRecordings is how many shapes of inputs a Recorded remembers.
const keptRecordings = 16

type recordedStep struct {
	key     string
	ready   bool // h or replay is set
	h       uint64
	outputs []*Tensor
	cleanup runtime.Cleanup
	taken   *taken

	inputs          []*Tensor // of a CUDA graph, which reads them always
	replay, release func() error
}

// taken is what Go code leaves to the replays of a step that it records.
type taken struct {
	conditions []func() bool
	numbers    []followed
}

type followed struct {
	call     uint64
	argument int
	get      func() float64
	last     float64
}

var (
	recordingMu   sync.Mutex
	recordings    = map[uint64]*taken{} // under way
	nRecordings   atomic.Int64
	lastRecording atomic.Uint64
	capturing     atomic.Pointer[taken] // into a CUDA graph
	captureMu     sync.Mutex

	deadMu         sync.Mutex
	deadRecordings []uint64
)

// Record makes a step of f; see Recorded. f gets the inputs of Run and returns tensors to look at; it may refer to
// parameters, optimizers and anything else. It runs within a Scope: what it wants to keep it returns.
func Record(f func(inputs []*Tensor) []*Tensor) *Recorded {
	return &Recorded{f: f, steps: map[string]*recordedStep{}}
}

// Recording says whether the calling goroutine runs a step under the recorder.
func Recording() bool {
	if nRecordings.Load() == 0 {
		return false
	}
	id, _ := abi.RecordCurrent()
	return id != 0
}

// ReplayIf is for layers whose Go code decides what is computed. While a step is recorded replays of it will ask
// condition first and, where it is false, record the step anew; elsewhere it does nothing. condition runs on the
// goroutine that calls Run.
func ReplayIf(condition func() bool) {
	if t, _ := underWay(); t != nil {
		t.conditions = append(t.conditions, condition)
	}
}

func underWay() (*taken, int64) {
	if nRecordings.Load() == 0 {
		return nil, 0
	}
	id, calls := abi.RecordCurrent()
	if id == 0 {
		return capturing.Load(), 0
	}
	recordingMu.Lock()
	defer recordingMu.Unlock()
	return recordings[id], calls
}

// follow implements link.Follow.
func follow(argument int, get func() float64) {
	if t, calls := underWay(); t != nil {
		t.numbers = append(t.numbers, followed{uint64(calls - 1), argument, get, get()})
	}
}

// notRecorded panics because of something that a replay would not do.
func notRecorded(op, why string) {
	abi.RecordFail(op + ": " + why)
	panic(&Error{Kind: KindRuntime, Op: op, Msg: "while a step is recorded: " + why})
}

// Run runs the step and returns what its function returned, detached. The outputs belong to r: the next Run with inputs
// of these shapes overwrites them, so read or Clone them before. The inputs must not require a gradient and must stay
// unchanged until Run returns; replays read them where they lie. An error leaves parameters as far as the step had
// come.
func (r *Recorded) Run(inputs ...*Tensor) ([]*Tensor, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if Recording() { // a part of a larger step
		var out []*Tensor
		err := r.try(func() { out = r.f(inputs) })
		return out, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	drain()
	freeRecordings()
	if e := r.last; e != nil && e.h != 0 {
		switch code, err := e.run(inputs); {
		case err != nil:
			return nil, err
		case code == replayRan:
			return e.outputs, nil
		case code == replayStale:
			e.forget()
		}
	}
	var key string
	if err := Try(func() { key = formOf(inputs) }); err != nil {
		return nil, err
	}
	e := r.steps[key]
	if e == nil {
		out, err := r.eager(inputs)
		if err == nil {
			r.remember(&recordedStep{key: key})
		}
		return out, err
	}
	r.last = e
	for e.ready {
		code, err := e.run(inputs)
		if err != nil {
			return nil, err
		}
		if code == replayRan {
			return e.outputs, nil
		}
		e.forget()
	}
	if device, cuda := onCUDA(inputs); cuda {
		return r.capture(e, device, inputs)
	}
	if err := r.record(e, inputs); err != nil {
		return nil, err
	}
	return e.outputs, nil
}

// Reset forgets what was recorded; the next Run records anew.
func (r *Recorded) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.steps {
		e.forget()
	}
}

// Close gives the memory of the recordings back. Outputs of Run stay usable. A Recorded that is dropped without Close
// is freed some time after the garbage collector has found it.
func (r *Recorded) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.steps {
		e.forget()
	}
	clear(r.steps)
	r.last, r.order = nil, nil
	freeRecordings()
}

// Kernels lists the operators that a replay for the inputs of the last Run calls, with the shapes of their results: for
// people. It is empty before the second Run and for CUDA graphs.
func (r *Recorded) Kernels() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || r.last.h == 0 {
		return nil
	}
	t := abi.RecordText(r.last.h)
	check("record", &t)
	_, lines, _ := strings.Cut(strings.TrimSuffix(abi.Text(t.W[0]), "\n"), "\n")
	return strings.Split(lines, "\n")
}

const (
	replayRan   = 0
	replayOther = 1
	replayStale = 2
)

// run replays.
func (e *recordedStep) run(inputs []*Tensor) (int, error) {
	for _, c := range e.taken.conditions {
		if !c() {
			return replayStale, nil
		}
	}
	if e.replay != nil {
		return e.launch(inputs)
	}
	for i := range e.taken.numbers {
		n := &e.taken.numbers[i]
		v := n.get()
		if v == n.last {
			continue
		}
		if r := abi.RecordSet(e.h, n.call, n.argument, v); r.Kind != abi.OK {
			return 0, &Error{Kind: Kind(r.Kind), Op: "replay", Msg: r.Message()}
		}
		n.last = v
	}
	var few [8]uint64
	hs := few[:0]
	for i, t := range inputs {
		if t == nil {
			return 0, &Error{Kind: KindHandle, Op: "replay", Msg: "input " + itoa(i) + " is a nil tensor"}
		}
		h := t.h.Load()
		if h == 0 || t.scope != 0 && !scopeAlive(t.scope) {
			return 0, t.unusable("replay")
		}
		hs = append(hs, h)
	}
	r := abi.Replay(e.h, hs)
	runtime.KeepAlive(inputs)
	if r.Kind != abi.OK {
		return 0, &Error{Kind: Kind(r.Kind), Op: "replay", Msg: words(r.Message())}
	}
	return int(r.W[0]), nil
}

// launch replays a CUDA graph; the numbers of its kernels cannot be changed.
func (e *recordedStep) launch(inputs []*Tensor) (int, error) {
	for i := range e.taken.numbers {
		if n := &e.taken.numbers[i]; n.get() != n.last {
			return replayStale, nil
		}
	}
	err := Try(func() {
		for i, t := range inputs {
			e.inputs[i].Copy_(t)
		}
	})
	if err == nil {
		err = e.replay()
	}
	return replayRan, err
}

func (e *recordedStep) forget() {
	if e.h != 0 {
		e.cleanup.Stop()
		buryRecording(e.h)
	}
	if e.release != nil {
		e.release() //nolint:errcheck // the device may be gone
	}
	*e = recordedStep{key: e.key}
}

// buryRecording runs on the collector's goroutines too and must not enter libtorch.
func buryRecording(h uint64) {
	deadMu.Lock()
	deadRecordings = append(deadRecordings, h)
	deadMu.Unlock()
}

func freeRecordings() {
	deadMu.Lock()
	dead := deadRecordings
	deadRecordings = nil
	deadMu.Unlock()
	for _, h := range dead {
		abi.RecordFree(h)
	}
}

func (r *Recorded) remember(e *recordedStep) {
	if len(r.order) == keptRecordings {
		old := r.steps[r.order[0]]
		old.forget()
		delete(r.steps, old.key)
		r.order = r.order[1:]
		if r.last == old {
			r.last = nil
		}
	}
	r.steps[e.key] = e
	r.order = append(r.order, e.key)
	r.last = e
}

// formOf is what a recording depends on of its inputs.
func formOf(inputs []*Tensor) string {
	var b strings.Builder
	for _, t := range inputs {
		d := t.describe("record")
		fmt.Fprintf(&b, "%d %d %d %v %v;", d.DType, d.Device, d.Flags&abi.FlagRequiresGrad, d.Sizes[:d.NDim], d.Strides[:d.NDim])
	}
	return b.String()
}

func onCUDA(inputs []*Tensor) (device int, yes bool) {
	for _, t := range inputs {
		if d := t.Device(); d.Type == DeviceCUDA {
			return max(d.Index, 0), true
		}
	}
	return 0, false
}

// eager runs the function as it is.
func (r *Recorded) eager(inputs []*Tensor) (out []*Tensor, err error) {
	err = r.try(func() {
		Scope(func(*Arena) { out = outside(r.f(inputs)) })
	})
	return out, err
}

// outside makes detached handles of tensors, of no scope.
func outside(ts []*Tensor) []*Tensor {
	out := make([]*Tensor, len(ts))
	for i, t := range ts {
		if t != nil {
			d := t.Detach()
			out[i] = own(abi.Own(d.handle("record")), 0, 0)
			runtime.KeepAlive(d)
		}
	}
	return out
}

func (r *Recorded) record(e *recordedStep, inputs []*Tensor) error {
	id := lastRecording.Add(1)
	t := &taken{}
	recordingMu.Lock()
	recordings[id] = t
	recordingMu.Unlock()
	nRecordings.Add(1)
	defer func() {
		recordingMu.Lock()
		delete(recordings, id)
		recordingMu.Unlock()
		nRecordings.Add(-1)
	}()
	var h uint64
	err := r.try(func() {
		Scope(func(*Arena) {
			b := abi.RecordBegin(id, required("record", inputs))
			check("record", &b, inputs...)
			under := true
			defer func() {
				if under {
					abi.RecordCancel()
				}
			}()
			in := ownList(&b)
			out := r.f(in)
			end := abi.RecordEnd(handles("record", out))
			under = false
			runtime.KeepAlive(out)
			runtime.KeepAlive(inputs)
			check("record", &end)
			h = end.W[0]
		})
		drain() // what the collector found of the step's
		p := abi.RecordPlan(h)
		check("record", &p)
		Scope(func(*Arena) {
			o := abi.RecordOutputs(h)
			check("record", &o)
			e.outputs = outside(ownList(&o))
		})
	})
	if err != nil {
		if h != 0 {
			abi.RecordFree(h)
		}
		return err
	}
	e.h, e.taken, e.ready = h, t, true
	e.cleanup = runtime.AddCleanup(e, buryRecording, h)
	return nil
}

// capture makes a CUDA graph of the step and launches it.
func (r *Recorded) capture(e *recordedStep, device int, inputs []*Tensor) ([]*Tensor, error) {
	if hook.Graph == nil {
		return nil, &Error{Kind: KindLibrary, Op: "record", Msg: "recording a step on CUDA needs package cuda: import _ \"github.com/gospml/gospml/cuda\""}
	}
	captureMu.Lock()
	defer captureMu.Unlock()
	runtime.LockOSThread() // what libraries set up for a capture belongs to a thread
	defer runtime.UnlockOSThread()
	t := &taken{}
	nRecordings.Add(1)
	capturing.Store(t)
	defer func() {
		capturing.Store(nil)
		nRecordings.Add(-1)
	}()
	var static, out []*Tensor
	if err := Try(func() {
		Scope(func(*Arena) {
			for _, x := range inputs {
				c := x.Clone()
				static = append(static, own(abi.Own(c.handle("record")), 0, 0))
			}
		})
	}); err != nil {
		return nil, err
	}
	replay, release, err := hook.Graph(device, func() error {
		return r.try(func() {
			Scope(func(*Arena) { out = outside(r.f(static)) })
		})
	})
	if err != nil {
		return nil, err
	}
	*e = recordedStep{key: e.key, ready: true, taken: t, inputs: static, outputs: out, replay: replay, release: release}
	if err := replay(); err != nil { // capturing ran nothing
		e.forget()
		return nil, err
	}
	return out, nil
}

// try turns a panic with *Error into an error that names the line of the step that caused it.
func (r *Recorded) try(f func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			if at := panicLine(); at != "" {
				err = fmt.Errorf("%s: %w", at, e)
			} else {
				err = e
			}
		default:
			panic(e)
		}
	}()
	f()
	return nil
}

// panicLine is the innermost line outside package torch and the packages below it on the stack of the panic being
// recovered.
func panicLine() string {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	panicked := false
	for {
		f, more := frames.Next()
		ours := strings.Contains(f.Function, "gospml/gospml/torch.") || strings.Contains(f.Function, "gospml/gospml/torch/")
		switch {
		case f.Function == "runtime.gopanic":
			panicked = true
		case panicked && (!ours || strings.HasSuffix(f.File, "_test.go")) && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}
