package torch

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// tracing is on when the process starts with GOSPML_TRACE=1: every handle remembers the line that made it. It costs
// microseconds a tensor and serves the search for leaks.
var tracing = os.Getenv("GOSPML_TRACE") == "1"

// traced holds the live handles; a libtorch tensor that several Go values show has one record for each.
var (
	traceMu sync.Mutex
	traced  = map[uint64][]record{}
)

type record struct {
	scope uint32
	pc    []uintptr
}

// LiveAt counts the live tensors by the line outside this package that made them, as "file.go:12". It is nil unless the
// process was started with GOSPML_TRACE=1.
func LiveAt() map[string]int {
	if !tracing {
		return nil
	}
	Live() // releases what the collector has queued
	traceMu.Lock()
	defer traceMu.Unlock()
	lines := map[string]int{}
	for _, rs := range traced {
		for _, r := range rs {
			lines[r.line()]++
		}
	}
	return lines
}

// line is the innermost caller that is not code of this package.
func (r record) line() string {
	frames := runtime.CallersFrames(r.pc)
	for {
		f, more := frames.Next()
		own := strings.HasPrefix(f.Function, "github.com/gospml/gospml/torch.") && !strings.HasSuffix(f.File, "_test.go")
		if !own || !more {
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
	}
}

func traceMade(h uint64, scope uint32) {
	pc := make([]uintptr, 12)
	pc = pc[:runtime.Callers(3, pc)]
	traceMu.Lock()
	traced[h] = append(traced[h], record{scope, pc})
	traceMu.Unlock()
}

// traceMoved records that Keep gave a handle to another scope.
func traceMoved(h uint64, from, to uint32) {
	traceMu.Lock()
	if i := indexOf(traced[h], from); i >= 0 {
		traced[h][i].scope = to
	}
	traceMu.Unlock()
}

// traceFreed forgets one record of a handle that a scope, or none (0), owned.
func traceFreed(h uint64, scope uint32) {
	traceMu.Lock()
	forget(h, scope)
	traceMu.Unlock()
}

// traceScopeEnded forgets what a scope owned.
func traceScopeEnded(scope uint32) {
	traceMu.Lock()
	for h := range traced {
		for forget(h, scope) {
		}
	}
	traceMu.Unlock()
}

func forget(h uint64, scope uint32) bool {
	i := indexOf(traced[h], scope)
	if i < 0 {
		return false
	}
	if traced[h] = slices.Delete(traced[h], i, i+1); len(traced[h]) == 0 {
		delete(traced, h)
	}
	return true
}

func indexOf(rs []record, scope uint32) int {
	return slices.IndexFunc(rs, func(r record) bool { return r.scope == scope })
}
