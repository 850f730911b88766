package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
)

// Options of a Service.
type Options struct {
	Data    string   // folder of the data sets that may be trained on
	Runs    string   // folder of the runs
	Model   string   // run whose model tags photos at first; empty: none
	Workers int      // photos that are tagged at once; 0: one a core
	Device  string   // of tagging, and of training where the request names none: auto, cpu, cuda or cuda:N
	Hosts   []string // names of the service where it listens on a loopback address, beside localhost
	Bodies  int      // photos that are in memory at once, of 32 MB at most; 0: 16
	// EXIF says what is done with the orientation of a photo: apply or ignore; empty: what its model was trained with.
	// MaxPixels bounds a photo; 0: 64 megapixels.
	EXIF      string
	MaxPixels int64
}

// Service tags photos with the model of one run and does one training at a time. It is safe for many goroutines.
type Service struct {
	o       Options
	trainer trainer
	bodies  chan struct{} // has an element for each photo in memory
	loads   chan struct{} // has an element while a model is loaded and the one before it is freed

	mu     sync.Mutex
	model  *served
	closed bool

	shutdownTime, closeTime, bodyTime, waitTime time.Duration // bodyTime: for a photo to arrive; waitTime: for room for it
}

// tagger is what the service uses of model.Tagger.
type tagger interface {
	Tag(ctx context.Context, photo []byte) ([]model.Label, error)
	CloseContext(ctx context.Context) error
}

// served is a loaded model with the requests that use it: it is freed after the last of them.
type served struct {
	tagger
	run   string
	users sync.WaitGroup
}

// close frees the model once nobody uses it, or gives ctx's error.
func (m *served) close(ctx context.Context) error {
	if m == nil {
		return nil
	}
	free := make(chan struct{})
	go func() { m.users.Wait(); close(free) }()
	select {
	case <-free:
	case <-ctx.Done(): // CloseContext says that photos are in work
	}
	return m.CloseContext(ctx)
}

// Errors of the service's state.
var (
	errNoModel = requestError{http.StatusServiceUnavailable, errors.New("no model yet; train one, then POST /model/NAME")}
	errEnding  = requestError{http.StatusServiceUnavailable, errors.New("the service is ending")}
	errLoading = requestError{http.StatusServiceUnavailable, errors.New("another model is being loaded; try again")}
	errFull    = requestError{http.StatusServiceUnavailable, errors.New("too many photos are in work; try again")}
)

// New makes a service. Close it.
func New(o Options) (*Service, error) {
	if o.Bodies < 1 {
		o.Bodies = 16
	}
	s := &Service{
		o: o, trainer: trainer{jobs: map[string]*job{}}, bodies: make(chan struct{}, o.Bodies), loads: make(chan struct{}, 1),
		shutdownTime: shutdownTime, closeTime: closeTime, bodyTime: 30 * time.Second, waitTime: 30 * time.Second,
	}
	s.trainer.public = s.public
	if o.Model == "" {
		return s, nil
	}
	return s, s.use(context.Background(), o.Model)
}

// StopTraining asks the training in work to end after its step.
func (s *Service) StopTraining() { s.trainer.stop() }

// Close stops the training in work, waits for its checkpoint, and frees the model.
func (s *Service) Close() error { return s.CloseContext(context.Background()) }

// CloseContext is Close that waits no longer than ctx.
func (s *Service) CloseContext(ctx context.Context) error {
	s.trainer.stop()
	saved := make(chan struct{})
	go func() { s.trainer.work.Wait(); close(saved) }()
	var err error
	select {
	case <-saved:
	case <-ctx.Done():
		err = fmt.Errorf("the training had not ended: %w", ctx.Err())
	}
	s.mu.Lock()
	old := s.model
	s.model, s.closed = nil, true
	s.mu.Unlock()
	return errors.Join(err, old.close(ctx))
}

// use loads the model of a run and tags with it from now on. At most two models are in memory: a load holds its place
// until the model before is freed.
func (s *Service) use(ctx context.Context, run string) error {
	select {
	case s.loads <- struct{}{}:
	default:
		return errLoading
	}
	t, err := model.OpenTagger(filepath.Join(s.o.Runs, run), model.TaggerOptions{Workers: s.o.Workers, Device: s.o.Device, EXIF: s.o.EXIF, MaxPixels: s.o.MaxPixels})
	if err != nil {
		<-s.loads
		return err
	}
	return s.swap(ctx, &served{tagger: t, run: run})
}

