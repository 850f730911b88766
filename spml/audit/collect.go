package audit

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
)

// CollectOptions of Collect.
type CollectOptions struct {
	evaluate.OutputsOptions
	Clip      *clip.Model // nil: that source is absent
	Templates []string    // prompts with {} for the class; nil: CLIP's "a photo of a {}."
	K         int         // neighbours; 0: 30
	Of        string      // whose labels vote, [Observed] or [Full]; "": observed labels where there are some
	Note      func(string)
	Events    train.Events
}

// Collect asks the three sources: the run's model of all photos, the image-text model, and the nearest photos in the
// model's features. A source that cannot be asked is absent, and Note says why, once. The caller closes the data set of
// the evidence.
func Collect(ctx context.Context, run string, o CollectOptions) (_ *Evidence, err error) {
	defer caught.Recover(&err)
	note := o.Note
	if note == nil {
		note = func(string) {}
	}
	if o.K == 0 {
		o.K = 30
	}
	ds, out, err := evaluate.Outputs(ctx, run, o.OutputsOptions, o.Events)
	if err != nil {
		return nil, err
	}
	e := &Evidence{Data: ds, Rows: out.Rows, Values: map[Source][]float32{Model: out.Values}}
	for _, b := range out.Broken {
		note("left out: " + b.Error())
	}
	if len(e.Rows) == 0 {
		return nil, errors.Join(fmt.Errorf("%w: no photo of %s could be read", train.ErrData, ds.Name), ds.Close())
	}
	if o.Of == "" {
		if o.Of = Full; ds.Observed != nil {
			o.Of = Observed
		}
	}
	matrix, known, err := labels(ds, o.Of)
	if err == nil {
		e.Near, err = NearestRows(ctx, out.Features, len(e.Rows), out.Dim, o.K)
	}
	if err != nil {
		return nil, errors.Join(err, ds.Close())
	}
	e.Values[Neighbours] = e.votes(matrix, known)
	for _, near := range e.Near { // places become rows
		for i, at := range near {
			near[i] = e.Rows[at]
		}
	}
	if o.Clip == nil {
		note("without CLIP: --clip MODEL adds its scores")
		return e, nil
	}
	src, ok := ds.Source.(data.RawSource)
	if !ok {
		note(fmt.Sprintf("without CLIP: %s has no photos to show it", ds.Name))
		return e, nil
	}
	if e.Values[Clip], err = clipScores(ctx, o.Clip, src, ds, e.Rows, o.Templates, note); err != nil {
		return nil, errors.Join(err, ds.Close())
	}
	return e, nil
}

// votes are the shares of the nearest photos that carry each label, [n, C]. Rows of which nothing is known do not vote.
func (e *Evidence) votes(matrix []int8, known func(row int) bool) []float32 {
	c := e.Data.C()
	v := make([]float32, len(e.Rows)*c)
	for i, near := range e.Near {
		n := 0
		for _, at := range near {
			r := e.Rows[at]
			if !known(r) {
				continue
			}
			n++
			for k := range c {
				if matrix[r*c+k] == 1 {
					v[i*c+k]++
				}
			}
		}
		for k := range c {
			if v[i*c+k] /= float32(n); n == 0 {
				v[i*c+k] = float32(math.NaN())
			}
		}
	}
	return v
}

// NearestRows finds for each of n feature vectors [n, dim] the k others of largest cosine, the nearest first.
func NearestRows(ctx context.Context, features []float32, n, dim, k int) (near [][]int, err error) {
	if len(features) != n*dim || dim < 1 || k < 1 {
		return nil, fmt.Errorf("audit: %d numbers are not %d features of %d rows, or %d neighbours are none", len(features), dim, n, k)
	}
	k = min(k, n-1)
	if k < 1 {
		return make([][]int, n), nil
	}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			torch.Scope(func(*torch.Arena) {
				x := clip.Normalize(torch.FromSlice(features, n, dim))
				t := x.T()
				step := max(1, 1<<24/n) // the products of a step take 64 MB
				for from := 0; from < n && ctx.Err() == nil; from += step {
					to := min(from+step, n)
					torch.Scope(func(*torch.Arena) {
						s := x.Narrow(0, from, to-from).Matmul(t)
						_, at := s.Topk(k+1, 1, true, true)
						for i, all := range chunk(torch.ToSlice[int64](at.Contiguous()), k+1) {
							var one []int
							for _, j := range all {
								if int(j) != from+i && len(one) < k {
									one = append(one, int(j))
								}
							}
							near = append(near, one)
						}
					})
				}
			})
		})
	})
	if err == nil {
		err = ctx.Err()
	}
	return near, err
}

func chunk(all []int64, n int) [][]int64 {
	var out [][]int64
	for ; len(all) > 0; all = all[n:] {
		out = append(out, all[:n])
	}
	return out
}

// clipScores are softmax probabilities among the classes, [n, C]; NaN for a photo that CLIP's reader refuses.
func clipScores(ctx context.Context, m *clip.Model, src data.RawSource, ds *data.Dataset, rows []int, templates []string, note func(string)) ([]float32, error) {
	z, err := m.ZeroShot(ctx, ds.Classes, templates)
	if err != nil {
		return nil, err
	}
	c := ds.C()
	values := make([]float32, len(rows)*c)
	for i := range values {
		values[i] = float32(math.NaN())
	}
	const batch = 32
	for from := 0; from < len(rows); from += batch {
		var at []int
		var files [][]byte
		for i := from; i < min(from+batch, len(rows)); i++ {
			b, err := src.ReadFile(rows[i], nil)
			if err != nil {
				note(fmt.Sprintf("CLIP cannot read %s: %v", ds.Images[rows[i]], err))
				continue
			}
			at, files = append(at, i), append(files, b)
		}
		for len(files) > 0 {
			s, err := z.Files(ctx, files)
			var bad *clip.PictureError
			if errors.As(err, &bad) {
				note(fmt.Sprintf("CLIP cannot read %s: %v", ds.Images[rows[at[bad.Index]]], bad.Err))
				at, files = append(at[:bad.Index], at[bad.Index+1:]...), append(files[:bad.Index], files[bad.Index+1:]...)
				continue
			}
			if err != nil {
				return nil, err
			}
			for j, i := range at {
				_, p := s.Row(j)
				copy(values[i*c:(i+1)*c], p)
			}
			break
		}
	}
	return values, nil
}
