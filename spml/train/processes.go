package train

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
)

// Processes are those that train one model together. Each computes its part of every batch; the outputs of all parts come together before the loss, so that the
// loss, the estimator and the optimiser see the batch that a single process would see and every process holds the same state. Rank 0 writes the run
// directory, which all must be able to read.
//
// It belongs to one run at a time.
type Processes struct {
	g      *dist.Group
	direct bool // what lies on the processes' devices travels between them
}

// Join meets the other processes that a launcher (torchrun, Slurm's srun, Open MPI, Kubernetes) has started, for
// RunOptions, so that Run and Resume share the work with them. A process that no launcher started, or that is the only
// one, gets nil. timeout is how long the others may take for anything, 0 for dist.DefaultTimeout.
func Join(timeout time.Duration) (*Processes, error) {
	env, err := dist.FromEnv()
	if err != nil {
		return nil, err
	}
	if env.WorldSize < 2 || env.Launcher == "slurm" && os.Getenv("SLURM_STEP_ID") == "" { // a batch script itself is no task of srun's
		return nil, nil
	}
	g, err := dist.Init(env, dist.Options{Timeout: timeout})
	if err != nil {
		return nil, err
	}
	return NewProcesses(g), nil
}

// NewProcesses are the processes of a group.
func NewProcesses(g *dist.Group) *Processes { return &Processes{g: g} }

// use lets what lies on the devices of the processes travel between these, over NCCL between cards, where all have one
// of the same kind. Else it goes by way of the CPU (Gloo).
func (p *Processes) use(d torch.Device, note func(string)) error {
	if p == nil {
		return nil
	}
	kind := torch.Device{Type: d.Type, Index: -1}.String()
	all, err := p.gather(nil, []byte(kind))
	if err != nil {
		return err
	}
	for _, other := range all {
		if string(other) != string(all[0]) {
			note(fmt.Sprintf("some processes compute on %s, others on %s: gradients travel by way of the CPU", all[0], other))
			return nil
		}
	}
	if d.Type == torch.DeviceCPU || p.direct {
		return nil
	}
	if err := p.g.Attach(d.Type); err != nil {
		return told{err}
	}
	p.direct = true
	return nil
}

// several are the processes where there is more than one, else nil. All methods work on nil.
func (p *Processes) several() *Processes {
	if p.Size() < 2 {
		return nil
	}
	return p
}

// Rank is the number of this process, from 0.
func (p *Processes) Rank() int {
	if p == nil {
		return 0
	}
	return p.g.Rank()
}

// Size is the number of processes.
func (p *Processes) Size() int {
	if p == nil {
		return 1
	}
	return p.g.Size()
}

// Group is what the processes talk through; nil for a single one.
func (p *Processes) Group() *dist.Group {
	if p == nil {
		return nil
	}
	return p.g
}

// Close waits for the others and leaves them. After an error, err, it leaves at once and tells the launcher.
func (p *Processes) Close(err error) error {
	if p == nil {
		return nil
	}
	if err != nil {
		return errors.Join(dist.WriteErrorFile(err, ""), p.g.Close())
	}
	return errors.Join(p.g.Barrier(), p.g.Close())
}

// part is this process's share of n things in order.
func (p *Processes) part(n int) (from, to int) {
	r, w := p.Rank(), p.Size()
	return n * r / w, n * (r + 1) / w
}

// elsewhere is the error of a process whose work another one ended.
type elsewhere struct {
	rank int
	stop bool // it was asked to stop
	text string
}

func (e *elsewhere) Error() string { return fmt.Sprintf("process %d: %s", e.rank, e.text) }

// Is lets a stop of another process be a stop here.
func (e *elsewhere) Is(target error) bool { return e.stop && target == ErrStop }

// lost says that the group cannot be used any more.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

// gather collects a message of each process, in the order of ranks. failed is what went wrong here meanwhile: then, and where it went wrong elsewhere,
// all get an error, so that no process waits for one that has given up. Every exchange of a run begins with a gather.
func (p *Processes) gather(failed error, message []byte) ([][]byte, error) {
	if failed != nil {
		message = []byte(failed.Error())
	}
	head := []int64{0, int64(len(message))}
	switch {
	case errors.Is(failed, context.Canceled), errors.Is(failed, context.DeadlineExceeded), errors.Is(failed, ErrStop):
		head[0] = 2
	case failed != nil:
		head[0] = 1
	}
	heads, err := p.allGather(torch.FromSlice(head))
	if err != nil {
		return nil, errors.Join(failed, lost{err})
	}
	states, sizes := make([]int64, len(heads)), make([]int64, len(heads))
	for i, h := range heads {
		v := torch.ToSlice[int64](h)
		states[i], sizes[i] = v[0], v[1]
	}
	longest := slices.Max(sizes)
	out := make([][]byte, len(heads))
	if longest > 0 {
		padded := make([]byte, longest)
		copy(padded, message)
		all, err := p.allGather(torch.FromSlice(padded))
		if err != nil {
			return nil, errors.Join(failed, lost{err})
		}
		for i, t := range all {
			out[i] = torch.ToSlice[uint8](t)[:sizes[i]]
		}
	}
	if failed != nil {
		return nil, told{failed}
	}
	for i, s := range states {
		if s != 0 {
			return nil, told{&elsewhere{i, s == 2, string(out[i])}}
		}
	}
	return out, nil
}

