// Package ondevice holds the tests of CLIP off the CPU: towers, models and pretraining on torchtest's device beside the same on the CPU. They are a package of their own because the
// device must be opened before the first backward of a process.
package ondevice
