package optim

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/link"
)

// Optimizer is what SGD, Adam, AdamW, Adamax, Adagrad and RMSprop have in common.
type Optimizer interface {
	// Step changes every parameter that has a gradient.
	Step()
	// ZeroGrad clears the gradients of all parameters (to none, not to zeros).
	ZeroGrad()
	// Groups are the parameter groups, in the order in which they were added.
	Groups() []*Group
	// AddGroup adds parameters with numbers of their own; what opts leave out is as in the constructor.
	AddGroup(params []*torch.Tensor, opts ...Option)
	// StateDict collects the state. The tensors are the optimizer's own, not copies.
	StateDict() State
	// LoadStateDict copies a state in, the groups' numbers included.
	LoadStateDict(s State) error
}

// Group is a list of parameters that share their numbers. A schedule may change the numbers between steps.
type Group struct {
	Params []*torch.Tensor
	Hyper

	slots   []slot   // one for each parameter
	initial *float64 // the learning rate with which schedules began
	batches []*batch
}

// Hyper are the numbers of a group; each optimizer reads those that its constructor takes options for.
type Hyper struct {
	LR          float64    `json:"lr"`
	WeightDecay float64    `json:"weight_decay"`
	Momentum    float64    `json:"momentum,omitempty"`  // SGD, RMSprop
	Dampening   float64    `json:"dampening,omitempty"` // SGD
	Nesterov    bool       `json:"nesterov,omitempty"`  // SGD
	Betas       [2]float64 `json:"betas"`               // Adam, AdamW, Adamax
	Eps         float64    `json:"eps,omitempty"`       // all but SGD
	AMSGrad     bool       `json:"amsgrad,omitempty"`   // Adam, AdamW
	Maximize    bool       `json:"maximize,omitempty"`

	Alpha              float64 `json:"alpha,omitempty"`                     // RMSprop
	Centered           bool    `json:"centered,omitempty"`                  // RMSprop
	LRDecay            float64 `json:"lr_decay,omitempty"`                  // Adagrad
	InitialAccumulator float64 `json:"initial_accumulator_value,omitempty"` // Adagrad
}

// Option sets a number of a group.
type Option struct {
	name string
	set  func(*Hyper)
}

// LR is the learning rate; 1e-3 where the constructor names no other default.
func LR(v float64) Option { return Option{"LR", func(h *Hyper) { h.LR = v }} }

// WeightDecay is the weight decay: added to the gradient in SGD and Adam (default 0), decoupled from it in AdamW (default 0.01).
func WeightDecay(v float64) Option {
	return Option{"WeightDecay", func(h *Hyper) { h.WeightDecay = v }}
}

// Momentum of SGD; 0 by default.
func Momentum(v float64) Option { return Option{"Momentum", func(h *Hyper) { h.Momentum = v }} }

// Dampening of SGD's momentum; 0 by default.
func Dampening(v float64) Option { return Option{"Dampening", func(h *Hyper) { h.Dampening = v }} }

// Nesterov takes Nesterov's form of SGD's momentum, which must then be positive and without dampening.
func Nesterov() Option { return Option{"Nesterov", func(h *Hyper) { h.Nesterov = true }} }

// Betas are the decay rates of Adam's running averages of the gradient and of its square; 0.9 and 0.999 by default.
func Betas(beta1, beta2 float64) Option {
	return Option{"Betas", func(h *Hyper) { h.Betas = [2]float64{beta1, beta2} }}
}

// Eps is added to the denominator; 1e-8 by default, 1e-10 in Adagrad.
func Eps(v float64) Option { return Option{"Eps", func(h *Hyper) { h.Eps = v }} }

// AMSGrad divides by the largest running average so far (Reddi et al. 2018).
func AMSGrad() Option { return Option{"AMSGrad", func(h *Hyper) { h.AMSGrad = true }} }

// Alpha is the decay rate of RMSprop's running average of squares; 0.99 by default.
func Alpha(v float64) Option { return Option{"Alpha", func(h *Hyper) { h.Alpha = v }} }

