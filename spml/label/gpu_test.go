package label_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/csrc/cuda/emulator"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/torch"
)

// TestGPUPseudoLabels compares the CUDA kernels with the composed forms on the same device: the same labels and scores
// to 1e-6. Without a card the kernels are emulated.
func TestGPUPseudoLabels(t *testing.T) {
	d, here := emulator.Device(t)
	if !here {
		return
	}
	for name, s := range scenes {
		for _, dtype := range []torch.DType{torch.Float32, torch.Float64} {
			t.Run(fmt.Sprint(name, " ", dtype), func(t *testing.T) {
				s.dtype = dtype
				r := rand.New(rand.NewPCG(1, uint64(len(name))))
				torch.Scope(func(*torch.Arena) {
					global, patches, observed := s.tensors(r)
					global, patches, observed = global.ToDevice(d), patches.ToDevice(d), observed.ToDevice(d)
					equal := func(what string, got, want *torch.Tensor) {
						t.Helper()
						require.Equal(t, want.Bytes(), got.Bytes(), what)
					}
					near := func(what string, got, want *torch.Tensor) {
						t.Helper()
						require.InDeltaSlice(t, torch.ToSlice[float64](want.NanToNum(-7, -8, -9)), torch.ToSlice[float64](got.NanToNum(-7, -8, -9)), 1e-6, what)
					}
					for _, share := range []float64{0, 0.3, 1} {
						want, p, err := label.ComposedVLPL(global, 0.03, 0.1, share)
						require.NoError(t, err)
						got, q, err := label.VLPL(global, 0.03, 0.1, share)
						require.NoError(t, err)
						equal("vlpl", got, want)
						near("similarity", q, p)
						onHost, _, err := label.VLPLKeep(global.ToDevice(torch.CPU), observed.ToDevice(torch.CPU), 0.03, 0.1, share)
						require.NoError(t, err)
						kept, _, err := label.VLPLKeep(global, observed, 0.03, 0.1, share)
						require.NoError(t, err)
						if s.strange == 0 {
							equal("keep", kept, onHost)
						}
						for _, form := range []label.DAMPForm{label.DAMPDefault, label.DAMPPaper, label.DAMPCount, label.DAMPCode} {
							if form == label.DAMPPaper && s.b == 0 {
								continue
							}
							c := label.DAMPConfig{Tau: 0.03, Nu: 0.3, TopK: 3, Zeta: 0.02, Negative: share, Form: form}
							a, err := label.ComposedDAMP(global, patches, observed, c)
							require.NoError(t, err)
							f, err := label.DAMP(global, patches, observed, c)
							require.NoError(t, err)
							equal(string(form)+" pseudo", f.Pseudo, a.Pseudo)
							equal(string(form)+" before", f.Before, a.Before)
							equal(string(form)+" tile", f.Tile, a.Tile)
							near(string(form)+" final", f.Final, a.Final)
							near(string(form)+" average", f.Average, a.Average)
						}
					}
				})
			})
		}
	}
}
