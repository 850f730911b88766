package decoder_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/decoder"
	"github.com/gospml/gospml/torch"
)

// LAC's decoder looks at a feature map with a query for each class.
func ExampleDecoder() {
	d, err := decoder.New(decoder.Config{InFeatures: 32, Classes: 5, Dim: 16, Projection: 8})
	if err != nil {
		panic(err)
	}
	out := d.Forward(torch.Randn(torch.S(2, 32, 7, 7)), decoder.Want{Embeddings: true, Attention: true})
	fmt.Println(out.Logits.Shape(), out.Labelwise.Shape(), out.Z.Shape(), out.Attention.Shape())
	// Output: [2 5] [2 5 16] [2 5 8] [2 5 49]
}
