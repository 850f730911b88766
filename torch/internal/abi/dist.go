package abi

// Kinds of collectives; they equal gospml_dist.h's.
const (
	AllReduce     = 0
	Broadcast     = 1
	AllGather     = 2
	ReduceScatter = 3
	Barrier       = 4
)
