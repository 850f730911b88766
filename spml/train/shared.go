package train

import (
	"context"
	"fmt"
	"strings"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
)

// ExtractFeatures computes the backbone's features of every image of a configuration's data set and writes them to path
// (.npy), with the image names in a .txt file beside it, for config.Model.Features of runs that share them. Images that
// cannot be read have no row.
func ExtractFeatures(ctx context.Context, c config.Config, path string, ev Events) error {
	c.Run.Dir = ""
	c, err := prepare(c)
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
		s, err := newSession(c, ds, ev)
		if err != nil {
			return err
		}
		n, err := newNetwork(s)
		if err != nil {
			return err
		}
		defer n.close()
		rows := make([]int, ds.N())
		for i := range rows {
			rows[i] = i
		}
		values, got, err := n.features(ctx, rows)
		if err != nil {
			return err
		}
		var names strings.Builder
		for _, r := range got {
			fmt.Fprintln(&names, ds.Images[r])
		}
		a, err := npy.New([]int64{int64(len(got)), int64(n.model.FeatureDim())}, values)
		if err != nil {
			return err
		}
		if err := npy.Write(path, a); err != nil {
			return err
		}
		return atomicfile.WriteBytes(strings.TrimSuffix(path, ".npy")+".txt", 0o644, []byte(names.String()))
	})
}
