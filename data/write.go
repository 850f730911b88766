package data

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/onewriter"
)

// writer is how a format is written.
type writer struct {
	write func(d *Dataset, w *output) error
	// loses says what of d the format cannot hold, each in a few words.
	loses  func(d *Dataset) []string
	photos bool // the format holds the photos themselves
}

// PhotoRule says what [Write] does with the photos.
type PhotoRule string

// "" is PhotosNone.
const (
	PhotosNone PhotoRule = "none" // labels alone
	PhotosCopy PhotoRule = "copy"
	PhotosLink PhotoRule = "link" // hard links, copies where the file system refuses
)

// WriteOptions are the choices of [Write].
type WriteOptions struct {
	Format     string // name of a format that is written, see [Format.Writes]
	Photos     PhotoRule
	Lossy      bool // write although the format cannot hold everything
	ShardBytes int64
}

// Loses says what of a data set the format cannot hold, each in a few words; empty: it holds everything that [Open]
// would give.
func Loses(d *Dataset, format string) ([]string, error) {
	f, err := lookupFormat(format)
	if err != nil {
		return nil, err
	}
	if f.write == nil {
		return nil, fmt.Errorf("data: the format %s is read only; these are written: %s", format, strings.Join(writable(), ", "))
	}
	var lost []string
	if d.Features != nil && format != "cole" {
		lost = append(lost, "the features")
	}
	return append(lost, f.write.loses(d)...), nil
}

func writable() []string {
	var names []string
	for _, f := range formats() {
		if f.write != nil {
			names = append(names, f.Name)
		}
	}
	return names
}

// LossyError says what a format cannot hold.
type LossyError struct {
	Format string
	Lost   []string
}

// LossError is the former name of [LossyError].
//
// Deprecated: use [LossyError]; package spml/loss has the losses.
type LossError = LossyError

func (e *LossyError) Error() string {
	return fmt.Sprintf("data: the format %s cannot hold %s", e.Format, strings.Join(e.Lost, "; nor "))
}

// Write writes a data set into a folder that is empty or new, in another format. What a killed Write has left there is
// removed, or moved into place where it was whole and the same; until then the folder opens as no data set. Where the
// format cannot hold everything, it is a [*LossyError], unless WriteOptions.Lossy is set. What was written opens to an
// equal data set: names, classes, labels, observed labels and parts.
func Write(d *Dataset, dir string, o WriteOptions) (err error) {
	lost, err := Loses(d, o.Format)
	if err != nil {
		return err
	}
	if len(lost) > 0 && !o.Lossy {
		return &LossyError{o.Format, lost}
	}
	if err := d.Validate(); err != nil {
		return err
	}
	for _, n := range d.Images {
		if _, err := cleanName(n); err != nil {
			return formatError(d.Name, 0, "%v", err)
		}
	}
	f, err := lookupFormat(o.Format)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	writer, err := onewriter.Take(filepath.Join(dir, lockFile), dir)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	if o.ShardBytes == 0 {
		o.ShardBytes = 1 << 30
	}
	switch o.Photos {
	case "", PhotosNone, PhotosCopy, PhotosLink:
	default:
		return fmt.Errorf("data: photos %q: choose none, copy or link", o.Photos)
	}
	key := conversionKey(d, o)
	if done, err := prepare(dir, key); err != nil || done {
		return err
	}
	stage := filepath.Join(dir, stageFolder)
	w := &output{dir: filepath.Join(stage, stageSet), photosIn: "images", o: o}
	if err := w.all(d, f); err != nil {
		return errors.Join(err, os.RemoveAll(stage))
	}
	return publish(dir, key)
}

// all writes the data set, and its photos where they are wanted.
func (w *output) all(d *Dataset, f Format) error {
	if err := f.write.write(d, w); err != nil {
		return err
	}
	if f.write.photos || w.o.Photos == "" || w.o.Photos == PhotosNone {
		return nil
	}
	return w.photos(d)
}

// output is the folder that is written.
type output struct {
	dir      string
	photosIn string
	o        WriteOptions
}

// file writes a file of the folder atomically.
func (w *output) file(name string, f func(b *bufio.Writer) error) error {
	p := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteFile(p, 0o644, func(out io.Writer) error {
		b := bufio.NewWriterSize(out, 1<<16)
		if err := f(b); err != nil {
			return err
		}
		return b.Flush()
	})
}

func (w *output) lines(name string, lines []string) error {
	return w.file(name, func(b *bufio.Writer) error {
		for _, l := range lines {
			b.WriteString(l)
			b.WriteByte('\n')
		}
		return nil
	})
}