// Centered divides by an estimate of the gradient's standard deviation in RMSprop.
func Centered() Option { return Option{"Centered", func(h *Hyper) { h.Centered = true }} }

// LRDecay lowers Adagrad's learning rate with the number of steps; 0 by default.
func LRDecay(v float64) Option { return Option{"LRDecay", func(h *Hyper) { h.LRDecay = v }} }

// InitialAccumulator is where Adagrad's sums begin; 0 by default.
func InitialAccumulator(v float64) Option {
	return Option{"InitialAccumulator", func(h *Hyper) { h.InitialAccumulator = v }}
}

// Maximize goes up the gradient.
func Maximize() Option { return Option{"Maximize", func(h *Hyper) { h.Maximize = true }} }

// slot is the state of one parameter; its tensors are nil before its first step.
type slot struct {
	dtype torch.DType
	dev   torch.Device
	state []*torch.Tensor // in the order of the optimizer's names
	fresh bool            // the kernel is to fill it
}

// batch are the lists of one kernel call: parameters of one type and device, whose state is either there or to be filled.
type batch struct {
	dtype         torch.DType
	dev           torch.Device
	fresh         bool
	params, grads []*torch.Tensor
	state         [4][]*torch.Tensor
}

// core is the part of an optimizer that does not depend on its formula.
type core struct {
	kind     string   // "sgd", …
	takes    string   // names of its options between spaces
	names    []string // of the state's tensors; those that a group does not use are left nil
	defaults Hyper
	hostStep bool // the step counts stay on the CPU
	groups   []*Group
	all      []*torch.Tensor

	lacks  func(h *Hyper, s *slot) bool             // whether the next step needs state that is not there
	fill   func(h *Hyper, s *slot, p *torch.Tensor) // makes it
	apply  func(h *Hyper, b *batch)                 // one kernel call
	verify func(h *Hyper) error
	frozen func(h Hyper) Hyper // without the numbers that apply lets recorded steps follow
}

func refuse(op, format string, arguments ...any) {
	panic(&torch.Error{Kind: torch.KindValue, Op: "optim." + op, Msg: fmt.Sprintf(format, arguments...)})
}

func (c *core) start(params []*torch.Tensor, opts []Option) {
	c.set(&c.defaults, opts)
	c.AddGroup(params)
}

func (c *core) set(h *Hyper, opts []Option) {
	for _, o := range opts {
		if o.set == nil || !strings.Contains(c.takes, " "+o.name+" ") {
			refuse(c.kind, "takes no option %q; it takes%s", o.name, strings.TrimRight(c.takes, " "))
		}
		o.set(h)
	}
	if err := c.check(h); err != nil {
		refuse(c.kind, "%v", err)
	}
}

func (c *core) check(h *Hyper) error {
	for _, x := range []struct {
		name string
		v    float64
	}{{"learning rate", h.LR}, {"weight decay", h.WeightDecay}, {"momentum", h.Momentum}, {"eps", h.Eps}} {
		if !(x.v >= 0) {
			return fmt.Errorf("invalid %s: %v", x.name, x.v)
		}
	}
	return c.verify(h)
}

// options names what the constructor takes, between spaces.
func (c *core) options() string { return c.takes }

// Groups are the parameter groups.
func (c *core) Groups() []*Group { return c.groups }

// AddGroup adds parameters with numbers of their own; what opts leave out is as in the constructor.
func (c *core) AddGroup(params []*torch.Tensor, opts ...Option) {
	if len(params) == 0 {
		refuse(c.kind, "got an empty parameter list")
	}
	g := &Group{Params: append([]*torch.Tensor(nil), params...), Hyper: c.defaults, slots: make([]slot, len(params))}
	c.set(&g.Hyper, opts)
	seen := map[*torch.Tensor]bool{}
	for _, p := range c.all {
		seen[p] = true
	}
	for i, p := range params {
		switch {
		case p == nil:
			refuse(c.kind, "parameter %d is nil", i)
		case seen[p]:
			refuse(c.kind, "parameter %d of the group %v appears twice", i, p.Shape())
		case !p.IsLeaf():
			refuse(c.kind, "parameter %d is the result of an operation; only leaf tensors can be optimized", i)
		}
		seen[p] = true
	}
	c.groups = append(c.groups, g)
	c.all = append(c.all, params...)
}

