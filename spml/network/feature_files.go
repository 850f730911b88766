package network

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/progress"
	"github.com/gospml/gospml/torch"
)

// ReadFeatures reads .npy files with a row for each image; where[row of the data set] is the row of the features, -1
// for none.
func ReadFeatures(paths config.Paths, ds *data.Dataset) (features *torch.Tensor, where []int, err error) {
	byName := make(map[string]int, ds.N())
	for i, n := range ds.Images {
		byName[n] = i
	}
	where = make([]int, ds.N())
	for i := range where {
		where[i] = -1
	}
	var all []float32
	rows, dim := 0, 0
	for _, path := range paths {
		a, err := npy.Read(path)
		if err != nil {
			return nil, nil, err
		}
		values, err := a.Float32()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(a.Shape) != 2 || dim != 0 && a.Shape[1] != int64(dim) || a.Shape[1] < 1 {
			return nil, nil, fmt.Errorf("%w: %s has shape %v, want a row of features for each image", fault.ErrData, path,
				a.Shape)
		}
		n := int(a.Shape[0])
		dim = int(a.Shape[1])
		names, err := lines(strings.TrimSuffix(path, ".npy") + ".txt")
		switch {
		case err == nil && len(names) != n:
			return nil, nil, fmt.Errorf("%w: %s has %d rows, the .txt file beside it names %d images", fault.ErrData, path,
				n, len(names))
		case err != nil && n != ds.N():
			return nil, nil, fmt.Errorf("%w: %s has %d rows, %s has %d images; put a .txt file with the image names beside it",
				fault.ErrData, path, n, ds.Name, ds.N())
		}
		for i := range n {
			row, known := i, true
			if err == nil {
				row, known = byName[names[i]]
			}
			if known {
				where[row] = rows + i
			}
		}
		all = append(all, values...)
		rows += n
	}
	return torch.FromSlice(all, rows, dim), where, nil
}

// ExtractFeatures computes the backbone's features of every image of a configuration's data set and writes them to path
// (.npy), with the image names in a .txt file beside it, for config.Model.Features of runs that share them. Images that
// cannot be read have no row.
func ExtractFeatures(ctx context.Context, c config.Config, path string, ev progress.Events) error {
	c.Run.Dir = ""
	c, err := c.Ready()
	if err != nil {
		return err
	}
	if c.Model.Weights == "" {
		return &config.Error{Msg: "features want --weights FILE"}
	}
	if err := torch.Available(); err != nil {
		return err
	}
	return compute.Guard(func() error {
		ds, err := c.Data.Open()
		if err != nil {
			return err
		}
		defer ds.Close()
		o, err := Prepare(c, ds, ev)
		if err != nil {
			return err
		}
		n, err := New(o)
		if err != nil {
			return err
		}
		defer n.Close()
		values, got, err := n.Features(ctx, all(ds.N()))
		if err != nil {
			return err
		}
		return writeFeatures(path, ds, got, n.Model.FeatureDim(), values)
	})
}

// writeFeatures writes features [len(rows), dim] of rows, and the names of their images beside them.
func writeFeatures(path string, ds *data.Dataset, rows []int, dim int, values []float32) error {
	var names strings.Builder
	for _, r := range rows {
		fmt.Fprintln(&names, ds.Images[r])
	}
	a, err := npy.New([]int64{int64(len(rows)), int64(dim)}, values)
	if err != nil {
		return err
	}
	if err := npy.Write(path, a); err != nil {
		return err
	}
	return atomicfile.WriteBytes(strings.TrimSuffix(path, ".npy")+".txt", 0o644, []byte(names.String()))
}

// lines are those of a text file that are not empty.
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
