package metric_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/metric"
)

// Scores come batch by batch; what is more than memory allows goes to a file.
func ExampleAccumulator() {
	a, err := metric.NewAccumulator[float32](2, metric.Options{})
	if err != nil {
		panic(err)
	}
	defer a.Close()
	for _, batch := range []struct {
		scores []float32
		labels []int8
	}{
		{[]float32{0.9, 0.2, 0.4, 0.7}, []int8{1, 0, 1, 1}},
		{[]float32{0.6, 0.7}, []int8{0, 0}},
	} {
		if err := a.Add(batch.scores, batch.labels); err != nil {
			panic(err)
		}
	}
	r, err := a.Report()
	fmt.Printf("%d images: mAP %.2f, micro-F1 %.2f %v\n", r.Images, r.MAP, r.Micro.F1, err)
	// Output: 3 images: mAP 66.67, micro-F1 0.57 <nil>
}
