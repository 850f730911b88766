// Command cpp-op compiles an operator written in C++, loads it and calls it. Python takes the same library with torch.ops.load_library.
//
//	go run ./examples/cpp-op
package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"

	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
)

//go:embed csrc/op.cpp
var source []byte

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cpp-op:", err)
		os.Exit(1)
	}
}

// load compiles the operator where that has not been done yet (half a minute), and registers it.
func load(ctx context.Context) error {
	library, err := native.CompileOps(ctx, "softclip", map[string][]byte{"op.cpp": source})
	if err != nil {
		return err
	}
	return torch.LoadOps(library)
}

// SoftClip is limit·tanh(x / limit).
func SoftClip(x *torch.Tensor, limit float64) *torch.Tensor {
	return torch.Call("example::softclip", x, limit)[0].(*torch.Tensor)
}

func run(ctx context.Context, out io.Writer) error {
	if err := load(ctx); err != nil {
		return err
	}
	x := torch.FromSlice([]float32{-100, -1, 0.1, 3}).SetRequiresGrad(true)
	y := SoftClip(x, 2)
	y.Sum().Backward()
	fmt.Fprintln(out, torch.Schema("example::softclip"))
	fmt.Fprintln(out, y.Detach())
	fmt.Fprintln(out, x.Grad())
	return nil
}
