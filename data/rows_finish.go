package data

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gospml/gospml/data/random"
)

// finish makes the Dataset.
func (b *builder) finish() (*Dataset, error) {
	if b.sortByName {
		b.sortClasses()
		if b.classFrom == "" {
			b.classFrom = "the names in the files, in alphabetical order"
		}
	}
	if err := b.dropRowsWithoutLabels(); err != nil {
		return nil, err
	}
	if len(b.rows) == 0 {
		return nil, formatError(b.file, 0, "no row was found")
	}
	if len(b.classes) == 0 && b.features == nil {
		return nil, formatError(b.file, 0, "no class was found: where are the labels?")
	}
	if int64(len(b.rows))*int64(len(b.classes)) > maxLabelCells {
		return nil, formatError(b.file, 0, "%d rows of %d classes: at most %d labels are held", len(b.rows), len(b.classes), maxLabelCells)
	}
	d := &Dataset{Name: b.t.name, Classes: b.classes}
	b.matrices(d)
	if err := b.observe(d); err != nil {
		return nil, err
	}
	if err := b.parts(d); err != nil {
		return nil, err
	}
	b.summary(d)
	if len(b.classes) > 0 {
		if err := d.Validate(); err != nil {
			return nil, err
		}
	}
	return b.photos(d)
}

func (b *builder) dropRowsWithoutLabels() error {
	empty := 0
	for i := range b.rows {
		if b.rows[i].empty() {
			empty++
		}
	}
	drop := b.opt.Empty == EmptyDrop || b.opt.Empty == "" && b.dropEmpty
	switch {
	case empty == 0 || len(b.classes) == 0:
	case drop:
		b.rows = slices.DeleteFunc(b.rows, func(r row) bool { return r.empty() })
		b.note("%d images without a label are left out", empty)
	default:
		b.note("%d images have no label", empty)
	}
	return nil
}

func (r *row) empty() bool {
	for _, m := range r.marks {
		if m.value == 1 {
			return false
		}
	}
	return len(r.positive) == 0
}

// matrices fills names, split, labels and observed labels.
func (b *builder) matrices(d *Dataset) {
	n, c := len(b.rows), len(b.classes)
	complete, observed := 0, 0
	d.Images, d.Split = make([]string, n), make([]Split, n)
	for i := range b.rows {
		r := &b.rows[i]
		d.Images[i], d.Split[i] = r.name, r.split
		if r.complete {
			complete++
		}
		if r.observed {
			observed++
		}
	}
	if complete > 0 {
		d.Labels = make([]int8, n*c)
		if complete < n {
			d.Full = make([]bool, n)
		}
	}
	if observed > 0 {
		d.Observed = make([]int8, n*c)
	}
	for i := range b.rows {
		r := &b.rows[i]
		if r.complete {
			for _, p := range r.positive {
				d.Labels[i*c+int(p)] = 1
			}
			if d.Full != nil {
				d.Full[i] = true
			}
		}
		if r.observed {
			for _, m := range r.marks {
				d.Observed[i*c+int(m.class)] = m.value
				if m.value == 1 && d.Full != nil && !r.complete {
					d.Labels[i*c+int(m.class)] = 1
				}
			}
		}
	}
}

