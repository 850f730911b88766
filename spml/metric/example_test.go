package metric_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/metric"
)

func ExampleMAP() {
	scores := []float32{
		0.9, 0.2,
		0.4, 0.7,
		0.6, 0.7,
	}
	labels := []int8{
		1, 0,
		1, 1,
		0, 0,
	}
	m, err := metric.MAP(scores, labels, 2)
	fmt.Printf("%.2f %v\n", m, err)
	// Output: 66.67 <nil>
}
