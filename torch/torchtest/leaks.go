package torchtest

import (
	"fmt"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/gospml/gospml/torch"
)

// NoLeaks fails the test when more tensors are alive at its end than now, after the garbage collector has run: tensors
// that a variable still holds, or references that the binding lost. Call it first in a test that does not run in parallel
// with others. With GOSPML_TRACE=1 in the environment the message names the lines that made the tensors.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := settled(0)
	lines := torch.LiveAt()
	t.Cleanup(func() {
		t.Helper()
		after := settled(before)
		if after <= before {
			return
		}
		t.Errorf("%d tensors alive at the end that were not at the start (%d, then %d)%s", after-before, before, after, blame(lines))
	})
}

// settled runs the collector until at most want tensors are alive, or their number no longer falls.
func settled(want int) int {
	n := collected()
	for same := 0; n > want && same < 3; {
		// Cleanups run concurrently: those of this cycle may still be on their way when the sentinel's has run.
		time.Sleep(time.Millisecond)
		m := collected()
		if m < n {
			same = 0
		} else {
			same++
		}
		n = m
	}
	return n
}

// collected runs one collection, waits for a sentinel's cleanup and counts.
func collected() int {
	done := make(chan struct{})
	func() {
		s := new([4]*int)
		runtime.AddCleanup(s, func(c chan struct{}) { close(c) }, done)
	}()
	runtime.GC()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
	return torch.Live()
}

func blame(before map[string]int) string {
	now := torch.LiveAt()
	if now == nil {
		return "; set GOSPML_TRACE=1 to see the lines that made them"
	}
	var lines []string
	for at, n := range now {
		if n > before[at] {
			lines = append(lines, fmt.Sprintf("%d made at %s", n-before[at], at))
		}
	}
	sort.Strings(lines)
	return ":\n\t" + strings.Join(lines, "\n\t")
}
