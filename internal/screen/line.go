package screen

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/gospml/gospml/internal/plain"
)

// IsTerminal says whether w is a terminal that moves its cursor; one whose TERM is dumb or missing is not.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	kind := os.Getenv("TERM")
	return ok && kind != "" && kind != "dumb" && term.IsTerminal(int(f.Fd()))
}

// HasColor says whether w is a terminal whose reader has not asked for no colours (NO_COLOR).
func HasColor(w any) bool { return IsTerminal(w) && os.Getenv("NO_COLOR") == "" }

// Columns is the width of a terminal now, 0 for anything else.
func Columns(w any) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// Progress is what a status line shows. Empty parts are left out.
type Progress struct {
	What        string   // it goes first, and is cut last
	Done, Total int      // of the bar
	Parts       []string // further facts, the most important first: those that do not fit are left out
}

// Status is a line at the bottom of a terminal that is drawn again and again. It is not safe for many goroutines.
//
// The cursor waits in its first column: a terminal that became narrower has broken the line into several, whose first
// one the cursor is then on. Each drawing erases that row, which ends the break, and after its text all that is below.
type Status struct {
	w     io.Writer
	what  string
	drawn time.Time // zero: there is no line
}

// NewStatus draws on w; where w has no width 80 columns are assumed.
func NewStatus(w io.Writer) *Status { return &Status{w: w} }

// drawEvery is the time between two drawings.
const drawEvery = 100 * time.Millisecond

// Draw shows p, unless the line says the same, is younger than a tenth of a second, and p is not at its end.
func (s *Status) Draw(p Progress) {
	now := time.Now()
	if !s.drawn.IsZero() && p.What == s.what && now.Sub(s.drawn) < drawEvery && p.Done < p.Total {
		return
	}
	columns := Columns(s.w)
	if columns == 0 {
		columns = 80
	}
	s.drawn, s.what = now, p.What
	// The last column stays free, as a full line makes some terminals wrap; none wraps a line here that is too long
	// because it has just become narrower.
	fmt.Fprintf(s.w, "\r\x1b[K\x1b[?7l%s\x1b[J\x1b[?7h\r", p.line(columns-1))
}

// Clear takes the line away.
func (s *Status) Clear() {
	if !s.drawn.IsZero() {
		s.drawn = time.Time{}
		fmt.Fprint(s.w, "\r\x1b[K \x1b[J\r\x1b[K") // erasing from the very first place on would push the screen into tmux's history
	}
}

// Widths of the bar.
const (
	minBar = 8
	maxBar = 30
)

// line is p in at most so many columns.
func (p Progress) line(columns int) string {
	percent := 0
	if p.Total > 0 {
		percent = min(100, 100*p.Done/p.Total)
	}
	tail := fmt.Sprintf(" %3d %%", percent)
	what := Fit(plain.Text(p.What), max(0, columns-Width(tail)))
	left := columns - Width(what) - Width(tail)
	bar := min(maxBar, left-1)
	if bar < minBar {
		return Fit(what+tail, columns)
	}
	left -= 1 + minBar // the facts share the rest with the bar
	var parts string
	for _, x := range p.Parts {
		if x = "  " + plain.Text(x); Width(parts+x) > left {
			break
		}
		parts += x
	}
	bar = min(maxBar, minBar+left-Width(parts))
	full := bar * percent / 100
	return what + tail + " " + strings.Repeat("█", full) + strings.Repeat("·", bar-full) + parts
}
