// Package torch is a Go binding over libtorch: tensors, automatic differentiation, modes, scopes, random numbers.
//
// # Tensors
//
// A *Tensor is a handle on a libtorch tensor. Methods carry PyTorch's names in CamelCase; a trailing underscore marks
// an in-place operation as in PyTorch (Add_). Dimensions are int and may be negative. Results are new tensors that may
// share storage with their operand (views), exactly as in PyTorch. Call reaches any registered operator by name.
// At and SetAt index as Python's brackets do; String prints as Python's repr does.
//
// # Ownership
//
// A tensor made inside Scope is freed when the scope ends, unless the scope's Keep moved it out; using it afterwards is
// an error that says so. A tensor made outside any scope is freed by Free, or by the garbage collector some time after
// it became unreachable; the collector is started by the bytes that tensors hold, so a loop without scopes stays bounded, only
// slower. Live counts the handles.
//
// # Threads
//
// libtorch keeps modes, scopes and its worker threads per OS thread. Scope, NoGrad, Inference and Do therefore lock the
// goroutine to its thread while they run; goroutines started inside inherit nothing. Operations may be called from any
// goroutine; at most one per core runs at a time, and one that runs beside others outside Scope, NoGrad, Inference and Do
// takes one thread instead of NumThreads (the last bits of a sum depend on that number). For long work use Do, for servers a Pool.
//
// A tensor may be read by many goroutines at once; writing it (in-place operations, backward into its gradient, Keep, Free)
// while another uses it is a race, as it is in PyTorch. Backward through graphs that share leaves is safe. The default random generator serves all goroutines in an order that nobody controls: for repeatable numbers use it from one goroutine.
//
// # Errors
//
// Tensor maths panics with *Error, which holds the operator, the shapes and a kind; Try turns that into an error, and
// errors.Is knows its kind as ErrIndex, ErrValue, ErrType, ErrHandle and so on. Shapes that do not fit are libtorch's
// RuntimeError and have no such value. Everything else that can fail returns an error. When libtorch is absent the error is
// one sentence that names the command to run.
//
// # Caveats
//
// An operation that is running cannot be cancelled. Tensors of a GPU want package cuda, which opens the CUDA part of libtorch;
// without it such a tensor is refused with a sentence. Linux x86-64 only.
package torch
