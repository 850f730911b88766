package train

import (
	"path/filepath"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// keepEstimates writes the estimates beside the model of the best epoch.
func (t *trainer) keepEstimates() (err error) {
	e, ok := label.As[method.Estimating](t.step.Estimator)
	if !ok {
		return nil
	}
	rows := make([]int64, 0, len(t.l.usable()))
	for _, r := range t.l.usable() {
		rows = append(rows, int64(r))
	}
	torch.Scope(func(*torch.Arena) {
		err = nn.SaveSafetensors(
			filepath.Join(t.dir.Path(), method.EstimatesFile),
			nn.StateDict{"theta": e.Estimates().ToDType(torch.Float32), "rows": torch.FromSlice(rows)},
			map[string]string{"format": "pt", "observed_sha256": t.ds.ObservedFingerprint()},
		)
	})
	return err
}
