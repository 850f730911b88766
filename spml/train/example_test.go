package train_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
)

// A linear head on features that were computed before: no photos are read.
func ExampleRun() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	labels := &strings.Builder{}
	labels.WriteString("filename,left,right\n")
	var features []float32
	for i := range 60 {
		fmt.Fprintf(labels, "%02d.jpg,%d,%d\n", i, i%2, 1-i%2)
		features = append(features, float32(i%2), float32(1-i%2), float32(i)/60)
	}
	if err := os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels.String()), 0o644); err != nil {
		panic(err)
	}
	file := filepath.Join(dir, "features.npy")
	a, err := npy.New([]int64{60, 3}, features)
	if err == nil {
		err = npy.Write(file, a)
	}
	if err != nil {
		panic(err)
	}
	r, err := train.Run(context.Background(), config.Config{
		Data:     config.Data{Path: dir, Options: config.DataOptions{Options: data.Options{Missing: data.MissingKeep}}},
		Method:   config.Method{ID: "em"},
		Model:    config.Model{Mode: config.Frozen, Features: config.Paths{file}},
		Optim:    config.Optim{BatchSize: 4, LR: 0.05},
		Schedule: config.Schedule{Epochs: 30},
		Run:      config.Run{Dir: filepath.Join(dir, "run")},
	}, train.RunOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d epochs, test mAP %.0f\n", len(r.Epochs), r.Best.TestMAP)
	// Output: 30 epochs, test mAP 100
}
