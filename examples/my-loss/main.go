// Command my-loss is spml with one more loss, PolyLoss on assumed negatives.
package main

import (
	"github.com/gospml/gospml/cmd/spml/command"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

var polyAN = loss.Entry{
	ID:      "poly-an",
	Title:   "PolyLoss on assumed negatives",
	Formula: "y·(sn + ε·n) + (1-y)·(sp + ε·p)",
	Source:  "Leng et al. 2022 (Poly-1), for each label by itself",
	Params:  []loss.Param{{Name: "epsilon", Doc: "ε, weight of the first polynomial term", Default: 1}},
	Needs:   loss.Observed,
	New: func(v loss.Values, o loss.Options) (loss.Func, error) {
		return func(b loss.Batch) *torch.Tensor {
			z := b.Z()
			pos := loss.Positive(z, o.LogEps).Add(z.Neg().Sigmoid().MulScalar(v["epsilon"]))
			neg := loss.Negative(z, o.LogEps).Add(z.Sigmoid().MulScalar(v["epsilon"]))
			return o.Reduce(loss.ByLabel(b.Observed, pos, neg, neg))
		}, nil
	},
}

func init() {
	if err := loss.Register(polyAN); err != nil {
		panic(err)
	}
}

func main() { command.Main() }
