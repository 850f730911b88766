package torch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/gospml/gospml/torch/internal/abi"
)

// ErrPoolClosed is returned by Run after Close.
var ErrPoolClosed = errors.New("torch: the pool is closed")

var errGoexit = errors.New("torch: the job ended its goroutine with runtime.Goexit")

// Pool is a fixed set of OS threads for inference from many goroutines: each worker runs one job at a time with one
// intra-op thread, so that n workers use n cores and no more memory than n sets of caches.
type Pool struct {
	jobs chan poolJob
	quit chan struct{}
	once sync.Once
	done sync.WaitGroup

	closed chan struct{} // when all workers have ended
}

type poolJob struct {
	f      func() error
	answer chan poolAnswer
}

type poolAnswer struct {
	err   error
	panic any
}

// NewPool starts n workers; n < 1 means one per core.
func NewPool(n int) (*Pool, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if n < 1 {
		n = runtime.NumCPU()
	}
	p := &Pool{jobs: make(chan poolJob), quit: make(chan struct{}), closed: make(chan struct{})}
	p.done.Add(n)
	for range n {
		go p.work()
	}
	return p, nil
}

func (p *Pool) work() {
	defer p.done.Done()
	runtime.LockOSThread() // never unlocked: the thread, whose settings differ, ends with the goroutine
	abi.SetThreadThreads(1)
	for {
		select {
		case <-p.quit:
			return
		case j := <-p.jobs:
			p.run(j)
		}
	}
}

// run answers a job however it ends.
func (p *Pool) run(j poolJob) {
	a := poolAnswer{err: errGoexit}
	defer func() {
		if a.err == errGoexit {
			switch e := recover().(type) {
			case nil: // runtime.Goexit takes the worker along
				p.done.Add(1)
				go p.work()
			case *Error:
				a.err = e
			default:
				a.panic = e
			}
		}
		j.answer <- a
	}()
	a.err = j.f()
}

// Run hands f to a worker and waits for it. A *Error panic of tensor maths comes back as the error; any other panic
// continues in the caller. When ctx ends before a worker took the job, its error is returned; a job that runs is waited
// for. A job must not call Run of its own pool: it would wait for a worker while it holds one.
func (p *Pool) Run(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := poolJob{f, make(chan poolAnswer, 1)}
	select {
	case <-p.quit:
		return ErrPoolClosed
	case <-ctx.Done():
		return ctx.Err()
	case p.jobs <- j:
	}
	a := <-j.answer
	if a.panic != nil {
		panic(a.panic)
	}
	return a.err
}

// Close stops the workers after their current jobs and waits for them.
func (p *Pool) Close() { <-p.closing() }

// CloseContext is Close that waits no longer than ctx: its error then says that jobs are still in work. They end by
// themselves.
func (p *Pool) CloseContext(ctx context.Context) error {
	closed := p.closing()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-closed: // both had come
		return nil
	default:
		return fmt.Errorf("torch: the pool closes while jobs are in work: %w", ctx.Err())
	}
}

// closing stops the workers; the channel closes when all have ended.
func (p *Pool) closing() <-chan struct{} {
	p.once.Do(func() {
		close(p.quit)
		go func() { p.done.Wait(); close(p.closed) }()
	})
	return p.closed
}
