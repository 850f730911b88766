package recipe_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/recipe"
	"github.com/gospml/gospml/spml/train"
)

// A paper's settings as the configuration of a run.
func ExampleGet() {
	r, err := recipe.Get("gr-coco-resnet50")
	if err != nil {
		panic(err)
	}
	settings := r.Settings()
	settings["data"], settings["weights"] = "coco", "resnet50.pth"
	c, err := train.FromSettings(settings)
	if err != nil {
		panic(err)
	}
	fmt.Println(c.Method, c.Backbone, c.ImageSize)
	// Output: gr resnet50 448
}
