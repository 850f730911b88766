package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/train"
)

// Options of a Service.
type Options struct {
	Data    string // folder of the data sets that may be trained on
	Runs    string // folder of the runs
	Model   string // run whose model tags photos at first; empty: none
	Workers int    // photos that are tagged at once; 0: one a core
	Device  string // of tagging, and of training where the request names none: auto, cpu, cuda or cuda:N
}

// Service tags photos with the model of one run and does one training at a time. It is safe for many goroutines.
type Service struct {
	o       Options
	trainer trainer

	model  sync.RWMutex // read while a photo is tagged, written while the model is changed
	tagger *model.Tagger
	run    string
}

// errNoModel is the error of tagging before there is a model.
var errNoModel = errors.New("no model yet; train one, then POST /model/NAME")

// New makes a service. Close it.
func New(o Options) (*Service, error) {
	s := &Service{o: o, trainer: trainer{jobs: map[string]*job{}}}
	if o.Model == "" {
		return s, nil
	}
	return s, s.use(o.Model)
}

// StopTraining asks the training in work to end after its step.
func (s *Service) StopTraining() { s.trainer.stop() }

// Close stops the training in work, waits for its checkpoint, and frees the model.
func (s *Service) Close() error {
	s.trainer.stop()
	s.trainer.work.Wait()
	return s.swap(nil, "")
}

// use loads the model of a run and tags with it from now on.
func (s *Service) use(run string) error {
	t, err := model.OpenTagger(filepath.Join(s.o.Runs, run), model.TaggerOptions{Workers: s.o.Workers, Device: s.o.Device})
	if err != nil {
		return err
	}
	return s.swap(t, run)
}

func (s *Service) swap(t *model.Tagger, run string) error {
	s.model.Lock() // the photos in work are done
	old := s.tagger
	s.tagger, s.run = t, run
	s.model.Unlock()
	if old == nil {
		return nil
	}
	return old.Close()
}

// Handler answers the service's requests.
func (s *Service) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	m.HandleFunc("POST /tag", s.tag)
	m.HandleFunc("POST /model/{name}", s.setModel)
	m.HandleFunc("POST /train", s.startTraining)
	m.HandleFunc("POST /train/{name}/resume", s.resumeTraining)
	m.HandleFunc("GET /train/{name}", s.training)
	m.HandleFunc("DELETE /train/{name}", s.stopTraining)
	return m
}

// maxPhoto is the largest photo in bytes.
const maxPhoto = 32 << 20

// tag answers a photo with its labels.
func (s *Service) tag(w http.ResponseWriter, r *http.Request) {
	photo, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPhoto))
	if err != nil {
		fail(w, err)
		return
	}
	s.model.RLock()
	defer s.model.RUnlock()
	if s.tagger == nil {
		fail(w, errNoModel)
		return
	}
	labels, err := s.tagger.Tag(r.Context(), photo)
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"model": s.run, "labels": labels})
}

func (s *Service) setModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	err := checkName("run", name)
	if err == nil {
		err = s.use(name)
	}
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]string{"model": name})
}

// requestError is an error of the caller's with the status that says which.
type requestError struct {
	status int
	error
}

// names of runs and data sets: no path leads out of their folders.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func checkName(what, name string) error {
	if !validName.MatchString(name) {
		return requestError{http.StatusBadRequest, fmt.Errorf("%q is no name of a %s: letters, digits, - and _ only", name, what)}
	}
	return nil
}

// fail answers with an error and its status.
func fail(w http.ResponseWriter, err error) {
	var (
		request requestError
		large   *http.MaxBytesError
		config  *train.ConfigError
	)
	is := func(targets ...error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return false
	}
	status := http.StatusInternalServerError
	switch {
	case errors.As(err, &request):
		status = request.status
	case errors.As(err, &large), is(pixel.ErrTooLarge):
		status = http.StatusRequestEntityTooLarge
	case is(pixel.ErrDamaged, pixel.ErrUnknownFormat), is(train.ErrData):
		status = http.StatusUnprocessableEntity
	case errors.As(err, &config):
		status = http.StatusBadRequest
	case is(train.ErrRunExists):
		status = http.StatusConflict
	case is(errNoModel):
		status = http.StatusServiceUnavailable
	case is(context.Canceled):
		status = 499 // the caller has gone; nobody reads it
	}
	reply(w, status, map[string]string{"error": err.Error()})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails where the caller has gone
}
