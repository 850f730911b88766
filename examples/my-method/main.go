// Command my-method is spml with one more method: a temporal ensemble. The strong view's scores are drawn to the
// average of what the network said of the photo before.
package main

import (
	"fmt"

	"github.com/gospml/gospml/cmd/spml/command"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/torch"
)

// entry is the loss: what it reads of a batch, and its formula.
var entry = loss.Entry{
	ID:      "ensemble",
	Title:   "Temporal ensemble",
	Formula: "AN(z) + λ·(σ(z_s) - h)²",
	Source:  "Laine and Aila 2017, for each label by itself",
	Params: []loss.Param{
		{Name: "lambda", Doc: "λ, weight of the agreement with earlier scores", Default: 1},
		{Name: "momentum", Doc: "share of the past in the average of scores", Default: 0.6},
	},
	Needs: loss.Observed | loss.Averages | loss.StrongView,
	New: func(v loss.Values, o loss.Options) (loss.Func, error) {
		return func(b loss.Batch) *torch.Tensor {
			z := b.Z()
			pos, neg := loss.Positive(z, o.LogEps), loss.Negative(z, o.LogEps)
			far := b.Strong.ToDType(z.DType()).Sigmoid().Sub(b.Average.ToDType(z.DType())).Square()
			return o.Reduce(loss.ByLabel(b.Observed, pos, neg, neg).Add(far.MulScalar(v["lambda"])))
		}, nil
	},
}

// memory is the state: the average score of every photo and class.
type memory struct {
	label.None
	scores   *torch.Tensor // [n, C] by place
	momentum float64
}

func newMemory(s *method.Setup) (method.Estimator, error) {
	m := &memory{momentum: s.Values["momentum"]}
	return m, torch.Try(func() { m.scores = s.Observed().EqScalar(1).ToDType(torch.Float32) })
}

// Fill gives the loss what was said of the batch's photos before.
func (m *memory) Fill(s *method.Step) error {
	s.Batch.Average = m.scores.IndexSelect(0, s.At)
	return nil
}

// After takes in what was said now.
func (m *memory) After(s *method.Step) error {
	torch.NoGrad(func() {
		now := s.Batch.Logits.Detach().Sigmoid().ToDType(torch.Float32)
		m.scores.IndexCopy_(0, s.At, s.Batch.Average.MulScalar(m.momentum).Add(now.MulScalar(1-m.momentum)))
	})
	return nil
}

// State goes into checkpoints, LoadState takes it back: a run that was stopped goes on to the same bits.
func (m *memory) State() label.State {
	return label.State{Tensors: map[string]*torch.Tensor{"scores": m.scores}}
}

func (m *memory) LoadState(s label.State) error {
	from := s.Tensors["scores"]
	if from == nil || fmt.Sprint(from.Shape()) != fmt.Sprint(m.scores.Shape()) {
		return fmt.Errorf("the checkpoint holds no scores of these photos")
	}
	return torch.Try(func() { m.scores.Copy_(from) })
}

func init() {
	if err := loss.Register(entry); err != nil {
		panic(err)
	}
	m := method.Method{ID: entry.ID, Gives: loss.Averages, Threshold: 0.4, Estimator: newMemory}
	if err := method.Register(m); err != nil {
		panic(err)
	}
}

func main() { command.Main() }
