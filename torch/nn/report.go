package nn

import (
	"fmt"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/gospml/gospml/internal/spelling"
	"github.com/gospml/gospml/torch"
)

// LoadReport says what LoadStateDict did.
type LoadReport struct {
	Loaded     int         // tensors that were copied
	Missing    []string    // keys of the module that the state dict lacks
	Unexpected []string    // keys of the state dict that the module lacks
	MisShaped  []MisShaped // keys whose tensors differ in shape
	MisTyped   []Converted // keys where floating point meets integers
	Converted  []Converted // keys whose values were converted
	Kept       []string    // counters that the state dict lacks; the module's own stay
	Hint       string      // what may mend the keys; empty where nothing is known
}

// MisShaped is a tensor whose shape differs.
type MisShaped struct {
	Key         string
	Module, Got []int // the module's shape and the state dict's
}

// Converted is a tensor whose type differs.
type Converted struct {
	Key      string
	From, To torch.DType // the state dict's type and the module's
}

// Complete says whether every key has its counterpart.
func (r *LoadReport) Complete() bool { return len(r.Missing)+len(r.Unexpected) == 0 }

// LoadError is the error of LoadStateDict; its text is a table of the first differences.
type LoadError struct{ Report *LoadReport }

func (e *LoadError) Error() string {
	return "nn: the state dict does not fit the module: " + e.Report.String()
}

// rows is how many lines of each kind String prints.
const rows = 12

// String summarises the report in a line, followed by a table of the differences where there are any.
func (r *LoadReport) String() string {
	var counts []string
	count := func(n int, what string) {
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, what))
		}
	}
	count(r.Loaded, "loaded")
	count(len(r.Missing), "missing")
	count(len(r.Unexpected), "unexpected")
	count(len(r.MisShaped), "of another shape")
	count(len(r.MisTyped), "of another kind of number")
	if len(r.Converted) > 0 {
		counts = append(counts, r.conversions())
	}
	count(len(r.Kept), "counters absent and kept")
	if len(counts) == 0 {
		counts = []string{"no tensors"}
	}
	var b strings.Builder
	b.WriteString(strings.Join(counts, ", "))
	if r.Complete() && len(r.MisShaped)+len(r.MisTyped) == 0 {
		return b.String()
	}
	b.WriteString("\n")
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	table(w, "missing", len(r.Missing), func(i int) string { return r.Missing[i] })
	table(w, "unexpected", len(r.Unexpected), func(i int) string { return r.Unexpected[i] })
	table(w, "shape", len(r.MisShaped), func(i int) string {
		m := r.MisShaped[i]
		return fmt.Sprintf("%s\tmodule %v\tstate dict %v", m.Key, m.Module, m.Got)
	})
	table(w, "type", len(r.MisTyped), func(i int) string {
		m := r.MisTyped[i]
		return fmt.Sprintf("%s\tmodule %v\tstate dict %v", m.Key, m.To, m.From)
	})
	w.Flush()
	if r.Hint != "" {
		b.WriteString("  did you mean: " + r.Hint + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

func table(w *tabwriter.Writer, what string, n int, row func(int) string) {
	for i := range min(n, rows) {
		fmt.Fprintf(w, "  %s\t%s\n", what, row(i))
	}
	if n > rows {
		fmt.Fprintf(w, "  %s\t… and %d more\n", what, n-rows)
	}
}

func (r *LoadReport) conversions() string {
	n := map[string]int{}
	for _, c := range r.Converted {
		n[fmt.Sprintf("%v to %v", c.From, c.To)]++
	}
	var s []string
	for k, v := range n {
		s = append(s, fmt.Sprintf("%d converted from %s", v, k))
	}
	sort.Strings(s)
	return strings.Join(s, ", ")
}

// hint looks for a prefix that the two sides differ by, and else for a key that looks like a missing one.
func (r *LoadReport) hint() {
	if len(r.Missing) == 0 || len(r.Unexpected) == 0 {
		return
	}
	if p, n := commonPrefix(r.Unexpected, r.Missing); n > 0 {
		r.Hint = fmt.Sprintf("%d of the unexpected keys fit without their prefix %q (StateDict.TrimPrefix)", n, p)
		return
	}
	if p, n := commonPrefix(r.Missing, r.Unexpected); n > 0 {
		r.Hint = fmt.Sprintf("%d of the unexpected keys fit with the prefix %q (StateDict.AddPrefix)", n, p)
		return
	}
	best, at := 4, [2]string{}
	for _, m := range r.Missing[:min(len(r.Missing), 100)] {
		for _, u := range r.Unexpected[:min(len(r.Unexpected), 100)] {
			if d := spelling.Distance(m, u); d < best && 4*d <= len(m) {
				best, at = d, [2]string{m, u}
			}
		}
	}
	if at[0] != "" {
		r.Hint = fmt.Sprintf("%q for %q", at[0], at[1])
	}
}

// commonPrefix finds the prefix that most of the long keys carry before one of the short ones.
func commonPrefix(long, short []string) (prefix string, n int) {
	have := map[string]bool{}
	for _, s := range short {
		have[s] = true
	}
	fits := map[string]int{}
	for _, l := range long {
		for i, c := range l {
			if c == '.' && have[l[i+1:]] {
				fits[l[:i+1]]++
			}
		}
	}
	for p, k := range fits {
		if k > n || k == n && p < prefix {
			prefix, n = p, k
		}
	}
	return prefix, n
}
