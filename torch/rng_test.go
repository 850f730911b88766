package torch_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/internal/abi"
	"github.com/gospml/gospml/torch/torchtest"
	"github.com/stretchr/testify/require"
)

// rngStream is a stream of testdata/torch/rng.json; make_rng.py beside it says what the fields mean.
type rngStream struct {
	Name  string
	Seed  json.Number // up to 2⁶³-1
	Draws []rngDraw
	At    int
	State []byte
}

type rngDraw struct {
	Fn, DType string
	Args      []value
	Probs     *torchtest.Array
	Out       torchtest.Array
}

// draw draws with generator g, nil for the default one.
func (d *rngDraw) draw(g *torch.Generator) *torch.Tensor {
	arg := func(i int) float64 {
		switch v := d.Args[i].v.(type) {
		case int:
			return float64(v)
		case float64:
			return v
		}
		panic(fmt.Sprintf("%s: argument %d is no number", d.Fn, i))
	}
	shape := d.Out.Shape
	opts := []torch.Option{d.Out.DType}
	if g != nil {
		opts = append(opts, g)
	}
	blank := d.Out
	blank.Floats = make([]float64, len(d.Out.Floats)) // the same layout, zeros
	switch d.Fn {
	case "rand":
		return torch.Rand(shape, opts...)
	case "randn":
		return torch.Randn(shape, opts...)
	case "randint":
		return torch.Randint(d.Args[0].v.(int), d.Args[1].v.(int), shape, opts...)
	case "randperm":
		return torch.Randperm(d.Args[0].v.(int), opts...)
	case "uniform_":
		return blank.Tensor().Uniform_(arg(0), arg(1), g)
	case "normal_":
		return blank.Tensor().Normal_(arg(0), arg(1), g)
	case "bernoulli_":
		return blank.Tensor().Bernoulli_(arg(0), g)
	case "exponential_":
		return blank.Tensor().Exponential_(arg(0), g)
	case "geometric_":
		return blank.Tensor().Geometric_(arg(0), g)
	case "bernoulli":
		return d.Probs.Tensor().Bernoulli(g)
	case "multinomial":
		return d.Probs.Tensor().Multinomial(d.Args[0].v.(int), d.Args[1].v.(bool), g)
	case "dropout":
		// Dropout knows the default generator only: lend it the own one's state.
		if g != nil {
			before := torch.RNGState()
			torch.SetRNGState(g.State())
			defer func() { g.SetState(torch.RNGState()); torch.SetRNGState(before) }()
		}
		return torch.Dropout(torch.Ones(shape, d.Out.DType), arg(0), true)
	}
	panic("no draw " + d.Fn)
}

// same compares bit for bit, where the processor can.
func (d *rngDraw) same(t *testing.T, got *torch.Tensor) bool {
	t.Helper()
	tol := rngTolerance(d.Out.DType)
	return torchtest.AllClose(t, got, d.Out.Tensor(), tol, tol)
}

// rngTolerance is 0 on processors with AVX2 or AVX-512, on which libtorch draws the same bits. Its kernels for older ones
// have no fused multiply-add, so that scaled and normal numbers differ in the last place.
func rngTolerance(d torch.DType) float64 {
	if !d.IsFloat() || abi.CPUCapability() != "DEFAULT" {
		return 0
	}
	if d == torch.Float64 {
		return 1e-13
	}
	return 2e-6
}

// TestRandomNumbers compares with Python's numbers for the same seeds, from the default generator and from an own one,
// and goes on from Python's state in the middle of each stream.
func TestRandomNumbers(t *testing.T) {
	torchtest.NoLeaks(t)
	defer torch.SetRNGState(torch.RNGState())
	var file struct{ Streams []rngStream }
	golden("rng.json", &file)
	require.NotEmpty(t, file.Streams)
	for _, s := range file.Streams {
		t.Run(s.Name, func(t *testing.T) {
			seed, err := s.Seed.Int64()
			require.NoError(t, err)
			torch.ManualSeed(seed)
			own := torch.NewGenerator(seed)
			other := torch.NewGenerator(99)
			for k := range s.Draws {
				if k == s.At {
					require.True(t, bytes.Equal(s.State, torch.RNGState().Bytes()), "the default generator's state is not Python's")
					require.True(t, bytes.Equal(s.State, own.State().Bytes()), "the own generator's state is not Python's")
				}
				d := &s.Draws[k]
				require.True(t, d.same(t, d.draw(nil)), "draw %d (%s %v) from the default generator", k, d.Fn, d.Out.Shape)
				require.True(t, d.same(t, d.draw(own)), "draw %d (%s %v) from an own generator", k, d.Fn, d.Out.Shape)
			}
			state := torch.FromSlice(s.State)
			torch.ManualSeed(1)
			torch.SetRNGState(state)
			other.SetState(state)
			own.Seed(seed)
			for k := range s.Draws {
				d := &s.Draws[k]
				require.True(t, d.same(t, d.draw(own)), "draw %d (%s) after Seed", k, d.Fn)
				if k < s.At {
					continue
				}
				require.True(t, d.same(t, d.draw(nil)), "draw %d (%s) after SetRNGState", k, d.Fn)
				require.True(t, d.same(t, d.draw(other)), "draw %d (%s) after SetState", k, d.Fn)
			}
		})
	}
}

// TestRandomState saves a state in the middle, draws, restores and draws the same again; other generators do not move.
func TestRandomState(t *testing.T) {
	torchtest.NoLeaks(t)
	defer torch.SetRNGState(torch.RNGState())
	torch.ManualSeed(3)
	g := torch.NewGenerator(3)
	require.Equal(t, torch.RNGState().Bytes(), g.State().Bytes())
	torch.Randn(torch.S(5), torch.Float64, g)
	require.NotEqual(t, torch.RNGState().Bytes(), g.State().Bytes(), "drawing from g moved nothing")
	kept := torch.RNGState().Bytes()
	saved := g.State()
	first := torch.ToSlice[float64](torch.Randn(torch.S(9), torch.Float64, g))
	g.SetState(saved)
	require.Equal(t, first, torch.ToSlice[float64](torch.Randn(torch.S(9), torch.Float64, g)))
	require.NotEqual(t, first, torch.ToSlice[float64](torch.Randn(torch.S(9), torch.Float64, g)))
	require.Equal(t, kept, torch.RNGState().Bytes(), "drawing from g moved the default generator")

	for name, f := range map[string]func(){
		"short":   func() { g.SetState(torch.Zeros(torch.S(3), torch.Uint8)) },
		"dtype":   func() { torch.SetRNGState(torch.Zeros(torch.S(5056))) },
		"garbage": func() { g.SetState(torch.Full(torch.S(5056), 255, torch.Uint8)) },
		"nil":     func() { torch.SetRNGState(nil) },
	} {
		var e *torch.Error
		require.ErrorAs(t, torch.Try(f), &e, name)
	}
	require.Equal(t, kept, torch.RNGState().Bytes(), "a refused state changed the generator")
}
