package model_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch/nn"
)

// folder is a model folder of an untrained network; a run leaves one.
func folder() (dir string) {
	net, err := backbone.New("small_cnn", 2)
	if err == nil {
		dir, err = os.MkdirTemp("", "example")
	}
	if err == nil {
		err = model.Save(dir, model.Config{
			Architecture: "small_cnn", NumClasses: 2, NumFeatures: 128, LabelNames: []string{"dog", "cat"}, Threshold: 0.5,
			PretrainedCfg: model.Input{
				InputSize: [3]int{3, 64, 64}, Interpolation: "bilinear", CropMode: "squash", CropPct: 1, Std: pixel.ImageNetStd,
			},
		}, nn.StateDictOf(net))
	}
	if err != nil {
		panic(err)
	}
	return dir
}

// A tagger is opened once and serves many goroutines.
func ExampleTagger() {
	dir := folder()
	defer os.RemoveAll(dir)
	tagger, err := model.OpenTagger(dir, model.TaggerOptions{Workers: 1})
	if err != nil {
		panic(err)
	}
	defer tagger.Close()
	var photo bytes.Buffer
	if err := png.Encode(&photo, image.NewGray(image.Rect(0, 0, 80, 60))); err != nil {
		panic(err)
	}
	labels, err := tagger.Tag(context.Background(), photo.Bytes())
	if err != nil {
		panic(err)
	}
	fmt.Println(len(labels), labels[0].Probability >= labels[1].Probability)
	_, err = tagger.Tag(context.Background(), []byte("no photo"))
	fmt.Println(err != nil)
	// Output:
	// 2 true
	// true
}

// A folder is a network with its head, its classes and how photos become its input.
func ExampleOpen() {
	dir := folder()
	defer os.RemoveAll(dir)
	m, err := model.Open(dir)
	if err != nil {
		panic(err)
	}
	fmt.Println(m.Config.Architecture, m.Config.LabelNames, m.Config.PretrainedCfg.InputSize)
	// Output: small_cnn [dog cat] [3 64 64]
}