// ZeroGrad clears the gradients of all parameters.
func (c *core) ZeroGrad() { torch.ZeroGrad(c.all, false) }

// Step changes every parameter that has a gradient.
func (c *core) Step() {
	torch.Scope(func(*torch.Arena) {
		torch.NoGrad(func() {
			grads := torch.Grads(c.all)
			c.prepare(grads)
			for _, g := range c.groups {
				c.watch(g)
				g.sort(grads[:len(g.Params)])
				for _, b := range g.batches {
					if len(b.params) > 0 {
						c.apply(&g.Hyper, b)
					}
				}
				grads = grads[len(g.Params):]
			}
		})
	})
}

// watch has a recorded step recorded anew where a number of the group that it cannot follow has changed.
func (c *core) watch(g *Group) {
	frozen := c.frozen
	if frozen == nil {
		frozen = func(h Hyper) Hyper { return h }
	}
	then := frozen(g.Hyper)
	torch.ReplayIf(func() bool { return frozen(g.Hyper) == then })
}

// follow lets a recorded step read numbers anew, which are arguments of the operator called last from the given one on.
func follow(first int, numbers ...*float64) {
	for i, x := range numbers {
		link.Follow(first+i, func() float64 { return *x })
	}
}

// prepare makes the state that parameters with a gradient lack.
func (c *core) prepare(grads []*torch.Tensor) {
	var missing []func()
	for _, g := range c.groups {
		for i, p := range g.Params {
			if s := &g.slots[i]; grads[i] != nil && (s.state == nil || c.lacks(&g.Hyper, s)) {
				missing = append(missing, func() { c.make(&g.Hyper, s, p) })
			}
		}
		grads = grads[len(g.Params):]
	}
	if missing != nil && torch.Recording() {
		refuse(c.kind, "a parameter has its first gradient while a step is recorded; run that step once without recording, so that the optimizer makes its state")
	}
	if missing != nil {
		outside(func() {
			for _, f := range missing {
				f()
			}
		})
	}
}

func (c *core) make(h *Hyper, s *slot, p *torch.Tensor) {
	if s.state == nil {
		s.dtype, s.dev = p.DType(), p.Device()
		s.state = make([]*torch.Tensor, len(c.names))
	}
	if c.lacks(h, s) {
		c.fill(h, s, p)
	}
}

// outside runs f on a thread of its own: scopes and modes of the caller's thread do not reach it, so what f makes
// lives on.
func outside(f func()) {
	var trouble any
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		defer close(done)
		defer func() { trouble = recover() }()
		f()
	}()
	<-done
	if trouble != nil {
		panic(trouble)
	}
}

// sort fills the group's batches from the parameters that have gradients. The lists are reused from step to step.
func (g *Group) sort(grads []*torch.Tensor) {
	for _, b := range g.batches {
		b.params, b.grads = b.params[:0], b.grads[:0]
		for i := range b.state {
			b.state[i] = b.state[i][:0]
		}
	}
	for i, grad := range grads {
		if grad == nil {
			continue
		}
		s := &g.slots[i]
		b := g.batch(s)
		b.params, b.grads = append(b.params, g.Params[i]), append(b.grads, grad)
		for k, t := range s.state {
			if t != nil {
				b.state[k] = append(b.state[k], t)
			}
		}
		s.fresh = false
	}
}

func (g *Group) batch(s *slot) *batch {
	for _, b := range g.batches {
		if b.dtype == s.dtype && b.dev == s.dev && b.fresh == s.fresh {
			return b
		}
	}
	b := &batch{dtype: s.dtype, dev: s.dev, fresh: s.fresh}
	g.batches = append(g.batches, b)
	return b
}
