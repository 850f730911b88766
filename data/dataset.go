package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"slices"

	"github.com/gospml/gospml/data/random"
)

// Split says what a row is used for.
type Split uint8

// The three parts of a data set.
const (
	Train Split = iota
	Val
	Test
)

var splitNames = [...]string{"train", "val", "test"}

func (s Split) String() string {
	if int(s) < len(splitNames) {
		return splitNames[s]
	}
	return fmt.Sprintf("Split(%d)", uint8(s))
}

// ParseSplit returns the part of that name: train, val or test.
func ParseSplit(name string) (Split, error) {
	for i, n := range splitNames {
		if n == name {
			return Split(i), nil
		}
	}
	return 0, fmt.Errorf("%q is no part of a data set: train, val or test", name)
}

// Dataset is a list of images with labels: N rows, C classes. Matrices are row-major [N, C].
//
// Nothing in the package changes a Dataset after it was made, so many goroutines may read one; whoever writes into its
// slices must be alone.
type Dataset struct {
	Name    string
	Classes []string // [C], the columns
	Images  []string // [N], names as the data set gives them
	Labels  []int8   // [N, C], 0 or 1; nil where the full labels are unknown
	// [N], whether the row's full labels are known; nil: all are, where Labels is not nil. Of the other rows Labels holds
	// the observed positives
	Full     []bool
	Observed []int8  // [N, C], 1 positive, -1 negative, 0 unknown: what training may see; nil where none are drawn
	Split    []Split // [N]
	// [N], which images share labels (a recording, a video, a burst): a number each, -1 for none; nil where none are named
	Groups   []int
	Source   Source    // the images; nil for labels alone and for tables
	Features *Features // vectors instead of images, or beside them; nil: none
	Info     Info
}

// Info says in words where parts of a Dataset come from; it belongs into logs and run records.
type Info struct {
	Labels   string
	Split    string
	Observed string
	Format   string   // name of the format, where [Open] found it
	Classes  string   // where the class names come from
	Images   string   // folder of the photos
	Notes    []string // what else was decided or is odd
}

// N is the number of rows.
func (d *Dataset) N() int { return len(d.Images) }

// C is the number of classes.
func (d *Dataset) C() int { return len(d.Classes) }

// LabelRow returns the full labels of a row, [C], or nil. It is a view.
func (d *Dataset) LabelRow(row int) []int8 { return d.matrixRow(d.Labels, row) }

// ObservedRow returns the observed labels of a row, [C], or nil. It is a view.
func (d *Dataset) ObservedRow(row int) []int8 { return d.matrixRow(d.Observed, row) }

func (d *Dataset) matrixRow(m []int8, row int) []int8 {
	if m == nil {
		return nil
	}
	c := d.C()
	return m[row*c : (row+1)*c : (row+1)*c]
}

// Rows returns the rows of a part, ascending.
func (d *Dataset) Rows(s Split) []int {
	var rows []int
	for i, v := range d.Split {
		if v == s {
			rows = append(rows, i)
		}
	}
	return rows
}

// Gather returns the given rows of a matrix of this data set (Labels or Observed) as a new [len(rows), C] matrix.
func (d *Dataset) Gather(matrix []int8, rows []int) []int8 {
	out := make([]int8, 0, len(rows)*d.C())
	for _, r := range rows {
		out = append(out, d.matrixRow(matrix, r)...)
	}
	return out
}

// FullyLabelled reports whether the full labels of all the given rows are known.
func (d *Dataset) FullyLabelled(rows []int) bool {
	if d.Labels == nil {
		return false
	}
	for _, r := range rows {
		if d.Full != nil && !d.Full[r] {
			return false
		}
	}
	return true
}

func (d *Dataset) fullOf(s Split) bool { return d.FullyLabelled(d.Rows(s)) }

// Subset returns a data set of the given rows in the given order; row i of it is row rows[i] of d. Labels are copied,
// images are read through d's Source. A row outside d, or given twice, is an error.
func (d *Dataset) Subset(rows []int) (*Dataset, error) {
	s := &Dataset{Name: d.Name, Classes: d.Classes, Images: make([]string, len(rows)), Split: make([]Split, len(rows)), Info: d.Info}
	seen := make([]bool, d.N())
	for i, r := range rows {
		if r < 0 || r >= d.N() {
			return nil, fmt.Errorf("data: subset of %s: row %d, but it has rows 0 to %d", d.Name, r, d.N()-1)
		}
		if seen[r] {
			return nil, fmt.Errorf("data: subset of %s: row %d is named twice", d.Name, r)
		}
		seen[r] = true
		s.Images[i], s.Split[i] = d.Images[r], d.Split[r]
	}
	if d.Labels != nil {
		s.Labels = d.Gather(d.Labels, rows)
	}
	if d.Observed != nil {
		s.Observed = d.Gather(d.Observed, rows)
	}
	if d.Full != nil {
		for _, r := range rows {
			s.Full = append(s.Full, d.Full[r])
		}
	}
	if d.Groups != nil {
		for _, r := range rows {
			s.Groups = append(s.Groups, d.Groups[r])
		}
	}
	if d.Features != nil {
		s.Features = d.Features.Gather(rows)
	}
	if d.Source != nil {
		s.Source = &subsetSource{d.Source, append([]int(nil), rows...)}
	}
	return s, nil
}

