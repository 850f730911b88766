package native

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// plainInterval is the time between two progress lines where the output is not a terminal.
const plainInterval = 10 * time.Second

// isTerminal reports whether a line may be rewritten in place.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// mb writes bytes as megabytes (10^6 bytes), the unit that package indexes show.
func mb(n int64) string {
	if n < 10e6 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0f MB", float64(n)/1e6)
}

// watchDownload reports how much of `total` bytes has arrived below dir until stop is called: a line rewritten twice a
// second on a terminal, else one line every plainInterval.
func watchDownload(w io.Writer, what, dir string, total int64) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		term := isTerminal(w)
		every := plainInterval
		if term {
			every = 500 * time.Millisecond
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		start := time.Now()
		for {
			select {
			case <-done:
				if term {
					fmt.Fprint(w, "\r\033[K")
				}
				return
			case now := <-tick.C:
				got := bytesBelow(dir)
				line := fmt.Sprintf("  %s  %s of %s, %.1f MB/s", what, mb(got), mb(total), float64(got)/1e6/now.Sub(start).Seconds())
				if term {
					fmt.Fprintf(w, "\r\033[K%s", line)
				} else {
					fmt.Fprintln(w, line)
				}
			}
		}
	})
	return sync.OnceFunc(func() { close(done); wg.Wait() })
}

// bytesBelow adds up the sizes of the files in a folder; files that vanish meanwhile count nothing.
func bytesBelow(dir string) int64 {
	var n int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