// swap begins to use a model and waits for the end of the one before, but not longer than the caller does.
func (s *Service) swap(ctx context.Context, m *served) error {
	s.mu.Lock()
	old := s.model
	if s.closed {
		old = m
	} else {
		s.model = m
	}
	closed := s.closed
	s.mu.Unlock()
	freed := make(chan error, 1)
	go func() {
		freed <- old.close(context.Background())
		<-s.loads
	}()
	if closed {
		return errEnding
	}
	select {
	case err := <-freed:
		return err
	case <-ctx.Done():
		return nil // the new model is in use
	}
}

// using gives the model, which stays until done is called.
func (s *Service) using() (m *served, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, errEnding
	case s.model == nil:
		return nil, nil, errNoModel
	}
	m = s.model
	m.users.Add(1)
	return m, m.users.Done, nil
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
	sites := http.NewCrossOriginProtection() // Sec-Fetch-Site, else Origin: programs send neither
	sites.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.fail(w, requestError{http.StatusForbidden, errors.New("a page of another site may not use this service")})
	}))
	return s.checkHost(sites.Handler(m))
}

// checkHost refuses names of strangers on a loopback address: a page whose own name was pointed here would count as of
// this site.
func (s *Service) checkHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if local != nil && local.IP.IsLoopback() {
			name := r.Host
			if host, _, err := net.SplitHostPort(name); err == nil {
				name = host
			}
			if ip := net.ParseIP(strings.Trim(name, "[]")); name != "localhost" && !(ip != nil && ip.IsLoopback()) && !slices.Contains(s.o.Hosts, name) {
				s.fail(w, requestError{http.StatusForbidden, fmt.Errorf("%q is no name of this service; -hosts adds one", name)})
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// maxPhoto is the largest photo in bytes.
const maxPhoto = 32 << 20

// tag answers a photo with its labels.
func (s *Service) tag(w http.ResponseWriter, r *http.Request) {
	m, done, err := s.using()
	if err == nil {
		defer done()
		var photo []byte
		var free func()
		if photo, free, err = s.body(w, r); err == nil {
			defer free()
			var labels []model.Label
			if labels, err = m.Tag(r.Context(), photo); err == nil {
				reply(w, http.StatusOK, map[string]any{"model": m.run, "labels": labels})
				return
			}
		}
	}
	s.fail(w, err)
}

// body reads a photo once there is room for it; free gives the room back.
func (s *Service) body(w http.ResponseWriter, r *http.Request) (photo []byte, free func(), err error) {
	if r.ContentLength > maxPhoto {
		return nil, nil, &http.MaxBytesError{Limit: maxPhoto}
	}
	wait := time.NewTimer(s.waitTime)
	defer wait.Stop()
	select {
	case s.bodies <- struct{}{}:
	case <-wait.C:
		return nil, nil, errFull
	case <-r.Context().Done():
		return nil, nil, r.Context().Err()
	}
	free = func() { <-s.bodies }
	if err = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.bodyTime)); err == nil {
		photo, err = io.ReadAll(http.MaxBytesReader(w, r.Body, maxPhoto))
	}
	if err != nil {
		free()
		return nil, nil, err
	}
	return photo, free, nil
}

func (s *Service) setModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	err := checkName("run", name)
	if err == nil {
		err = s.use(r.Context(), name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = requestError{http.StatusNotFound, fmt.Errorf("there is no run %q with a model", name)}
	}
	if err != nil {
		s.fail(w, err)
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

// public is a text without the folders of the service: callers have no use for them.
func (s *Service) public(text string) string {
	for _, dir := range []string{s.o.Runs, s.o.Data} {
		if abs, err := filepath.Abs(dir); err == nil {
			text = strings.ReplaceAll(text, abs+string(filepath.Separator), "")
		}
		text = strings.ReplaceAll(text, filepath.Clean(dir)+string(filepath.Separator), "")
	}
	return text
}

// fail answers with an error and its status. What is wrong with the service itself stands in its log.
func (s *Service) fail(w http.ResponseWriter, err error) {
	var (
		request requestError
		large   *http.MaxBytesError
		setting *config.Error
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
	case errors.As(err, &setting):
		status = http.StatusBadRequest
	case is(rundir.ErrExists):
		status = http.StatusConflict
	case is(context.Canceled):
		status = 499 // the caller has gone; nobody reads it
	case is(io.ErrUnexpectedEOF): // the body ends before its length; after decoding, so that a cut photo is none
		status = http.StatusBadRequest
	case is(os.ErrDeadlineExceeded):
		status = http.StatusRequestTimeout
		w.Header().Set("Connection", "close")
	}
	text := s.public(err.Error())
	switch status {
	case http.StatusInternalServerError:
		log.Printf("%v", err)
		text = "the service failed; its log says why"
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	reply(w, status, map[string]string{"error": text})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails where the caller has gone
}
