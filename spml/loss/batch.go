package loss

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

// Batch is what a loss sees. Label tensors may have any number type; they are compared and converted as needed.
type Batch struct {
	Logits   *torch.Tensor // z [B, C], floating point
	Observed *torch.Tensor // y [B, C] in {1, 0, -1}: positive, unknown, negative
	Full     *torch.Tensor // t [B, C] in {0, 1}; nil where a loss does not need it
}

// check says in words what is wrong with a batch before libtorch meets it.
func (b *Batch) check(needs Needs) error {
	if b.Logits == nil {
		return fmt.Errorf("loss: no logits")
	}
	shape := b.Logits.Shape()
	if len(shape) != 2 {
		return fmt.Errorf("loss: logits have shape %v, want [batch, classes]", shape)
	}
	if !b.Logits.DType().IsFloat() {
		return fmt.Errorf("loss: logits hold %v, want floating point", b.Logits.DType())
	}
	for _, l := range []struct {
		name string
		t    *torch.Tensor
		need bool
	}{{"observed labels", b.Observed, needs&Observed != 0}, {"full labels", b.Full, needs&Full != 0}} {
		switch {
		case !l.need:
		case l.t == nil:
			return fmt.Errorf("loss: the %s are missing", l.name)
		default:
			if s := l.t.Shape(); len(s) != 2 || s[0] != shape[0] || s[1] != shape[1] {
				return fmt.Errorf("loss: %s have shape %v, logits %v", l.name, s, shape)
			}
		}
	}
	return nil
}

// logits returns half logits as float32, others as they are: loss terms are never computed in half precision.
func (b *Batch) logits() *torch.Tensor {
	if d := b.Logits.DType(); d == torch.Float16 || d == torch.BFloat16 {
		return b.Logits.ToDType(torch.Float32)
	}
	return b.Logits
}
