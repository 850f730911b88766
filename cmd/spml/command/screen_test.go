package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/train"
)

// showProgress plays a run of two epochs as a command shows it; label stands before its lines.
func showProgress(label string) {
	r, err := newReporter(os.Stderr, progressAuto)
	if err != nil {
		panic(err)
	}
	r.label = label
	r.plainEach = 0
	ev := r.events()
	ev.Note("weights found")
	for epoch := 1; epoch <= 2; epoch++ {
		for done := 100; done <= 1500; done += 100 {
			time.Sleep(40 * time.Millisecond)
			ev.Step(train.Step{Phase: "train", Epoch: epoch, Epochs: 2, Done: done, Total: 1500, Loss: 1 / float64(done), ImagesPerSec: 2500, Waited: 0.123})
		}
		ev.Step(train.Step{Phase: "validate", Epoch: epoch, Epochs: 2, Done: 300, Total: 300, ImagesPerSec: 4000})
		ev.Epoch(train.EpochRecord{Epoch: epoch, Loss: 0.4, ValMAP: 70, Best: epoch == 1, Seconds: 0.6})
	}
	r.clear()
}

// terminal is a program on a pseudo-terminal and the screen that it writes to.
type terminal struct {
	t    *testing.T
	file *os.File
	mu   sync.Mutex
	vt   vt10x.Terminal
	raw  strings.Builder
	seen func(rows []string) // after each piece of output; nil: nothing
	done chan struct{}
}

func onTerminal(t *testing.T, columns int, env []string, seen func([]string), args ...string) *terminal {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(append(os.Environ(), "TERM=xterm"), env...)
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: uint16(columns)})
	require.NoError(t, err)
	x := &terminal{t: t, file: file, vt: vt10x.New(vt10x.WithSize(columns, 24)), seen: seen, done: make(chan struct{})}
	go func() {
		defer close(x.done)
		b := make([]byte, 1<<16)
		for {
			n, err := file.Read(b)
			x.mu.Lock()
			x.raw.Write(b[:n])
			_, _ = x.vt.Write(b[:n])
			rows := x.rows()
			x.mu.Unlock()
			if x.seen != nil && n > 0 {
				x.seen(rows)
			}
			if err != nil { // EIO: the program has ended
				_ = cmd.Wait()
				return
			}
		}
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-x.done; _ = file.Close() })
	return x
}

// rows are those of the screen down to the last that is not empty.
func (x *terminal) rows() []string {
	rows := strings.Split(strings.TrimRight(x.vt.String(), " \n"), "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	return rows
}

func (x *terminal) resize(columns int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.vt.Resize(columns, 24)
	require.NoError(x.t, pty.Setsize(x.file, &pty.Winsize{Rows: 24, Cols: uint16(columns)}))
}

// end waits for the program and gives what stands on the screen then.
func (x *terminal) end() []string {
	select {
	case <-x.done:
	case <-time.After(2 * time.Minute):
		x.t.Fatal("the program does not end")
	}
	return x.rows()
}

var (
	statusRow = regexp.MustCompile(`^(run )?epoch \d/2 (train|validate) +\d+ %( █*·*)?(  .*)?$`)
	runLines  = regexp.MustCompile(`^(runweightsfound)?(runepoch\dloss0.400000valmAP70.00testmAP0.00\d+.\ds(best|bestsofar)?)*$`)
)

// unwrapped are rows without their spaces, however a terminal broke their lines.
func unwrapped(rows []string) string {
	return strings.ReplaceAll(strings.Join(rows, ""), " ", "")
}

// What a person sees of a run in a terminal of any width: the lines of the run and, below them, one line that changes.
func TestProgressOnScreen(t *testing.T) {
	for _, columns := range []int{50, 51, 60, 70, 80, 81, 100, 132, 200} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			t.Parallel()
			statuses, bars := map[string]bool{}, false
			x := onTerminal(t, columns, []string{"GOSPML_TEST_PROGRESS=run "}, func(rows []string) {
				above, last := rows[:len(rows)-1], rows[len(rows)-1]
				switch {
				case statusRow.MatchString(last):
					statuses[last] = true
					bars = bars || strings.Contains(last, "████")
				case last != "": // a line of the run's
					above = rows
				}
				if !runLines.MatchString(unwrapped(above)) || slices.Contains(above, "") {
					t.Errorf("%d columns:\n%s", columns, strings.Join(rows, "\n"))
				}
			})
			rows := x.end()
			require.Greater(t, len(statuses), 6, "it moves")
			require.True(t, bars, "and has a bar")
			require.Regexp(t, runLines, unwrapped(rows), "the line goes at the end")
			if columns >= 80 {
				require.Len(t, rows, 3, "a line each")
			}
		})
	}
}

