// Package backbone holds image models with torchvision's module names, initial values and state-dict keys, so that its
// weight files load without renaming.
//
// New makes a model by name with a linear classifier for a number of classes: the classifier of the papers is a global average pool and
// a linear layer. Features gives the pooled features, FeatureMap what is pooled, Forward the logits.
//
// Inputs are [B, 3, H, W], normalised with ImageNet's mean and standard deviation. Under the same torch seed New draws the numbers that
// torchvision's constructors draw. Models are nn modules: their threads, ownership and errors are package nn's; New and
// LoadWeights return errors.
package backbone
