// Command features runs, for every row of docs/features.tsv, the tests and examples that show the feature, and counts.
//
//	go run ./internal/features                     all rows
//	go run ./internal/features -rows 15-27,36
//	go run ./internal/features -table docs/ecosystem.tsv -want 46
//	go run ./internal/features -results tests.json what `go test -json ./...` printed, instead of running anything
//
// A row is shown when every test that it names ran, passed and asserts something. A test that is missing, was skipped, of which a
// subtest was skipped, that is empty or asserts nothing does not show it. The command exits with 1 when a row that names tests is not shown, when fewer rows are
// shown than -want says, or when a row that vision models need is not shown (the last two with all rows only).
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

const modulePath = "github.com/gospml/gospml"

func main() {
	table := flag.String("table", "docs/features.tsv", "the table of rows")
	rows := flag.String("rows", "", "rows to run, for instance 1-20,36; all by default")
	want := flag.Int("want", 62, "how many of all rows must be shown")
	results := flag.String("results", "", "a file with the output of `go test -json`; the tests are run when it is not given")
	flag.Parse()
	if err := run(*table, *rows, *want, *results, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "features:", err)
		os.Exit(1)
	}
}

func run(table, rows string, want int, results string, out io.Writer) error {
	f, err := os.Open(table)
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := parse(f)
	if err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	chosen, err := choose(all, rows)
	if err != nil {
		return err
	}
	ended, err := outcomes(chosen, results, out)
	if err != nil {
		return err
	}
	shown, broken, lacking := 0, 0, 0
	for _, r := range chosen {
		if r.show(out, ended) {
			shown++
			continue
		}
		if len(r.shows) > 0 {
			broken++
		}
		if r.need == needVision || r.need == needMust {
			lacking++
		}
	}
	fmt.Fprintf(out, "%d of %d rows shown\n", shown, len(chosen))
	var errs []error
	if broken > 0 {
		errs = append(errs, fmt.Errorf("%d rows name tests that do not show them", broken))
	}
	if rows == "" && shown < want {
		errs = append(errs, fmt.Errorf("%d rows shown, want %d", shown, want))
	}
	if rows == "" && lacking > 0 {
		errs = append(errs, fmt.Errorf("%d rows that must be shown are not", lacking))
	}
	return errors.Join(errs...)
}

// show prints the row's line and says whether its tests show it.
func (r row) show(out io.Writer, ended map[test]string) bool {
	if len(r.shows) == 0 {
		need := ""
		if r.need != "" {
			need = " (" + r.need + ")"
		}
		fmt.Fprintf(out, "%2d  not shown  %s%s: %s\n", r.number, r.feature, need, r.note)
		return false
	}
	bad := ""
	for _, s := range r.shows {
		if state := ended[s]; state != "pass" {
			bad += fmt.Sprintf(" %s %s: %s;", s.pkg, s.name, state)
		}
	}
	if bad != "" {
		fmt.Fprintf(out, "%2d  NOT SHOWN  %s:%s\n", r.number, r.feature, strings.TrimSuffix(bad, ";"))
		return false
	}
	fmt.Fprintf(out, "%2d  shown      %s\n", r.number, r.feature)
	return true
}

// outcomes says for every test of the rows how it ended: "pass", or why it shows nothing.
func outcomes(rows []row, results string, out io.Writer) (map[test]string, error) {
	byPackage := map[string][]string{}
	for _, r := range rows {
		for _, s := range r.shows {
			if !slices.Contains(byPackage[s.pkg], s.name) {
				byPackage[s.pkg] = append(byPackage[s.pkg], s.name)
			}
		}
	}
	var recorded map[test]string
	if results != "" {
		f, err := os.Open(results)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		recorded = readEvents(f)
	}
	source := newSource(".")
	states := map[test]string{}
	for _, pkg := range sortedKeys(byPackage) {
		names := byPackage[pkg]
		ended := recorded
		if results == "" {
			fmt.Fprintf(out, "%s: %d tests\n", pkg, len(names))
			var err error
			if ended, err = runTests(pkg, names); err != nil {
				return nil, err
			}
		}
		for _, name := range names {
			state := conclude(ended, test{pkg, name})
			if state == "pass" {
				top, _, _ := strings.Cut(name, "/")
				nothing, err := source.showsNothing(pkg, top)
				if err != nil {
					return nil, err
				}
				if nothing != "" {
					state = nothing
				}
			}
			states[test{pkg, name}] = state
		}
	}
	return states, nil
}

// conclude is a test's end with its subtests': a skipped subtest is a part that nobody saw.
func conclude(ended map[test]string, t test) string {
	state, ok := ended[t]
	if !ok {
		if ended[test{t.pkg, ""}] == "fail" {
			return "missing: its package failed or did not build"
		}
		return "missing"
	}
	if state != "pass" {
		return state
	}
	for other, s := range ended {
		if other.pkg == t.pkg && s == "skip" && strings.HasPrefix(other.name, t.name+"/") {
			return "skipped in part (" + other.name + ")"
		}
	}
	return state
}

// runTests runs the named tests of a package and says how each and each subtest ended.
func runTests(pkg string, tests []string) (map[test]string, error) {
	var tops []string
	for _, t := range tests {
		if top, _, _ := strings.Cut(t, "/"); !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	cmd := exec.Command("go", "test", "-json", "-count=1", "-run", "^("+strings.Join(tops, "|")+")$", "./"+pkg)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := readEvents(pipe)
	_ = cmd.Wait() // a failure is in the events
	return ended, nil
}

// readEvents reads what `go test -json` prints: how every test ended, and under the empty name its package. Other lines are left out.
func readEvents(r io.Reader) map[test]string {
	ended := map[test]string{}
	for line := range lines(r) {
		var e struct{ Action, Package, Test string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			ended[test{strings.TrimPrefix(e.Package, modulePath+"/"), e.Test}] = e.Action
		}
	}
	return ended
}
