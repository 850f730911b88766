package augment

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gospml/gospml/data/pixel"
)

// Operation is one of RandAugment's fifteen.
type Operation struct {
	Name string
	// Levels are the magnitudes of levels 0 to 9; RandAugment uses 1 to 9.
	Levels [10]float64
	// Signed operations take ± the magnitude.
	Signed bool
	apply  func(p *pixel.RGB, magnitude float64, r *rand.Rand)
}

// Apply applies the operation with a magnitude of its table (with its sign). Only Cutout draws, its centre.
func (o Operation) Apply(p *pixel.RGB, magnitude float64, r *rand.Rand) { o.apply(p, magnitude, r) }

// steps is numpy's linspace(from, to, 10).
func steps(from, to float64, round bool) (l [10]float64) {
	step := (to - from) / 9
	for i := range l {
		l[i] = from + float64(float64(i)*step)
		if i == 9 {
			l[i] = to
		}
		if round {
			l[i] = math.RoundToEven(l[i])
		}
	}
	return l
}

// Operations are those of the package randaugment 1.0.2, in its order. Levels and signs are its too.
var Operations = []Operation{
	{"Invert", [10]float64{}, false, func(p *pixel.RGB, _ float64, _ *rand.Rand) { Invert(p) }},
	{"Cutout", steps(0, 20, true), false, func(p *pixel.RGB, v float64, r *rand.Rand) {
		x, y := r.IntN(p.W), r.IntN(p.H)
		graySquare(p, int(v), x, y)
	}},
	{"Sharpness", steps(0, 0.9, false), true, func(p *pixel.RGB, v float64, _ *rand.Rand) { Sharpness(p, 1+v) }},
	{"AutoContrast", [10]float64{}, false, func(p *pixel.RGB, _ float64, _ *rand.Rand) { AutoContrast(p) }},
	{"Posterize", steps(8, 4, true), false, func(p *pixel.RGB, v float64, _ *rand.Rand) { Posterize(p, int(v)) }},
	{"ShearX", steps(0, 0.3, false), true, func(p *pixel.RGB, v float64, _ *rand.Rand) { ShearX(p, v) }},
	{"TranslateX", steps(0, 150./331, false), true, func(p *pixel.RGB, v float64, _ *rand.Rand) { TranslateX(p, v) }},
	{"TranslateY", steps(0, 150./331, false), true, func(p *pixel.RGB, v float64, _ *rand.Rand) { TranslateY(p, v) }},
	{"ShearY", steps(0, 0.3, false), true, func(p *pixel.RGB, v float64, _ *rand.Rand) { ShearY(p, v) }},
	{"Rotate", steps(0, 30, false), false, func(p *pixel.RGB, v float64, _ *rand.Rand) { Rotate(p, v) }},
	{"Equalize", [10]float64{}, false, func(p *pixel.RGB, _ float64, _ *rand.Rand) { Equalize(p) }},
	{"Contrast", steps(0, 0.9, false), true, func(p *pixel.RGB, v float64, _ *rand.Rand) { Contrast(p, 1+v) }},
	{"Color", steps(0, 0.9, false), true, func(p *pixel.RGB, v float64, _ *rand.Rand) { Color(p, 1+v) }},
	{"Solarize", steps(256, 0, false), false, func(p *pixel.RGB, v float64, _ *rand.Rand) { Solarize(p, v) }},
	{"Brightness", steps(0, 0.9, false), true, func(p *pixel.RGB, v float64, _ *rand.Rand) { Brightness(p, 1+v) }},
}

// FindOperation returns the operation of a name.
func FindOperation(name string) (Operation, error) {
	for _, o := range Operations {
		if o.Name == name {
			return o, nil
		}
	}
	return Operation{}, fmt.Errorf("augment: unknown operation %q", name)
}

// RandAugment is the policy of the package randaugment 1.0.2 (not the N, M version of the paper): one of the (15·9)²
// ordered pairs of operation and level, all equally likely; the first is applied with probability 0.5, then the second
// with probability 0.5.
type RandAugment struct{}

// Apply draws the pair, then for each half whether it applies, its sign and what the operation draws.
func (RandAugment) Apply(p *pixel.RGB, r *rand.Rand) (*pixel.RGB, error) {
	pairs := 9 * len(Operations)
	for _, i := range [2]int{r.IntN(pairs), r.IntN(pairs)} {
		if r.Float64() >= 0.5 {
			continue
		}
		o := Operations[i/9]
		v := o.Levels[1+i%9]
		if o.Signed && r.IntN(2) == 0 {
			v = -v
		}
		o.apply(p, v, r)
	}
	return p, nil
}

