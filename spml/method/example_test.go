package method_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/method"
)

func ExampleLookup() {
	for _, name := range []string{"entropy-maximization", "em-apl", "lac"} { // ids, and aliases of their losses
		m, err := method.Lookup(name)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: above %v, first stage %q\n", m.ID, m.Present(), m.First)
	}
	_, err := method.Lookup("emm")
	fmt.Println(err != nil)
	// Output:
	// em: above 0.75, first stage ""
	// em-apl: above 0.75, first stage ""
	// lac: above 0.5, first stage "plc"
	// true
}
