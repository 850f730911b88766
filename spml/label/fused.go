package label

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/gospml/gospml/spml/internal/oplib"
	"github.com/gospml/gospml/torch"
)

var (
	sayComposed = sync.OnceFunc(func() {
		slog.Warn("pseudo-labels: the fused operators are not available, the slower composed form is used", "reason", oplib.CPU())
	})
	sayComposedCUDA = sync.OnceFunc(func() {
		slog.Warn("pseudo-labels: the CUDA kernels are not available, the slower composed form is used", "reason", oplib.CUDA())
	})
)

// fusible says whether the fused operators take these cosines (the first, of float32 or float64) and what goes with them. Other types have the composed form alone.
func fusible(cosines *torch.Tensor, others ...*torch.Tensor) bool {
	d := cosines.Device()
	if t := cosines.DType(); t != torch.Float32 && t != torch.Float64 || cosines.Size(1) == 0 {
		return false
	}
	for i, o := range others {
		if o.Device() != d || i == 0 && len(others) == 2 && o.DType() != cosines.DType() {
			return false
		}
	}
	switch d.Type {
	case torch.DeviceCPU:
		if oplib.CPU() != nil {
			sayComposed()
			return false
		}
		return true
	case torch.DeviceCUDA:
		if oplib.CUDA() != nil {
			sayComposedCUDA()
			return false
		}
		return true
	}
	return false
}

func fusedVLPL(cosines, observed *torch.Tensor, tau, theta, delta float64) (pseudo, similarity *torch.Tensor, err error) {
	err = torch.Try(func() {
		torch.NoGrad(func() {
			r := torch.Call("spml::vlpl_labels", cosines, observed, tau, theta, int(delta*float64(cosines.Size(1))))
			pseudo, similarity = r[0].(*torch.Tensor), r[1].(*torch.Tensor)
		})
	})
	return pseudo, similarity, err
}

// callDAMP gives labels [2, B, C], scores [5, B, C], the local thresholds and the tiles.
func callDAMP(global, patches, observed *torch.Tensor, c DAMPConfig) (labels, scores, local, tile *torch.Tensor) {
	out := torch.Call("spml::damp_labels", global, patches, observed, c.Tau, c.Nu, c.TopK, c.Zeta, c.Negative, slices.Index(dampForms, c.Form))
	return out[0].(*torch.Tensor), out[1].(*torch.Tensor), out[2].(*torch.Tensor), out[3].(*torch.Tensor)
}

func fusedDAMP(global, patches, observed *torch.Tensor, c DAMPConfig) (*DAMPResult, error) {
	r := &DAMPResult{}
	err := torch.Try(func() {
		torch.NoGrad(func() {
			labels, scores, local, tile := callDAMP(global, patches, observed, c)
			defer labels.Free()
			defer scores.Free()
			marks, numbers := labels.Unbind(0), scores.Unbind(0)
			r.Pseudo, r.Before = marks[0], marks[1]
			r.Agg, r.Final, r.Average, r.Global, r.Best = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
			r.Local, r.Tile = local, tile
		})
	})
	return r, err
}

// DAMPValues are what people look at of a [DAMPResult], in Go's memory.
type DAMPValues struct {
	Pseudo                     []int8
	Final, Global, Best, Local []float32
	Tile                       []int64
}

// DAMPSlices is [DAMP] with the results in slices, row-major: for a single photo most of DAMP's time are the tensors around it.
func DAMPSlices(global, patches, observed *torch.Tensor, c DAMPConfig) (v *DAMPValues, err error) {
	v = &DAMPValues{}
	// Every question to a tensor costs a tenth of a microsecond: the operator checks the shapes itself.
	quick := false
	if global != nil && patches != nil && observed != nil {
		quick = global.DType() == torch.Float32 && global.Device().Type == torch.DeviceCPU && oplib.CPU() == nil && slices.Contains(dampForms, c.Form)
	}
	if !quick {
		r, err := DAMP(global, patches, observed, c)
		if err != nil {
			return nil, err
		}
		err = torch.Try(func() {
			v.Pseudo, v.Final, v.Global, v.Best = torch.ToSlice[int8](r.Pseudo), torch.ToSlice[float32](r.Final), torch.ToSlice[float32](r.Global), torch.ToSlice[float32](r.Best)
			v.Local, v.Tile = torch.ToSlice[float32](r.Local), torch.ToSlice[int64](r.Tile)
			for _, t := range []*torch.Tensor{r.Pseudo, r.Before, r.Local, r.Agg, r.Final, r.Average, r.Global, r.Best, r.Tile} {
				t.Free()
			}
		})
		return v, err
	}
	err = torch.Try(func() {
		torch.Scope(func(*torch.Arena) {
			labels, scores, local, tile := callDAMP(global, patches, observed, c)
			torch.View(labels, func(p []int8) { v.Pseudo = slices.Clone(p[:len(p)/2]) })
			n := len(v.Pseudo)
			torch.View(scores, func(p []float32) {
				kept := make([]float32, 3*n)
				copy(kept, p[n:2*n])
				copy(kept[n:], p[3*n:])
				v.Final, v.Global, v.Best = kept[:n:n], kept[n:2*n:2*n], kept[2*n:]
			})
			torch.View(local, func(p []float32) { v.Local = slices.Clone(p) })
			torch.View(tile, func(p []int64) { v.Tile = slices.Clone(p) })
		})
	})
	return v, err
}
