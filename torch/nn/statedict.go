package nn

import (
	"sort"
	"strings"

	"github.com/gospml/gospml/torch"
)

// StateDict holds the parameters and persistent buffers of a module by key.
type StateDict map[string]*torch.Tensor

// StateDictOf collects a module's parameters and persistent buffers. The tensors are the module's own, not copies: Clone
// makes a snapshot.
func StateDictOf(m any) StateDict {
	sd := StateDict{}
	Walk(m, func(e Entry) {
		if !e.NonPersistent {
			sd[e.Key] = e.Tensor
		}
	})
	return sd
}

// Keys lists the keys in sorted order.
func (sd StateDict) Keys() []string {
	ks := make([]string, 0, len(sd))
	for k := range sd {
		ks = append(ks, k)
	}
	sort.Strings(ks)
	return ks
}

// Clone copies the values into new tensors without history. Inside a scope they belong to it; Keep moves them out.
func (sd StateDict) Clone() StateDict {
	c := make(StateDict, len(sd))
	torch.NoGrad(func() {
		for k, t := range sd {
			c[k] = t.Clone()
		}
	})
	return c
}

// Tensors lists the tensors in the order of Keys.
func (sd StateDict) Tensors() []*torch.Tensor {
	var ts []*torch.Tensor
	for _, k := range sd.Keys() {
		ts = append(ts, sd[k])
	}
	return ts
}

// Free frees the tensors; for dictionaries that were loaded or cloned, not for a module's own.
func (sd StateDict) Free() {
	for _, t := range sd {
		t.Free()
	}
}

// TrimPrefix returns a dictionary of the same tensors whose keys lack the prefix, for instance "module."; keys without it stay.
func (sd StateDict) TrimPrefix(prefix string) StateDict {
	return sd.rename(func(k string) string { return strings.TrimPrefix(k, prefix) })
}

// AddPrefix returns a dictionary of the same tensors with the prefix before each key.
func (sd StateDict) AddPrefix(prefix string) StateDict {
	return sd.rename(func(k string) string { return prefix + k })
}

func (sd StateDict) rename(f func(string) string) StateDict {
	r := make(StateDict, len(sd))
	for k, t := range sd {
		r[f(k)] = t
	}
	return r
}
