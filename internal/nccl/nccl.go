// Package nccl is where package torch/dist finds the NCCL backend that package cuda brings, without importing it.
package nccl

import "time"

// Attach makes NCCL the backend of a group without one. Package cuda sets it; nil where that is not linked.
var Attach func(group, store uint64, rank, size int, timeout time.Duration) error
