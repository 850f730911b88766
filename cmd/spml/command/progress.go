package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/internal/screen"
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

// reporter shows a run: a bar on a terminal, a plain line every 30 s elsewhere, and a line for each epoch. As JSON it
// writes an object a line: {"note"}, {"step"} at most once a second, {"epoch"}.
type reporter struct {
	w     io.Writer
	kind  string
	label string // before each line, for several runs
	line  *screen.Status
	last  time.Time
	quiet bool // no line per epoch

	plainEach time.Duration // between plain lines

	begun time.Time // of the training steps that this process sees
	first float64   // share of the run that was done then
}

func newReporter(w io.Writer, kind string) (*reporter, error) {
	switch kind {
	case progressAuto:
		kind = progressPlain
		if screen.IsTerminal(w) {
			kind = progressBar
		}
	case progressBar, progressPlain, progressOff, progressJSON:
	default:
		return nil, usageError{fmt.Errorf("--progress %q is none of auto, bar, plain, json, off", kind)}
	}
	return &reporter{w: w, kind: kind, line: screen.NewStatus(w), last: time.Now(), plainEach: plainEvery}, nil
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
		fmt.Fprintf(r.w, "%s%s\n", plain.Text(r.label), plain.Lines(text))
	}
}

func (r *reporter) step(s train.Step) {
	what := s.Phase
	if s.Epoch > 0 {
		what = fmt.Sprintf("epoch %d/%d %s", s.Epoch, s.Epochs, s.Phase)
	}
	loss, loader, runLeft, card := "", "", "", ""
	if s.Phase == "train" {
		loss = fmt.Sprintf("loss %.4f", s.Loss)
	}
	if s.Waited >= 0.005 {
		loader = fmt.Sprintf("loader %.0f %%", 100*s.Waited)
	}
	if s.CardBytes > 0 {
		card = fmt.Sprintf("card %.1f GB", float64(s.CardBytes)/1e9)
	}
	left := r.runLeft(s)
	if left > 0 {
		runLeft = fmt.Sprintf("run %s left", left)
	}
	rate := fmt.Sprintf("%.0f images/s", s.ImagesPerSec)
	count := fmt.Sprintf("%d/%d", s.Done, s.Total)
	phaseLeft := fmt.Sprintf("%s left", time.Duration(float64(s.Total-s.Done)/max(s.ImagesPerSec, 1e-9)*float64(time.Second)).Round(time.Second))
	switch r.kind {
	case progressBar:
		when := runLeft
		if when == "" && s.ImagesPerSec > 0 {
			when = phaseLeft
		}
		r.line.Draw(screen.Progress{What: r.label + what, Done: s.Done, Total: s.Total,
			Parts: some(loss, when, count, rate, loader, card)})
	case progressJSON:
		if s.Done < s.Total && time.Since(r.last) < time.Second {
			return
		}
		r.last = time.Now()
		r.object(struct {
			Run  string   `json:"run,omitempty"`
			Step jsonStep `json:"step"`
		}{strings.TrimSpace(r.label), jsonStep{s.Phase, s.Epoch, s.Epochs, s.Done, s.Total, s.Loss, s.ImagesPerSec,
			s.Waited, left.Seconds(), s.CardBytes}})
	case progressPlain:
		if time.Since(r.last) < r.plainEach {
			return
		}
		r.last = time.Now()
		if loss != "" {
			what += " " + loss
		}
		fmt.Fprintf(r.w, "%s%s: %s images, %s, %s\n", plain.Text(r.label),
			strings.Join(some(what, loader, card, runLeft), ", "), count, rate, phaseLeft)
	}
}

// runLeft estimates how long the run still takes, by the share of it that was done since its first training step here;
// 0: not known yet.
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

// some are those of the texts that say something.
func some(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

func (r *reporter) clear() { r.line.Clear() }

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
	line := fmt.Sprintf("%sepoch %3d  loss %9.6f  val mAP %6s  test mAP %6s  %5.1f s", plain.Text(r.label), e.Epoch, e.Loss, e.Val(), e.Test(), e.Seconds)
	if e.Best {
		best := "  best so far"
		if columns := screen.Columns(r.w); columns > 0 && screen.Width(line+best) > columns {
			best = "  best"
		}
		line += best
	}
	fmt.Fprintln(r.w, line)
}

// encoded shows how many pictures of a run are done.
func (r *reporter) encoded(done, total int, perSecond float64) {
	count, rate := fmt.Sprintf("%d/%d", done, total), fmt.Sprintf("%.1f images/s", perSecond)
	left := fmt.Sprintf("%s left", time.Duration(float64(total-done)/max(perSecond, 1e-9)*float64(time.Second)).Round(time.Second))
	switch r.kind {
	case progressBar:
		parts := []string{count}
		if perSecond > 0 {
			parts = append(parts, left, rate)
		}
		r.line.Draw(screen.Progress{What: r.label + "pictures", Done: done, Total: total, Parts: parts})
	case progressPlain:
		if time.Since(r.last) < r.plainEach {
			return
		}
		r.last = time.Now()
		fmt.Fprintf(r.w, "%s images, %s, %s\n", count, rate, left)
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
	Card   int64   `json:"card_bytes,omitempty"`
}

// object writes a line. What JSON cannot hold (a loss that is not finite) is said as a note.
func (r *reporter) object(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(map[string]string{"note": fmt.Sprint(v)})
	}
	fmt.Fprintf(r.w, "%s\n", b)
}
