package torch

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gospml/gospml/torch/internal/abi"
)

// Kind classifies an Error; the names follow the Python exceptions that libtorch's errors become there.
type Kind int

// Kinds of errors.
const (
	KindRuntime        Kind = abi.Runtime        // shapes, dtypes and everything without a kind of its own
	KindIndex          Kind = abi.Index          // IndexError: a dimension or index out of range
	KindValue          Kind = abi.Value          // ValueError
	KindType           Kind = abi.Type           // TypeError
	KindNotImplemented Kind = abi.NotImplemented // no kernel for this dtype or device
	KindOutOfMemory    Kind = abi.OutOfMemory
	KindLinalg         Kind = abi.Linalg   // a singular matrix and the like
	KindInternal       Kind = abi.Internal // please report
	KindCall           Kind = abi.BadCall  // the arguments do not fit the operator's schema
	KindHandle         Kind = abi.Handle   // a tensor that was freed, whose scope ended, or that is nil
	KindLibrary        Kind = 21           // libtorch or our library is absent or does not fit
)

// Sentinels for errors.Is, one for each kind but KindRuntime and KindInternal, which hold everything else.
var (
	ErrIndex       = errors.New("index out of range")
	ErrValue       = errors.New("invalid value")
	ErrType        = errors.New("wrong type")
	ErrOutOfMemory = errors.New("out of memory")
	ErrNoKernel    = errors.New("no kernel for this dtype or device")
	ErrLinalg      = errors.New("linear algebra failed")
	ErrHandle      = errors.New("tensor is not usable")
	ErrLibrary     = errors.New("libtorch cannot be used")
)

// Error is what tensor maths panics with. Try converts it into an error.
type Error struct {
	Kind   Kind
	Op     string  // operator name, for instance "aten::mm"
	Shapes [][]int // shapes of the tensor arguments, where they could be read
	Msg    string  // libtorch's own words
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("torch: ")
	if e.Op != "" {
		b.WriteString(strings.TrimPrefix(e.Op, "aten::"))
		b.WriteString(": ")
	}
	if len(e.Shapes) > 0 {
		for i, s := range e.Shapes {
			if i > 0 {
				b.WriteString(" x ")
			}
			fmt.Fprint(&b, s)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Unwrap gives the sentinel of the kind.
func (e *Error) Unwrap() error {
	switch e.Kind {
	case KindIndex:
		return ErrIndex
	case KindValue:
		return ErrValue
	case KindType, KindCall:
		return ErrType
	case KindOutOfMemory:
		return ErrOutOfMemory
	case KindNotImplemented:
		return ErrNoKernel
	case KindLinalg:
		return ErrLinalg
	case KindHandle:
		return ErrHandle
	case KindLibrary:
		return ErrLibrary
	}
	return nil
}

// Try runs f and returns the *Error that it panicked with, if any. Other panics pass through.
func Try(f func()) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *Error:
			err = e
		default:
			panic(e)
		}
	}()
	f()
	return nil
}

// Available returns nil when libtorch and our library could be opened, else the one sentence that says what to run.
func Available() error {
	if err := abi.Load(); err != nil {
		return &Error{Kind: KindLibrary, Msg: strings.TrimPrefix(err.Error(), "torch: ")}
	}
	return nil
}

func mustLoad() {
	if err := Available(); err != nil {
		panic(err)
	}
}

// words is libtorch's message without the list of all kernels, pages long, that it adds where there is none.
func words(msg string) string {
	if head, _, cut := strings.Cut(msg, ". This could be because the operator doesn't exist"); cut {
		return head + ": the loaded libtorch has no such kernel"
	}
	if head, _, cut := strings.Cut(msg, " Hint: "); cut && strings.Contains(head, "modified by an inplace operation") {
		return head + " A method that writes its receiver (its name ends in _) changed a tensor that backward still needs: use the form" +
			" without _, or Clone the tensor before. DetectAnomaly names the operation whose gradient failed."
	}
	return msg
}

// check panics when a call outside the operator table failed.
func check(op string, r *abi.Result, ts ...*Tensor) {
	if r.Kind == abi.OK {
		return
	}
	e := &Error{Kind: Kind(r.Kind), Op: op, Msg: words(r.Message())}
	for _, t := range ts {
		if t != nil && t.h.Load() != 0 {
			e.Shapes = append(e.Shapes, t.Shape())
		}
	}
	panic(e)
}
