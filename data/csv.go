package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/data/random"
)

// ValFraction is the part of the training rows that Cole et al. keep for validation.
const ValFraction = 0.2

// CSVOptions are the choices of [OpenCSV]. The zero value is usable.
type CSVOptions struct {
	Seed         uint32 // chooses observed_<Seed>.csv, or draws the observed labels
	Images       string // folder of the images; empty: images/ in the data set's folder
	NoValidation bool   // draw no validation rows where split.csv names none
	Missing      MissingRule
}

// OpenCSV opens a data set of CSV files. Its folder holds
//
//	labels.csv            filename,<class>,<class>,…    one row an image, 0 or 1 in each class: the full labels
//	images/               the files that the first column names
//	split.csv             filename,split                train, val or test for every row; optional
//	observed_<seed>.csv   as labels.csv with -1, 0, 1   what training may see, for this seed; optional
//	observed.csv          the same for every seed; optional
//
// labels.csv may be absent where an observed file is there: then the rows and classes are those of that file and
// nothing can be scored.
//
// What is absent is made, and [Info] of the result says how:
//   - No observed file: one positive of each row is drawn by [random.SinglePositive] with the seed over all rows in file order.
//   - No val rows in split.csv: [random.Split] with seed 1200 moves 20 % of the train rows to val, as the papers do with the official
//     training part (not with NoValidation). Without full labels too, for scores against the observed ones.
//   - No split.csv: the same rule first moves 20 % of all rows to test, then 20 % of the rest to val (64/16/20), because scores of the
//     rows on which the best epoch was chosen are too good. Without full labels no row is a test row.
//
// Wrong files give a [*FormatError] with file and line, among them a named image that does not exist. Images are not
// decoded here. Paths that leave the folder are refused, links too. The caller closes the Dataset.
func OpenCSV(dir string, opt CSVOptions) (*Dataset, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("data: cannot open the data set's folder: %w", err)
	}
	defer root.Close()
	d := &Dataset{Name: datasetName(dir)}

	labels, err := readTableFile(root, "labels.csv", fullLabel, "0 or 1")
	if err != nil {
		return nil, err
	}
	observed, err := readTableFile(root, fmt.Sprintf("observed_%d.csv", opt.Seed), observedLabel, "-1, 0 or 1")
	if observed == nil && err == nil {
		observed, err = readTableFile(root, "observed.csv", observedLabel, "-1, 0 or 1")
	}
	if err != nil {
		return nil, err
	}
	rows := labels
	if rows == nil {
		rows = observed
	}
	if rows == nil {
		return nil, formatError(d.Name, 0, "%s has no labels.csv: a CSV data set is a folder with labels.csv, images/ and, if wanted, split.csv and observed_<seed>.csv", dir)
	}
	d.Classes, d.Images = rows.columns, rows.names
	d.Info.Labels = "none: nothing can be scored"
	if labels != nil {
		d.Labels, d.Info.Labels = labels.cells, labels.file
	}
	if observed != nil {
		if d.Observed, err = observed.inOrderOf(rows, true); err != nil {
			return nil, err
		}
		d.Info.Observed = observed.file
		if row, class, ok := contradiction(d.Labels, d.Observed, d.C()); ok {
			name := d.Images[row]
			return nil, formatError(observed.file, observed.lines[observed.rowOf[name]], "%q, column %q: the value %d contradicts %s:%d",
				name, d.Classes[class], d.ObservedRow(row)[class], rows.file, rows.lines[row])
		}
	} else if d, err = d.WithSinglePositives(opt.Seed); err != nil {
		return nil, err
	}
	if err := d.setSplit(root, rows, opt.NoValidation); err != nil {
		return nil, err
	}
	return d.openImages(dir, opt.Images, rows, opt.Missing)
}

func datasetName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir)
}

// readTableFile reads a table, or returns nil where the file is absent.
func readTableFile(root *os.Root, name string, cell cellFunc, allowed string) (*table, error) {
	f, err := openRegular(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("data: cannot read %s: %w", name, err)
	}
	defer f.Close()
	t, err := readTable(f, name, cell, allowed)
	var fe *FormatError
	if err != nil && !errors.As(err, &fe) {
		return nil, fmt.Errorf("data: cannot read %s: %w", name, err)
	}
	return t, err
}

