package data_test

import (
	"context"
	"fmt"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
)

// One epoch over the train rows: shuffled, mirrored by coins, squashed images in batches of four.
func ExampleLoader_Batches() {
	ds, err := shapes.New(1, 10, 0, 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ds.Close()
	loader, err := data.NewLoader(ds, data.LoaderOptions{Width: 64, Height: 64, CacheBytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer loader.Close()
	const seed, epoch = 1, 1
	plan := data.Plan{
		Order:     data.Shuffled(ds.Rows(data.Train), seed, epoch),
		BatchSize: 4,
		Flip:      data.SeededFlip(seed, epoch),
	}
	for batch, err := range loader.Batches(context.Background(), plan) {
		if err != nil {
			fmt.Println(err)
			return
		}
		labels := ds.Gather(ds.Labels, batch.Rows) // [Len, C]
		fmt.Println(batch.Index, batch.Len(), len(batch.Images[0]), len(labels))
	}
	// Output:
	// 0 4 12288 48
	// 1 4 12288 48
	// 2 2 12288 24
}
