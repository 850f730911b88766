package data

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// table is a CSV file whose first column is `filename`: one row a file.
type table struct {
	file    string
	columns []string       // after the first
	names   []string       // cleaned file names
	lines   []int          // of each row, 1-based
	rowOf   map[string]int // by name
	cells   []int8         // [rows, columns], by the cell function
}

// cellFunc turns the text of a cell into its value; ok is false where the text is not allowed.
type cellFunc func(text string) (value int8, ok bool)

// readTable reads a CSV file. allowed describes the cell values in errors. Byte order mark, CRLF, quotes and blank lines are accepted.
func readTable(r io.Reader, file string, cell cellFunc, allowed string) (*table, error) {
	in, err := textReader(r, file)
	if err != nil {
		return nil, err
	}
	c := csv.NewReader(in)
	c.ReuseRecord = true
	c.FieldsPerRecord = -1 // counted here, for a clearer error
	t := &table{file: file, rowOf: map[string]int{}}
	for {
		record, err := c.Read()
		if err == io.EOF {
			break
		}
		var pe *csv.ParseError
		if errors.As(err, &pe) {
			return nil, formatError(file, pe.Line, "column %d: %v", pe.Column, pe.Err)
		}
		if err != nil {
			return nil, err
		}
		line, _ := c.FieldPos(0)
		if t.columns == nil {
			err = t.header(record, line)
		} else {
			err = t.row(record, line, cell, allowed)
		}
		if err != nil {
			return nil, err
		}
	}
	if t.columns == nil {
		return nil, formatError(file, 0, "the file is empty: it needs a header line `filename,…` and one line an image")
	}
	if len(t.names) == 0 {
		return nil, formatError(file, 0, "the file has a header but no rows")
	}
	return t, nil
}

func (t *table) header(record []string, line int) error {
	if first := strings.TrimSpace(record[0]); first != "filename" {
		if strings.ContainsAny(first, ";\t") {
			return formatError(t.file, line, "the header has no commas but %q: separate the columns by commas", first)
		}
		return formatError(t.file, line, "the first column is %q, it must be filename", first)
	}
	if len(record) < 2 || len(record)-1 > maxColumns {
		return formatError(t.file, line, "the header has %d columns, it needs filename and 1 to %d more", len(record), maxColumns)
	}
	at := map[string]int{}
	t.columns = make([]string, 0, len(record)-1)
	for i, name := range record[1:] {
		name = strings.TrimSpace(name)
		if name == "" {
			return formatError(t.file, line, "column %d has no name", i+2)
		}
		if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return formatError(t.file, line, "column %d has the name %q: control characters and text that is not UTF-8 are not allowed", i+2, name)
		}
		if j, twice := at[name]; twice {
			return formatError(t.file, line, "columns %d and %d are both named %q", j+2, i+2, name)
		}
		at[name] = i
		t.columns = append(t.columns, name)
	}
	return nil
}

func (t *table) row(record []string, line int, cell cellFunc, allowed string) error {
	if len(record) != len(t.columns)+1 {
		return formatError(t.file, line, "the row has %d columns, the header %d", len(record), len(t.columns)+1)
	}
	if !utf8.ValidString(record[0]) {
		return formatError(t.file, line, "the file name %q is not UTF-8: save the file as UTF-8", record[0])
	}
	name, err := cleanName(record[0])
	if err != nil {
		return formatError(t.file, line, "%v", err)
	}
	if first, twice := t.rowOf[name]; twice {
		return formatError(t.file, line, "%q has a row already, in line %d: delete one of them", name, t.lines[first])
	}
	name = strings.Clone(name) // not the whole line with it
	t.rowOf[name] = len(t.names)
	t.names, t.lines = append(t.names, name), append(t.lines, line)
	for i, text := range record[1:] {
		v, ok := cell(strings.TrimSpace(text))
		if !ok {
			return formatError(t.file, line, "%q, column %q: the value is %q, it must be %s", name, t.columns[i], text, allowed)
		}
		t.cells = append(t.cells, v)
	}
	return nil
}

// fullLabel reads a cell of labels.csv.
func fullLabel(s string) (int8, bool) {
	switch s {
	case "0":
		return 0, true
	case "1":
		return 1, true
	}
	return 0, false
}

// observedLabel reads a cell of observed_*.csv.
func observedLabel(s string) (int8, bool) {
	if s == "-1" {
		return -1, true
	}
	return fullLabel(s)
}

// splitCell reads a cell of split.csv.
func splitCell(s string) (int8, bool) {
	v, err := ParseSplit(s)
	return int8(v), err == nil
}

// inOrderOf returns the table's cells in the row order of other. Every row of one must be in the other, and the columns the same if sameColumns.
func (t *table) inOrderOf(other *table, sameColumns bool) ([]int8, error) {
	if sameColumns {
		for i := range max(len(t.columns), len(other.columns)) {
			if i >= len(t.columns) || i >= len(other.columns) || t.columns[i] != other.columns[i] {
				return nil, formatError(t.file, 1, "column %d differs from %s: the columns must be the same and in the same order", i+2, other.file)
			}
		}
	}
	for i, name := range t.names {
		if _, ok := other.rowOf[name]; !ok {
			return nil, formatError(t.file, t.lines[i], "%q is no row of %s: add it there or delete it here", name, other.file)
		}
	}
	c := len(t.columns)
	cells := make([]int8, 0, len(other.names)*c)
	for i, name := range other.names {
		row, ok := t.rowOf[name]
		if !ok {
			return nil, formatError(t.file, 0, "%q (%s) has no row", name, fmt.Sprintf("%s:%d", other.file, other.lines[i]))
		}
		cells = append(cells, t.cells[row*c:(row+1)*c]...)
	}
	return cells, nil
}
