package compare

import (
	"context"
	"fmt"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
)

// zeroShotTau is the temperature of zero-shot scores: CLIP's own scale, on which the papers' numbers rest.
const zeroShotTau = 0.01

// zeroShot scores the test part of a configuration's data set by its image-text model alone: the softmax over the
// classes of the cosines with "a photo of a {name}.", τ = 0.01. It gives the scores and their mAP in percent. Photos
// that cannot be read are left out.
func zeroShot(ctx context.Context, c config.Config) (scores *rundir.Scores, mAP float64, err error) {
	if c, err = c.Ready(); err != nil {
		return nil, 0, err
	}
	if err := torch.Available(); err != nil {
		return nil, 0, err
	}
	err = compute.Guard(func() error {
		ds, err := c.Data.Open()
		if err != nil {
			return err
		}
		defer ds.Close()
		src, ok := ds.Source.(data.RawSource)
		rows := ds.Rows(data.Test)
		if !ok || len(rows) == 0 || !ds.FullyLabelled(rows) {
			return fmt.Errorf("%w: %s has no test photos with full labels", train.ErrData, ds.Name)
		}
		d, _, err := compute.Choose(c.Run.Device)
		if err != nil {
			return err
		}
		m, err := c.OpenClip(d)
		if err != nil {
			return err
		}
		defer m.Close()
		set, err := vlm.Published(vlm.VLPL, "", vlm.Default)
		if err != nil {
			return err
		}
		set.Tau, set.ApplyEXIF, set.MaxPixels = zeroShotTau, c.Data.Pixels().ApplyEXIF, int64(c.Data.MaxPixels)
		if set.Names, err = c.Pseudo.Names(); err != nil {
			return err
		}
		l, err := vlm.New(ctx, m, ds.Classes, set)
		if err != nil {
			return err
		}
		scores = &rundir.Scores{}
		for from := 0; from < len(rows); from += set.Batch {
			part := rows[from:min(from+set.Batch, len(rows))]
			p := vlm.Photos{Rows: part, Files: make([][]byte, len(part))}
			unread := make([]error, len(part))
			for i, r := range part {
				p.Files[i], unread[i] = src.ReadFile(r, nil)
			}
			got, broken, err := l.Label(ctx, p, make([]int8, len(part)*ds.C()))
			if err != nil {
				return err
			}
			for i, r := range part {
				if unread[i] == nil && broken[i] == nil {
					scores.Rows = append(scores.Rows, r)
					scores.Values = append(scores.Values, got.Scores[i*ds.C():(i+1)*ds.C()]...)
				}
			}
		}
		mAP, err = scores.MAP(ds, ds.Labels)
		return err
	})
	return scores, mAP, err
}
