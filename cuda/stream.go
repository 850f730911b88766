package cuda

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gospml/gospml/cuda/internal/abi"
	"github.com/gospml/gospml/torch"
)

// Stream is a queue of work on a device. Streams are libtorch's: a pool of 32 for each device and priority, never destroyed.
type Stream struct {
	id     int64
	device int
}

// NewStream takes a stream of the pool; priority -1 goes before 0.
func NewStream(device, priority int) (*Stream, error) {
	r, err := call("new stream", func() abi.Result { return abi.Stream(device, priority) })
	if err != nil {
		return nil, err
	}
	return &Stream{r.W[0], device}, nil
}

// CurrentStream is the stream into which the calling OS thread queues; outside OnStream it is the device's default stream.
func CurrentStream(device int) (*Stream, error) {
	r, err := call("current stream", func() abi.Result { return abi.CurrentStream(device) })
	if err != nil {
		return nil, err
	}
	return &Stream{r.W[0], device}, nil
}

// Device is the index of the stream's device.
func (s *Stream) Device() int { return s.device }

// Done reports whether all work of the stream is done.
func (s *Stream) Done() (bool, error) {
	r, err := call("query a stream", func() abi.Result { return abi.StreamQuery(s.id, s.device) })
	return r.W[0] != 0, err
}

// Synchronize waits until all work of the stream is done.
func (s *Stream) Synchronize() error {
	return do("wait for a stream", func() abi.Result { return abi.StreamSynchronize(s.id, s.device) })
}

// Wait makes the stream wait for what is in another now, on the device, without waiting here.
func (s *Stream) Wait(other *Stream) error {
	e, err := NewEvent(false)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := e.Record(other); err != nil {
		return err
	}
	return e.Block(s)
}

// OnStream runs f on a locked OS thread whose operations go into s on its device. The stream and device before are restored, also when f panics.
func OnStream(s *Stream, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := call("set the stream", func() abi.Result { return abi.SetStream(s.id, s.device) })
	if err != nil {
		return err
	}
	device := int(r.W[1])
	defer func() {
		abi.SetStream(r.W[0], s.device) // s's device had another stream
		if device != s.device {
			if c := abi.CurrentStream(device); c.Message == "" {
				abi.SetStream(c.W[0], device)
			}
		}
	}()
	return f()
}

// Event is a point in a stream.
type Event struct {
	h atomic.Uint64
}

// NewEvent makes an event; with timing Elapsed can be asked.
func NewEvent(timing bool) (*Event, error) {
	r, err := call("new event", func() abi.Result { return abi.Event(timing) })
	if err != nil {
		return nil, err
	}
	e := &Event{}
	e.h.Store(uint64(r.W[0]))
	return e, nil
}

// Record puts the event behind what is in the stream now.
func (e *Event) Record(s *Stream) error {
	return do("record an event", func() abi.Result { return abi.EventRecord(e.h.Load(), s.id, s.device) })
}

// Block makes the stream wait for the event, on the device.
func (e *Event) Block(s *Stream) error {
	return do("wait for an event", func() abi.Result { return abi.EventWait(e.h.Load(), s.id, s.device) })
}

// Done reports whether the device has come to the event; one that was never recorded is done.
func (e *Event) Done() (bool, error) {
	r, err := call("query an event", func() abi.Result { return abi.EventQuery(e.h.Load()) })
	return r.W[0] != 0, err
}

// Synchronize waits until the device has come to the event.
func (e *Event) Synchronize() error {
	return do("wait for an event", func() abi.Result { return abi.EventSynchronize(e.h.Load()) })
}

// Elapsed is the time between two recorded and reached events with timing.
func (e *Event) Elapsed(until *Event) (time.Duration, error) {
	r, err := call("time between events", func() abi.Result { return abi.EventElapsed(e.h.Load(), until.h.Load()) })
	if err != nil {
		return 0, err
	}
	return time.Duration(math.Float64frombits(uint64(r.W[0])) * float64(time.Millisecond)), nil
}

// Close frees the event; closing again does nothing.
func (e *Event) Close() error {
	h := e.h.Swap(0)
	if h == 0 {
		return nil
	}
	return do("close an event", func() abi.Result { return abi.EventFree(h) })
}

// Time measures on the device how long the work that f queues takes, between two events in the current stream.
func Time(device int, f func() error) (elapsed time.Duration, err error) {
	err = torch.Do(func() error {
		s, err := CurrentStream(device)
		if err != nil {
			return err
		}
		begin, err := NewEvent(true)
		if err != nil {
			return err
		}
		defer begin.Close()
		end, err := NewEvent(true)
		if err != nil {
			return err
		}
		defer end.Close()
		if err := begin.Record(s); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
		if err := end.Record(s); err != nil {
			return err
		}
		if err := end.Synchronize(); err != nil {
			return err
		}
		elapsed, err = begin.Elapsed(end)
		return err
	})
	return elapsed, err
}
