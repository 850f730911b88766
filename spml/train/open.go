package train

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
)

// Open opens the data set of a configuration: drawn shapes, or files of any format that data.Open reads. The caller
// closes it.
func Open(c Config) (*data.Dataset, error) {
	if c.Data == ShapesName {
		n, err := shapesParts(c.DataOptions)
		if err != nil {
			return nil, &ConfigError{Msg: err.Error()}
		}
		ds, err := shapes.New(uint64(*c.DataSeed), n[0], n[1], n[2])
		if err != nil {
			return nil, err
		}
		return ds.WithSinglePositives(*c.DataSeed)
	}
	o, err := c.dataOptions()
	if err != nil {
		return nil, err
	}
	return data.Open(c.Data, o)
}

// shapesParts reads the sizes of the parts of shapes: train=N,val=N,test=N, each of them optional.
func shapesParts(text string) (n [3]int, err error) {
	n = [3]int{shapesTrain, shapesVal, shapesTest}
	if text == "" {
		return n, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		at := slices.Index([]string{"train", "val", "test"}, strings.TrimSpace(name))
		v, err := strconv.Atoi(strings.TrimSpace(value))
		if at < 0 || err != nil || v < 1 {
			return n, fmt.Errorf("data options %q: shapes takes train=N, val=N and test=N, numbers of drawn pictures", part)
		}
		n[at] = v
	}
	return n, nil
}

// dataOptions are the choices of data.Open.
func (c Config) dataOptions() (data.Options, error) {
	if c.Data == ShapesName {
		if _, err := shapesParts(c.DataOptions); err != nil {
			return data.Options{}, &ConfigError{Msg: err.Error()}
		}
		return data.Options{}, nil
	}
	o, err := ParseDataOptions(c.DataOptions)
	if err != nil {
		return o, &ConfigError{Msg: err.Error()}
	}
	if c.DataSeed != nil {
		o.Seed = *c.DataSeed
	}
	return o, nil
}

// ParseDataOptions reads the form of [Config].DataOptions: NAME=VALUE joined by commas, with the names of
// data.OptionNames.
func ParseDataOptions(text string) (data.Options, error) {
	var o data.Options
	if text == "" {
		return o, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return o, fmt.Errorf("data options %q: want NAME=VALUE, for instance missing=skip", part)
		}
		if err := o.Assign(strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			return o, err
		}
	}
	return o, nil
}

// labelled says whether the rows of a part have full labels.
func labelled(ds *data.Dataset, part data.Split) bool {
	return ds.FullyLabelled(ds.Rows(part))
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
