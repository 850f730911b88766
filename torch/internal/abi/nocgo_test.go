package abi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// A program that was built without cgo says so in one sentence, however it asks.
func TestWithoutCgo(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program")
	}
	dir := t.TempDir()
	main := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(main, []byte(`package main

import (
	"fmt"

	"github.com/gospml/gospml/torch"
)

func main() {
	fmt.Println(torch.Available())
	fmt.Println(torch.Try(func() { torch.Zeros(torch.S(2)) }))
	fmt.Println(torch.Try(func() { torch.Scope(func(*torch.Arena) {}) }))
	fmt.Println(torch.SetNumThreads(1))
	fmt.Println(torch.Live(), (*torch.Tensor)(nil))
	fmt.Println(torch.Do(func() error { return nil }))
	_, err := torch.NewPool(1)
	fmt.Println(err)
}
`), 0o644))
	exe := filepath.Join(dir, "main")
	cmd := exec.Command("go", "build", "-o", exe, main)
	cmd.Dir = testroot.Module()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	out, err = exec.Command(exe).CombinedOutput()
	require.NoError(t, err, string(out))
	const sentence = "torch: this program was built with CGO_ENABLED=0 and cannot call libtorch; build it with CGO_ENABLED=1 and a C compiler"
	require.Equal(t, []string{sentence, sentence, sentence, sentence, "0 tensor(<nil>)", "<nil>", sentence}, strings.Split(strings.TrimSpace(string(out)), "\n"))
}
