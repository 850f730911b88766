package audit

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// WriteCSV writes the candidates with an empty column "decision" for accept or refuse: a table that [ReadDecisions]
// takes back. It is made for spreadsheets: names that one would run as a formula are marked by a ', which ReadDecisions
// removes.
func (t *Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	head := []string{"rank", "image", "label", "score"}
	for _, s := range t.Sources {
		head = append(head, string(s), string(s)+"_part")
	}
	c.Write(append(head, "nearest", "decision"))
	number := func(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }
	for _, x := range t.Candidates {
		rec := []string{strconv.Itoa(x.Rank), mark(x.Image), mark(x.Label), number(x.Score, 5)}
		for _, s := range t.Sources {
			cells := []string{"", ""}
			for _, p := range x.Shares {
				if p.Source == s {
					cells = []string{number(p.Value, 5), number(p.Part, 5)}
				}
			}
			rec = append(rec, cells...)
		}
		c.Write(append(rec, mark(strings.Join(x.Neighbours, " ")), ""))
	}
	c.Flush()
	return c.Error()
}

// mark puts a ' before a text that a spreadsheet would run as a formula. One that begins so already gets another, so
// that unmark gives every text back.
func mark(s string) string {
	if formula(s) {
		return "'" + s
	}
	return s
}

func unmark(s string) string {
	if strings.HasPrefix(s, "'") && formula(s) {
		return s[1:]
	}
	return s
}

func formula(s string) bool {
	s = strings.TrimLeft(s, "'")
	return s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0]))
}

// WriteJSONL writes an object for each candidate.
func (t *Table) WriteJSONL(w io.Writer) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	for _, x := range t.Candidates {
		if err := e.Encode(x); err != nil {
			return err
		}
	}
	return b.Flush()
}

// WritePrecisionCSV writes the measured curves: a row for each k and each order.
func (t *Table) WritePrecisionCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	c.Write([]string{"by", "first", "precision", "average_precision", "chance", "missing", "pairs"})
	for _, p := range t.Precision {
		for i, k := range p.At {
			c.Write([]string{p.By, strconv.Itoa(k), strconv.FormatFloat(p.Of[i], 'f', 4, 64), strconv.FormatFloat(p.Average, 'f', 4, 64),
				strconv.FormatFloat(p.Chance, 'f', 4, 64), strconv.Itoa(p.Missing), strconv.Itoa(t.Pairs)})
		}
	}
	c.Flush()
	return c.Error()
}