// observe draws observed labels for the rows that have none but have full ones.
func (b *builder) observe(d *Dataset) error {
	if d.Labels == nil {
		d.Info.Labels = "none: nothing can be scored"
		d.Info.Observed = or(b.obsFrom, b.file)
		if d.Observed == nil {
			d.Info.Observed = "none"
		}
		return nil
	}
	d.Info.Labels = or(b.labelsFrom, b.file)
	if d.Observed != nil {
		d.Info.Observed = or(b.obsFrom, b.file)
	}
	if b.drawAll && d.Observed == nil && d.Full == nil {
		s, err := d.WithSinglePositives(b.opt.Seed)
		if err != nil {
			return err
		}
		d.Observed, d.Info.Observed = s.Observed, s.Info.Observed
		return nil
	}
	var drawn []int
	for part := range 2 { // train and val, then test
		var rows []int
		for i := range b.rows {
			if (d.Split[i] == Test) == (part == 1) && b.rows[i].complete && !b.rows[i].observed {
				rows = append(rows, i)
			}
		}
		if len(rows) == 0 {
			continue
		}
		labels := d.Labels
		if len(rows) < d.N() { // of a wide data set each copy counts
			labels = d.Gather(d.Labels, rows)
		}
		o, err := random.SinglePositive(labels, d.C(), b.opt.Seed)
		if err != nil {
			return fmt.Errorf("data: %s: %w", d.Name, err)
		}
		if drawn = append(drawn, len(rows)); len(rows) == d.N() {
			d.Observed = o
			break
		}
		if d.Observed == nil {
			d.Observed = make([]int8, len(d.Labels))
		}
		for i, r := range rows {
			copy(d.ObservedRow(r), o[i*d.C():(i+1)*d.C()])
		}
	}
	if len(drawn) > 0 {
		how := fmt.Sprintf("one positive of each row, drawn part by part (train and val together) in row order with seed %d", b.opt.Seed)
		if d.Info.Observed != "" {
			how = d.Info.Observed + "; for rows without: " + how
		}
		d.Info.Observed = how
	}
	return nil
}

// parts draws the parts that the files do not name.
func (b *builder) parts(d *Dataset) error {
	placed := 0
	for i := range b.rows {
		if b.rows[i].placed {
			placed++
		}
	}
	d.Info.Split = or(b.splitFrom, b.file)
	if placed > 0 && placed < len(b.rows) {
		for i := range b.rows {
			if r := &b.rows[i]; !r.placed {
				return formatError(r.file, r.line, "%q names no part, but other rows do: name train, val or test in every row", r.name)
			}
		}
	}
	if d.Labels == nil { // no part can be scored with full labels
		if placed == 0 {
			d.Info.Split = "the files name no parts and no row has full labels: none is a test row"
		}
		return d.drawObservedVal(b.opt.NoValidation)
	}
	if placed == 0 {
		if !d.fullOf(Train) {
			d.Info.Split = "the files name no parts and not every row has full labels: every row is a train row"
			return nil
		}
		if err := d.moveFifth(Test); err != nil {
			return err
		}
		d.Info.Split = fmt.Sprintf("the files name no parts: 20 %% of the rows drawn as test with seed %d", random.SplitSeed)
	}
	if !b.opt.NoValidation && len(d.Rows(Val)) == 0 && len(d.Rows(Train)) > 1 && d.fullOf(Train) {
		if err := d.moveFifth(Val); err != nil {
			return err
		}
		d.Info.Split += fmt.Sprintf("; 20 %% of the train rows drawn as val with seed %d", random.SplitSeed)
	}
	return nil
}

// drawObservedVal makes a fifth of the train rows of a set without full labels validation rows, so that an epoch can be
// chosen by their observed labels.
func (d *Dataset) drawObservedVal(none bool) error {
	if none || len(d.Rows(Val)) > 0 || len(d.Rows(Train)) < 5 {
		return nil
	}
	d.Info.Split += fmt.Sprintf("; 20 %% of the train rows drawn as val with seed %d, for scores against observed labels (no-validation: draw none)", random.SplitSeed)
	return d.moveFifth(Val)
}

func or(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

func (b *builder) summary(d *Dataset) {
	if b.merged > 0 {
		b.note("%d rows were given twice, equal: the second one is left out", b.merged)
	}
	if len(b.ignored) > 0 {
		n := 0
		var names []string
		for name, k := range b.ignored {
			n += k
			names = append(names, fmt.Sprintf("%q", name))
		}
		slices.Sort(names)
		if len(names) > 5 {
			names = append(names[:5], "…")
		}
		b.note("%d labels of %d unknown classes are ignored: %s", n, len(b.ignored), strings.Join(names, ", "))
	}
	d.Info.Classes, d.Info.Notes = b.classFrom, b.notes
}
