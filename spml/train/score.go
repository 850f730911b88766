package train

import (
	"slices"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/torch"
)

// Scores are the predictions for some rows of a data set.
type Scores struct {
	Rows   []int     // rows of the data set, in the order of Values; broken images are missing
	Values []float32 // σ(z), [len(Rows), C] row-major
}

// PerClass is the average precision of each class in 0…1 against labels of the whole data set [N, C], by the rules of
// the papers: equal scores share one precision, a class without positives counts as 0. Labels of -1 are not known:
// their
// scores do not count, and a class without a known label is NaN.
func (s *Scores) PerClass(ds *data.Dataset, labels []int8) ([]float64, error) {
	y, form := ds.Gather(labels, s.Rows), metric.Step
	if slices.Contains(y, -1) {
		form = metric.OpenImages
	}
	return metric.AveragePrecision(s.Values, y, ds.C(), form)
}

// MAP is the mean of PerClass in percent.
func (s *Scores) MAP(ds *data.Dataset, labels []int8) (float64, error) {
	ap, err := s.PerClass(ds, labels)
	if err != nil {
		return 0, err
	}
	return 100 * metric.Mean(ap), nil
}

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
