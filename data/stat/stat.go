// Package stat counts what a data set holds: the tables that papers print, and what one wants to know before training.
//
// [Of] counts labels; [Photos] looks at the files too: sizes, duplicates, unreadable ones. [SVG] draws the counts.
package stat

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/gospml/gospml/data"
)

// Parts are numbers of train, val and test rows.
type Parts [3]int

// Sum is the number over all parts.
func (p Parts) Sum() int { return p[0] + p[1] + p[2] }

// Class is what is known of a class.
type Class struct {
	Name      string `json:"name"`
	Positives Parts  `json:"positives"` // full labels
	Observed  Parts  `json:"observed"`  // observed positives
	Hidden    Parts  `json:"hidden"`    // positives that training does not see
	Negatives Parts  `json:"observed_negatives"`
}

// Labels are the counts of a data set's labels. Rows without known full labels count only in what is observed.
type Labels struct {
	Name         string    `json:"name"`
	Format       string    `json:"format"`
	Rows         Parts     `json:"rows"`
	Full         Parts     `json:"rows_with_full_labels"`
	Empty        Parts     `json:"rows_without_a_positive"`
	Classes      []Class   `json:"classes"`
	Cardinality  float64   `json:"cardinality"`           // mean positives a row
	ByPart       []float64 `json:"cardinality_by_part"`   // of train, val, test
	Density      float64   `json:"density"`               // cardinality / classes
	Distinct     int       `json:"distinct_label_sets"`   //
	Histogram    []int     `json:"rows_by_positives"`     // [k] rows with k positives
	CoOccurrence [][]int   `json:"co_occurrence"`         // [K][K] rows with both, of Together
	Together     []int     `json:"co_occurrence_classes"` // [K] which classes those are: all, or of many the MaxTogether most frequent ones, in the data set's order
	Imbalance    float64   `json:"imbalance"`             // positives of the most frequent class / of the least frequent one that has any
	ObservedMean float64   `json:"observed_positives"`    // mean observed positives a row
	Unseen       []string  `json:"classes_without_train"` // classes without an observed train positive
}

// MaxTogether is of how many classes it is counted how often they occur together: the table is their square.
const MaxTogether = 1000

// Of counts the labels of a data set.
func Of(d *data.Dataset) *Labels {
	s := Count(d)
	s.together(d)
	return s
}

// together counts how often classes occur in one row.
func (s *Labels) together(d *data.Dataset) {
	all := make([]int, d.C())
	for c := range all {
		all[c] = c
	}
	if len(all) > MaxTogether {
		slices.SortStableFunc(all, func(a, b int) int { return s.Classes[b].Positives.Sum() - s.Classes[a].Positives.Sum() })
		all = slices.Clone(all[:MaxTogether])
		slices.Sort(all)
	}
	s.Together, s.CoOccurrence = all, make([][]int, len(all))
	for k := range all {
		s.CoOccurrence[k] = make([]int, len(all))
	}
	var present []int
	for i := range d.N() {
		if !d.FullyLabelled([]int{i}) {
			continue
		}
		present = present[:0]
		y := d.LabelRow(i)
		for k, c := range all {
			if y[c] == 1 {
				present = append(present, k)
			}
		}
		for _, a := range present {
			for _, b := range present {
				s.CoOccurrence[a][b]++
			}
		}
	}
}

