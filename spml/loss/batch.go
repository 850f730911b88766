package loss

import (
	"fmt"
	"strings"

	"github.com/gospml/gospml/torch"
)

// Batch is what a loss sees. Label tensors may have any number type; they are compared and converted as needed. Shapes are
// [B, C] unless said.
type Batch struct {
	Logits   *torch.Tensor // z, floating point; the weak view where there are two
	Observed *torch.Tensor // y in {1, 0, -1}: positive, unknown, negative
	Full     *torch.Tensor // t in {1, 0}
	Pseudo   *torch.Tensor // ℓ in {1, 0, -1}; only read where y = 0
	Labels   *torch.Tensor // Y of asymmetric pseudo-labelling: 1, 0, -s for a negative with soft target s, KnownNegative
	Estimate *torch.Tensor // u: logits of ROLE's estimates
	Negative *torch.Tensor // ẑ of expected negatives: 1 where an unknown label counts as negative
	Average  *torch.Tensor // h: running average of the scores, before this visit
	Strong   *torch.Tensor // logits of the strong view
	Soft     *torch.Tensor // d in (0, 1): label distribution
	Group    *torch.Tensor // Q: running scores of the photo's group, in [0, 1]; -1 where it has none
	Prior    *torch.Tensor // [C], π: estimated frequencies of the classes; NaN where there is none

	Maps *torch.Tensor // [B, C, G, G] score map logits; z is their mean where Logits is nil
	Heat *torch.Tensor // [B, C, G, G] in [0, 1]: running average of the score maps

	Mean, Std   *torch.Tensor // [B, C, D]: the latent's Gaussian, μ and σ
	Alpha, Beta *torch.Tensor // parameters of the labels' Beta distributions

	Contrast       *Contrast       // label-wise embeddings
	Reconstruction *Reconstruction // what SMILE's decoder made
	Parameters     []*torch.Tensor // θ that a norm is taken of

	// Rows, if not nil, [B]: the rows that count are those with a number other than 0. The others are padding: whatever they hold, the loss
	// is that of the batch without them.
	Rows *torch.Tensor

	Epoch     int           // from 1
	Point     *Point        // of GR's schedule; nil: from Epoch
	Trainable *torch.Tensor // [4] w, b, μ, σ as parameters that receive gradients, in place of Point

	// Frozen, if not nil, is where factors without gradient are evaluated: weights, masks, selections, the other side's
	// estimates. Finite differences need it to see the same function as autograd.
	Frozen *Batch

	// Report, if not nil, receives named parts of the loss (a regulariser, a mask), detached.
	Report func(part string, v *torch.Tensor)
}

// Needs says which parts of a Batch a loss reads, or what its estimator needs beside.
type Needs int

// Parts of a Batch; SampleIDs and Previous are for estimators (package label) only.
const (
	Observed Needs = 1 << iota
	Full
	PseudoLabels
	SoftNegatives // Batch.Labels
	Estimates
	NegativeMask
	Averages
	StrongView
	SoftLabels // Batch.Soft
	ScoreMaps
	HeatMaps
	Latents
	BetaParameters
	Embeddings
	Reconstructions
	ModelParameters
	Epoch
	SampleIDs
	Previous
	Priors
	GroupScores
)

var needNames = []string{
	"observed labels", "full labels", "pseudo-labels", "labels with soft negatives", "label estimates", "expected negatives",
	"averaged scores", "logits of the strong view", "soft labels", "score maps", "heat maps", "latent means and deviations",
	"Beta parameters", "embeddings", "reconstructions", "model parameters", "epoch", "sample ids",
	"previous predictions", "class priors",
	"scores of groups",
}

// Names lists the parts in words.
func (n Needs) Names() []string {
	var s []string
	for i, name := range needNames {
		if n&(1<<i) != 0 {
			s = append(s, name)
		}
	}
	return s
}

func (n Needs) String() string { return strings.Join(n.Names(), ", ") }

