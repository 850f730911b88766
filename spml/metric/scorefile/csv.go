package scorefile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// readCSV reads numbers separated by commas, with an optional header and an optional first column of names. A first line is a header where a cell
// after the first is no number; the first column holds names where the header says so or where its cell in the first line of values is no number.
func readCSV(path string) (*Matrix, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	if b, err := in.Peek(3); err == nil && string(b) == "\ufeff" {
		in.Discard(3) //nolint:errcheck // peeked
	}
	r := csv.NewReader(in)
	r.ReuseRecord, r.TrimLeadingSpace = true, true
	m := &Matrix{Path: path, Double: []float64{}}
	named, first := false, true
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, bad(path, "%v", err)
		}
		line, _ := r.FieldPos(0)
		if first && m.Classes == nil && isHeader(cells) {
			m.Classes = append([]string{}, cells...)
			continue
		}
		if first {
			first = false
			_, err := number(cells[0])
			named = err != nil || m.Classes != nil && slices.Contains(nameColumns, strings.ToLower(m.Classes[0]))
			if named {
				m.Images = []string{}
			}
			m.C = len(cells)
			if named {
				m.C--
			}
			if m.C == 0 {
				return nil, bad(path, "line %d: it holds no numbers", line)
			}
		}
		if named {
			m.Images = append(m.Images, strings.Clone(cells[0]))
			cells = cells[1:]
		}
		for i, c := range cells {
			v, err := number(c)
			if err != nil {
				return nil, bad(path, "line %d, value %d: %q is no number", line, i+1, c)
			}
			m.Double = append(m.Double, v)
		}
		m.N++
	}
	if m.N == 0 {
		return nil, bad(path, "it holds no rows of numbers")
	}
	if m.Classes != nil && named {
		m.Classes = m.Classes[1:]
	}
	return m, nil
}

func isHeader(cells []string) bool {
	if len(cells) == 1 {
		_, err := number(cells[0])
		return err != nil
	}
	for _, c := range cells[1:] {
		if _, err := number(c); err != nil {
			return true
		}
	}
	return false
}

// nameColumns are headers of a first column of image names, which may look like numbers.
var nameColumns = []string{"", "filename", "file", "path", "image", "image_id", "id", "name"}

func number(s string) (float64, error) { return strconv.ParseFloat(strings.TrimSpace(s), 64) }