// Count is Of without what occurs together.
func Count(d *data.Dataset) *Labels {
	s := &Labels{Name: d.Name, Format: d.Info.Format, Classes: make([]Class, d.C()), ByPart: make([]float64, 3)}
	for c := range s.Classes {
		s.Classes[c].Name = d.Classes[c]
	}
	sets := map[[sha256.Size]byte]bool{} // a row of many classes is longer than its hash
	total, observed := Parts{}, 0
	var present []int
	var key []byte
	for i := range d.N() {
		p := d.Split[i]
		s.Rows[p]++
		full := d.FullyLabelled([]int{i})
		present = present[:0]
		y, o := d.LabelRow(i), d.ObservedRow(i)
		for c := range d.C() {
			if o != nil && o[c] == 1 {
				s.Classes[c].Observed[p]++
				observed++
			}
			if o != nil && o[c] == -1 {
				s.Classes[c].Negatives[p]++
			}
			if !full {
				continue
			}
			if y[c] == 1 {
				present = append(present, c)
				s.Classes[c].Positives[p]++
				if o == nil || o[c] == 0 {
					s.Classes[c].Hidden[p]++
				}
			}
		}
		if !full {
			continue
		}
		s.Full[p]++
		total[p] += len(present)
		if len(present) == 0 {
			s.Empty[p]++
		}
		key = key[:0]
		for _, c := range present {
			key = binary.LittleEndian.AppendUint32(key, uint32(c))
		}
		sets[sha256.Sum256(key)] = true
		for len(s.Histogram) <= len(present) {
			s.Histogram = append(s.Histogram, 0)
		}
		s.Histogram[len(present)]++
	}
	s.Distinct = len(sets)
	if n := s.Full.Sum(); n > 0 {
		s.Cardinality = float64(total.Sum()) / float64(n)
		s.Density = s.Cardinality / float64(max(d.C(), 1))
	}
	for p, n := range s.Full {
		if n > 0 {
			s.ByPart[p] = float64(total[p]) / float64(n)
		}
	}
	if d.N() > 0 {
		s.ObservedMean = float64(observed) / float64(d.N())
	}
	most, least := 0, 0
	for _, c := range s.Classes {
		n := c.Positives.Sum()
		most = max(most, n)
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
		if d.Observed != nil && c.Observed[data.Train] == 0 {
			s.Unseen = append(s.Unseen, c.Name)
		}
	}
	if least > 0 {
		s.Imbalance = float64(most) / float64(least)
	}
	return s
}

// Files is what [Photos] finds.
type Files struct {
	Bytes      int64          `json:"bytes"`
	Formats    map[string]int `json:"formats"`
	Width      Quartiles      `json:"width"`
	Height     Quartiles      `json:"height"`
	Duplicates []Duplicate    `json:"duplicates"` // photos with the same bytes
	Unreadable []Unreadable   `json:"unreadable"`
}

// Quartiles are the smallest, the quarter points and the largest of a list.
type Quartiles [5]int

// Duplicate are rows whose photos have the same bytes.
type Duplicate struct {
	SHA256 string   `json:"sha256"`
	Images []string `json:"images"`
	Labels bool     `json:"labels_differ"`          // their full labels differ
	Parts  bool     `json:"in_train_and_elsewhere"` // a train photo is in val or test too
}

// Unreadable is a photo that cannot be read.
type Unreadable struct {
	Row    int    `json:"row"`
	Image  string `json:"image"`
	Reason string `json:"reason"`
}

// Photos reads every photo (its header only with headerOnly), jobs at a time.
func Photos(ctx context.Context, d *data.Dataset, jobs int, headerOnly bool) (*Files, error) {
	f := &Files{Formats: map[string]int{}, Duplicates: []Duplicate{}, Unreadable: []Unreadable{}}
	bySum := map[[32]byte][]int{}
	var w, h []int
	err := data.CheckPhotos(ctx, d, data.CheckOptions{Jobs: jobs, HeaderOnly: headerOnly}, func(p data.Photo) error {
		f.Bytes += int64(p.Bytes)
		if p.Bytes > 0 {
			bySum[p.Sum] = append(bySum[p.Sum], p.Row)
		}
		if p.Err != nil {
			f.Unreadable = append(f.Unreadable, Unreadable{p.Row, p.Name, p.Err.Error()})
			return nil
		}
		f.Formats[string(p.Format)]++
		w, h = append(w, p.Width), append(h, p.Height)
		return nil
	})
	if err != nil {
		return nil, err
	}
	f.Width, f.Height = quartiles(w), quartiles(h)
	var sums [][32]byte
	for s, rows := range bySum {
		if len(rows) > 1 {
			sums = append(sums, s)
		}
	}
	slices.SortFunc(sums, func(a, b [32]byte) int { return bySum[a][0] - bySum[b][0] })
	for _, s := range sums {
		rows := bySum[s]
		u := Duplicate{SHA256: hex.EncodeToString(s[:])}
		train, other := false, false
		for _, r := range rows {
			u.Images = append(u.Images, d.Images[r])
			if d.Split[r] == data.Train {
				train = true
			} else {
				other = true
			}
			u.Labels = u.Labels || d.Labels != nil && !slices.Equal(d.LabelRow(r), d.LabelRow(rows[0]))
		}
		u.Parts = train && other
		f.Duplicates = append(f.Duplicates, u)
	}
	return f, nil
}

func quartiles(v []int) (q Quartiles) {
	if len(v) == 0 {
		return q
	}
	slices.Sort(v)
	for i := range q {
		q[i] = v[i*(len(v)-1)/4]
	}
	return q
}
