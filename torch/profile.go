package torch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gospml/gospml/torch/internal/abi"
)

// ProfileRow are the calls of one operator, or of one node of backward, within a profile.
type ProfileRow struct {
	Name  string
	Calls int
	Total time.Duration // from begin to end of each call
	Self  time.Duration // without the operators that they called
}

// Profile is what Profiled measured, the largest Self first.
type Profile []ProfileRow

// Profiled runs f and measures every operator that runs meanwhile in the process, on all threads, on the side of the CPU: on CUDA
// an operator only starts work. One profile is taken at a time.
func Profiled(f func()) Profile {
	mustLoad()
	r := abi.ProfileBegin()
	check("profile", &r)
	var text string
	func() {
		defer func() {
			e := abi.ProfileEnd(r.W[0])
			check("profile", &e)
			text = abi.Text(e.W[0])
		}()
		f()
	}()
	var p Profile
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		row := ProfileRow{Name: cells[0]}
		fmt.Sscan(strings.Join(cells[1:], " "), &row.Calls, (*int64)(&row.Total), (*int64)(&row.Self))
		p = append(p, row)
	}
	slices.SortFunc(p, func(a, b ProfileRow) int { return cmp.Compare(b.Self, a.Self) })
	return p
}

// String is a table of all rows.
func (p Profile) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "self\ttotal\tcalls\t  operator")
	for _, r := range p {
		fmt.Fprintf(w, "%v\t%v\t%d\t  %s\n", r.Self.Round(time.Microsecond), r.Total.Round(time.Microsecond), r.Calls, r.Name)
	}
	w.Flush()
	return b.String()
}