// LACWeak is LAC's weak view: flip, squash to n × n. Source: milkxie/SPML-LAC @ a630052, lib/dataset/get_dataset.py.
func LACWeak(n int) Pipeline {
	return Pipeline{RandomFlip(), Resize(n, n, pixel.Bilinear)}
}

// LACStrong is LAC's strong view in the order of its code: flip, squash to n × n, Cutout, RandAugment, colour jitter (p
// = 0.8), grey (p = 0.2). The paper mentions flip, Cutout and RandAugment only: [LACPaper].
func LACStrong(n int) Pipeline {
	return append(LACPaper(n), With(0.8, ColorJitter{0.4, 0.4, 0.4, 0.1}), RandomGray(0.2))
}

// LACPaper is the strong view as LAC's paper describes it.
func LACPaper(n int) Pipeline {
	return Pipeline{RandomFlip(), Resize(n, n, pixel.Bilinear), Cutout{0.5}, RandAugment{}}
}

// DualCoOp is DualCoOp's training view: squash to n × n, Cutout, RandAugment. Source: sunxm2357/DualCoOp @ 49e71d7,
// dataloaders.
func DualCoOp(n int) Pipeline {
	return Pipeline{Resize(n, n, pixel.Bilinear), Cutout{0.5}, RandAugment{}}
}

// SCPNet is SCPNet's training view: flip and a random resized crop to n × n. Source: jameslahm/SCPNet @ d56341a.
func SCPNet(n int) Pipeline {
	return Pipeline{RandomFlip(), RandomResizedCrop{W: n, H: n, Filter: pixel.Bilinear}}
}

// Ignore is IGNORE's strong view: flip, then three of torchvision's fourteen RandAugment operations at magnitude 5 of
// 31,
// drawn with repetition, each with a random sign where it has one. The picture is squashed to n × n first, which the
// released code does last; shears are bicubic and the outside is as this package's operations leave it. Source:
// gyeong-ryeol-song/SPML-IGNORE @ 5bfa563.
func Ignore(n int) Pipeline {
	return Pipeline{RandomFlip(), Resize(n, n, pixel.Bilinear), Func(func(p *pixel.RGB, r *rand.Rand) (*pixel.RGB, error) {
		for range 3 {
			o := fixedOperations[r.IntN(len(fixedOperations))]
			v := o.Levels[0]
			if o.Signed && r.IntN(2) == 0 {
				v = -v
			}
			o.apply(p, v, r)
		}
		return p, nil
	})}
}

// fixedOperations are those of torchvision's RandAugment at magnitude 5 of 31 bins, as Levels[0].
var fixedOperations = func() []Operation {
	at := func(name string, v float64, signed bool, f func(p *pixel.RGB, v float64)) Operation {
		return Operation{name, [10]float64{v}, signed, func(p *pixel.RGB, v float64, _ *rand.Rand) { f(p, v) }}
	}
	const shear, factor, share = 0.3 * 5 / 30, 0.9 * 5 / 30, 150. / 331 * 5 / 30
	return []Operation{
		at("Identity", 0, false, func(*pixel.RGB, float64) {}),
		at("ShearX", shear, true, func(p *pixel.RGB, v float64) { ShearX(p, v) }),
		at("ShearY", shear, true, func(p *pixel.RGB, v float64) { ShearY(p, v) }),
		at("TranslateX", share, true, func(p *pixel.RGB, v float64) { TranslateX(p, v) }),
		at("TranslateY", share, true, func(p *pixel.RGB, v float64) { TranslateY(p, v) }),
		at("Rotate", 5, true, func(p *pixel.RGB, v float64) { Rotate(p, v) }),
		at("Brightness", factor, true, func(p *pixel.RGB, v float64) { Brightness(p, 1+v) }),
		at("Color", factor, true, func(p *pixel.RGB, v float64) { Color(p, 1+v) }),
		at("Contrast", factor, true, func(p *pixel.RGB, v float64) { Contrast(p, 1+v) }),
		at("Sharpness", factor, true, func(p *pixel.RGB, v float64) { Sharpness(p, 1+v) }),
		at("Posterize", 7, false, func(p *pixel.RGB, v float64) { Posterize(p, int(v)) }),
		at("Solarize", 212.5, false, func(p *pixel.RGB, v float64) { Solarize(p, v) }),
		at("AutoContrast", 0, false, func(p *pixel.RGB, _ float64) { AutoContrast(p) }),
		at("Equalize", 0, false, func(p *pixel.RGB, _ float64) { Equalize(p) }),
	}
}()
