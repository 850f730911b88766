// Command features runs, for every row of docs/features.tsv, the test or example that shows the feature, and counts.
//
//	go run ./internal/features            all rows
//	go run ./internal/features -rows 15-27,36
//
// A row is shown when every test that it names ran and passed. A missing, skipped or empty one does not show it. The command exits with
// 1 when fewer rows are shown than -want says (with all rows only), or when a row that names tests is not shown.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	table := flag.String("table", "docs/features.tsv", "the table of rows")
	rows := flag.String("rows", "", "rows to run, for instance 1-20,36; all by default")
	want := flag.Int("want", 62, "how many of all rows must be shown")
	flag.Parse()
	if err := run(*table, *rows, *want, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "features:", err)
		os.Exit(1)
	}
}

func run(table, rows string, want int, out io.Writer) error {
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
	tests := map[string][]string{} // by package
	for _, r := range chosen {
		for _, s := range r.shows {
			if !slices.Contains(tests[s.pkg], s.test) {
				tests[s.pkg] = append(tests[s.pkg], s.test)
			}
		}
	}
	results := map[show]string{}
	for _, pkg := range sortedKeys(tests) {
		fmt.Fprintf(out, "%s: %d tests\n", pkg, len(tests[pkg]))
		passed, err := runTests(pkg, tests[pkg])
		if err != nil {
			return err
		}
		for _, t := range tests[pkg] {
			state := passed[t]
			if state == "pass" {
				if empty, err := isEmpty(pkg, t); err != nil {
					return err
				} else if empty {
					state = "empty"
				}
			}
			if state == "" {
				state = "missing"
			}
			results[show{pkg, t}] = state
		}
	}
	shown, broken := 0, 0
	for _, r := range chosen {
		if len(r.shows) == 0 {
			fmt.Fprintf(out, "%2d  not shown  %s: %s\n", r.number, r.feature, r.note)
			continue
		}
		bad := ""
		for _, s := range r.shows {
			if results[s] != "pass" {
				bad += fmt.Sprintf(" %s %s is %s;", s.pkg, s.test, results[s])
			}
		}
		if bad != "" {
			broken++
			fmt.Fprintf(out, "%2d  NOT SHOWN  %s:%s\n", r.number, r.feature, bad)
			continue
		}
		shown++
		fmt.Fprintf(out, "%2d  shown      %s\n", r.number, r.feature)
	}
	fmt.Fprintf(out, "%d of %d rows shown\n", shown, len(chosen))
	if broken > 0 {
		return fmt.Errorf("%d rows name tests that do not show them", broken)
	}
	if rows == "" && shown < want {
		return fmt.Errorf("%d rows shown, want %d", shown, want)
	}
	return nil
}

// runTests runs the named tests of a package, subtests by their path, and says how each ended.
func runTests(pkg string, tests []string) (map[string]string, error) {
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
	ended := map[string]string{}
	for d := json.NewDecoder(pipe); ; {
		var e struct{ Action, Test string }
		if err := d.Decode(&e); err != nil {
			break
		}
		if e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			ended[e.Test] = e.Action
		}
	}
	_ = cmd.Wait() // a failure is in the events
	return ended, nil
}

// isEmpty says whether a test's function has no statements, or an example no output to compare.
func isEmpty(pkg, test string) (bool, error) {
	name, _, _ := strings.Cut(test, "/")
	files, err := filepath.Glob(filepath.Join(pkg, "*_test.go"))
	if err != nil {
		return false, err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return false, err
		}
		_, body, found := strings.Cut(string(b), "\nfunc "+name+"(")
		if !found {
			continue
		}
		body, _, _ = strings.Cut(body, "\n}\n")
		statements := 0
		for _, line := range strings.Split(body, "\n")[1:] {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				statements++
			}
		}
		return statements == 0 || strings.HasPrefix(name, "Example") && !strings.Contains(body, "// Output:") && !strings.Contains(body, "// Unordered output:"), nil
	}
	return true, nil
}

type show struct{ pkg, test string }

type row struct {
	number  int
	feature string
	shows   []show
	note    string
}

// parse reads lines "number, feature, tests, note" with tabs between; tests are "package:Test" with spaces between.
func parse(r io.Reader) ([]row, error) {
	var rows []row
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) != 4 {
			return nil, fmt.Errorf("line %d: %d cells, want number, feature, tests, note", n, len(cells))
		}
		number, err := strconv.Atoi(cells[0])
		if err != nil || number != len(rows)+1 {
			return nil, fmt.Errorf("line %d: row %q, want %d", n, cells[0], len(rows)+1)
		}
		x := row{number: number, feature: cells[1], note: cells[3]}
		for _, s := range strings.Fields(cells[2]) {
			pkg, test, ok := strings.Cut(s, ":")
			if !ok || !strings.HasPrefix(test, "Test") && !strings.HasPrefix(test, "Example") {
				return nil, fmt.Errorf("line %d: %q, want package:Test", n, s)
			}
			x.shows = append(x.shows, show{pkg, test})
		}
		if len(x.shows) == 0 && x.note == "" {
			return nil, fmt.Errorf("line %d: a row that nothing shows needs a reason", n)
		}
		rows = append(rows, x)
	}
	return rows, lines.Err()
}

func choose(all []row, spec string) ([]row, error) {
	if spec == "" {
		return all, nil
	}
	var out []row
	for _, part := range strings.Split(spec, ",") {
		a, b, _ := strings.Cut(part, "-")
		if b == "" {
			b = a
		}
		from, err1 := strconv.Atoi(a)
		to, err2 := strconv.Atoi(b)
		if err1 != nil || err2 != nil || from < 1 || to > len(all) || from > to {
			return nil, fmt.Errorf("rows %q: want numbers from 1 to %d, for instance 3,15-27", part, len(all))
		}
		out = append(out, all[from-1:to]...)
	}
	return out, nil
}

func sortedKeys(m map[string][]string) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}
