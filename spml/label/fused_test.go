package label_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/internal/oplib"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/torch"
)

// scene is a problem for both forms.
type scene struct {
	b, c, r         int
	dtype           torch.DType
	levels          int  // cosines are multiples of 1/levels: ties; 0: none
	equal           bool // all cosines are the same
	strange         int  // how many cosines are NaN or infinite
	fractions, none bool // observed labels hold fractions; no class is observed
}

func (s scene) tensors(r *rand.Rand) (global, patches, observed *torch.Tensor) {
	draw := func(n int) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = 0.15 + 0.05*r.NormFloat64()
			if s.levels > 0 {
				v[i] = math.Round(v[i]*float64(s.levels)) / float64(s.levels)
			}
			if s.equal {
				v[i] = 0.25
			}
		}
		for range s.strange {
			v[r.IntN(n)] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)]
		}
		return v
	}
	global = torch.FromSlice(draw(s.b*s.c), s.b, s.c).ToDType(s.dtype)
	patches = torch.FromSlice(draw(s.r*s.b*s.c), s.r, s.b, s.c).ToDType(s.dtype)
	y := make([]float64, s.b*s.c)
	for i := range s.b {
		if !s.none {
			y[i*s.c+r.IntN(s.c)] = 1
			y[i*s.c+r.IntN(s.c)] = 1
		}
		if s.fractions {
			y[i*s.c+r.IntN(s.c)] = 1.5
		}
	}
	observed = torch.FromSlice(y, s.b, s.c)
	if !s.fractions {
		observed = observed.ToDType([]torch.DType{torch.Int8, torch.Float32, torch.Bool}[r.IntN(3)])
	}
	return global, patches, observed
}

var scenes = map[string]scene{
	"plain":           {b: 37, c: 80, r: 16},
	"cub":             {b: 9, c: 312, r: 25},
	"one photo":       {b: 1, c: 80, r: 16},
	"one tile":        {b: 8, c: 20, r: 1},
	"one class":       {b: 5, c: 1, r: 4},
	"one of all":      {b: 1, c: 1, r: 1},
	"two classes":     {b: 7, c: 2, r: 9},
	"10,000 classes":  {b: 3, c: 10_000, r: 4},
	"300 tiles":       {b: 2, c: 33, r: 300},
	"1,024 tiles":     {b: 1, c: 12, r: 1024},
	"ties":            {b: 40, c: 80, r: 16, levels: 30},
	"ties of many":    {b: 3, c: 5_000, r: 4, levels: 20},
	"all equal":       {b: 6, c: 80, r: 16, equal: true},
	"NaN":             {b: 30, c: 40, r: 4, strange: 12},
	"NaN and ties":    {b: 30, c: 17, r: 4, strange: 9, levels: 25},
	"fractions":       {b: 12, c: 20, r: 4, fractions: true},
	"nothing seen":    {b: 12, c: 20, r: 4, none: true},
	"no photos":       {b: 0, c: 20, r: 4},
	"several threads": {b: 700, c: 23, r: 9},
}

// The fused operators give the composed forms' labels, and scores of the same bits; NaN where they have NaN.
func TestFusedPseudoLabels(t *testing.T) {
	require.NoError(t, oplib.CPU())
	for name, s := range scenes {
		for _, dtype := range []torch.DType{torch.Float32, torch.Float64} {
			t.Run(fmt.Sprint(name, " ", dtype), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(len(name))))
				s.dtype = dtype
				equal := func(what string, got, want *torch.Tensor) {
					t.Helper()
					require.Equal(t, want.DType(), got.DType(), what)
					require.Equal(t, want.Shape(), got.Shape(), what)
					require.Equal(t, want.Contiguous().Bytes(), got.Contiguous().Bytes(), what)
				}
				numbers := func(what string, got, want *torch.Tensor) { // NaN may differ in its bits
					t.Helper()
					equal(what, got.NanToNum(-7, -8, -9), want.NanToNum(-7, -8, -9))
				}
				for i := range 6 {
					torch.Scope(func(*torch.Arena) {
						global, patches, observed := s.tensors(r)
						tau, theta, share := []float64{0.01, 0.03, 0.1}[i%3], []float64{0.3, 0.02, 1 / float64(s.c)}[i%3], []float64{0.2, 0, 1, 0.37, 0.5, 0.9}[i]
						if i == 4 { // not contiguous
							global, patches = global.T().Contiguous().T(), patches.Permute(2, 0, 1).Contiguous().Permute(1, 2, 0)
						}
						want, p, err := label.ComposedVLPL(global, tau, theta, share)
						require.NoError(t, err)
						got, q, err := label.VLPL(global, tau, theta, share)
						require.NoError(t, err)
						equal("vlpl", got, want)
						numbers("similarity", q, p)

						for _, form := range []label.DAMPForm{label.DAMPDefault, label.DAMPPaper, label.DAMPCount, label.DAMPCode} {
							if form == label.DAMPPaper && s.b == 0 {
								continue // libtorch has no quantile of nothing
							}
							c := label.DAMPConfig{Tau: tau, Nu: []float64{0.3, 0, 0.005, 1}[i%4], TopK: []int{3, 1, 32, 0}[i%4], Zeta: []float64{0.5, 0.005, 0.02}[i%3], Negative: share, Form: form}
							a, err := label.ComposedDAMP(global, patches, observed, c)
							require.NoError(t, err)
							f, err := label.DAMP(global, patches, observed, c)
							require.NoError(t, err)
							for _, v := range []struct {
								name      string
								got, want *torch.Tensor
							}{{"global", f.Global, a.Global}, {"best", f.Best, a.Best}, {"local", f.Local, a.Local}, {"agg", f.Agg, a.Agg}, {"final", f.Final, a.Final}, {"average", f.Average, a.Average}} {
								numbers(string(form)+" "+v.name, v.got, v.want)
							}
							equal(string(form)+" tile", f.Tile, a.Tile)
							equal(string(form)+" before", f.Before, a.Before)
							equal(string(form)+" pseudo", f.Pseudo, a.Pseudo)
						}
					})
				}
			})
		}
	}
}

