package random

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext/prng"
)

// RandomState is numpy.random.RandomState: same seed, same numbers. Make one with [New].
type RandomState struct {
	mt       prng.MT19937
	gauss    float64 // the second value of the last normal pair
	hasGauss bool
}

// New returns numpy.random.RandomState(seed).
func New(seed uint32) *RandomState {
	r := &RandomState{}
	r.mt.Seed(uint64(seed))
	return r
}

// Uint32 returns the generator's next 32 bits.
func (r *RandomState) Uint32() uint32 { return r.mt.Uint32() }

// Interval returns a uniform integer in [0, max], by numpy's masked rejection. max = 0 draws nothing.
func (r *RandomState) Interval(max uint64) uint64 {
	if max == 0 {
		return 0
	}
	mask := max
	for shift := 1; shift <= 32; shift <<= 1 {
		mask |= mask >> shift
	}
	if max <= math.MaxUint32 {
		for {
			if v := uint64(r.mt.Uint32()) & mask; v <= max {
				return v
			}
		}
	}
	for {
		if v := r.mt.Uint64() & mask; v <= max {
			return v
		}
	}
}

// Shuffle permutes n elements by swap, as numpy's shuffle does: for i = n-1 … 1 swap(i, Interval(i)). Lengths 0 and 1 draw nothing.
func (r *RandomState) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, int(r.Interval(uint64(i))))
	}
}

// ShuffleInts is [RandomState.Shuffle] of a slice.
func (r *RandomState) ShuffleInts(a []int) {
	for i := len(a) - 1; i > 0; i-- {
		j := r.Interval(uint64(i))
		a[i], a[j] = a[j], a[i]
	}
}

// Permutation returns 0 … n-1 in a random order. n below 1 gives an empty slice and draws nothing.
func (r *RandomState) Permutation(n int) []int {
	a := make([]int, max(n, 0))
	for i := range a {
		a[i] = i
	}
	r.ShuffleInts(a)
	return a
}

// RandomSample returns a uniform double in [0, 1) with 53 random bits.
func (r *RandomState) RandomSample() float64 {
	a, b := r.mt.Uint32()>>5, r.mt.Uint32()>>6
	return (float64(a)*(1<<26) + float64(b)) / (1 << 53) // exact: a·2²⁶ + b < 2⁵³
}

// Uniform returns lo + (hi-lo)·RandomSample().
func (r *RandomState) Uniform(lo, hi float64) float64 {
	return lo + float64((hi-lo)*r.RandomSample()) // the conversion forbids a fused multiply-add, which would round differently
}

// Randint returns a uniform integer in [lo, hi), as numpy's randint with its default int64. It is an error if the range is empty.
func (r *RandomState) Randint(lo, hi int64) (int64, error) {
	if lo >= hi {
		return 0, fmt.Errorf("random: Randint(%d, %d): the range is empty, lo must be below hi", lo, hi)
	}
	return int64(uint64(lo) + r.Interval(uint64(hi)-uint64(lo)-1)), nil
}

// StandardNormal returns a normal value with mean 0 and deviation 1 by the polar method, two uniforms a pair, as numpy's legacy
// generator. Go's logarithm is not the C library's, so values may differ from numpy's by a few units in the last place.
func (r *RandomState) StandardNormal() float64 {
	if r.hasGauss {
		g := r.gauss
		r.gauss, r.hasGauss = 0, false
		return g
	}
	for {
		x1 := 2*r.RandomSample() - 1 // exact products: no fused form differs
		x2 := 2*r.RandomSample() - 1
		r2 := float64(x1*x1) + float64(x2*x2)
		if r2 >= 1 || r2 == 0 {
			continue
		}
		f := math.Sqrt(-2 * math.Log(r2) / r2)
		r.gauss, r.hasGauss = f*x1, true
		return f * x2
	}
}

const stateSize = 625*4 + 1 + 8

// MarshalBinary returns the whole state, for a checkpoint: [RandomState.UnmarshalBinary] goes on with the same numbers.
func (r *RandomState) MarshalBinary() ([]byte, error) {
	b, err := r.mt.MarshalBinary()
	if err != nil {
		return nil, err
	}
	has := byte(0)
	if r.hasGauss {
		has = 1
	}
	return binary.BigEndian.AppendUint64(append(b, has), math.Float64bits(r.gauss)), nil
}

// UnmarshalBinary restores a state that [RandomState.MarshalBinary] gave. The state is unchanged after an error.
func (r *RandomState) UnmarshalBinary(b []byte) error {
	if len(b) != stateSize {
		return fmt.Errorf("random: a RandomState has %d bytes, these are %d", stateSize, len(b))
	}
	if pos := binary.BigEndian.Uint32(b[624*4:]); pos > 624 || b[625*4] > 1 {
		return errors.New("random: these bytes are no RandomState (position or flag out of range)")
	}
	r.hasGauss = b[625*4] == 1
	r.gauss = math.Float64frombits(binary.BigEndian.Uint64(b[625*4+1:]))
	return r.mt.UnmarshalBinary(b)
}