// setSplit reads split.csv, and draws what it does not say.
func (d *Dataset) setSplit(root *os.Root, rows *table, noValidation bool) error {
	d.Split = make([]Split, d.N())
	t, err := readTableFile(root, "split.csv", splitCell, "train, val or test")
	if err != nil {
		return err
	}
	switch {
	case t != nil:
		if len(t.columns) != 1 || t.columns[0] != "split" {
			return formatError(t.file, 1, "the header must be filename,split")
		}
		cells, err := t.inOrderOf(rows, false)
		if err != nil {
			return err
		}
		for i, v := range cells {
			d.Split[i] = Split(v)
		}
		d.Info.Split = t.file
	case d.Labels == nil:
		d.Info.Split = "no split.csv and no full labels: none is a test row"
	default:
		if err := d.moveFifth(Test); err != nil {
			return err
		}
		d.Info.Split = fmt.Sprintf("no split.csv: 20 %% of the rows drawn as test with seed %d", random.SplitSeed)
	}
	if len(d.Rows(Train)) == 0 {
		return formatError("split.csv", 0, "no row is a train row")
	}
	if d.Labels == nil {
		return d.drawObservedVal(noValidation)
	}
	if len(d.Rows(Val)) == 0 && !noValidation {
		if err := d.moveFifth(Val); err != nil {
			return err
		}
		d.Info.Split += fmt.Sprintf("; 20 %% of its train rows drawn as val with seed %d", random.SplitSeed)
	}
	return nil
}

// moveFifth moves 20 % of the train rows to another part, by the rule of Cole et al.
func (d *Dataset) moveFifth(to Split) error {
	train := d.Rows(Train)
	_, moved, err := random.Split(len(train), ValFraction, random.SplitSeed)
	for _, i := range moved {
		d.Split[train[i]] = to
	}
	return err
}

// openImages makes the Source and looks for every file.
func (d *Dataset) openImages(dir, images string, rows *table, rule MissingRule) (*Dataset, error) {
	shown := images
	if images == "" {
		images, shown = filepath.Join(dir, "images"), "images/"
		if st, err := os.Lstat(images); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return nil, formatError(d.Name, 0, "images/ is a link: name the folder it leads to as the folder of the images")
		}
	}
	if rule == MissingKeep && shown == "images/" {
		if _, err := os.Stat(images); errors.Is(err, fs.ErrNotExist) {
			d.Info.Notes = append(d.Info.Notes, "there is no folder images/: labels alone")
			return d, nil
		}
	}
	files, err := OpenFiles(images, d.Images)
	if err != nil {
		return nil, err
	}
	missing := files.Missing()
	if len(missing) == 0 {
		d.Source = files
		return d, nil
	}
	switch {
	case rule == MissingKeep, len(missing) < d.N() && rule == MissingSkip:
		d.Source = files
		return d.withoutMissing(missing, rule)
	}
	files.Close()
	m := missing[0]
	what := "does not exist in " + shown
	if !errors.Is(m.Err, fs.ErrNotExist) {
		what = "cannot be reached below " + shown + " (" + reason(m.Err) + ")"
	}
	more := ""
	if len(missing) > 1 {
		more = fmt.Sprintf("; %d more files are missing", len(missing)-1)
	}
	return nil, formatError(rows.file, rows.lines[m.Row], "%q %s: put the file there or delete its row%s", d.Images[m.Row], what, more)
}

// withoutMissing leaves the rows out whose photo is missing, or keeps them and says so.
func (d *Dataset) withoutMissing(missing []Missing, rule MissingRule) (*Dataset, error) {
	first := d.Images[missing[0].Row]
	if rule == MissingKeep {
		d.Info.Notes = append(d.Info.Notes, fmt.Sprintf("%d of %d photos are missing, the first is %s", len(missing), d.N(), first))
		return d, nil
	}
	var keep []int
	for i, m := 0, missing; i < d.N(); i++ {
		if len(m) > 0 && m[0].Row == i {
			m = m[1:]
			continue
		}
		keep = append(keep, i)
	}
	s, err := d.Subset(keep)
	if err != nil {
		return nil, err
	}
	s.Info.Notes = append(s.Info.Notes, fmt.Sprintf("%d rows are left out because their photo is missing, the first is %s", len(missing), first))
	return s, nil
}

// reason is the cause of a path error without operation and path.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return strings.TrimSpace(err.Error())
}
