package train

import (
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
)

// Scores are the predictions for some rows of a data set.
type Scores = rundir.Scores

// labelTensors are the labels of training rows on the device, [n, C] int8; a matrix that the data set lacks is nil.
type labelTensors struct{ observed, full *torch.Tensor }

func gatherLabels(ds *data.Dataset, rows []int, d torch.Device) labelTensors {
	var l labelTensors
	if ds.Observed != nil {
		l.observed = compute.Upload(d, ds.Gather(ds.Observed, rows), len(rows), ds.C())
	}
	if labelled(ds, data.Train) {
		l.full = compute.Upload(d, ds.Gather(ds.Labels, rows), len(rows), ds.C())
	}
	return l
}

// labelled says whether the rows of a part have full labels.
func labelled(ds *data.Dataset, part data.Split) bool {
	return ds.FullyLabelled(ds.Rows(part))
}