// photos copies or links every photo below photosIn, by the rows' names.
func (w *output) photos(d *Dataset) error {
	raw, ok := d.Source.(RawSource)
	if !ok {
		return fmt.Errorf("data: %s has no photos to copy", d.Name)
	}
	var buf []byte
	for i, name := range d.Images {
		to := filepath.Join(w.dir, w.photosIn, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if w.o.Photos == PhotosLink {
			if from, ok := filePath(d.Source, i); ok && os.Link(from, to) == nil {
				continue
			}
		}
		var err error
		if buf, err = raw.ReadFile(i, buf); err != nil {
			return fmt.Errorf("data: %s: %w", name, err)
		}
		if err := os.WriteFile(to, buf, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// filePath returns the path of a row's photo where it is a file.
func filePath(s Source, row int) (string, bool) {
	switch s := s.(type) {
	case *Files:
		return filepath.Join(s.root.Name(), filepath.FromSlash(s.names[row])), true
	case *subsetSource:
		return filePath(s.Source, s.rows[row])
	}
	return "", false
}

func (d *Dataset) full(i int) bool { return d.Labels != nil && (d.Full == nil || d.Full[i]) }

// positives returns the columns of a row of a matrix that hold v.
func columnsOf(row []int8, v int8) []int {
	var out []int
	for c, x := range row {
		if x == v {
			out = append(out, c)
		}
	}
	return out
}

func (d *Dataset) names(columns []int) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = d.Classes[c]
	}
	return out
}

func losesNothing(d *Dataset) []string {
	if d.Labels == nil && d.Observed == nil {
		return []string{"a data set without labels"}
	}
	return nil
}

// writeCSV writes labels.csv, split.csv and observed.csv; where full labels are known of some rows only, one table with
// lists.
func writeCSV(d *Dataset, w *output) error {
	if d.Full != nil {
		return writeCSVLists(d, w)
	}
	for _, m := range []struct {
		file   string
		values []int8
	}{{"labels.csv", d.Labels}, {"observed.csv", d.Observed}} {
		if m.values == nil {
			continue
		}
		err := w.file(m.file, func(b *bufio.Writer) error {
			c := csv.NewWriter(b)
			rec := append([]string{"filename"}, d.Classes...)
			c.Write(rec)
			for i, name := range d.Images {
				rec[0] = name
				for k, v := range d.matrixRow(m.values, i) {
					rec[k+1] = map[int8]string{-1: "-1", 0: "0", 1: "1"}[v]
				}
				c.Write(rec)
			}
			c.Flush()
			return c.Error()
		})
		if err != nil {
			return err
		}
	}
	return w.file("split.csv", func(b *bufio.Writer) error {
		c := csv.NewWriter(b)
		c.Write([]string{"filename", "split"})
		for i, name := range d.Images {
			c.Write([]string{name, d.Split[i].String()})
		}
		c.Flush()
		return c.Error()
	})
}

// listCell joins names so that splitList gives them back.
func listCell(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "|" + strings.Join(names, "|") + "|"
}

func writeCSVLists(d *Dataset, w *output) error {
	for _, n := range d.Classes {
		if strings.Contains(n, "|") {
			return formatError(d.Name, 0, "class %q holds a |, which separates classes in the table", n)
		}
	}
	if err := w.lines("classes.txt", d.Classes); err != nil {
		return err
	}
	return w.file("labels.csv", func(b *bufio.Writer) error {
		c := csv.NewWriter(b)
		c.Write([]string{"filename", "split", "full", "labels", "positive", "negative"})
		for i, name := range d.Images {
			rec := []string{name, d.Split[i].String(), "0", "", "", ""}
			if d.full(i) {
				rec[2], rec[3] = "1", listCell(d.names(columnsOf(d.LabelRow(i), 1)))
			}
			if d.Observed != nil {
				rec[4], rec[5] = listCell(d.names(columnsOf(d.ObservedRow(i), 1))), listCell(d.names(columnsOf(d.ObservedRow(i), -1)))
			}
			c.Write(rec)
		}
		c.Flush()
		return c.Error()
	})
}

func writeJSONL(d *Dataset, w *output) error {
	if err := w.lines("classes.txt", d.Classes); err != nil {
		return err
	}
	return w.file("metadata.jsonl", func(b *bufio.Writer) error {
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		for i := range d.Images {
			if err := e.Encode(d.jsonLine(i, true)); err != nil {
				return err
			}
		}
		return nil
	})
}

type jsonLine struct {
	File     string    `json:"file_name,omitempty"`
	Split    string    `json:"split,omitempty"`
	Labels   *[]string `json:"labels,omitempty"`
	Positive *[]string `json:"positive,omitempty"`
	Negative *[]string `json:"negative,omitempty"`
}

func (d *Dataset) jsonLine(i int, name bool) jsonLine {
	l := jsonLine{Split: d.Split[i].String()}
	if name {
		l.File = d.Images[i]
	}
	if d.full(i) {
		n := d.names(columnsOf(d.LabelRow(i), 1))
		l.Labels = &n
	}
	if d.Observed != nil {
		p, n := d.names(columnsOf(d.ObservedRow(i), 1)), d.names(columnsOf(d.ObservedRow(i), -1))
		l.Positive, l.Negative = &p, &n
	}
	return l
}
