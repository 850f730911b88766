//go:build ignore

// Draw writes pictures of data/shapes to drawn/ and their labels to photos/: `go run draw.go` in this folder. make.py makes photos/images and the awkward files of them.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
)

func main() {
	const n = 20
	ds, err := shapes.New(11, n, 0, 0)
	check(err)
	check(os.MkdirAll("drawn", 0o755))
	check(os.MkdirAll("photos", 0o755))
	var labels, split strings.Builder
	fmt.Fprintf(&labels, "filename,%s\n", strings.Join(ds.Classes, ","))
	split.WriteString("filename,split\n")
	for i := range n {
		file, err := ds.Source.(data.RawSource).ReadFile(i, nil)
		check(err)
		check(os.WriteFile(filepath.Join("drawn", fmt.Sprintf("%02d.png", i)), file, 0o644))
		name := fmt.Sprintf("%02d.jpg", i)
		labels.WriteString(name)
		for _, y := range ds.LabelRow(i) {
			fmt.Fprintf(&labels, ",%d", y)
		}
		labels.WriteByte('\n')
		fmt.Fprintf(&split, "%s,%s\n", name, []string{"train", "train", "train", "val", "test"}[i%5])
	}
	check(os.WriteFile(filepath.Join("photos", "labels.csv"), []byte(labels.String()), 0o644))
	check(os.WriteFile(filepath.Join("photos", "split.csv"), []byte(split.String()), 0o644))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
