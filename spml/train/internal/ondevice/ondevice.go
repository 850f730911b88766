// Package ondevice tests training on a device that is not the CPU, in a process of its own: the device must be there before the first backward.
package ondevice

import "github.com/gospml/gospml/spml/loss"

// Losses is the form that losses take in runs; "" chooses. Tests set it, to compare devices of which one has fused kernels.
var Losses loss.Impl
