// Package progress tells a caller how a run, or a pass over images, goes on.
package progress

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/gospml/gospml/spml/rundir"
)

// Events tell a caller how a run goes on. Nil functions are not called; they run on the training goroutine, so they
// must be quick.
type Events struct {
	Note  func(text string) // decisions worth one line: which weights, what batch normalisation does
	Step  func(Step)
	Epoch func(rundir.EpochRecord)
}

// Step is one optimiser step, or one batch of another phase.
type Step struct {
	Phase        string  `json:"phase"` // "features", "train", "validate", "test"
	Epoch        int     `json:"epoch"` // from 1
	Epochs       int     `json:"epochs"`
	Done         int     `json:"done"` // images of this phase
	Total        int     `json:"total"`
	Loss         float64 `json:"loss"` // mean of the epoch so far
	ImagesPerSec float64 `json:"images_per_sec"`
	// Waited is the share of the phase's time so far that was spent waiting for the loader, 0…1; 0 on features.
	Waited    float64 `json:"loader_share"`
	CardBytes int64   `json:"card_bytes,omitempty"` // that the run has of the card's memory; 0 on the CPU
}

// Say tells a decision worth one line.
func (e *Events) Say(text string) {
	if e.Note != nil {
		e.Note(text)
	}
}

// Tell tells of a step.
func (e *Events) Tell(s Step) {
	if e.Step != nil {
		e.Step(s)
	}
}

// Ended tells that an epoch is over.
func (e *Events) Ended(r rundir.EpochRecord) {
	if e.Epoch != nil {
		e.Epoch(r)
	}
}

// Logger gives what the image loader says (a broken image, a full cache) to Note; without one it goes to slog's
// default.
func (e *Events) Logger() *slog.Logger {
	if e.Note == nil {
		return nil
	}
	return slog.New(noteHandler{e.Note})
}

type noteHandler struct{ note func(string) }

func (noteHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h noteHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	sep := ": "
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, "%s%s %v", sep, a.Key, a.Value)
		sep = ", "
		return true
	})
	h.note(b.String())
	return nil
}

func (h noteHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h noteHandler) WithGroup(string) slog.Handler      { return h }