// told marks an error that all processes know of.
type told struct{ error }

func (t told) Unwrap() error { return t.error }

func (p *Processes) allGather(t *torch.Tensor) ([]*torch.Tensor, error) {
	defer t.Free()
	return p.g.AllGather(t)
}

// settle tells the others of an error of this process alone. It returns the error.
func (p *Processes) settle(err error) error {
	if p == nil || err == nil || errors.As(err, new(told)) || errors.As(err, new(lost)) {
		return err
	}
	_, err = p.gather(err, nil)
	return err
}

// first gives all processes what rank 0 says; failed is rank 0's or anybody's error.
func (p *Processes) first(failed error, message string) (string, error) {
	if p == nil {
		return message, failed
	}
	if p.Rank() > 0 {
		message = ""
	}
	all, err := p.gather(failed, []byte(message))
	if err != nil {
		return "", err
	}
	return string(all[0]), nil
}

// Agree gives all processes rank 0's answer, for decisions that depend on files.
func (p *Processes) Agree(yes bool) (bool, error) {
	if p == nil {
		return yes, nil
	}
	s, err := p.first(nil, fmt.Sprint(yes))
	return s == "true", err
}

// same refuses processes that see other data or settings than rank 0.
func (p *Processes) same(c config.Config, e rundir.Environment) error {
	if p == nil {
		return nil
	}
	c.Run.Threads, c.Data.Cache.MB = 0, 0
	mine, err := json.Marshal([]any{c, e.DataSHA256, e.ObservedSHA, e.WeightsSHA256, e.Features, e.Strong, e.Pseudo, e.Libtorch})
	if err != nil {
		return err
	}
	all, err := p.gather(nil, mine)
	if err != nil {
		return err
	}
	for i, other := range all {
		if string(other) != string(all[0]) {
			return told{fmt.Errorf("%w: process %d has other settings, data or weights than process 0; start all with the same command and files", ErrData, i)}
		}
	}
	return nil
}

// fields are what a forward pass leaves for loss and estimator, each with a row for each image.
func fields(v *view, b *loss.Batch) []**torch.Tensor {
	return []**torch.Tensor{&v.pooled, &b.Logits, &b.Strong, &b.Maps, &b.Mean, &b.Std, &b.Alpha, &b.Beta, &b.Soft,
		&v.weak, &v.strong, &v.masked}
}

// together makes the view and the batch of all processes' parts. Its tensors are leaves with a gradient.
//
// A message is: the number of images, their places, the number of fields, for each its place in the list, its number of dimensions after the first
// and these, all as int64, then the values.
func (p *Processes) together(failed error, v *view, b *loss.Batch, flip []bool, d torch.Device) (*view, *loss.Batch, error) {
	var message []byte
	if failed == nil {
		failed = torch.Try(func() { message = pack(v, b) })
	}
	all, err := p.gather(failed, message)
	if err != nil {
		return nil, nil, err
	}
	whole, batch := &view{epoch: v.epoch}, &loss.Batch{}
	to := fields(whole, batch)
	values, shapes := make([][]byte, len(to)), make([][]int, len(to))
	for _, m := range all {
		next := func() int { n := int(int64(binary.LittleEndian.Uint64(m))); m = m[8:]; return n }
		n := next()
		for range n {
			place := next()
			whole.places = append(whole.places, place)
			if flip != nil {
				whole.flip = append(whole.flip, flip[place])
			}
		}
		if n == 0 {
			continue
		}
		present := make([]int, next())
		sizes := make([]int, len(present))
		for i := range present {
			present[i] = next()
			shape := make([]int, next())
			sizes[i] = 4 * n
			for j := range shape {
				shape[j] = next()
				sizes[i] *= shape[j]
			}
			shapes[present[i]] = shape
		}
		for i, f := range present {
			values[f] = append(values[f], m[:sizes[i]]...)
			m = m[sizes[i]:]
		}
	}
	err = torch.Try(func() {
		for f, raw := range values {
			if raw != nil {
				*to[f] = torch.FromBytes(raw, torch.Float32, append([]int{len(whole.places)}, shapes[f]...)...).ToDevice(d).SetRequiresGrad(true)
			}
		}
	})
	return whole, batch, err
}

