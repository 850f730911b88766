package clip_test

import (
	"context"
	"fmt"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
)

// The small built-in model and a picture that it can know; clip.Open loads any other.
func ExampleModel_ZeroShot() {
	ds, err := shapes.New(5, 1, 0, 0)
	if err != nil {
		panic(err)
	}
	defer ds.Close()
	png, err := ds.Source.(data.RawSource).ReadFile(0, nil)
	if err != nil {
		panic(err)
	}
	m, err := clip.OpenBuiltin(clip.Options{})
	if err != nil {
		panic(err)
	}
	defer m.Close()
	ctx := context.Background()
	z, err := m.ZeroShot(ctx, ds.Classes, nil)
	if err != nil {
		panic(err)
	}
	s, err := z.Files(ctx, [][]byte{png})
	if err != nil {
		panic(err)
	}
	_, p := s.Row(0)
	best := 0
	for i := range p {
		if p[i] > p[best] {
			best = i
		}
	}
	fmt.Printf("%s: labelled so in the picture: %v\n", ds.Classes[best], ds.Labels[best] == 1)
	// Output: blue: labelled so in the picture: true
}
