//go:build ignore

// Testcount reads the output of `go test -json` and prints one line for each package, everything that a failed test
// said and the reason of each skipped one, and at last "N passed, N failed, N skipped". It ends with 1 when a test
// failed, when none passed, and with -no-skips when one was skipped.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

type event struct{ Action, Package, Test, Output string }

type counter struct {
	w                       io.Writer
	output                  map[string]*strings.Builder // what a test that has not ended said
	failed                  map[string]bool             // packages in which a test was seen failing
	passes, failures, skips int
}

func main() {
	noSkips := flag.Bool("no-skips", false, "end with 1 when a test was skipped")
	flag.Parse()
	c := &counter{w: os.Stdout, output: map[string]*strings.Builder{}, failed: map[string]bool{}}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if line != "" {
			c.line(line)
		}
		if err != nil {
			break
		}
	}
	fmt.Fprintf(c.w, "%d passed, %d failed, %d skipped\n", c.passes, c.failures, c.skips)
	if c.failures > 0 || c.passes == 0 || *noSkips && c.skips > 0 {
		os.Exit(1)
	}
}

func (c *counter) line(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		fmt.Fprint(c.w, line)
		return
	}
	key := e.Package + " " + e.Test
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" {
			fmt.Fprint(c.w, e.Output)
		}
	case e.Action == "output":
		if c.output[key] == nil {
			c.output[key] = &strings.Builder{}
		}
		c.output[key].WriteString(e.Output)
	case e.Test == "" && e.Action == "fail" && !c.failed[e.Package]:
		// Did not build, or ended in the middle of its tests.
		c.failures++
		for k, b := range c.output {
			if strings.HasPrefix(k, e.Package+" ") {
				fmt.Fprint(c.w, b.String())
			}
		}
	case e.Test == "":
	case e.Action == "pass":
		c.passes++
		delete(c.output, key)
	case e.Action == "fail", e.Action == "skip":
		if e.Action == "skip" {
			c.skips++
		} else {
			c.failures++
			c.failed[e.Package] = true
		}
		fmt.Fprintf(c.w, "%s: %s\n", strings.ToUpper(e.Action), key)
		if b := c.output[key]; b != nil {
			fmt.Fprint(c.w, b.String())
		}
		delete(c.output, key)
	}
}
