package torch

import "strconv"

// Number is what functions take where an operator has a number. Its type decides that of the result: an int leaves a
// tensor of integers one, a float makes it one of floats, as in Python.
//
// Methods such as [Tensor.AddScalar] take any in its place, because Go gives methods no type parameters: they take
// these types and panic with [ErrType] at another. Methods where an int would mean the same as a float take a float64.
type Number interface {
	int | int32 | int64 | float32 | float64 | bool
}

// Reduction is what a loss makes of its elements.
type Reduction int

const (
	ReductionNone Reduction = iota // the elements as they are
	ReductionMean                  // their mean, over the weights where the loss has weights
	ReductionSum                   // their sum
)

// String is the word that PyTorch has for it.
func (r Reduction) String() string {
	switch r {
	case ReductionNone:
		return "none"
	case ReductionMean:
		return "mean"
	case ReductionSum:
		return "sum"
	}
	return "Reduction(" + strconv.Itoa(int(r)) + ")"
}
