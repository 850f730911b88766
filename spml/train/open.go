package train

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
)

// Open opens the data set of a configuration: drawn shapes, or files of any format that data.Open reads. The caller closes it.
func Open(c Config) (*data.Dataset, error) {
	if c.Data == ShapesName {
		ds, err := shapes.New(uint64(*c.DataSeed), shapesTrain, shapesVal, shapesTest)
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

// dataOptions are the choices of data.Open.
func (c Config) dataOptions() (data.Options, error) {
	o, err := ParseDataOptions(c.DataOptions)
	if err != nil {
		return o, &ConfigError{err.Error()}
	}
	if c.DataSeed != nil {
		o.Seed = *c.DataSeed
	}
	return o, nil
}

// ParseDataOptions reads the form of [Config].DataOptions: NAME=VALUE joined by commas, with the names of data.OptionNames.
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
