package stat_test

import (
	"fmt"

	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/data/stat"
)

func ExampleOf() {
	ds, err := shapes.New(1, 100, 0, 20)
	if err == nil {
		ds, err = ds.WithSinglePositives(1)
	}
	if err != nil {
		panic(err)
	}
	defer ds.Close()
	s := stat.Of(ds)
	fmt.Println(s.Rows, len(s.Classes), s.ObservedMean)
	// Output: [100 0 20] 12 1
}
