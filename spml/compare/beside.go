package compare

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/train"
)

// Metrics of a table that a number from elsewhere can stand beside; others are shown alone.
const (
	TestMAP     = "test mAP"      // of the best epoch
	LastTestMAP = "last test mAP" // of the last epoch
	ValMAP      = "val mAP"       // of the best epoch
)

// Number is one from elsewhere: a paper's, another program's.
type Number struct {
	Method string   `json:"method"`
	Metric string   `json:"metric"`         // one of the metrics above, or another
	Mean   float64  `json:"mean"`           // percent, of an mAP
	Low    *float64 `json:"low,omitempty"`  // its interval; nil: none is known
	High   *float64 `json:"high,omitempty"` // likewise
	Source string   `json:"source"`

	Ours       *float64 `json:"ours,omitempty"` // the table's number; nil where it has none
	SD         float64  `json:"ours_sd,omitempty"`
	Seeds      int      `json:"ours_seeds,omitempty"`
	Difference *float64 `json:"difference,omitempty"` // ours - Mean
}

// numberFields are the columns of a file of numbers.
var numberFields = []string{"method", "metric", "mean", "interval", "source"}

// maxNumbers bytes are read of such a file.
const maxNumbers = 1 << 20

// ReadNumbers reads numbers from elsewhere: a CSV file with a head of method, metric, mean, interval, source, or the
// same keys in a list, in JSON or YAML. interval is "88.9 .. 89.3" or "± 0.2", in JSON and YAML also [88.9, 89.3]; it
// and metric may be missing (test mAP). Errors name the file and the line.
func ReadNumbers(path string) ([]Number, error) {
	fail := func(format string, a ...any) ([]Number, error) {
		return nil, fmt.Errorf("%w: %s: %s", train.ErrData, path, fmt.Sprintf(format, a...))
	}
	var read func(string) ([]record, error)
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv":
		read = fromCSV
	case ".json", ".yaml", ".yml": // JSON is YAML
		read = fromYAML
	default:
		return fail("want a file that ends in .csv, .json, .yaml or .yml")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxNumbers+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxNumbers:
		return fail("larger than %d KB", maxNumbers>>10)
	}
	records, err := read(string(b))
	if err != nil {
		return fail("%v", err)
	}
	if len(records) == 0 {
		return fail("no numbers; want %s in each line", strings.Join(numberFields, ", "))
	}
	var out []Number
	shares := true
	for _, r := range records {
		n, err := r.number()
		if err != nil {
			return fail("line %d: %v", r.line, err)
		}
		shares = shares && n.ofTable() && n.Mean <= 1
		out = append(out, n)
	}
	if shares {
		return fail("every mAP is 1 or less: they are taken in percent, so write 89.1 for 0.891")
	}
	return out, nil
}

// record is a line of a file of numbers as text.
type record struct {
	line   int
	fields map[string]string
}

func fromCSV(text string) ([]record, error) {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff")))
	r.TrimLeadingSpace = true
	head, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range head {
		head[i] = strings.ToLower(strings.TrimSpace(head[i]))
	}
	var out []record
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		x := record{line, map[string]string{}}
		for i, c := range cells {
			if x.fields[head[i]] != "" {
				return nil, fmt.Errorf("line 1: two columns are called %s", head[i])
			}
			x.fields[head[i]] = strings.TrimSpace(c)
		}
		out = append(out, x)
	}
}

func fromYAML(text string) ([]record, error) {
	var list []yaml.Node
	if err := yaml.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	var out []record
	for _, n := range list {
		var values map[string]yaml.Node
		if err := n.Decode(&values); err != nil {
			return nil, err
		}
		x := record{n.Line, map[string]string{}}
		for k, v := range values {
			text := v.Value
			if v.Kind == yaml.SequenceNode {
				var pair []float64
				if err := v.Decode(&pair); err != nil || len(pair) != 2 {
					return nil, fmt.Errorf("line %d: %s is no pair of numbers", v.Line, k)
				}
				text = fmt.Sprintf("%v .. %v", pair[0], pair[1])
			} else if v.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: %s is neither text nor a number", v.Line, k)
			}
			if v.Tag == "!!null" {
				text = ""
			}
			x.fields[strings.ToLower(k)] = text
		}
		out = append(out, x)
	}
	return out, nil
}

