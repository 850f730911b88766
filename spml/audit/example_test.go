package audit_test

import (
	"context"
	"fmt"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/audit"
)

// Evidence may come from anywhere; audit.Collect asks a run's model, a CLIP and the nearest photos.
func ExampleRank() {
	ds := &data.Dataset{
		Name: "two", Classes: []string{"cat", "dog"}, Images: []string{"a.jpg", "b.jpg"}, Split: make([]data.Split, 2),
		Observed: []int8{1, 0, 0, 1},
	}
	t, err := audit.Rank(context.Background(), &audit.Evidence{
		Data: ds, Rows: []int{0, 1},
		Values: map[audit.Source][]float32{audit.Model: {0.9, 0.2, 0.7, 0.8}, audit.Clip: {0.6, 0.4, 0.5, 0.5}},
	}, audit.Options{})
	if err != nil {
		panic(err)
	}
	for _, c := range t.Candidates {
		fmt.Printf("%s of %s: %.2f\n", c.Label, c.Image, c.Score)
	}
	// Output:
	// cat of b.jpg: 0.75
	// dog of a.jpg: 0.25
}