// WithSinglePositives returns a data set that shares everything with d but whose observed labels are one positive of
// each row, drawn by [random.SinglePositive] over all rows in order. It needs full labels.
func (d *Dataset) WithSinglePositives(seed uint32) (*Dataset, error) {
	if d.Labels == nil || d.Full != nil {
		return nil, fmt.Errorf("data: %s has no full labels of every row to draw single positives from", d.Name)
	}
	observed, err := random.SinglePositive(d.Labels, d.C(), seed)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", d.Name, err)
	}
	s := *d
	s.Observed = observed
	s.Info.Observed = fmt.Sprintf("one positive of each row, drawn over all rows in file order with seed %d", seed)
	return &s, nil
}

// Validate checks sizes, values and names: every matrix fills N rows of C classes, labels are 0 or 1, observed labels
// -1, 0 or 1 and not against the full labels, class names and image names are given and unique.
func (d *Dataset) Validate() error {
	n, c := d.N(), d.C()
	bad := func(format string, args ...any) error {
		return &FormatError{File: d.Name, Msg: fmt.Sprintf(format, args...)}
	}
	if n == 0 || c == 0 {
		return bad("%d rows and %d classes: a data set needs at least one of each", n, c)
	}
	if len(d.Split) != n {
		return bad("%d rows but %d split entries", n, len(d.Split))
	}
	if d.Full != nil && (len(d.Full) != n || d.Labels == nil) {
		return bad("%d rows, but %d entries say whether the full labels are known", n, len(d.Full))
	}
	if d.Groups != nil && len(d.Groups) != n {
		return bad("%d rows, but groups for %d", n, len(d.Groups))
	}
	if d.Features != nil {
		if err := d.Features.check(n); err != nil {
			return bad("%v", err)
		}
	}
	for _, m := range []struct {
		name   string
		values []int8
		lowest int8
	}{{"labels", d.Labels, 0}, {"observed labels", d.Observed, -1}} {
		if m.values != nil && len(m.values) != n*c {
			return bad("%d %s, but %d rows of %d classes are %d", len(m.values), m.name, n, c, n*c)
		}
		for i, v := range m.values {
			if v < m.lowest || v > 1 {
				return bad("row %d (%s), class %q: %d is not allowed among the %s", i/c, d.Images[i/c], d.Classes[i%c], v, m.name)
			}
		}
	}
	if row, class, ok := contradiction(d.Labels, d.Observed, c); ok {
		return bad("row %d (%s), class %q: the observed label contradicts the full label", row, d.Images[row], d.Classes[class])
	}
	for what, names := range map[string][]string{"class": d.Classes, "image": d.Images} {
		first := make(map[string]int, len(names))
		for i, name := range names {
			if name == "" {
				return bad("%s %d has no name", what, i)
			}
			if j, twice := first[name]; twice {
				return bad("%s %q is both number %d and number %d", what, name, j, i)
			}
			first[name] = i
		}
	}
	for i, s := range d.Split {
		if s > Test {
			return bad("row %d (%s): %v is no part", i, d.Images[i], s)
		}
	}
	return nil
}

// contradiction finds the first observed label that says the opposite of the full label.
func contradiction(labels, observed []int8, classes int) (row, class int, found bool) {
	if labels == nil {
		return 0, 0, false
	}
	for i, o := range observed {
		if o == 1 && labels[i] == 0 || o == -1 && labels[i] == 1 {
			return i / classes, i % classes, true
		}
	}
	return 0, 0, false
}

// Fingerprint is the SHA-256, in hexadecimal, of classes, image names, full labels, split and features: the identity of
// the data in a run record. It does not cover pixels, nor the observed labels (see ObservedFingerprint), so that runs
// with different draws compare.
func (d *Dataset) Fingerprint() string {
	h := sha256.New()
	hashStrings(h, d.Classes)
	hashStrings(h, d.Images)
	hashBytes(h, d.Labels)
	hashBytes(h, d.Split)
	for _, f := range d.Full { // nil, the common case, adds nothing
		hashLength(h, map[bool]int{true: 1}[f])
	}
	if d.Features != nil {
		hashLength(h, d.Features.Dim)
		b := make([]byte, 4*len(d.Features.Values))
		for i, v := range d.Features.Values {
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ObservedFingerprint is the SHA-256, in hexadecimal, of the observed labels.
func (d *Dataset) ObservedFingerprint() string {
	h := sha256.New()
	hashBytes(h, d.Observed)
	return hex.EncodeToString(h.Sum(nil))
}

func hashStrings(h hash.Hash, s []string) {
	hashLength(h, len(s))
	for _, v := range s {
		hashLength(h, len(v))
		h.Write([]byte(v))
	}
}

func hashBytes[T int8 | Split](h hash.Hash, s []T) {
	hashLength(h, len(s))
	b := make([]byte, min(len(s), 1<<16))
	for part := range slices.Chunk(s, 1<<16) {
		for i, v := range part {
			b[i] = byte(v)
		}
		h.Write(b[:len(part)])
	}
}

func hashLength(h hash.Hash, n int) { h.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }

// Close releases what the Source holds open. A subset's images are gone with it.
func (d *Dataset) Close() error {
	if d.Source == nil {
		return nil
	}
	return d.Source.Close()
}
