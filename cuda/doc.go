// Package cuda is what PyTorch's torch.cuda is beside its operators: devices, streams, events, timing, graphs, the caching allocator, pinned
// memory, asynchronous copies, and facts that the driver's management library (NVML) knows.
//
// The package compiles and links everywhere. Its library (libgospml-cuda.so, `make cuda` or `spml setup --gpu`) and the CUDA part of libtorch are
// opened by the first call; one program serves machines with and without a GPU. Available says in a sentence what is missing; where it is a device, the error is ErrNoDevice, and
// every other entry returns the same error. After Available has returned nil, torch.CUDA(0) can be used as a device everywhere.
//
// A GPU works on its own: an operation returns when it is queued in the current stream of the calling OS thread, and reading a value waits. OnStream runs a function with
// another stream on a locked thread. A tensor that another stream uses than the one that made it must be kept until that stream has come so far: wait for an Event.
//
// Everything is safe for use by many goroutines, but a Graph is captured and replayed by one at a time.
package cuda
