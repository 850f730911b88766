// Package emulator runs spml's CUDA kernels on machines without a card, in its tests: csrc/emulator.h makes the threads
// of a block fibers of one OS thread, and programs of csrc compare every kernel with plain loops, in several orders of
// threads and blocks. What it cannot see: the card's memory model, the last bits of its libm, speed.
package emulator
