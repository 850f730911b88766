package data_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/data"
)

// A folder is read by what lies in it; one positive a photo is drawn where the files say no observed labels.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	table := "filename,dog,cat\n1.jpg,1,1\n2.jpg,0,1\n3.jpg,1,0\n"
	if err := os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(table), 0o644); err != nil {
		panic(err)
	}
	ds, err := data.Open(dir, data.Options{Missing: data.MissingKeep}) // without looking for the photos
	if err != nil {
		panic(err)
	}
	defer ds.Close()
	fmt.Println(ds.Info.Format, ds.N(), ds.Classes)
	for row, name := range ds.Images {
		seen := 0
		for _, y := range ds.Gather(ds.Observed, []int{row}) {
			seen += int(y)
		}
		fmt.Println(name, ds.Gather(ds.Labels, []int{row}), "positives seen:", seen)
	}
	// Output:
	// csv 3 [dog cat]
	// 1.jpg [1 1] positives seen: 1
	// 2.jpg [0 1] positives seen: 1
	// 3.jpg [1 0] positives seen: 1
}
