// Package capture is how package torch reaches CUDA graphs, which package cuda knows.
package capture

// Graph records what f queues on a device; replay launches it again and release frees it. Package cuda sets it.
var Graph func(device int, f func() error) (replay, release func() error, err error)
