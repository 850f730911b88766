// Package random draws the numbers of numpy's legacy generator, bit for bit, and the two draws of Cole et al. (2021,
// "Multi-label learning from single positive labels") that stand on it: the train/validation split and the single positive of each image.
//
// [RandomState] is numpy.random.RandomState(seed): MT19937, the masked rejection of its bounded integers, its shuffle and its
// doubles. numpy keeps that stream frozen, so published splits and draws can be made again anywhere. Permutation, Shuffle, Interval,
// Randint, RandomSample and Uniform equal numpy in every bit; StandardNormal goes through a logarithm and may differ in the last bits.
//
// A RandomState belongs to one goroutine: its methods change it. [Split], [SinglePositive], [Mix] and [Coin] are functions of their arguments
// alone and safe anywhere.
//
// Not for keys or tokens: the stream is predictable.
package random
