// Package label estimates the labels that single-positive data leave unknown: what changes during training and feeds the
// losses of package loss.
//
// # Estimators
//
// Role is ROLE's table of label logits, a parameter of its own optimizer group; LazyRole takes the same dense Adam steps while it touches
// only the rows of a batch. APL gives asymmetric pseudo-labels after
// each epoch. LargeLoss keeps labels that LL-Cp has corrected. ScoreAverage with ExpectedNegatives serves EN and EN+CL, HeatMaps
// EN+SCL. Threshold is MIME's growing label matrix. Schedule moves GR's and GPR's parameters, or holds them trainable. Queue is
// LAC's memory. VLPL and DAMP turn similarities of an image-text model into pseudo-labels; they keep nothing. SMILE is
// the tabular label enhancement with its networks.
//
// # State
//
// Everything that keeps something is a Keeper: State gives named tensors (shared, not copied) and numbers for a checkpoint,
// LoadState puts them back and then the estimator goes on as if it had never stopped; an error changes nothing.
//
// # Tensors
//
// Tables are [N, C], N training images; they live with their estimator, whatever scope it was made in. Rows are given by dataset
// index, as []int. Other results belong to the caller's scope.
//
// # Errors, threads
//
// Bad input is an error that names what does not fit. One goroutine at a time uses an estimator.
package label
