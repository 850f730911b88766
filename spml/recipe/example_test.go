package recipe_test

import (
	"fmt"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/recipe"
)

// A paper's settings as the configuration of a run.
func ExampleGet() {
	r, err := recipe.Get("gr-coco-resnet50")
	if err != nil {
		panic(err)
	}
	settings := r.Settings()
	settings["data"], settings["weights"] = "coco", "resnet50.pth"
	c, err := config.FromSettings(settings)
	if err != nil {
		panic(err)
	}
	fmt.Println(c.Method.ID, c.Model.Backbone, c.Data.ImageSize)
	// Output: gr resnet50 448
}