func pack(v *view, b *loss.Batch) []byte {
	var m []byte
	put := func(n int) { m = binary.LittleEndian.AppendUint64(m, uint64(int64(n))) }
	put(len(v.places))
	for _, p := range v.places {
		put(p)
	}
	if len(v.places) == 0 {
		return m
	}
	all := fields(v, b)
	n := 0
	for _, t := range all {
		if *t != nil {
			n++
		}
	}
	put(n)
	for i, t := range all {
		if *t == nil {
			continue
		}
		s := (*t).Shape()
		put(i)
		put(len(s) - 1)
		for _, d := range s[1:] {
			put(d)
		}
	}
	for _, t := range all {
		if *t != nil {
			m = append(m, bytesOf(torch.ToSlice[float32]((*t).Detach().ToDType(torch.Float32).Contiguous()))...)
		}
	}
	return m
}

// bucketBytes is how much of the gradients travels at once.
const bucketBytes = 25 << 20

// sumGradients replaces the gradients by their sums over the processes. A parameter that has none anywhere gets none. failed is what went wrong in the
// backward pass here.
func (p *Processes) sumGradients(failed error, params []*torch.Tensor) error {
	has := make([]byte, len(params))
	grads := torch.Grads(params)
	for i, g := range grads {
		if g != nil {
			has[i] = 1
		}
	}
	all, err := p.gather(failed, has)
	if err != nil {
		return err
	}
	for _, other := range all {
		for i := range has {
			has[i] |= other[i]
		}
	}
	var works []*dist.Work
	var flats []*torch.Tensor
	var buckets [][]*torch.Tensor
	err = torch.Try(func() {
		torch.NoGrad(func() {
			for i := range params {
				if has[i] == 1 && grads[i] == nil {
					params[i].SetGrad(params[i].Detach().ZerosLike())
				}
			}
			grads = torch.Grads(params)
			var bucket []*torch.Tensor
			size := 0
			for i, g := range grads {
				if g != nil {
					bucket = append(bucket, g)
					size += 4 * g.Numel()
				}
				if len(bucket) > 0 && (size >= bucketBytes || i == len(grads)-1) {
					buckets = append(buckets, bucket)
					bucket, size = nil, 0
				}
			}
			for _, b := range buckets {
				pieces := make([]*torch.Tensor, len(b))
				for i, g := range b {
					pieces[i] = g.Contiguous().Reshape(-1)
				}
				flat := torch.Cat(pieces, 0)
				if !p.direct {
					flat = flat.ToDevice(torch.CPU)
				}
				flats = append(flats, flat)
			}
		})
	})
	if err != nil {
		return err // the others notice that this process ends
	}
	for _, f := range flats {
		w, err := p.g.StartAllReduce(f, dist.Sum)
		if err != nil {
			return lost{err}
		}
		works = append(works, w)
	}
	for i, w := range works {
		if err := w.Wait(); err != nil {
			return lost{err}
		}
		at := 0
		torch.NoGrad(func() {
			for _, g := range buckets[i] {
				n := g.Numel()
				g.Copy_(flats[i].Narrow(0, at, n).Reshape(g.Shape()...))
				at += n
			}
		})
	}
	return nil
}

// scores puts the parts of a prediction together.
func (p *Processes) scores(failed error, s *Scores) (*Scores, error) {
	var message []byte
	if failed == nil {
		message = binary.LittleEndian.AppendUint64(nil, uint64(len(s.Rows)))
		for _, r := range s.Rows {
			message = binary.LittleEndian.AppendUint64(message, uint64(r))
		}
		message = append(message, bytesOf(s.Values)...)
	}
	all, err := p.gather(failed, message)
	if err != nil {
		return nil, err
	}
	out := &Scores{}
	for _, m := range all {
		n := int(binary.LittleEndian.Uint64(m))
		for i := range n {
			out.Rows = append(out.Rows, int(binary.LittleEndian.Uint64(m[8*(i+1):])))
		}
		if v := m[8*(n+1):]; len(v) > 0 {
			t := torch.FromBytes(v, torch.Float32, len(v)/4)
			out.Values = append(out.Values, torch.ToSlice[float32](t)...)
			t.Free()
		}
	}
	return out, nil
}
