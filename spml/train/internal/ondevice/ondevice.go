// Package ondevice tests training on a device that is not the CPU, in a process of its own: the device must be there
// before the first backward.
package ondevice