// The form that keeps positives is compared with a sort in Go.
func TestVLPLKeep(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, s := range scenes {
		if s.fractions || s.strange > 0 {
			continue
		}
		for _, dtype := range []torch.DType{torch.Float32, torch.BFloat16} { // fused, composed
			t.Run(fmt.Sprint(name, " ", dtype), func(t *testing.T) {
				torch.Scope(func(*torch.Arena) {
					s.dtype = dtype
					global, _, observed := s.tensors(r)
					for _, share := range []float64{0, 0.3, 1} {
						want, p, err := label.ComposedVLPL(global, 0.03, 0.1, 0)
						require.NoError(t, err)
						got, q, err := label.VLPLKeep(global, observed, 0.03, 0.1, share)
						require.NoError(t, err)
						require.Equal(t, p.Bytes(), q.Bytes())
						labels, scores, seen := torch.ToSlice[int8](want), torch.ToSlice[float64](p), torch.ToSlice[float64](observed)
						for from := 0; from < len(labels); from += s.c {
							for range int(share * float64(s.c)) { // the lowest that is free, the first of equal ones
								low := -1
								for k := from; k < from+s.c; k++ {
									if labels[k] == 0 && seen[k] != 1 && (low < 0 || scores[k] < scores[low]) {
										low = k
									}
								}
								if low < 0 || s.c > 1000 {
									break
								}
								labels[low] = -1
							}
						}
						if s.c > 1000 { // counted only: the sort above is quadratic
							n := 0
							for _, y := range torch.ToSlice[int8](got) {
								if y == -1 {
									n++
								}
							}
							require.LessOrEqual(t, n, s.b*int(share*float64(s.c)))
							continue
						}
						require.Equal(t, labels, torch.ToSlice[int8](got), share)
					}
				})
			})
		}
	}
}

func TestFusedPseudoLabelsRefuse(t *testing.T) {
	require.NoError(t, oplib.CPU())
	x, y := torch.Zeros([]int{2, 3}, torch.Float32), torch.Zeros([]int{2, 3}, torch.Int8)
	tiles := torch.Zeros([]int{4, 2, 3}, torch.Float32)
	for text, f := range map[string]func(){
		"want float32 or float64":         func() { torch.Call("spml::vlpl_labels", x.ToDType(torch.BFloat16), nil, 1.0, 0.3, 0) },
		"the temperature is":              func() { torch.Call("spml::vlpl_labels", x, nil, 0.0, 0.3, 0) },
		"4 negatives of 3":                func() { torch.Call("spml::vlpl_labels", x, nil, 1.0, 0.3, 4) },
		"observed labels have shape":      func() { torch.Call("spml::damp_labels", x, tiles, y.T(), 1.0, 0.3, 3, 0.5, 0.2, 0) },
		"patches have shape":              func() { torch.Call("spml::damp_labels", x, tiles.Slice(1, 0, 1, 1), y, 1.0, 0.3, 3, 0.5, 0.2, 0) },
		"there is no form 4":              func() { torch.Call("spml::damp_labels", x, tiles, y, 1.0, 0.3, 3, 0.5, 0.2, 4) },
		"patches are Double":              func() { torch.Call("spml::damp_labels", x, tiles.ToDType(torch.Float64), y, 1.0, 0.3, 3, 0.5, 0.2, 0) },
		"want [B, C]":                     func() { torch.Call("spml::damp_labels", tiles, tiles, y, 1.0, 0.3, 3, 0.5, 0.2, 0) },
		"temperature 1, k -1, share of n": func() { torch.Call("spml::damp_labels", x, tiles, y, 1.0, 0.3, -1, 0.5, 0.2, 0) },
	} {
		require.ErrorContains(t, torch.Try(f), text)
	}
	// Shapes and types without data.
	meta := torch.Device{Type: torch.DeviceMeta}
	out := torch.Call("spml::damp_labels", x.ToDevice(meta), tiles.ToDevice(meta), y.ToDevice(meta), 1.0, 0.3, 3, 0.5, 0.2, 0)
	require.Len(t, out, 4)
	real := torch.Call("spml::damp_labels", x, tiles, y, 1.0, 0.3, 3, 0.5, 0.2, 0)
	for i := range out {
		require.Equal(t, real[i].(*torch.Tensor).Shape(), out[i].(*torch.Tensor).Shape())
		require.Equal(t, real[i].(*torch.Tensor).DType(), out[i].(*torch.Tensor).DType())
	}
	pair := torch.Call("spml::vlpl_labels", x.ToDevice(meta), nil, 1.0, 0.3, 0)
	require.Equal(t, []int{2, 3}, pair[1].(*torch.Tensor).Shape())
}
