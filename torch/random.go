package torch

import (
	"runtime"

	"github.com/gospml/gospml/torch/internal/abi"
)

// ManualSeed seeds the default generators of all devices, as torch.manual_seed: the same seed gives Python's numbers.
func ManualSeed(seed int64) {
	mustLoad()
	if Recording() {
		notRecorded("manual_seed", "replays would not seed again; seed before the step")
	}
	r := abi.ManualSeed(uint64(seed))
	check("manual_seed", &r)
}

// Generator is a CPU random number generator of its own (PyTorch's mt19937). Draws from one generator are serialised by
// libtorch; for a repeatable order use it from one goroutine.
type Generator struct {
	h uint64
	_ [2]uint64 // a pointer-free object under 16 bytes cannot have a cleanup
}

// NewGenerator makes a generator with this seed.
func NewGenerator(seed int64) *Generator {
	mustLoad()
	r := abi.NewGenerator(uint64(seed))
	check("generator", &r)
	g := &Generator{h: r.W[0]}
	// Giving a generator back frees a few kilobytes and takes no lock that Go code may hold.
	runtime.AddCleanup(g, abi.FreeGenerator, g.h)
	return g
}

func (g *Generator) handle(op string) uint64 {
	if g == nil || g.h == 0 {
		panic(&Error{Kind: KindHandle, Op: op, Msg: "the generator is nil or was not made by NewGenerator"})
	}
	return g.h
}

// Seed restarts the generator.
func (g *Generator) Seed(seed int64) {
	if Recording() {
		notRecorded("manual_seed", "replays would not seed again; seed before the step")
	}
	r := abi.SeedGenerator(g.handle("manual_seed"), uint64(seed))
	check("manual_seed", &r)
	runtime.KeepAlive(g)
}

// State returns the generator's state, a uint8 tensor that Python's Generator.set_state takes too.
func (g *Generator) State() *Tensor {
	r := abi.GeneratorState(g.handle("get_state"))
	check("get_state", &r)
	runtime.KeepAlive(g)
	return ownOne(&r)
}

// SetState restores a state.
func (g *Generator) SetState(state *Tensor) {
	if Recording() {
		notRecorded("set_state", "replays would not set it again; set it before the step")
	}
	r := abi.SetGeneratorState(g.handle("set_state"), state.handle("set_state"))
	check("set_state", &r, state)
	runtime.KeepAlive(g)
	runtime.KeepAlive(state)
}

// RNGState is the state of the default CPU generator, as torch.get_rng_state.
func RNGState() *Tensor {
	mustLoad()
	r := abi.GeneratorState(0)
	check("get_rng_state", &r)
	return ownOne(&r)
}

// SetRNGState restores the default CPU generator, as torch.set_rng_state.
func SetRNGState(state *Tensor) {
	if Recording() {
		notRecorded("set_rng_state", "replays would not set it again; set it before the step")
	}
	r := abi.SetGeneratorState(0, state.handle("set_rng_state"))
	check("set_rng_state", &r, state)
	runtime.KeepAlive(state)
}