// A terminal that is made narrower and wider while the run goes on keeps the lines of the run and has one line of
// progress.
func TestProgressResized(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, 120, []string{"GOSPML_TEST_PROGRESS=run "}, nil)
	for _, columns := range []int{90, 60, 50, 75, 100, 200, 91} {
		time.Sleep(150 * time.Millisecond)
		x.resize(columns)
	}
	rows := x.end()
	require.Regexp(t, runLines, unwrapped(rows))
	require.NotContains(t, rows, "")
	require.Equal(t, 2, strings.Count(unwrapped(rows), "runepoch"))
}

// tmux breaks a line that no longer fits into several and draws Chinese letters two columns wide: one line of progress
// is left there too.
func TestProgressInTmux(t *testing.T) {
	t.Parallel()
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not installed")
	}
	exe, err := os.Executable()
	require.NoError(t, err)
	socket := filepath.Join(t.TempDir(), "tmux")
	ask := func(args ...string) string {
		b, err := exec.Command(tmux, append([]string{"-u", "-S", socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
		require.NoError(t, err, string(b))
		return string(b)
	}
	ask("new-session", "-d", "-x", "120", "-y", "30", "seq 40; GOSPML_TEST_PROGRESS='鸟类👩‍🌾图片 ' "+exe+"; sleep 60") // seq: a screen in use, at its bottom
	t.Cleanup(func() { _ = exec.Command(tmux, "-S", socket, "kill-server").Run() })
	status := regexp.MustCompile(`\d/2 (train|validate) +\d+ %`)
	for _, columns := range []string{"90", "60", "50", "110", "70", "100"} {
		time.Sleep(200 * time.Millisecond)
		ask("resize-window", "-x", columns)
		time.Sleep(150 * time.Millisecond)
		screen := ask("capture-pane", "-p", "-S", "-")
		require.LessOrEqual(t, len(status.FindAllString(screen, -1)), 1, screen)
		require.NotContains(t, strings.TrimSpace(screen), "\n\n", screen)
	}
	var numbers string
	for i := range 40 {
		numbers += fmt.Sprintln(i + 1)
	}
	var screen string
	require.Eventually(t, func() bool {
		screen = strings.TrimSpace(strings.TrimSpace(ask("capture-pane", "-p", "-S", "-"))[len(numbers):])
		return strings.Contains(screen, "epoch   2")
	}, 20*time.Second, 50*time.Millisecond)
	require.Regexp(t, `^鸟类👩‍🌾图片 weights found\n鸟类👩‍🌾图片 epoch   1  [^\n]* best( so far)?\n鸟类👩‍🌾图片 epoch   2  [^\n]*$`, screen)
}

// A dumb terminal, and none, get lines; NO_COLOR keeps the bar, which has no colours.
func TestProgressOnDumbTerminal(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"dumb", ""} {
		x := onTerminal(t, 80, []string{"GOSPML_TEST_PROGRESS= ", "TERM=" + kind}, nil)
		x.end()
		require.NotContains(t, x.raw.String(), "\x1b")
		require.NotContains(t, strings.ReplaceAll(x.raw.String(), "\r\n", "\n"), "\r")
		require.Contains(t, x.raw.String(), "1500/1500 images, 2500 images/s, 0s left")
	}
	x := onTerminal(t, 80, []string{"GOSPML_TEST_PROGRESS= ", "NO_COLOR=1"}, nil)
	x.end()
	require.NotContains(t, x.raw.String(), "\x1b[3", "no colours")
	require.Contains(t, x.raw.String(), "██")
}

// The command itself on a terminal of 80 columns: its lines and nothing else are left.
func TestTrainOnScreen(t *testing.T) {
	x := onTerminal(t, 80, []string{"GOSPML_TEST_COMMAND=1"}, nil, "train", "--data", "shapes", "--method", "em", "--epochs", "2", "--image-size", "32", "--backbone", "small_cnn", "--run", filepath.Join(t.TempDir(), "r"))
	text := strings.Join(x.end(), "\n")
	require.NotContains(t, text, "\n\n", text)
	require.NotRegexp(t, `\d/2 (train|validate|test)`, text)
	require.Equal(t, 2, strings.Count(text, "epoch   "), text)
	require.Contains(t, text, "best epoch")
	require.Contains(t, x.raw.String(), "██")
}
