package nn

import (
	"slices"
	"strings"

	"github.com/gospml/gospml/torch"
)

// LoadStateDict copies a state dict into a module's parameters and persistent buffers, in place and unseen by autograd;
// floating point values are converted to the module's type, integers likewise. It answers with a report. The error is a
// *LoadError, and nothing was copied, where tensors differ in shape or a number would have to become an integer or the
// reverse, and, with strict, where keys are missing or unexpected.
//
// A missing num_batches_tracked is no difference (files from before that counter, and converters, leave it out): the module's stays.
func LoadStateDict(m any, sd StateDict, strict bool) (*LoadReport, error) {
	r := &LoadReport{}
	type pair struct{ to, from *torch.Tensor }
	var pairs []pair
	known := map[string]bool{}
	var err error
	Walk(m, func(e Entry) {
		if e.NonPersistent || err != nil {
			return
		}
		known[e.Key] = true
		from := sd[e.Key]
		if from == nil {
			if e.Buffer && isCounter(e.Key) {
				r.Kept = append(r.Kept, e.Key)
			} else {
				r.Missing = append(r.Missing, e.Key)
			}
			return
		}
		err = torch.Try(func() {
			if isCounter(e.Key) && from.Numel() == 1 && from.Dim() == 1 { // some converters save it as one element
				from = from.Squeeze(0)
			}
			want, got := e.Tensor.DType(), from.DType()
			switch {
			case !slices.Equal(e.Tensor.Shape(), from.Shape()):
				r.MisShaped = append(r.MisShaped, MisShaped{e.Key, e.Tensor.Shape(), from.Shape()})
				return
			case want.IsFloat() != got.IsFloat() && !isCounter(e.Key):
				r.MisTyped = append(r.MisTyped, Converted{e.Key, got, want})
				return
			case want != got:
				r.Converted = append(r.Converted, Converted{e.Key, got, want})
			}
			pairs = append(pairs, pair{e.Tensor, from})
		})
	})
	if err != nil {
		return r, err
	}
	for _, k := range sd.Keys() {
		if !known[k] {
			r.Unexpected = append(r.Unexpected, k)
		}
	}
	r.hint()
	if len(r.MisShaped)+len(r.MisTyped) > 0 || strict && !r.Complete() {
		return r, &LoadError{r}
	}
	err = torch.Try(func() {
		torch.NoGrad(func() {
			for _, p := range pairs {
				p.to.Copy_(p.from)
				r.Loaded++
			}
		})
	})
	return r, err
}

func isCounter(key string) bool {
	return key == "num_batches_tracked" || strings.HasSuffix(key, ".num_batches_tracked")
}
