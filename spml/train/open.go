package train

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
)

// Open opens the data set of a configuration: drawn shapes, a folder of CSV files, or one of the bird attributes' tables. The caller closes it.
func Open(c Config) (*data.Dataset, error) {
	if c.Data == ShapesName {
		ds, err := shapes.New(uint64(*c.DataSeed), shapesTrain, shapesVal, shapesTest)
		if err != nil {
			return nil, err
		}
		return ds.WithSinglePositives(*c.DataSeed)
	}
	if exists(filepath.Join(c.Data, "attributes.txt")) && exists(filepath.Join(c.Data, "train.tsv")) {
		return openAttributes(c.Data)
	}
	return data.OpenCSV(c.Data, data.CSVOptions{Seed: *c.DataSeed})
}

// openAttributes opens a folder with attributes.txt (a class a line), train.tsv and test.tsv (file, official name, indices of the positive
// attributes from 0) and images/. The training rows have observed positives only; their Labels repeat them, and LabelledRows says
// that no full label is known there.
func openAttributes(dir string) (*data.Dataset, error) {
	names, err := lines(filepath.Join(dir, "attributes.txt"))
	if err != nil {
		return nil, err
	}
	ds := &data.Dataset{Name: filepath.Base(dir), Classes: names}
	ds.Info.Labels = "test.tsv; the training rows have observed positives only"
	ds.Info.Split, ds.Info.Observed = attributeSplit, "train.tsv"
	for _, part := range []data.Split{data.Train, data.Test} {
		file := part.String() + ".tsv"
		rows, err := lines(filepath.Join(dir, file))
		if err != nil {
			return nil, err
		}
		for i, line := range rows[min(1, len(rows)):] {
			cells := strings.Split(line, "\t")
			bad := func(why string) error { return &data.FormatError{File: file, Line: i + 2, Msg: why} }
			if len(cells) != 3 {
				return nil, bad("want three columns: file, official_name, positive_attributes")
			}
			y := make([]int8, len(names))
			for _, f := range strings.Fields(cells[2]) {
				k, err := strconv.Atoi(f)
				if err != nil || k < 0 || k >= len(names) {
					return nil, bad(fmt.Sprintf("attribute %q is no number from 0 to %d", f, len(names)-1))
				}
				y[k] = 1
			}
			ds.Images, ds.Split = append(ds.Images, cells[0]), append(ds.Split, part)
			ds.Labels = append(ds.Labels, y...)
			if part == data.Test {
				y = make([]int8, len(names))
			}
			ds.Observed = append(ds.Observed, y...)
		}
	}
	if err := ds.Validate(); err != nil {
		return nil, err
	}
	if ds.Source, err = data.OpenFiles(filepath.Join(dir, "images"), ds.Images); err != nil {
		return nil, err
	}
	return ds, nil
}

// attributeSplit marks a data set whose training rows lack full labels.
const attributeSplit = "train.tsv and test.tsv"

// labelled says whether the rows of a part have full labels.
func labelled(ds *data.Dataset, part data.Split) bool {
	return ds.Labels != nil && !(part == data.Train && ds.Info.Split == attributeSplit)
}

func lines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if line := strings.TrimRight(s.Text(), "\r"); line != "" {
			out = append(out, line)
		}
	}
	return out, s.Err()
}
