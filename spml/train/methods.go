package train

import (
	"fmt"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/loss"
)

// expectedPositives gives the parameters that are the mean number of positives of an image that of the validation rows,
// where the run takes it from there and they were not set.
func expectedPositives(c config.Config, e *loss.Entry, ds *data.Dataset, set loss.Values, ev Events) error {
	if c.Method.Expected != "validation" {
		return nil
	}
	for _, p := range e.Params {
		if _, given := set[p.Name]; given || !p.Positives {
			continue
		}
		rows := ds.Rows(data.Val)
		if len(rows) == 0 || !labelled(ds, data.Val) {
			return fmt.Errorf("%w: %s has no validation rows with full labels to count positives in; give --param "+
				"%s=NUMBER, or leave out expected_positives", ErrData, ds.Name, p.Name)
		}
		n := 0
		for _, y := range ds.Gather(ds.Labels, rows) {
			if y == 1 {
				n++
			}
		}
		set[p.Name] = float64(n) / float64(len(rows))
		ev.Say(fmt.Sprintf("%s = %.4g: the mean number of positives of %d validation rows", p.Name, set[p.Name], len(rows)))
	}
	return nil
}
