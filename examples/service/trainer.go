package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

// States of a training.
const (
	running = "running"
	done    = "done"
	stopped = "stopped" // with a checkpoint; resume goes on
	failed  = "failed"
)

// Status is what GET /train/NAME answers.
type Status struct {
	Name   string              `json:"name"`
	State  string              `json:"state"`
	Step   train.Step          `json:"step"`   // the newest
	Epochs []train.EpochRecord `json:"epochs"` // so far
	Notes  []string            `json:"notes"`
	Error  string              `json:"error,omitempty"`
}

// trainer does one training at a time.
type trainer struct {
	public func(string) string // a text for callers
	work   sync.WaitGroup

	mu     sync.Mutex
	jobs   map[string]*job
	busy   *job
	closed bool
}

type job struct {
	cancel context.CancelFunc

	mu     sync.Mutex
	status Status
}

func (j *job) change(f func(*Status)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.status)
}

// snapshot is the status with lists of its own.
func (j *job) snapshot() Status {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.status
	s.Epochs = append([]train.EpochRecord{}, s.Epochs...)
	s.Notes = append([]string{}, s.Notes...)
	return s
}

// start begins a training under a name and comes back at once.
func (t *trainer) start(name string, f func(context.Context, train.Events) (*train.Result, error)) (*job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errEnding
	}
	if t.busy != nil {
		return nil, requestError{http.StatusConflict, fmt.Errorf("%s is being trained; wait for it, or DELETE /train/%s", t.busy.status.Name, t.busy.status.Name)}
	}
	ctx, cancel := context.WithCancel(context.Background()) // not the request's: the training outlives it
	j := &job{cancel: cancel, status: Status{Name: name, State: running}}
	t.jobs[name], t.busy = j, j
	t.work.Go(func() {
		defer cancel()
		_, err := f(ctx, train.Events{
			Note:  func(text string) { j.change(func(s *Status) { s.Notes = append(s.Notes, t.public(text)) }) },
			Step:  func(x train.Step) { j.change(func(s *Status) { s.Step = x }) },
			Epoch: func(e train.EpochRecord) { j.change(func(s *Status) { s.Epochs = append(s.Epochs, e) }) },
		})
		t.mu.Lock()
		t.busy = nil
		t.mu.Unlock()
		j.change(func(s *Status) {
			var end *train.StoppedError
			switch {
			case err == nil:
				s.State = done
			case errors.As(err, &end):
				s.State, s.Error = stopped, t.public(err.Error())
			default:
				s.State, s.Error = failed, t.public(err.Error())
			}
		})
	})
	return j, nil
}

// stop ends the training in work and takes no other.
func (t *trainer) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.busy != nil {
		t.busy.cancel()
	}
}

func (t *trainer) find(name string) (*job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if j := t.jobs[name]; j != nil {
		return j, nil
	}
	return nil, requestError{http.StatusNotFound, fmt.Errorf("no training is called %q since the service began", name)}
}

// defaultSeed is that of spml train.
const defaultSeed = 1200

// maxSettings is the largest request of a training in bytes.
const maxSettings = 64 << 10

// startTraining takes the settings that a caller may choose; those that it leaves out have the defaults of spml train.
func (s *Service) startTraining(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		s.fail(w, requestError{http.StatusUnsupportedMediaType, errors.New("the settings of a training come as Content-Type: application/json")})
		return
	}
	var q struct {
		Name      string  `json:"name"`
		Data      string  `json:"data"` // a folder in Options.Data
		Method    string  `json:"method"`
		Backbone  string  `json:"backbone"`
		ImageSize int     `json:"image_size"`
		Epochs    int     `json:"epochs"`
		BatchSize int     `json:"batch_size"`
		LR        float64 `json:"lr"`
		Seed      uint32  `json:"seed"`
	}
	q.Seed = defaultSeed
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.bodyTime)) // a recorder of a test has none
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSettings))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) || errors.Is(err, os.ErrDeadlineExceeded) {
			s.fail(w, err)
			return
		}
		s.fail(w, requestError{http.StatusBadRequest, fmt.Errorf("the body is not the settings of a training: %w", err)})
		return
	}
	if err := errors.Join(checkName("run", q.Name), checkName("data set", q.Data)); err != nil {
		s.fail(w, err)
		return
	}
	c := config.Config{
		Data:     config.Data{Path: filepath.Join(s.o.Data, q.Data), ImageSize: q.ImageSize},
		Method:   config.Method{ID: q.Method},
		Model:    config.Model{Backbone: q.Backbone},
		Optim:    config.Optim{BatchSize: q.BatchSize, LR: q.LR},
		Schedule: config.Schedule{Epochs: q.Epochs},
		Run:      config.Run{Dir: filepath.Join(s.o.Runs, q.Name), Seed: q.Seed, Device: s.o.Device},
	}
	_, err := c.Resolve() // wrong settings are said now
	if err == nil {
		_, err = os.Stat(c.Data.Path)
		if errors.Is(err, fs.ErrNotExist) {
			err = requestError{http.StatusNotFound, fmt.Errorf("there is no data set %q", q.Data)}
		}
	}
	if _, exists := os.Stat(filepath.Join(c.Run.Dir, "run.yaml")); err == nil && exists == nil {
		err = fmt.Errorf("%w: %s; choose another name, or POST /train/%s/resume", rundir.ErrExists, q.Name, q.Name)
	}
	s.started(w, q.Name, err, func(ctx context.Context, ev train.Events) (*train.Result, error) {
		return train.Run(ctx, c, train.RunOptions{Events: ev})
	})
}

func (s *Service) resumeTraining(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	err := checkName("run", name)
	dir := filepath.Join(s.o.Runs, name)
	if err == nil {
		if _, no := os.Stat(filepath.Join(dir, "run.yaml")); no != nil {
			err = requestError{http.StatusNotFound, fmt.Errorf("there is no run %q", name)}
		}
	}
	s.started(w, name, err, func(ctx context.Context, ev train.Events) (*train.Result, error) {
		return train.Resume(ctx, dir, nil, train.RunOptions{Events: ev})
	})
}

// started starts a training unless err forbids it, and answers.
func (s *Service) started(w http.ResponseWriter, name string, err error, f func(context.Context, train.Events) (*train.Result, error)) {
	var j *job
	if err == nil {
		j, err = s.trainer.start(name, f)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	w.Header().Set("Location", "/train/"+name)
	reply(w, http.StatusAccepted, j.snapshot())
}

func (s *Service) training(w http.ResponseWriter, r *http.Request) {
	j, err := s.trainer.find(r.PathValue("name"))
	if err != nil {
		s.fail(w, err)
		return
	}
	reply(w, http.StatusOK, j.snapshot())
}

// stopTraining asks a training to end after its step; its status says when it has.
func (s *Service) stopTraining(w http.ResponseWriter, r *http.Request) {
	j, err := s.trainer.find(r.PathValue("name"))
	if err != nil {
		s.fail(w, err)
		return
	}
	j.cancel()
	reply(w, http.StatusAccepted, j.snapshot())
}
