// Package loss holds the losses of single-positive multi-label learning, one file each: the equation in its paper's
// letters, the source, where paper and released code differ, and the composed form in plain tensor operations.
//
// # Letters
//
// z are logits [B, C]; p = σ(z), n = σ(-z) = 1-p; sp = softplus(z) = -log(1-p), sn = softplus(-z) = -log p; y is 1 for an
// observed positive, 0 for an unknown label, -1 for an observed negative; t are the full labels.
//
// # Use
//
// The registry names every loss by one id and its aliases; New makes one with its parameters. Value computes it for a
// Batch. A loss keeps no state and is safe for many goroutines.
//
// A loss of your own is an Entry given to Register, from any module.
package loss
