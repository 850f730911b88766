package command

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/internal/screen"
	"github.com/gospml/gospml/spml/train"
)

// runsReporter shows the runs of a comparison on one reporter: a single run as train does, several at once by one line
// that names them. It is safe for many goroutines.
type runsReporter struct {
	mu      sync.Mutex
	r       *reporter
	running []string
}

// watch is compare.Options.Watch.
func (p *runsReporter) watch(name string, seed uint32) (train.Events, func()) {
	label := fmt.Sprintf("%s seed %d", name, seed)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = append(p.running, label)
	p.r.begun, p.r.first = time.Time{}, 0
	end := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running = slices.DeleteFunc(p.running, func(s string) bool { return s == label })
		p.r.clear()
	}
	return train.Events{Step: func(s train.Step) { p.step(label, s) }, Epoch: func(e train.EpochRecord) { p.epoch(label, e) }}, end
}

func (p *runsReporter) step(label string, s train.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.running) == 1 || p.r.kind == progressJSON {
		p.r.label = label + "  "
		p.r.step(s)
		return
	}
	text := fmt.Sprintf("%d runs at once: %s", len(p.running), strings.Join(p.running, ", "))
	switch p.r.kind {
	case progressBar:
		p.r.line.Draw(screen.Progress{What: text, Done: s.Done, Total: s.Total})
	case progressPlain:
		if time.Since(p.r.last) >= p.r.plainEach {
			p.r.last = time.Now()
			plain.Fprintf(p.r.w, "%s\n", text)
		}
	}
}

// epoch is said as JSON alone: a comparison has thousands.
func (p *runsReporter) epoch(label string, e train.EpochRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.r.kind == progressJSON {
		p.r.label = label
		p.r.epoch(e)
	}
}

func (p *runsReporter) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.r.label = ""
	p.r.note(text)
}
