package method

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// EstimatesFile holds, in a run directory, the label estimates of the best epoch: theta [n, C] in [0, 1] and the data
// set's rows [n] that they belong to.
const EstimatesFile = "estimates.safetensors"

// Estimating is an estimator whose estimates another run can begin with.
type Estimating interface {
	Estimates() *torch.Tensor // [n, C], probabilities
}

func init() {
	mustRegister(Method{
		ID: "role", Gives: loss.Estimates,
		PseudoPositives: func(b *loss.Batch, _ loss.Values) *torch.Tensor { // estimates above one half
			if b.Estimate == nil {
				return nil
			}
			return b.Estimate.Detach().GtScalar(0)
		},
		Estimator: func(s *Setup) (Estimator, error) {
			drawn := roleTable(s)
			t, err := linearInit(s, drawn)
			if t == nil && err == nil {
				t, err = label.RoleFromLogits(drawn)
			}
			if err != nil {
				return nil, err
			}
			lazy, err := lazily(s)
			if err != nil || lazy {
				return lazyRole(t, s, err)
			}
			t.U = compute.To(t.U.Detach(), s.Device).SetRequiresGrad(true)
			return t, nil
		},
	})
}

// lazyAbove is the size of a float32 table in bytes from which on ROLE trains it lazily where it may: a dense step
// moves four such tables. The papers' largest, COCO's, has 21 MB.
const lazyAbove = 256 << 20

// lazily says whether ROLE's table takes its steps by itself (label.LazyRole), which equals dense Adam to rounding. A
// run that goes on keeps what it began with.
func lazily(s *Setup) (bool, error) {
	if s.Resumed {
		_, lazy := s.Saved["step"]
		if lazy && !s.PlainAdam {
			const why = "the run began with ROLE's lazy table (%s); go on with it so, or start another run"
			return false, fault.Settingf(why, lazyNeeds)
		}
		return lazy, nil
	}
	switch size := int64(len(s.Rows)) * int64(s.Data.C()) * 4; s.Values["table"] {
	case loss.TableDense:
		return false, nil
	case loss.TableLazy:
		if !s.PlainAdam {
			return false, fault.Settingf("table=lazy of role: %s", lazyNeeds)
		}
		return true, nil
	default:
		return s.PlainAdam && size > lazyAbove, nil
	}
}

const lazyNeeds = "it wants Adam without weight decay, a schedule other than onecycle, one process, the CPU and no fp16"

func lazyRole(t *label.Role, s *Setup, err error) (Estimator, error) {
	if err != nil {
		return nil, err
	}
	s.Note(fmt.Sprintf("ROLE's table of %d × %d is trained lazily: dense Adam's numbers to rounding, for the rows of a "+
		"batch (--param table=dense trains all rows in each step, as the papers did)", len(s.Rows), s.Data.C()))
	l, err := t.Lazy(s.LR)
	return l, err
}

// roleTable draws ROLE's table as the reference runs do: uniform by numpy's generator with the seed plus 100000,
// observed entries set.
func roleTable(s *Setup) *torch.Tensor {
	const unknown, known = 0.4054651081081642, 5.293304824724492 // logits of 0.6 and 0.995
	g := random.New(s.Seed + 100000)
	observed := s.Data.Gather(s.Data.Observed, s.Rows)
	u := make([]float32, len(observed))
	for i, y := range observed {
		u[i] = float32(g.Uniform(-unknown, unknown))
		if y != 0 {
			u[i] = float32(y) * known
		}
	}
	return torch.FromSlice(u, len(s.Rows), s.Data.C())
}

// linearInit gives ROLE's table of an earlier run, nil where the run starts from none or that one has no estimates.
// drawn are the fresh logits [len(s.Rows), C], which rows keep that the earlier run did not see.
//
// Source: Cole et al. 2021, LinearInit: head and estimates of the linear stage's best validation epoch start the
// training of the whole network; the estimates, probabilities clipped to [1e-5, 1-1e-5], become logits again. The
// optimiser is a fresh one.
func linearInit(s *Setup, drawn *torch.Tensor) (*label.Role, error) {
	path := filepath.Join(s.Init, EstimatesFile)
	if s.Init == "" || !exists(path) {
		return nil, nil
	}
	sd, meta, err := nn.LoadSafetensors(path)
	if err != nil {
		return nil, err
	}
	defer sd.Free()
	theta, at := sd["theta"], sd["rows"]
	switch {
	case theta == nil || at == nil || theta.Dim() != 2 || at.Dim() != 1 || theta.Size(0) != at.Size(0) || theta.Size(1) != s.Data.C() || theta.DType() != torch.Float32 || at.DType() != torch.Int64:
		return nil, fmt.Errorf("%w: %s holds no label estimates of %d classes", fault.ErrData, path, s.Data.C())
	case meta["observed_sha256"] != s.Data.ObservedFingerprint():
		return nil, fmt.Errorf("%w: the label estimates of %s belong to other observed labels; train both stages with the same data and --data-seed", fault.ErrData, s.Init)
	}
	stored := map[int64]int{}
	for i, r := range torch.ToSlice[int64](at) {
		stored[r] = i
	}
	var from, to []int64
	for place, r := range s.Rows {
		if i, ok := stored[int64(r)]; ok {
			from, to = append(from, int64(i)), append(to, int64(place))
		}
	}
	var role *label.Role
	e := torch.Try(func() {
		torch.Scope(func(a *torch.Arena) {
			p := drawn.Detach().Sigmoid()
			if len(to) > 0 {
				p = p.IndexCopy(0, torch.FromSlice(to), theta.IndexSelect(0, torch.FromSlice(from)))
			}
			if role, err = label.RoleFromProbabilities(p); err == nil {
				a.Keep(role.U)
			}
		})
	})
	if e != nil {
		return nil, e
	}
	s.Note(fmt.Sprintf("%s: label estimates of %d of %d rows taken", s.Init, len(to), len(s.Rows)))
	return role, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
