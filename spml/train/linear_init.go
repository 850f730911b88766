package train

import (
	"fmt"
	"path/filepath"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// estimatesFile holds, in a run directory, the label estimates of the best epoch: theta [n, C] in [0, 1] and the data set's rows [n] that they belong to.
const estimatesFile = "estimates.safetensors"

// estimating is an estimator whose estimates another run can begin with.
type estimating interface {
	estimates() *torch.Tensor // [n, C], probabilities
}

// keepEstimates writes the estimates beside the model of the best epoch.
func (t *trainer) keepEstimates() (err error) {
	e, ok := t.est.(estimating)
	if !ok {
		return nil
	}
	rows := make([]int64, 0, len(t.l.usable()))
	for _, r := range t.l.usable() {
		rows = append(rows, int64(r))
	}
	torch.Scope(func(*torch.Arena) {
		err = nn.SaveSafetensors(filepath.Join(t.dir.path, estimatesFile), nn.StateDict{"theta": e.estimates().ToDType(torch.Float32), "rows": torch.FromSlice(rows)},
			map[string]string{"format": "pt", "observed_sha256": t.ds.ObservedFingerprint()})
	})
	return err
}

// linearInit gives ROLE's table of an earlier run, nil where the run starts from none or that one has no estimates. drawn are the fresh logits [len(usable), C], which
// rows keep that the earlier run did not see.
//
// Source: Cole et al. 2021, LinearInit: head and estimates of the linear stage's best validation epoch start the training of the whole network; the estimates, probabilities
// clipped to [1e-5, 1-1e-5], become logits again. The optimiser is a fresh one.
func linearInit(s *session, usable []int, drawn *torch.Tensor) (*label.Role, error) {
	path := filepath.Join(s.c.Init, estimatesFile)
	if s.c.Init == "" || !exists(path) {
		return nil, nil
	}
	sd, meta, err := nn.LoadSafetensors(path)
	if err != nil {
		return nil, err
	}
	defer sd.Free()
	theta, at := sd["theta"], sd["rows"]
	switch {
	case theta == nil || at == nil || theta.Dim() != 2 || at.Dim() != 1 || theta.Size(0) != at.Size(0) || theta.Size(1) != s.ds.C() || theta.DType() != torch.Float32 || at.DType() != torch.Int64:
		return nil, fmt.Errorf("%w: %s holds no label estimates of %d classes", ErrData, path, s.ds.C())
	case meta["observed_sha256"] != s.ds.ObservedFingerprint():
		return nil, fmt.Errorf("%w: the label estimates of %s belong to other observed labels; train both stages with the same data and --data-seed", ErrData, s.c.Init)
	}
	stored := map[int64]int{}
	for i, r := range torch.ToSlice[int64](at) {
		stored[r] = i
	}
	var from, to []int64
	for place, r := range usable {
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
	s.ev.note(fmt.Sprintf("%s: label estimates of %d of %d rows taken", s.c.Init, len(to), len(usable)))
	return role, err
}
