package torchtest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gospml/gospml/torch"
)

// AllClose fails the test, and returns false, unless got has want's shape and dtype and every element fulfils
//
//	|got - want| <= atol + rtol·|want|
//
// Equal infinities are close, and so are two NaNs. The message names the worst element and counts the others. Integers
// are compared as float64.
func AllClose(t testing.TB, got, want *torch.Tensor, rtol, atol float64) bool {
	t.Helper()
	if err := compare(got, want, rtol, atol); err != nil {
		t.Error(err)
		return false
	}
	return true
}

// Equal fails the test, and returns false, unless got has want's shape, dtype and values, exactly.
func Equal(t testing.TB, got, want *torch.Tensor) bool {
	t.Helper()
	return AllClose(t, got, want, 0, 0)
}

func compare(got, want *torch.Tensor, rtol, atol float64) error {
	if got == nil || want == nil {
		if got != want {
			return fmt.Errorf("one tensor is nil: got %v, want %v", name(got), name(want))
		}
		return nil
	}
	if !slices.Equal(got.Shape(), want.Shape()) || got.DType() != want.DType() {
		return fmt.Errorf("got %s, want %s", name(got), name(want))
	}
	a, b := torch.ToSlice[float64](got), torch.ToSlice[float64](want)
	bad, worst, excess := 0, 0, -1.0
	for i := range a {
		e := beyond(a[i], b[i], rtol, atol)
		if e <= 0 {
			continue
		}
		bad++
		if e > excess {
			worst, excess = i, e
		}
	}
	if bad == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d elements differ by more than %.3g + %.3g·|want|; the worst is at %v: got %v, want %v (|difference| %.3g)",
		bad, len(a), atol, rtol, position(got.Shape(), worst), a[worst], b[worst], math.Abs(a[worst]-b[worst]))
}

// beyond is how far a lies outside the tolerance around b, 0 or less when inside.
func beyond(a, b, rtol, atol float64) float64 {
	if a == b || math.IsNaN(a) && math.IsNaN(b) {
		return 0
	}
	e := math.Abs(a-b) - atol - rtol*math.Abs(b)
	if math.IsNaN(e) || math.IsInf(b, 0) || math.IsInf(a, 0) {
		return math.Inf(1)
	}
	return e
}

func name(t *torch.Tensor) string {
	if t == nil {
		return "nil"
	}
	return fmt.Sprintf("%v %v", t.DType(), t.Shape())
}
