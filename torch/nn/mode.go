package nn

import (
	"reflect"

	"github.com/gospml/gospml/torch"
)

// SetTraining switches a module and all layers in it to training mode (on) or evaluation mode: it sets the field Training
// bool of every struct that has one.
func SetTraining(m any, on bool) {
	for _, l := range Modules(m) {
		v := reflect.Indirect(reflect.ValueOf(l))
		if v.Kind() != reflect.Struct {
			continue
		}
		if f, ok := v.Type().FieldByName("Training"); ok && len(f.Index) == 1 && f.Type.Kind() == reflect.Bool {
			v.FieldByIndex(f.Index).SetBool(on)
		}
	}
}

// FreezeBatchNorm makes all batch normalisation of a module use its running statistics and leave them as they are, in
// training mode too; on false undoes it. Gains and biases are trained as before (RequiresGrad stops that).
func FreezeBatchNorm(m any, on bool) {
	for _, l := range Modules(m) {
		switch b := l.(type) {
		case *BatchNorm1d:
			b.Frozen = on
		case *BatchNorm2d:
			b.Frozen = on
		}
	}
}

// ConstantBatchNorm makes every batch normalisation of a module a constant: frozen statistics, and gain and bias that are not trained
// (torchvision's FrozenBatchNorm2d). ConvNorm and Through then fold it into the convolution before it.
func ConstantBatchNorm(m any) {
	FreezeBatchNorm(m, true)
	for _, l := range Modules(m) {
		switch l.(type) {
		case *BatchNorm1d, *BatchNorm2d:
			RequiresGrad(l, false)
		}
	}
}

// ChannelsLast lays the convolution weights of a module out for inputs of that layout, in place.
func ChannelsLast(m any) {
	for _, p := range Parameters(m) {
		if p.Dim() == 4 {
			p.SetData(p.Detach().ContiguousFormat(torch.ChannelsLast))
		}
	}
}

// SetDropout sets the probability of every Dropout in a module.
func SetDropout(m any, p float64) {
	NewDropout(p) // checks p
	for _, l := range Modules(m) {
		if d, ok := l.(*Dropout); ok {
			d.P = p
		}
	}
}

// RequiresGrad says whether autograd records the parameters of a module; off freezes it (torch.nn.Module.requires_grad_).
func RequiresGrad(m any, on bool) {
	for _, t := range NamedParameters(m) {
		t.SetRequiresGrad(on)
	}
}

// ToDType converts the floating point parameters and buffers of a module, and the gradients, in place: the tensors keep
// their identity, so an optimizer keeps knowing them. Integer buffers stay.
func ToDType(m any, d torch.DType) {
	if !d.IsFloat() {
		refuse("nn.ToDType", "%v is not a floating point type", d)
	}
	replace(m, func(t *torch.Tensor) *torch.Tensor {
		if !t.DType().IsFloat() {
			return t
		}
		return t.ToDType(d)
	})
}

// ToDevice moves the parameters, buffers and gradients of a module in place; see ToDType.
func ToDevice(m any, d torch.Device) {
	replace(m, func(t *torch.Tensor) *torch.Tensor { return t.ToDevice(d) })
}

func replace(m any, f func(*torch.Tensor) *torch.Tensor) {
	seen := map[*torch.Tensor]bool{}
	Walk(m, func(e Entry) {
		if seen[e.Tensor] {
			return
		}
		seen[e.Tensor] = true
		torch.Scope(func(*torch.Arena) {
			torch.NoGrad(func() {
				e.Tensor.SetData(f(e.Tensor))
				if g := e.Tensor.Grad(); g != nil {
					g.SetData(f(g))
				}
			})
		})
	})
}
