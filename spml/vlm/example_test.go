package vlm_test

import (
	"context"
	"fmt"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/vlm"
)

// Pseudo-labels of two pictures from the small built-in CLIP.
func ExampleLabeller_Label() {
	ds, err := shapes.New(5, 2, 0, 0)
	if err != nil {
		panic(err)
	}
	defer ds.Close()
	m, err := clip.OpenBuiltin(clip.Options{})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	settings, err := vlm.Published(vlm.VLPL, "", vlm.Default)
	if err != nil {
		panic(err)
	}
	settings.Tau, settings.Theta = 0.05, 0.15
	ctx := context.Background()
	l, err := vlm.New(ctx, m, ds.Classes, settings)
	if err != nil {
		panic(err)
	}
	p := vlm.Photos{Rows: []int{0, 1}}
	for _, row := range p.Rows {
		b, err := ds.Source.(data.RawSource).ReadFile(row, nil)
		if err != nil {
			panic(err)
		}
		p.Files = append(p.Files, b)
	}
	labels, broken, err := l.Label(ctx, p, make([]int8, 2*ds.C()))
	if err != nil {
		panic(err)
	}
	fmt.Println(len(labels.Scores), "scores,", len(broken), "reasons:", broken[0], broken[1])
	// Output: 24 scores, 2 reasons: <nil> <nil>
}
