package losstest

import (
	"math/rand/v2"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// Observed says which labels a batch shows.
type Observed int

// Patterns of observed labels.
const (
	SinglePositive Observed = iota
	AllUnknown
	AllPositive
	Mixed // single positives, and some observed negatives
)

// Shape is what a random batch looks like.
type Shape struct {
	B, C     int
	DType    torch.DType
	Seed     uint64
	Scale    float64 // of logits; 0 = 2
	Observed Observed
	Map      int // side of score maps; 0 = 3
}

// Batch draws everything that an entry needs. The tensors that gradients are wanted of are leaves, listed with their names; the logits come
// first.
func Batch(e *loss.Entry, s Shape) (b loss.Batch, leaves []*torch.Tensor, names []string) {
	r := rand.New(rand.NewPCG(s.Seed, 1))
	if s.Scale == 0 {
		s.Scale = 2
	}
	wide := s.DType
	if wide != torch.Float64 {
		wide = torch.Float32
	}
	draw := func(f func() float64, shape ...int) *torch.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		v := make([]float64, n)
		for i := range v {
			v[i] = f()
		}
		return torch.FromSlice(v, shape...)
	}
	normal := func() float64 { return s.Scale * r.NormFloat64() }
	unit := func() float64 { return 0.05 + 0.9*r.Float64() }
	sign := func() float64 { return float64(r.IntN(3) - 1) }
	bit := func() float64 { return float64(r.IntN(2)) }
	add := func(name string, t *torch.Tensor) *torch.Tensor {
		t = t.SetRequiresGrad(true)
		leaves, names = append(leaves, t), append(names, name)
		return t
	}
	m := func(f func() float64) *torch.Tensor { return draw(f, s.B, s.C).ToDType(wide) }

	g := s.Map
	if g == 0 {
		g = 3
	}
	if e.Needs&loss.ScoreMaps != 0 {
		b.Maps = add("maps", draw(normal, s.B, s.C, g, g).ToDType(s.DType))
	} else {
		b.Logits = add("logits", draw(normal, s.B, s.C).ToDType(s.DType))
	}
	y := make([]int8, s.B*s.C)
	for i := range s.B {
		for j := range s.C {
			k := i*s.C + j
			switch {
			case s.Observed == AllPositive, s.Observed != AllUnknown && j == (3*i+1)%s.C:
				y[k] = 1
			case s.Observed == Mixed && r.IntN(4) == 0:
				y[k] = -1
			}
		}
	}
	b.Observed = torch.FromSlice(y, s.B, s.C)
	b.Full = torch.Where(b.Observed.EqScalar(1), b.Observed, draw(bit, s.B, s.C).ToDType(torch.Int8))
	b.Pseudo = draw(sign, s.B, s.C).ToDType(torch.Int8)
	b.Labels = torch.Where(b.Observed.EqScalar(1), m(unit).OnesLike(), m(unit).Mul(m(sign).ClampMax(0)))
	b.Negative, b.Average, b.Heat = m(bit), m(unit), draw(unit, s.B, s.C, g, g).ToDType(wide)
	b.Prior, b.Epoch = draw(unit, s.C).ToDType(wide), 3
	for _, f := range []struct {
		need loss.Needs
		name string
		to   **torch.Tensor
		draw func() *torch.Tensor
	}{
		{loss.Estimates, "estimate", &b.Estimate, func() *torch.Tensor { return draw(normal, s.B, s.C).ToDType(s.DType) }},
		{loss.StrongView, "strong", &b.Strong, func() *torch.Tensor { return draw(normal, s.B, s.C).ToDType(s.DType) }},
		{loss.SoftLabels, "soft", &b.Soft, func() *torch.Tensor { return m(unit) }},
		{loss.Latents, "mean", &b.Mean, func() *torch.Tensor { return draw(normal, s.B, s.C, 2).ToDType(wide) }},
		{loss.Latents, "std", &b.Std, func() *torch.Tensor { return draw(unit, s.B, s.C, 2).ToDType(wide) }},
		{loss.BetaParameters, "alpha", &b.Alpha, func() *torch.Tensor { return m(unit) }},
		{loss.BetaParameters, "beta", &b.Beta, func() *torch.Tensor { return m(unit) }},
	} {
		if e.Needs&f.need != 0 {
			*f.to = add(f.name, f.draw())
		}
	}
	if e.Needs&loss.ModelParameters != 0 {
		b.Parameters = []*torch.Tensor{add("θ", draw(normal, 3, 2).ToDType(wide)), add("θ'", draw(normal, 4).ToDType(wide))}
	}
	if e.Needs&loss.Embeddings != 0 {
		x := draw(normal, 5, 2, 4)
		x = x.Div(x.VectorNorm(2, []int{2}, true)).ToDType(s.DType)
		b.Contrast = &loss.Contrast{Features: add("features", x), Labels: torch.FromSlice([]int64{1, 2, 1, 3, 2}, 5), Current: torch.FromSlice([]int64{1, 1, 0, 0, 1}, 5)}
	}
	if e.Needs&loss.Reconstructions != 0 {
		b.Reconstruction = &loss.Reconstruction{
			X: draw(normal, s.B, 3).ToDType(wide), XRec: add("x̂", draw(normal, s.B, 3).ToDType(wide)), YRec: add("ŷ", m(unit)),
			A: draw(bit, s.B, s.B).ToDType(wide), ARec: add("Â", draw(unit, s.B, s.B).ToDType(wide)),
		}
	}
	b.Group = m(unit)
	if s.B > 1 { // the second photo has no group
		b.Group.Select(0, 1).Fill_(-1)
	}
	return b, leaves, names
}

// replace is b with its leaves exchanged for others, in Batch's order.
func replace(b loss.Batch, names []string, with []*torch.Tensor) loss.Batch {
	if b.Contrast != nil {
		c := *b.Contrast
		b.Contrast = &c
	}
	if b.Reconstruction != nil {
		r := *b.Reconstruction
		b.Reconstruction = &r
	}
	b.Parameters = append([]*torch.Tensor(nil), b.Parameters...)
	for i, n := range names {
		switch t := with[i]; n {
		case "logits":
			b.Logits = t
		case "maps":
			b.Maps = t
		case "estimate":
			b.Estimate = t
		case "strong":
			b.Strong = t
		case "soft":
			b.Soft = t
		case "mean":
			b.Mean = t
		case "std":
			b.Std = t
		case "alpha":
			b.Alpha = t
		case "beta":
			b.Beta = t
		case "θ":
			b.Parameters[0] = t
		case "θ'":
			b.Parameters[1] = t
		case "features":
			b.Contrast.Features = t
		case "x̂":
			b.Reconstruction.XRec = t
		case "ŷ":
			b.Reconstruction.YRec = t
		case "Â":
			b.Reconstruction.ARec = t
		}
	}
	return b
}
