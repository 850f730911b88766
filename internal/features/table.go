package main

import (
	"bufio"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// test is a test, subtest or example: the folder of its package and its name.
type test struct{ pkg, name string }

// What a row is needed for.
const (
	needVision = "vision" // training and serving vision models needs it
	needGPU    = "gpu"    // training and serving them on a GPU does
	needMust   = "must"   // the module promises it (docs/ecosystem.tsv)
)

type row struct {
	number  int
	feature string
	need    string // needVision, needGPU or ""
	shows   []test
	note    string
}

// parse reads lines "number, feature, need, tests, note" with tabs between; tests are "package:Test" with spaces between.
func parse(r io.Reader) ([]row, error) {
	var rows []row
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(line, "\t")
		if len(cells) != 5 {
			return nil, fmt.Errorf("line %d: %d cells, want number, feature, need, tests, note", n, len(cells))
		}
		number, err := strconv.Atoi(cells[0])
		if err != nil || number != len(rows)+1 {
			return nil, fmt.Errorf("line %d: row %q, want %d", n, cells[0], len(rows)+1)
		}
		x := row{number: number, feature: cells[1], need: cells[2], note: cells[4]}
		if x.need != "" && x.need != needVision && x.need != needGPU && x.need != needMust {
			return nil, fmt.Errorf("line %d: need %q, want %s, %s, %s or nothing", n, x.need, needVision, needGPU, needMust)
		}
		for _, s := range strings.Fields(cells[3]) {
			pkg, name, ok := strings.Cut(s, ":")
			if !ok || !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Example") {
				return nil, fmt.Errorf("line %d: %q, want package:Test", n, s)
			}
			x.shows = append(x.shows, test{pkg, name})
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

// lines yields the lines of a stream, of any length.
func lines(r io.Reader) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		in := bufio.NewReaderSize(r, 1<<16)
		for {
			line, err := in.ReadBytes('\n')
			if len(line) > 0 && !yield(line) || err != nil {
				return
			}
		}
	}
}
