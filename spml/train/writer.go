package train

import (
	"github.com/gospml/gospml/internal/onewriter"
	"github.com/gospml/gospml/spml/rundir"
)

// onlyWriter makes a run directory and keeps other writers off it until release; those who read are not kept off. Of
// several processes the first does it.
func onlyWriter(dir string, procs *Processes, ev Events) (release func() error, err error) {
	var l *onewriter.Lock
	if dir != "" && procs.Rank() == 0 {
		l, err = rundir.Lock(dir, ev.Say)
	}
	if _, err := procs.first(err, ""); err != nil {
		return nil, err
	}
	return l.Close, nil
}
