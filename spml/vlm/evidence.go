package vlm

import (
	"image"
	"slices"

	"github.com/gospml/gospml/data"
)

// Evidence is a line of the JSONL result: a photo, its labels and why it has them.
type Evidence struct {
	Image     string   `json:"image"`
	Row       int      `json:"row"`
	Positives []Scored `json:"positives"`         // observed and pseudo, the best first
	Negatives int      `json:"negatives"`         // classes with -1
	Refused   []Scored `json:"refused,omitempty"` // the best of the classes that got no positive label
	Local     float32  `json:"local_threshold,omitempty"`
	Error     string   `json:"error,omitempty"` // why the photo could not be read
}

// Scored is a class with its scores. Tile, Box and TileScore are DAMP's best tile.
type Scored struct {
	Class     string  `json:"class"`
	Score     float32 `json:"score"`
	Rank      int     `json:"rank"` // 1 for the class with the highest score
	Observed  bool    `json:"observed,omitempty"`
	Global    float32 `json:"global,omitempty"`
	Tile      *int64  `json:"tile,omitempty"`
	TileScore float32 `json:"tile_score,omitempty"`
	Box       *[4]int `json:"box,omitempty"` // left, top, right, bottom in pixels
}

// refusedShown is how many refused classes a line has.
const refusedShown = 3

// evidence describes photo i of a batch.
func evidence(ds *data.Dataset, row, i int, l *Labels, boxes []image.Rectangle, broken error) Evidence {
	c := ds.C()
	observed := observedRow(ds, row)
	e := Evidence{Image: ds.Images[row], Row: row, Positives: []Scored{}}
	if broken != nil {
		e.Error = broken.Error()
		for k, y := range observed {
			switch y {
			case 1:
				e.Positives = append(e.Positives, Scored{Class: ds.Classes[k], Observed: true})
			case -1:
				e.Negatives++
			}
		}
		return e
	}
	at := i * c
	order := make([]int, c)
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := l.Scores[at+a], l.Scores[at+b]; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	final := Merge(l.Pseudo[at:at+c], observed)
	if l.Local != nil {
		e.Local = l.Local[i]
	}
	for rank, k := range order {
		s := Scored{Class: ds.Classes[k], Score: l.Scores[at+k], Rank: rank + 1, Observed: observed[k] == 1}
		if l.Best != nil {
			t := l.Best[at+k]
			s.Global, s.Tile, s.TileScore = l.Global[at+k], &t, l.Top[at+k]
			r := boxes[t]
			s.Box = &[4]int{r.Min.X, r.Min.Y, r.Max.X, r.Max.Y}
		}
		switch {
		case final[k] == 1:
			e.Positives = append(e.Positives, s)
		case len(e.Refused) < refusedShown:
			e.Refused = append(e.Refused, s)
		}
		if final[k] == -1 {
			e.Negatives++
		}
	}
	return e
}

// observedRow are a row's observed labels, zeros where none are given.
func observedRow(ds *data.Dataset, row int) []int8 {
	if ds.Observed == nil {
		return make([]int8, ds.C())
	}
	return ds.ObservedRow(row)
}
