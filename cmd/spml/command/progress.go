package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/gospml/gospml/spml/train"
)

// Ways of showing progress.
const (
	progressAuto  = "auto"
	progressBar   = "bar"
	progressPlain = "plain"
	progressOff   = "off"
	progressJSON  = "json"
)

// plainEvery is how often a line appears where there is no terminal.
const plainEvery = 30 * time.Second

// reporter shows a run: a bar on a terminal, a plain line every 30 s elsewhere, and a line for each epoch. As JSON it writes an object a line: {"note"}, {"step"} at most once a
// second, {"epoch"}.
type reporter struct {
	w     io.Writer
	kind  string
	label string // before each line, for several runs
	bar   *progressbar.ProgressBar
	key   string // phase and epoch of the bar
	last  time.Time
	quiet bool // no line per epoch

	begun time.Time // of the training steps that this process sees
	first float64   // share of the run that was done then
}

func newReporter(w io.Writer, kind string) (*reporter, error) {
	switch kind {
	case progressAuto:
		kind = progressPlain
		if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			kind = progressBar
		}
	case progressBar, progressPlain, progressOff, progressJSON:
	default:
		return nil, usageError{fmt.Errorf("--progress %q is none of auto, bar, plain, json, off", kind)}
	}
	return &reporter{w: w, kind: kind, last: time.Now()}, nil
}

func (r *reporter) events() train.Events {
	return train.Events{Note: r.note, Step: r.step, Epoch: r.epoch}
}

func (r *reporter) note(text string) {
	if r.kind == progressJSON {
		r.object(struct {
			Run  string `json:"run,omitempty"`
			Note string `json:"note"`
		}{strings.TrimSpace(r.label), text})
	} else if r.kind != progressOff && !r.quiet {
		r.clear()
		fmt.Fprintf(r.w, "%s%s\n", r.label, text)
	}
}

func (r *reporter) step(s train.Step) {
	what := s.Phase
	if s.Epoch > 0 {
		what = fmt.Sprintf("epoch %d/%d %s", s.Epoch, s.Epochs, s.Phase)
	}
	if s.Phase == "train" {
		what += fmt.Sprintf(" loss %.4f", s.Loss)
	}
	if s.Waited >= 0.005 {
		what += fmt.Sprintf(", loader %.0f %%", 100*s.Waited)
	}
	left := r.runLeft(s)
	if left > 0 {
		what += fmt.Sprintf(", run %s left", left)
	}
	switch r.kind {
	case progressBar:
		if key := fmt.Sprint(s.Phase, s.Epoch); key != r.key {
			r.clear()
			r.key = key
			r.bar = progressbar.NewOptions(s.Total, progressbar.OptionSetWriter(r.w), progressbar.OptionShowIts(), progressbar.OptionSetItsString("images"),
				progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(24), progressbar.OptionShowCount())
		}
		r.bar.Describe(r.label + what)
		_ = r.bar.Set(s.Done)
	case progressJSON:
		if s.Done < s.Total && time.Since(r.last) < time.Second {
			return
		}
		r.last = time.Now()
		r.object(struct {
			Run  string   `json:"run,omitempty"`
			Step jsonStep `json:"step"`
		}{strings.TrimSpace(r.label), jsonStep{s.Phase, s.Epoch, s.Epochs, s.Done, s.Total, s.Loss, s.ImagesPerSec, s.Waited, left.Seconds()}})
	case progressPlain:
		if time.Since(r.last) < plainEvery {
			return
		}
		r.last = time.Now()
		left := time.Duration(float64(s.Total-s.Done) / max(s.ImagesPerSec, 1e-9) * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(r.w, "%s%s: %d/%d images, %.0f images/s, %s left\n", r.label, what, s.Done, s.Total, s.ImagesPerSec, left)
	}
}

// runLeft estimates how long the run still takes, by the share of it that was done since its first training step here; 0: not known yet.
func (r *reporter) runLeft(s train.Step) time.Duration {
	if s.Phase != "train" || s.Epochs == 0 || s.Total == 0 {
		return 0
	}
	done := (float64(s.Epoch-1) + float64(s.Done)/float64(s.Total)) / float64(s.Epochs)
	if r.begun.IsZero() {
		r.begun, r.first = time.Now(), done
		return 0
	}
	gained, took := done-r.first, time.Since(r.begun)
	if gained <= 0 || took < time.Second {
		return 0
	}
	return time.Duration((1 - done) / gained * float64(took)).Round(time.Second)
}

func (r *reporter) clear() {
	if r.bar != nil {
		_ = r.bar.Clear()
		r.bar, r.key = nil, ""
	}
}

func (r *reporter) epoch(e train.EpochRecord) {
	if r.kind == progressJSON {
		r.object(struct {
			Run   string            `json:"run,omitempty"`
			Epoch train.EpochRecord `json:"epoch"`
		}{strings.TrimSpace(r.label), e})
		return
	}
	if r.kind == progressOff || r.quiet {
		return
	}
	r.clear()
	best := ""
	if e.Best {
		best = "  best so far"
	}
	fmt.Fprintf(r.w, "%sepoch %3d  loss %9.6f  val mAP %6.2f  test mAP %6.2f  %5.1f s%s\n", r.label, e.Epoch, e.Loss, e.ValMAP, e.TestMAP, e.Seconds, best)
}

// encoded shows how many pictures of a run are done.
func (r *reporter) encoded(done, total int, perSecond float64) {
	switch r.kind {
	case progressBar:
		if r.bar == nil {
			r.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(r.w), progressbar.OptionShowIts(), progressbar.OptionSetItsString("images"),
				progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(24), progressbar.OptionShowCount())
		}
		_ = r.bar.Set(done)
	case progressPlain:
		if time.Since(r.last) < plainEvery {
			return
		}
		r.last = time.Now()
		left := time.Duration(float64(total-done) / max(perSecond, 1e-9) * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(r.w, "%d/%d images, %.1f images/s, %s left\n", done, total, perSecond, left)
	}
}

// jsonStep is train.Step as JSON.
type jsonStep struct {
	Phase  string  `json:"phase"`
	Epoch  int     `json:"epoch,omitempty"`
	Epochs int     `json:"epochs,omitempty"`
	Done   int     `json:"done"`
	Total  int     `json:"total"`
	Loss   float64 `json:"loss,omitempty"`
	Rate   float64 `json:"images_per_sec"`
	Waited float64 `json:"loader_share,omitempty"`
	Left   float64 `json:"run_seconds_left,omitempty"`
}

// object writes a line. What JSON cannot hold (a loss that is not finite) is said as a note.
func (r *reporter) object(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(map[string]string{"note": fmt.Sprint(v)})
	}
	fmt.Fprintf(r.w, "%s\n", b)
}
