// Command docs writes docs/papers.md: go generate ./spml/reproduce.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/reproduce"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docs FILE")
		os.Exit(2)
	}
	var b bytes.Buffer
	err := reproduce.WritePage(&b)
	if err == nil {
		err = atomicfile.WriteBytes(os.Args[1], 0o644, b.Bytes())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
