package compare

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/train"
)

// Fit takes out the variants that cannot be trained and gives a row for each, with the reason in LeftOut: settings that
// do not go together, labels that the data set lacks. It opens the data set once and trains nothing. Where nothing is
// left the error is that of the first variant. Run calls it by itself.
func (o *Options) Fit() ([]Row, error) { return o.fit(true) }

// fit is Fit, with the labels of the data set or by the settings alone.
func (o *Options) fit(labels bool) (left []Row, err error) {
	var (
		ds    *data.Dataset
		fit   []Variant
		first error
	)
	defer func() {
		if ds != nil {
			err = errors.Join(err, ds.Close())
		}
	}()
	for i, v := range o.Variants {
		j, unfit := o.job(i, 0)
		if unfit == nil && labels {
			if ds == nil {
				if ds, err = j.config.Data.Open(); err != nil {
					return nil, err
				}
			}
			if unfit = j.check(ds); unfit != nil {
				unfit = fmt.Errorf("%s: %w", v.Name, unfit)
			}
		}
		var setting *config.Error
		switch {
		case unfit == nil:
			fit = append(fit, v)
			continue
		case !errors.As(unfit, &setting) && !errors.Is(unfit, train.ErrData):
			return nil, unfit
		case first == nil:
			first = unfit
		}
		left = append(left, Row{Name: v.Name, Settings: v.Set, LeftOut: reason(unfit, v.Name)})
	}
	if len(fit) == 0 {
		return nil, first
	}
	o.Variants = fit
	return left, nil
}

// check is train.Check of a job's stages.
func (j *job) check(ds *data.Dataset) error {
	if j.first != nil {
		if err := train.Check(j.first.config, ds); err != nil {
			return fmt.Errorf("first stage: %w", err)
		}
	}
	return train.Check(j.config, ds)
}

// reason is an error without the name that its row has anyway.
func reason(err error, name string) string {
	text := strings.TrimPrefix(err.Error(), name+": ")
	return strings.TrimPrefix(text, train.ErrData.Error()+": ")
}
