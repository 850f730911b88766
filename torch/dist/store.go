package dist

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gospml/gospml/torch/internal/abi"
	"github.com/gospml/gospml/torch/internal/link"
)

// DefaultTimeout is what a timeout of 0 stands for.
const DefaultTimeout = 5 * time.Minute

func millis(d time.Duration) int64 {
	if d <= 0 {
		d = DefaultTimeout
	}
	return max(d.Milliseconds(), 1)
}

// Store holds keys and values that all processes see. It is safe for use by many goroutines until Close.
type Store struct {
	h    atomic.Uint64
	port int
}

// NewTCPStore connects to the store at host:port or, with server, hosts it (port 0: any free one; see Port). With workers > 0 the host waits until
// that many processes, itself included, have come.
func NewTCPStore(host string, port int, server bool, workers int, timeout time.Duration) (*Store, error) {
	if err := abi.LoadDist(); err != nil {
		return nil, err
	}
	what := "joining the store"
	if server {
		what = "hosting the store"
	}
	r := abi.TCPStore(host, port, server, workers, millis(timeout))
	if err := failed(fmt.Sprintf("%s at %s:%d", what, host, port), &r); err != nil {
		return nil, err
	}
	s := &Store{port: int(r.W[1])}
	s.h.Store(r.W[0])
	return s, nil
}

// failed turns a failed result into an error.
func failed(what string, r *abi.Result) error {
	err := link.Error("", r)
	if err == nil {
		return nil
	}
	return &Error{What: what, Err: err}
}

// Error says which operation failed and why.
type Error struct {
	What string // for instance "all-reduce on rank 1 of 4"
	Err  error  // a *torch.Error with libtorch's words
}

func (e *Error) Error() string {
	why := strings.TrimPrefix(e.Err.Error(), "torch: ")
	low := strings.ToLower(why)
	switch {
	case strings.Contains(low, "connection closed by peer"), strings.Contains(low, "connection reset"), strings.Contains(low, "broken pipe"), strings.Contains(low, "socket closed"):
		why = "another process has ended (" + why + ")"
	case e.timedOut(low):
		why = "another process did not come in time (" + why + ")"
	}
	return "dist: " + e.What + ": " + why
}

func (e *Error) timedOut(low string) bool {
	return strings.Contains(low, "timed out") || strings.Contains(low, "timeout")
}

// Timeout reports whether the operation ran out of time.
func (e *Error) Timeout() bool { return e.timedOut(strings.ToLower(e.Err.Error())) }

func (e *Error) Unwrap() error { return e.Err }

// Port is the port of the store.
func (s *Store) Port() int { return s.port }

// WithPrefix is a view of the store that puts a prefix before each key.
func (s *Store) WithPrefix(prefix string) (*Store, error) {
	r := abi.PrefixStore(s.h.Load(), prefix)
	if err := failed("a view of the store", &r); err != nil {
		return nil, err
	}
	v := &Store{port: s.port}
	v.h.Store(r.W[0])
	return v, nil
}

// Set sets a value.
func (s *Store) Set(key string, value []byte) error {
	r := abi.StoreSet(s.h.Load(), key, value)
	return failed(fmt.Sprintf("setting %q in the store", key), &r)
}

// Get waits until a key is set, at most for the timeout, and returns its value.
func (s *Store) Get(key string, timeout time.Duration) ([]byte, error) {
	r := abi.StoreGet(s.h.Load(), key, millis(timeout))
	if err := failed(fmt.Sprintf("getting %q from the store", key), &r); err != nil {
		return nil, err
	}
	return []byte(abi.Text(r.W[0])), nil
}

// Add adds to a counter, which begins at 0, and returns the sum.
func (s *Store) Add(key string, n int64) (int64, error) {
	r := abi.StoreAdd(s.h.Load(), key, n)
	if err := failed(fmt.Sprintf("adding to %q in the store", key), &r); err != nil {
		return 0, err
	}
	return int64(r.W[0]), nil
}

// Delete removes a key and reports whether it was there.
func (s *Store) Delete(key string) (bool, error) {
	r := abi.StoreDelete(s.h.Load(), key)
	if err := failed(fmt.Sprintf("deleting %q from the store", key), &r); err != nil {
		return false, err
	}
	return r.W[0] != 0, nil
}

// Close leaves the store; the host's ends it for all. Closing again does nothing.
func (s *Store) Close() error {
	h := s.h.Swap(0)
	if h == 0 {
		return nil
	}
	r := abi.StoreFree(h)
	return failed("closing the store", &r)
}
