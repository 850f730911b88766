// Command testcount reads the output of `go test -json` and prints one line for each package, everything that a failed
// test said and the reason of each skipped one, the slowest tests, the packages that took more CPU time than
// .ci/budgets gives them, and at last "N passed, N failed, N skipped". It ends with 1 when a test failed, when none
// passed, and with -no-skips when one was skipped that -allowed does not name. A passed budget is a warning.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

type timed struct {
	name    string
	seconds float64
}

type counter struct {
	w                       io.Writer
	output                  map[string]*strings.Builder // what a test that has not ended said
	failed                  map[string]bool             // packages in which a test was seen failing
	tests                   []timed                     // those that are no part of another
	allowed                 map[string]bool             // tests that may be skipped
	passes, failures, skips int
	strange                 int // skips of others
}

func main() {
	noSkips := flag.Bool("no-skips", false, "end with 1 when a test was skipped")
	allowed := flag.String("allowed", "", "with -no-skips: file of tests that may be skipped, a folder and a name in each line")
	slowest := flag.Int("slowest", 15, "slowest tests to print")
	cpu := flag.String("cpu", "", "file of .ci/cpu: folder, user and system seconds of each package")
	budgets := flag.String("budgets", ".ci/budgets", "CPU seconds for each package")
	flag.Parse()
	c := &counter{w: os.Stdout, output: map[string]*strings.Builder{}, failed: map[string]bool{}, allowed: map[string]bool{}}
	if *allowed != "" {
		err := lines(*allowed, func(line string) error {
			c.allowed["github.com/gospml/gospml/"+strings.TrimSpace(line)] = true
			return nil
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, "testcount:", err)
			os.Exit(1)
		}
	}
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
	c.slowest(*slowest)
	if *cpu != "" {
		if err := c.budgets(*cpu, *budgets); err != nil {
			fmt.Fprintln(os.Stderr, "testcount:", err)
			os.Exit(1)
		}
	}
	fmt.Fprintf(c.w, "%d passed, %d failed, %d skipped\n", c.passes, c.failures, c.skips)
	if c.failures > 0 || c.passes == 0 || *noSkips && c.strange > 0 {
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
		c.ended(e)
		delete(c.output, key)
	case e.Action == "fail", e.Action == "skip":
		if e.Action == "skip" {
			c.skips++
			if !c.allowed[key] {
				c.strange++
			}
		} else {
			c.failures++
			c.failed[e.Package] = true
			c.ended(e)
		}
		fmt.Fprintf(c.w, "%s: %s\n", strings.ToUpper(e.Action), key)
		if b := c.output[key]; b != nil {
			fmt.Fprint(c.w, b.String())
		}
		delete(c.output, key)
	}
}

func (c *counter) ended(e event) {
	if !strings.Contains(e.Test, "/") {
		c.tests = append(c.tests, timed{e.Package + " " + e.Test, e.Elapsed})
	}
}

func (c *counter) slowest(n int) {
	slices.SortStableFunc(c.tests, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintln(c.w, "slowest tests:")
	for _, t := range c.tests[:min(n, len(c.tests))] {
		fmt.Fprintf(c.w, "%7.1f s  %s\n", t.seconds, t.name)
	}
}

// budgets prints what the packages' test programs took together and which took more than a fifth above their budget.
func (c *counter) budgets(cpuPath, budgetPath string) error {
	given := map[string]float64{}
	err := lines(budgetPath, func(line string) error {
		var folder string
		var seconds float64
		if _, err := fmt.Sscan(line, &folder, &seconds); err != nil {
			return err
		}
		given[folder] = seconds
		return nil
	})
	if err != nil {
		return err
	}
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	var used []timed
	total := 0.0
	err = lines(cpuPath, func(line string) error {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return fmt.Errorf("%q: want folder, user and system seconds", line)
		}
		var user, system float64
		if _, err := fmt.Sscan(strings.Join(fields[max(0, len(fields)-2):], " "), &user, &system); err != nil {
			return err
		}
		folder, err := filepath.Rel(wd, strings.Join(fields[:len(fields)-2], " "))
		if err != nil {
			return err
		}
		used = append(used, timed{folder, user + system})
		total += user + system
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(used, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintf(c.w, "CPU time of %d packages' tests: %.0f s\n", len(used), total)
	for _, p := range used {
		budget, ok := given[p.name]
		if !ok {
			budget = given["default"]
		}
		if p.seconds > 1.2*budget {
			fmt.Fprintf(c.w, "warning: over budget: %s took %.0f s of CPU, %s gives it %.0f\n", p.name, p.seconds, budgetPath, budget)
		}
	}
	return nil
}

func lines(path string, f func(line string) error) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := f(line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	return nil
}
