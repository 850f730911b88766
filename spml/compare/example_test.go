package compare_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/compare"
)

// Rows of a comparison as the command line names them: a method, with parameters of its loss and settings of its runs.
func ExampleMethods() {
	rows, err := compare.Methods([]string{"an", "em:alpha=0.1,lr=1e-4"})
	if err != nil {
		panic(err)
	}
	for _, r := range rows {
		fmt.Println(r.Name, r.Set["method"], r.Set["params.alpha"], r.Set["lr"])
	}
	// Output:
	// an an <nil> <nil>
	// em:alpha=0.1,lr=1e-4 em 0.1 0.0001
}
