package tokenizer_test

import (
	"fmt"

	"github.com/gospml/gospml/clip/tokenizer"
)

// The ids are OpenAI's, with those of start and end.
func ExampleTokenizer_Encode() {
	t := tokenizer.New()
	ids := t.Encode("A photo of a cat")
	fmt.Println(ids)
	fmt.Println(t.Decode(ids))
	// Output:
	// [49406 320 1125 539 320 2368 49407]
	// <|startoftext|>a photo of a cat <|endoftext|>
}
