//go:build !cgo

package pixel

import (
	"fmt"
	"unsafe"
)

// Without cgo there is no native library: PNG, GIF, BMP, TIFF and WebP are decoded, the rest is one sentence.
var errNoCgo = fmt.Errorf("%w: this program was built with CGO_ENABLED=0, so it cannot decode JPEG or resize; build it with cgo", ErrLibrary)

type library struct{}

func load() (*library, error) { return nil, errNoCgo }

func (*library) cpu() string { return "" }

func (*library) coefficients(int, int, Filter) ([]int32, [][]int32) { return nil, nil }

type context struct{}

func newContext() (*context, error) { return nil, errNoCgo }

func (*context) release() func()                                          { return func() {} }
func (*context) jpegDecode([]byte, int64, []byte) error                   { return errNoCgo }
func (*context) setJob(Geometry, *norm, int64)                            {}
func (*context) jpegResize([]byte, unsafe.Pointer, int) error             { return errNoCgo }
func (*context) resize(*RGB, unsafe.Pointer, int) error                   { return errNoCgo }
func (*context) normalize([]byte, int, int, *norm, bool, []float32) error { return errNoCgo }

func jpegSize([]byte) (w, h int, err error) { return 0, 0, errNoCgo }
