// Package loss holds the losses of single-positive multi-label learning, one file each: the equation in its paper's
// letters, the source, where paper and released code differ, and the composed form in plain tensor operations.
//
// # Letters
//
// z are logits [B, C]; p = σ(z), n = σ(-z) = 1-p; sp = softplus(z) = -log(1-p), sn = softplus(-z) = -log p; y is 1 for an
// observed positive, 0 for an unknown label, -1 for an observed negative, which takes sp (its own negative branch in
// focal, ASL, Hill and SPLC) in every loss; t are the full labels, ℓ pseudo-labels. sg(x) is x without gradient.
//
// # Use
//
// The registry names every loss by one id and its aliases; New makes one with its parameters; Value computes it for a
// Batch, in which every loss finds what its Entry.Needs says. What changes during training (tables of estimates, moving
// averages, labels that grow) is kept by the estimators of package label; a loss keeps no state and is safe for many
// goroutines.
//
// Logarithms are exact by default: finite for every finite logit. Options.LogEps adds the epsilon of the released code
// inside them. Options.Form takes "paper" or "code": the printed form or the released one, where they differ from the
// default. Losses are computed in float64 for float64 logits and in float32 for all others. A NaN logit gives NaN. An empty batch
// gives 0 with zero gradient.
//
// # A loss of your own
//
// is an Entry given to Register, from any module. Its Func gets a checked batch and returns a number; panics of tensor
// maths come back as errors. examples/my-loss is a whole program: package losstest checks the loss by its entry, and a main
// function that calls command.Main (cmd/spml/command) trains with it, shows, draws and documents it.
package loss

//go:generate go run ../../cmd/spml loss docs ../../docs