func (r record) number() (Number, error) {
	n := Number{Method: r.fields["method"], Metric: metricName(r.fields["metric"]), Source: r.fields["source"]}
	for k := range r.fields {
		if !slices.Contains(numberFields, k) {
			return n, fmt.Errorf("%q is none of %s", k, strings.Join(numberFields, ", "))
		}
	}
	for _, k := range []string{"method", "mean", "source"} {
		if r.fields[k] == "" {
			return n, fmt.Errorf("%s is missing", k)
		}
	}
	var err error
	if n.Mean, err = finite(r.fields["mean"]); err != nil {
		return n, fmt.Errorf("mean: %w", err)
	}
	if n.ofTable() && (n.Mean < 0 || n.Mean > 100) {
		return n, fmt.Errorf("mean is %v, want percent", n.Mean)
	}
	if text := r.fields["interval"]; text != "" {
		low, high, err := interval(text, n.Mean)
		if err != nil {
			return n, err
		}
		n.Low, n.High = &low, &high
	}
	return n, nil
}

// metricName gives a metric of the table its name, whichever way it is written.
func metricName(text string) string {
	switch strings.NewReplacer(" ", "", "_", "", "-", "", "%", "").Replace(strings.ToLower(text)) {
	case "", "map", "testmap", "bestmap":
		return TestMAP
	case "lastmap", "lasttestmap", "testmaplast":
		return LastTestMAP
	case "valmap", "validationmap":
		return ValMAP
	}
	return text
}

// ofTable says whether the table has the metric too.
func (n *Number) ofTable() bool {
	return slices.Contains([]string{TestMAP, LastTestMAP, ValMAP}, n.Metric)
}

func finite(text string) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return x, nil
}

// interval reads "± d", or two ends around the mean.
func interval(text string, mean float64) (low, high float64, err error) {
	bad := fmt.Errorf("interval %q: want two ends (88.9 .. 89.3), or ± 0.2", text)
	for _, sign := range []string{"±", "+-", "+/-"} {
		if rest, ok := strings.CutPrefix(text, sign); ok {
			d, err := finite(rest)
			if err != nil || d < 0 {
				return 0, 0, bad
			}
			return mean - d, mean + d, nil
		}
	}
	for _, between := range []string{"…", "..", " to ", ",", ";", "–"} {
		a, b, ok := strings.Cut(strings.Trim(text, "[]() "), between)
		if !ok {
			continue
		}
		low, err1 := finite(a)
		high, err2 := finite(strings.TrimPrefix(b, "."))
		if err1 != nil || err2 != nil {
			return 0, 0, bad
		}
		if low > mean || high < mean {
			return 0, 0, fmt.Errorf("interval %q does not hold the mean %v", text, mean)
		}
		return low, high, nil
	}
	return 0, 0, bad
}

// Lay lays numbers from elsewhere beside the table's: a row is found by its name, or by its method where one row alone
// has it. What the table does not have stands alone.
func (t *Table) Lay(numbers []Number) {
	for _, n := range numbers {
		if r := t.rowOf(n.Method); r != nil && r.LeftOut == "" {
			ours := func(mean, sd float64) {
				d := mean - n.Mean
				n.Ours, n.SD, n.Seeds, n.Difference = &mean, sd, len(r.Seeds), &d
			}
			switch {
			case n.Metric == TestMAP && !r.NoTest:
				ours(r.BestMean, r.BestSD)
			case n.Metric == LastTestMAP && !r.NoTest:
				ours(r.LastMean, r.LastSD)
			case n.Metric == ValMAP && len(r.Val) > 0:
				ours(r.ValMean, r.ValSD)
			}
		}
		t.Beside = append(t.Beside, n)
	}
}

// rowOf finds a row by its name, or by its method; nil: none, or several.
func (t *Table) rowOf(name string) *Row {
	for i := range t.Rows {
		if strings.EqualFold(t.Rows[i].Name, name) {
			return &t.Rows[i]
		}
	}
	if m, err := method.Lookup(name); err == nil {
		name = m.ID
	}
	var found *Row
	for i := range t.Rows {
		if t.Rows[i].Settings["method"] == name {
			if found != nil {
				return nil
			}
			found = &t.Rows[i]
		}
	}
	return found
}
