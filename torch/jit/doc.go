// Package jit runs TorchScript: modules that torch.jit.script or torch.jit.trace made in Python and torch.jit.save wrote (OpenAI's CLIP
// files are such).
//
// A TorchScript archive is a program. Load and Call run it inside libtorch's interpreter, which knows no Python but can compute without end and
// take all memory: load only files that you would run. For the weights alone, without running anything, nn.LoadPTH reads such archives too.
//
// Trace makes a module of layers written in Go, Save writes it for Python and C++.
//
// Values: a tensor is a *torch.Tensor; int, float, bool and str are int64, float64, bool and string (Go's int and float32 are taken as arguments
// too); None is nil; a tuple is a Tuple, a list a []any, a dict a Dict. Lists of one Go type ([]int64, []float64, []bool, []string,
// []*torch.Tensor) are taken as arguments.
//
// A Module may be called from many goroutines as far as its own code writes no attributes. Train, To and Close are not for use beside calls.
package jit
