package network

import (
	"context"
	"errors"
	"fmt"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
)

// Outputs are what a model computes for rows of a data set, which need no labels for that.
type Outputs struct {
	rundir.Scores
	Dim      int           // of the features; 0: the model has none apart from its scores
	Features []float32     // pooled features [len(Rows), Dim], before the head
	Broken   []data.Broken // images that could not be read: their rows are missing
}

// Freeze takes the network's frozen form, which nothing is recorded of, where it has one in this precision.
func (n *Network) Freeze() {
	if _, narrow := computeTypes[n.o.Config.Run.Precision]; narrow {
		return
	}
	m, err := model.FreezeOnly(n.Model, torch.Float32)
	if n.Model = m; err != nil && !errors.Is(err, backbone.ErrForm) {
		n.o.Events.Say(fmt.Sprintf("the frozen form of the model is not available, the slower plain form is used: %v", err))
	}
}

// Calibrate runs the network, on a CPU, over rows to find its int8 form.
func (n *Network) Calibrate(ctx context.Context, rows []int) (*backbone.Calibration, error) {
	return model.Calibrate(n.Model, func(yield func(*torch.Tensor, error) bool) {
		on := true
		_, err := n.forEach(ctx, "calibration", 0, rows, func(_ *torch.Arena, x *torch.Tensor) {
			for i := 0; on && i < x.Size(0); i++ {
				on = yield(x.Slice(0, i, i+1, 1), nil)
			}
		})
		if err != nil && on {
			yield(nil, err)
		}
	})
}

// Quantize takes the network's int8 form.
func (n *Network) Quantize(c *backbone.Calibration) error {
	m, err := model.Quantize(n.Model, c)
	if err == nil {
		n.Model = m
	}
	return err
}

// Outputs computes scores and features of rows in one pass.
func (n *Network) Outputs(ctx context.Context, rows []int) (*Outputs, error) {
	o := &Outputs{}
	head := n.Model.Head() // nil: the scores take more than the pooled features
	var features, scores compute.Collected
	got, err := n.forEach(ctx, "outputs", 0, rows, func(a *torch.Arena, x *torch.Tensor) {
		p := n.Model.Features(x)
		var z *torch.Tensor
		if head == nil {
			z = n.Model.Forward(x)
		} else {
			z = head.Forward(p)
		}
		o.Dim = p.Size(1)
		features.Add(a, p.ToDType(torch.Float32).Contiguous())
		scores.Add(a, compute.Sigmoids(z))
	})
	if err != nil {
		return nil, err
	}
	o.Rows, o.Features, o.Values, o.Broken = got, features.Flush(), scores.Flush(), n.Broken()
	return o, nil
}
