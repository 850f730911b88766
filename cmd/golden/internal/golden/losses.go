package golden

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// lossCases are cases of losses and label estimators: {"format": "spml-golden-losses-1", "cases": […]}.
type lossCases struct{}

func (lossCases) Name() string { return "losses" }

func (lossCases) Detect(top map[string]any) bool {
	f, _ := top["format"].(string)
	_, cases := top["cases"].([]any)
	return strings.HasPrefix(f, "spml-golden-losses") || f == "" && cases
}

// lossTolerance is that of the golden files. Two cases of the extreme inputs lose more in float32.
func lossTolerance(c *lossCase, dtype torch.DType) Tolerance {
	switch dtype {
	case torch.Float64:
		return Tolerance{1e-9, 1e-9}
	case torch.BFloat16:
		return Tolerance{2e-3, 2e-2}
	}
	if (c.method == "smile_enc" || c.method == "smile_img") && c.name == "extreme2x6" {
		return Tolerance{1e-6, 2e-4}
	}
	return Tolerance{1e-6, 2e-5}
}

// lossCase is one case and what is computed of it.
type lossCase struct {
	id, method, variant, name string

	hyper, inputs node
	expected      any

	o      Options
	set    loss.Values // parameters of the loss
	batch  loss.Batch
	leaves []leaf
	out    map[string]any
}

type leaf struct {
	name string // of the gradient among the outputs
	t    *torch.Tensor
}

func (lossCases) each(f *File, o Options, do func(c *lossCase, err error) error) error {
	top := node{f.Path, any(f.Top)}
	if _, ok := f.Top["cases"].([]any); !ok {
		return fmt.Errorf("%s: no list of cases", f.Path)
	}
	for _, n := range top.get("cases").list() {
		c := &lossCase{o: o, set: loss.Values{}, out: map[string]any{}}
		err := guard(func() error {
			c.id = n.text("id", "")
			parts := strings.SplitN(c.id, "/", 3)
			for len(parts) < 3 {
				parts = append(parts, "")
			}
			c.method, c.variant, c.name = n.text("method", parts[0]), n.text("variant", parts[1]), n.text("case", parts[2])
			c.hyper, c.inputs = node{c.id + ": hyperparameters", map[string]any{}}, node{c.id + ": inputs", map[string]any{}}
			if n.has("hyperparameters") {
				c.hyper.v = n.get("hyperparameters").v
			}
			if n.has("inputs") {
				c.inputs.v = n.get("inputs").v
			}
			c.expected = n.object()["expected"]
			run, ok := lossMethods[c.method]
			if !ok {
				return errUnknown
			}
			var err error
			torch.Scope(func(*torch.Arena) {
				if err = run(c); err == nil {
					c.out = plain(c.out).(map[string]any)
				}
			})
			return err
		})
		if err := do(c, err); err != nil {
			return err
		}
	}
	return nil
}

var errUnknown = fmt.Errorf("unknown method")

func (k lossCases) Check(f *File, o Options, r *Report) error {
	for _, s := range keys(f.Top) {
		if !slices.Contains([]string{"about", "format", "dtype", "conventions", "shared_inputs", "lcg", "verification",
			"cases", "trajectories"}, s) {
			r.Skip(s)
		}
	}
	if err := checkRuns(f, o, r); err != nil {
		return err
	}
	return k.each(f, o, func(c *lossCase, err error) error {
		switch {
		case err == errUnknown:
			if !slices.Contains(r.Unknown, c.method) {
				r.Skip(c.method)
			}
			return nil
		case err == nil && c.expected == nil:
			err = fmt.Errorf("nothing is expected of it")
		case err == nil:
			tol := lossTolerance(c, o.DType)
			err = Compare(c.expected, c.out, func(string) Tolerance { return tol })
		}
		r.Case(c.method, c.id, err)
		return nil
	})
}

func (k lossCases) Eval(f *File, o Options, emit func(string, any) error) error {
	if err := evalRuns(f, o, emit); err != nil {
		return err
	}
	return k.each(f, o, func(c *lossCase, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", c.id, err)
		}
		return emit(c.id, c.out)
	})
}

// wide is the number type of what is not a logit.
func (c *lossCase) wide() torch.DType {
	if c.o.DType == torch.Float64 {
		return torch.Float64
	}
	return torch.Float32
}

// input reads an input onto the device.
func (c *lossCase) input(name string, dtype torch.DType) *torch.Tensor {
	n := c.inputs.get(name)
	var t *torch.Tensor
	if m, ok := n.v.(map[string]any); ok && m["det"] != nil {
		t = n.filled(dtype)
	} else {
		t = n.tensor(dtype)
	}
	if c.o.Device.Type == torch.DeviceCPU {
		return t
	}
	return t.ToDevice(c.o.Device)
}

// leaf reads an input that gradients are wanted of; its gradient is called grad_NAME.
func (c *lossCase) leaf(name string) *torch.Tensor {
	t := c.input(name, c.o.DType).SetRequiresGrad(true)
	c.leaves = append(c.leaves, leaf{"grad_" + name, t})
	return t
}

// wideLeaf is the same in at least single precision.
func (c *lossCase) wideLeaf(name string) *torch.Tensor {
	t := c.input(name, c.wide()).SetRequiresGrad(true)
	c.leaves = append(c.leaves, leaf{"grad_" + name, t})
	return t
}

func (c *lossCase) labels(name string) *torch.Tensor { return c.input(name, c.wide()) }

// take copies hyper-parameters into the loss's parameters under their own names, where the case has them.
func (c *lossCase) take(names ...string) {
	for _, n := range names {
		if c.hyper.has(n) {
			c.set[n] = c.hyper.get(n).number()
		}
	}
}

// observed fills the two inputs that nearly all losses have.
func (c *lossCase) observed() {
	c.batch.Logits, c.batch.Observed = c.leaf("logits"), c.labels("obs")
}

func (c *lossCase) options() loss.Options {
	return loss.Options{LogEps: c.hyper.num("eps", 0), Reduction: loss.Reduction(c.hyper.text("reduction", ""))}
}

// form adds the implementation that was asked for: losses without a fused form run composed.
func (o Options) form(id string, l loss.Options) loss.Options {
	l.Impl = loss.Composed
	if e, err := loss.Lookup(id); err == nil && o.Fused && e.Fused != nil {
		l.Impl = loss.Fused
	}
	return l
}

// finish computes a registered loss with the gathered parameters; parts are what is put out beside loss and gradients.
func (c *lossCase) finish(id string, parts ...string) error {
	l, err := loss.New(id, "", c.set, c.o.form(id, c.options()))
	if err != nil {
		return err
	}
	c.batch.Report = func(name string, v *torch.Tensor) {
		if slices.Contains(parts, name) {
			c.out[name] = v
		}
	}
	v, err := l.Value(c.batch)
	if err != nil {
		return err
	}
	return c.backward(v)
}

func (c *lossCase) backward(v *torch.Tensor) error {
	c.out["loss"] = v.Item()
	if !v.RequiresGrad() {
		return fmt.Errorf("the loss depends on no input")
	}
	v.Backward()
	for _, l := range c.leaves {
		if g := l.t.Grad(); g != nil {
			c.out[l.name] = g
		} else {
			c.out[l.name] = l.t.ZerosLike()
		}
	}
	return nil
}
