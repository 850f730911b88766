package torch

import "runtime"

// Operator is an operator of the dispatcher, looked up at its first call: what Call is by name, without its boxed arguments.
// It is safe for many goroutines.
type Operator struct{ ref opRef }

// NewOperator names an operator, for instance "aten::add.Tensor".
func NewOperator(name, overload string) *Operator {
	return &Operator{opRef{name: name, overload: overload}}
}

// Begin starts the arguments of one call, in schema order; missing trailing ones take the schema's defaults. The value lives on the
// caller's stack.
func (o *Operator) Begin() OperatorCall { return OperatorCall{a: args{op: &o.ref}} }

// OperatorCall collects the arguments of one call of an Operator. One, Two or Three makes the call; they panic with *Error.
type OperatorCall struct {
	a    args
	held [8]*Tensor
	n    int
}

// Tensor adds a tensor; nil is None.
func (c *OperatorCall) Tensor(t *Tensor) {
	c.a.tensor(t)
	if c.n == len(c.held) {
		panic(&Error{Kind: KindCall, Op: c.a.op.name, Msg: "more than 8 tensors"})
	}
	c.held[c.n] = t
	c.n++
}

// Float adds a number.
func (c *OperatorCall) Float(x float64) { c.a.float(x) }

// Int adds a whole number.
func (c *OperatorCall) Int(n int) { c.a.int(n) }

// Bool adds a truth value.
func (c *OperatorCall) Bool(b bool) { c.a.bool(b) }

// One makes a call that returns one tensor.
func (c *OperatorCall) One() *Tensor {
	t := c.a.one()
	runtime.KeepAlive(c.held)
	return t
}

// Two makes a call that returns two tensors.
func (c *OperatorCall) Two() (*Tensor, *Tensor) {
	t, u := c.a.two()
	runtime.KeepAlive(c.held)
	return t, u
}

// Three makes a call that returns three tensors.
func (c *OperatorCall) Three() (*Tensor, *Tensor, *Tensor) {
	t, u, v := c.a.three()
	runtime.KeepAlive(c.held)
	return t, u, v
}