// check says in words what is wrong with a batch before libtorch meets it, and fills Logits from Maps.
func (b *Batch) check(needs Needs) error {
	if b.Logits == nil && needs&ScoreMaps != 0 && b.Maps != nil {
		if b.Maps.Dim() != 4 {
			return fmt.Errorf("loss: score maps have shape %v, want [batch, classes, height, width]", b.Maps.Shape())
		}
		b.Logits = wide(b.Maps).MeanDim([]int{2, 3}, false)
	}
	if b.Logits == nil {
		return fmt.Errorf("loss: no logits")
	}
	shape := b.Logits.Shape()
	if len(shape) != 2 {
		return fmt.Errorf("loss: logits have shape %v, want [batch, classes]", shape)
	}
	if !b.Logits.DType().IsFloat() {
		return fmt.Errorf("loss: logits hold %v, want floating point", b.Logits.DType())
	}
	for _, l := range []struct {
		part  Needs
		t     *torch.Tensor
		extra int // dimensions after [B, C]
	}{
		{Observed, b.Observed, 0}, {Full, b.Full, 0}, {PseudoLabels, b.Pseudo, 0}, {SoftNegatives, b.Labels, 0},
		{Estimates, b.Estimate, 0}, {NegativeMask, b.Negative, 0}, {Averages, b.Average, 0}, {StrongView, b.Strong, 0},
		{SoftLabels, b.Soft, 0}, {ScoreMaps, b.Maps, 2}, {HeatMaps, b.Heat, 2}, {Latents, b.Mean, 1}, {Latents, b.Std, 1},
		{BetaParameters, b.Alpha, 0}, {BetaParameters, b.Beta, 0}, {GroupScores, b.Group, 0},
	} {
		if needs&l.part == 0 {
			continue
		}
		if l.t == nil {
			return fmt.Errorf("loss: the %s are missing", l.part)
		}
		if s := l.t.Shape(); len(s) != 2+l.extra || s[0] != shape[0] || s[1] != shape[1] {
			return fmt.Errorf("loss: %s have shape %v, logits %v", l.part, s, shape)
		}
	}
	if needs&Priors != 0 {
		if b.Prior == nil {
			return fmt.Errorf("loss: the %s are missing", Priors)
		}
		if s := b.Prior.Shape(); len(s) != 1 || s[0] != shape[1] {
			return fmt.Errorf("loss: %s have shape %v, logits %v", Priors, s, shape)
		}
	}
	if b.Rows != nil {
		if s := b.Rows.Shape(); len(s) != 1 || s[0] != shape[0] {
			return fmt.Errorf("loss: rows have shape %v, logits %v", s, shape)
		}
		if needs&Reconstructions != 0 {
			return fmt.Errorf("loss: a reconstruction of a padded batch has no rows to leave out; give the batch without padding")
		}
	}
	switch {
	case needs&Embeddings != 0 && b.Contrast == nil:
		return fmt.Errorf("loss: the embeddings are missing")
	case needs&Embeddings != 0:
		return b.Contrast.check()
	case needs&Reconstructions != 0 && b.Reconstruction == nil:
		return fmt.Errorf("loss: the reconstructions are missing")
	case needs&Reconstructions != 0:
		return b.Reconstruction.check()
	case needs&ModelParameters != 0 && len(b.Parameters) == 0:
		return fmt.Errorf("loss: the parameters to regularise are missing")
	case needs&Epoch != 0 && b.Epoch < 1 && b.Point == nil && b.Trainable == nil:
		return fmt.Errorf("loss: the epoch is %d, want it counted from 1", b.Epoch)
	}
	return nil
}

// dropRows takes the rows that do not count out of everything that has rows.
func (b *Batch) dropRows() {
	at := b.Rows.NeScalar(0).Nonzero().Flatten(0, -1)
	b.Rows = nil
	b.keepRows(at)
	if b.Frozen != nil {
		f := *b.Frozen
		f.keepRows(at)
		b.Frozen = &f
	}
}

func (b *Batch) keepRows(at *torch.Tensor) {
	for _, t := range []**torch.Tensor{
		&b.Logits, &b.Observed, &b.Full, &b.Pseudo, &b.Labels, &b.Estimate, &b.Negative, &b.Average, &b.Strong, &b.Soft,
		&b.Maps, &b.Heat, &b.Mean, &b.Std, &b.Alpha, &b.Beta, &b.Group,
	} {
		if *t != nil {
			*t = (*t).IndexSelect(0, at)
		}
	}
}

// wide returns half tensors as float32, others as they are: loss terms are never computed in half precision.
func wide(t *torch.Tensor) *torch.Tensor {
	if d := t.DType(); d == torch.Float16 || d == torch.BFloat16 {
		return t.ToDType(torch.Float32)
	}
	return t
}

// frozen is the batch whose values factors without gradient take.
func (b *Batch) frozen() *Batch {
	if b.Frozen != nil {
		return b.Frozen
	}
	return b
}

// constants are the logits for factors without gradient.
func (b *Batch) constants() *torch.Tensor { return b.frozen().Z().Detach() }

// like gives labels the number type of z.
func like(t, z *torch.Tensor) *torch.Tensor {
	if t.DType() == z.DType() {
		return t
	}
	return t.ToDType(z.DType())
}

func (b *Batch) report(part string, v *torch.Tensor) {
	if b.Report != nil {
		b.Report(part, v.Detach())
	}
}
