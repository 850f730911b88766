package loss_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/loss/losstest"
	"github.com/gospml/gospml/torch"
)

// own are the losses whose known negatives have another term than sp, and what that is. All others have sp of full
// weight.
var own = map[string]string{
	"an-ls": "smoothed, as the L48 benchmark does", "focal": "the loss's own negative, made for known labels",
	"asl": "the loss's own negative, made for known labels", "splc": "focal⁻; sp with neg=hill",
	"role": "twice, with cross terms", "en-cl": "and its consistency", "smile": "three terms", "plc": "two views",
	"lac": "two views", "ignore": "the strong view", "crisp": "its mean score",
	"smile-encoder": "reconstructions too",
}

// TestKnownNegatives: a known negative with a high score has the full gradient of sp, in every loss and both forms:
// neither the treatment of unknown labels nor a share in what a batch is expected to count.
func TestKnownNegatives(t *testing.T) {
	const rows, classes = 4, 6
	known := []int{3, 8, 17}
	seen := 0
	for _, e := range loss.Entries() {
		_, exempt := own[e.ID]
		if e.Needs&loss.Observed == 0 && e.ID != "em-apl" || e.Needs&loss.ScoreMaps != 0 || exempt {
			continue
		}
		seen++
		for _, impl := range []loss.Impl{loss.Composed, loss.Fused} {
			if impl == loss.Fused && e.Fused == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", e.ID, impl), func(t *testing.T) {
				b, _, _ := losstest.Batch(e, losstest.Shape{B: rows, C: classes, DType: torch.Float64, Seed: 21})
				z, y := torch.ToSlice[float64](b.Logits.Detach()), torch.ToSlice[int8](b.Observed)
				labels := torch.ToSlice[float64](b.Labels)
				for _, at := range known {
					z[at], y[at], labels[at] = 3, -1, loss.KnownNegative
				}
				b.Logits = torch.FromSlice(z, rows, classes)
				b.Observed, b.Labels = torch.FromSlice(y, rows, classes), torch.FromSlice(labels, rows, classes)
				l, err := e.Make("coco", nil, loss.Options{Impl: impl})
				require.NoError(t, err)
				_, g, err := loss.ValueGrad(l, b)
				require.NoError(t, err)
				grads := torch.ToSlice[float64](g.Contiguous())
				for _, at := range known {
					const p = 0.9525741268224334 // σ(3)
					require.InDelta(t, p/(rows*classes), grads[at], 1e-9)
				}
			})
		}
	}
	require.GreaterOrEqual(t, seen, 18)
}

// TestExpectedCounts: the regularisers of EPR, ROLE and GPR count the labels that are not known to be negative, beside
// numbers made by hand.
func TestExpectedCounts(t *testing.T) {
	require.NoError(t, loss.FusedAvailable())
	const k, classes, rows = 2.5, 7, 6
	for _, id := range []string{"epr", "role", "gpr"} {
		for _, impl := range []loss.Impl{loss.Composed, loss.Fused} {
			for _, padded := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v", id, impl, padded), func(t *testing.T) {
					e, err := loss.Lookup(id)
					require.NoError(t, err)
					b, leaves, _ := losstest.Batch(e, losstest.Shape{B: rows, C: classes, DType: torch.Float64, Seed: 4,
						Observed: losstest.Mixed})
					counts := []int8{1, 1, 1, 1, 1, 1}
					if padded {
						counts = []int8{1, 0, 1, 1, 0, 1}
						b.Rows = torch.FromSlice(counts, rows)
					}
					y, n := torch.ToSlice[int8](b.Observed), 0.0
					for _, c := range counts {
						n += float64(c)
					}
					of := func(x *torch.Tensor) (reg float64) {
						sum := 0.0
						for i, p := range torch.ToSlice[float64](x.Detach().Sigmoid()) {
							if y[i] != -1 && counts[i/classes] == 1 {
								sum += p
							}
						}
						off := (sum/n - k) / classes
						return off * off
					}
					// The difference to k = 0 is the regulariser's alone.
					grads := map[float64][][]float64{}
					regs := map[float64]float64{}
					for _, at := range []float64{k, 0} {
						set := loss.Values{"k": at}
						if id == "gpr" {
							set = loss.Values{"m_pos": at, "eta": 1}
						}
						l, err := e.Make("", set, loss.Options{Impl: impl})
						require.NoError(t, err)
						b.Report = func(part string, v *torch.Tensor) {
							if part == "reg" {
								regs[at] = v.Item()
							}
						}
						torch.ZeroGrad(leaves, false)
						v, err := l.Value(b)
						require.NoError(t, err)
						v.Backward()
						for _, x := range leaves {
							grads[at] = append(grads[at], torch.ToSlice[float64](x.Grad().Clone()))
						}
					}
					share := 1 / float64(len(leaves))
					total := 0.0
					for i, x := range leaves {
						total += share * of(x)
						for j, p := range torch.ToSlice[float64](x.Detach().Sigmoid()) {
							want := -share * 2 * k / (classes * classes * n) * p * (1 - p)
							if y[j] == -1 || counts[j/classes] == 0 {
								want = 0
							}
							require.InDelta(t, want, grads[k][i][j]-grads[0][i][j], 1e-12)
						}
					}
					require.InDelta(t, total, regs[k], 1e-12)
				})
			}
		}
	}
}
