package vlm

import (
	"fmt"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/metric"
)

// Summary says what a run gave.
type Summary struct {
	Photos    int           `json:"photos"`
	Classes   int           `json:"classes"`
	Broken    []data.Broken `json:"-"`
	BrokenIn  []string      `json:"broken,omitempty"` // names of photos that could not be read
	Positives int           `json:"positives"`        // labels 1, the observed ones included
	Pseudo    int           `json:"pseudo_positives"` // those that are not observed
	Negatives int           `json:"negatives"`
	Empty     int           `json:"without_positive"` // photos without any positive
	Observed  int           `json:"observed_positives"`
	Agreed    int           `json:"agreed"`    // observed positives that the method gives too
	Against   int           `json:"against"`   // observed positives that the method calls negative
	PerClass  []int         `json:"per_class"` // labels 1
	Resumed   int           `json:"resumed"`   // photos that an earlier run had labelled
	PerSecond float64       `json:"photos_per_second"`

	Shard   string   `json:"shard,omitempty"`   // "2/4" where the pass is done in parts
	Waiting []string `json:"waiting,omitempty"` // parts that have not ended: the last of them writes the outputs, and nothing is counted here
	Merged  bool     `json:"merged,omitempty"`  // another part has written the outputs, and nothing is counted here

	Known   int                  `json:"photos_with_full_labels"`
	Quality metric.PseudoQuality `json:"quality"` // of the pseudo-positives, over the photos with full labels
}

// String is the summary for people.
func (s *Summary) String() string {
	b := &strings.Builder{}
	switch {
	case s.Merged:
		return fmt.Sprintf("shard %s has ended; another one wrote the files\n", s.Shard)
	case len(s.Waiting) > 0:
		return fmt.Sprintf("shard %s has ended; %s have not, and the last of them writes the files\n", s.Shard, strings.Join(s.Waiting, ", "))
	}
	n := float64(max(s.Photos, 1))
	fmt.Fprintf(b, "%d photos, %d classes: %.2f positives a photo (%d observed, %d pseudo), %.2f negatives, %d photos without a positive\n",
		s.Photos, s.Classes, float64(s.Positives)/n, s.Observed, s.Pseudo, float64(s.Negatives)/n, s.Empty)
	if s.Observed > 0 {
		fmt.Fprintf(b, "observed positives: the method gives %d of %d too (%.1f %%), and calls %d negative\n", s.Agreed, s.Observed, 100*float64(s.Agreed)/float64(s.Observed), s.Against)
	}
	if s.Known > 0 {
		fmt.Fprintf(b, "pseudo-positives against the full labels of %d photos: precision %.2f %%, recall %.2f %% of the %d hidden positives\n",
			s.Known, 100*s.Quality.Precision(), 100*s.Quality.Recall(), s.Quality.Hidden)
	}
	if len(s.Broken) > 0 {
		fmt.Fprintf(b, "%d photos could not be read and have their observed labels only\n", len(s.Broken))
	}
	return b.String()
}

type unreadable string

func (u unreadable) Error() string { return string(u) }

// collect counts all photos and gives the final labels [n, C] of each batch to rows; nil: to nobody.
func (l *Labeller) collect(ds *data.Dataset, all []part, e Events, rows func(labels []byte) error) (*Summary, error) {
	c := ds.C()
	s := &Summary{Photos: ds.N(), Classes: c, PerClass: make([]int, c)}
	raw := make([]int8, c)
	err := l.frames(ds, all, func(from int, pseudo, lines []byte) error {
		labels := make([]byte, 0, len(pseudo))
		for i := range len(pseudo) / c {
			for k := range raw {
				raw[k] = int8(pseudo[i*c+k])
			}
			final, err := s.add(ds, from+i, raw)
			if err != nil {
				return err
			}
			for _, y := range final {
				labels = append(labels, byte(y))
			}
		}
		if rows != nil {
			if err := rows(labels); err != nil {
				return err
			}
		}
		return decodeLines(lines, func(v Evidence) error {
			if v.Error != "" {
				b := data.Broken{Row: v.Row, Name: v.Image, Err: unreadable(v.Error)}
				s.Broken, s.BrokenIn = append(s.Broken, b), append(s.BrokenIn, v.Image)
				if e.Broken != nil {
					e.Broken(b)
				}
			}
			return nil
		})
	})
	return s, err
}

// add counts a photo and gives its final labels.
func (s *Summary) add(ds *data.Dataset, row int, pseudo []int8) ([]int8, error) {
	observed := observedRow(ds, row)
	final := Merge(pseudo, observed)
	empty := true
	for k, y := range final {
		switch y {
		case 1:
			s.Positives++
			s.PerClass[k]++
			empty = false
			if observed[k] != 1 {
				s.Pseudo++
			}
		case -1:
			s.Negatives++
		}
		if observed[k] == 1 {
			s.Observed++
			switch pseudo[k] {
			case 1:
				s.Agreed++
			case -1:
				s.Against++
			}
		}
	}
	if empty {
		s.Empty++
	}
	if ds.Labels != nil && (ds.Full == nil || ds.Full[row]) {
		s.Known++
		return final, s.Quality.Add(ds.LabelRow(row), final, observed)
	}
	return final, nil
}
