package command

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/parquet-go/parquet-go"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/train"
)

// Forms of predict's output.
const (
	formatText  = "text"
	formatJSONL = "jsonl"
	formatCSV   = "csv"

	formatParquet = "parquet"
)

// labelWriter writes the labels of photos, each row with one call, so that a file that is cut off lacks the end of its
// last row at most.
type labelWriter struct {
	format string
	top    int
	names  []string // the model's labels, in its order
	out    io.Writer
	color  bool

	table *parquet.GenericWriter[parquetRow] // of parquet
	rows  int

	path   string
	file   *os.File
	done   map[string]bool // photos whose rows the file has
	header bool            // of csv, is there
}

// has says whether the output has the photo's row already.
func (w *labelWriter) has(photo string) bool { return w.done[photo] }

// open writes to a file; to resume it keeps its whole rows and cuts off a last one that is not.
func (w *labelWriter) open(path string, resume bool) (err error) {
	w.path, w.color = path, false
	if !resume {
		w.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o664)
		w.out = w.file
		if err == nil && w.format == formatParquet {
			w.table = parquet.NewGenericWriter[parquetRow](w.file, parquet.Compression(&parquet.Zstd))
		}
		return err
	}
	if w.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	w.out, w.done = w.file, map[string]bool{}
	whole, err := wholeLines(w.file)
	if err == nil {
		rows := bufio.NewReaderSize(io.NewSectionReader(w.file, 0, whole), 1<<16)
		if w.format == formatCSV {
			err = w.readCSV(rows)
		} else {
			err = w.readJSONL(rows)
		}
		if err != nil {
			err = fmt.Errorf("%w: %s cannot be resumed: %v; remove it, or name another --out", train.ErrData, path, err)
		}
	}
	if err == nil {
		err = w.file.Truncate(whole)
	}
	if err == nil {
		_, err = w.file.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, w.file.Close())
	}
	return nil
}

// wholeLines is how many bytes of a file its whole lines have.
func wholeLines(f *os.File) (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf := make([]byte, 1<<16)
	for end := st.Size(); end > 0; {
		start := max(0, end-int64(len(buf)))
		b := buf[:end-start]
		if _, err := f.ReadAt(b, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}

// photoRow is a row of JSON lines.
type photoRow struct {
	Image  string        `json:"image"`
	Labels []model.Label `json:"labels"`
}

// parquetRow is a row of a Parquet file, with the names of JSON lines.
type parquetRow struct {
	Image  string         `parquet:"image"`
	Labels []parquetLabel `parquet:"labels,list"`
}

type parquetLabel struct {
	Name        string  `parquet:"label"`
	Probability float64 `parquet:"probability"`
	Present     bool    `parquet:"present"`
}

func (w *labelWriter) readJSONL(r io.Reader) error {
	dec := json.NewDecoder(r)
	for n := 1; ; n++ {
		var x photoRow
		err := dec.Decode(&x)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("row %d: %v", n, err)
		}
		want := len(w.names)
		if w.top > 0 {
			want = min(want, w.top)
		}
		if x.Image == "" || len(x.Labels) != want {
			return fmt.Errorf("row %d has %d labels of photo %q, and this model with this --top writes %d", n, len(x.Labels), x.Image, want)
		}
		for _, l := range x.Labels {
			if !slices.Contains(w.names, l.Name) {
				return fmt.Errorf("row %d has the label %q, which this model lacks", n, l.Name)
			}
		}
		w.done[x.Image] = true
	}
}

func (w *labelWriter) csvHeader() []string { return append([]string{"filename"}, w.names...) }

func (w *labelWriter) readCSV(r io.Reader) error {
	c := csv.NewReader(r)
	head, err := c.Read()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	if !slices.Equal(head, w.csvHeader()) {
		return errors.New("its header has other labels than this model")
	}
	w.header = true
	for {
		row, err := c.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		w.done[row[0]] = true
	}
}

// parquetGroup is how many photos a row group holds: what was written before stays in memory until then.
const parquetGroup = 10_000

func (w *labelWriter) close() error {
	if w.table != nil {
		if err := w.table.Close(); err != nil { // writes the footer, without which the file is none
			return errors.Join(err, w.file.Close())
		}
	}
	err := w.file.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) { // a pipe or a device
		err = nil
	}
	return errors.Join(err, w.file.Close())
}

// write writes the row of a photo; labels are all of the model's, the most probable first.
func (w *labelWriter) write(photo string, labels []model.Label) error {
	if w.format == formatCSV {
		return w.writeCSV(photo, labels)
	}
	if w.top > 0 && w.top < len(labels) {
		labels = labels[:w.top]
	}
	if w.format == formatParquet {
		row := parquetRow{Image: photo}
		for _, l := range labels {
			row.Labels = append(row.Labels, parquetLabel(l))
		}
		_, err := w.table.Write([]parquetRow{row})
		if w.rows++; err == nil && w.rows%parquetGroup == 0 {
			err = w.table.Flush()
		}
		return err
	}
	if w.format == formatJSONL {
		return json.NewEncoder(w.out).Encode(photoRow{photo, labels})
	}
	return printBars(w.out, photo, labels, w.color)
}

func (w *labelWriter) writeCSV(photo string, labels []model.Label) error {
	var b bytes.Buffer
	c := csv.NewWriter(&b)
	if !w.header {
		w.header = true
		_ = c.Write(w.csvHeader())
	}
	row := make([]string, 1+len(w.names))
	row[0] = photo
	for _, l := range labels {
		row[1+slices.Index(w.names, l.Name)] = strconv.FormatFloat(l.Probability, 'g', 7, 64)
	}
	_ = c.Write(row)
	c.Flush()
	_, err := w.out.Write(b.Bytes())
	return err
}

// printBars draws one line a label: probability, bar, mark, name.
func printBars(w io.Writer, path string, labels []model.Label, color bool) error {
	const width = 30
	var b strings.Builder
	plain.Fprintf(&b, "%s\n", path)
	for _, l := range labels {
		n := int(l.Probability*width + 0.5)
		bar := strings.Repeat("█", n) + strings.Repeat("·", width-n)
		mark := " "
		if l.Present {
			mark = "✓"
			if color {
				bar = "\x1b[32m" + bar + "\x1b[0m"
			}
		}
		fmt.Fprintf(&b, "  %5.1f %%  %s  %s %s\n", 100*l.Probability, bar, mark, plain.Text(l.Name))
	}
	_, err := w.Write([]byte(b.String()))
	return err
}
