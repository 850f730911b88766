package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/amp"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
	"github.com/gospml/gospml/torch/safetensors"
)

// Names inside a run's checkpoints folder: a folder for each checkpoint, and a file with the name of the newest,
// written last.
const (
	checkpoints   = "checkpoints"
	latestFile    = "latest"
	manifestFile  = "manifest.json"
	tensorsFile   = "state.safetensors"
	checkpointPre = "step-"
	unfinishedPre = ".unfinished-"
)

// manifest is manifest.json of a checkpoint.
type manifest struct {
	Format    int                `json:"format"`
	Position  position           `json:"position"`
	Optimizer optim.State        `json:"optimizer"`
	Numbers   map[string]float64 `json:"estimator,omitempty"`
	Scaler    *amp.State         `json:"scaler,omitempty"` // of fp16
	Where     rundir.Environment `json:"environment"`
	Files     []fileSum          `json:"files"`
}

type fileSum struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

const manifestFormat = 1

// StoppedError says that a run ended early and can go on.
type StoppedError struct {
	Cause      error  // the context's cause, or that the budget of steps is used up
	Step       int    // steps taken
	Checkpoint string // its folder; empty where there is no run directory, or no step was taken
}

func (e *StoppedError) Error() string {
	switch {
	case e.Checkpoint != "":
		return fmt.Sprintf("stopped after step %d (%v); checkpoint %s, go on with --resume", e.Step, e.Cause, e.Checkpoint)
	case e.Step == 0:
		return fmt.Sprintf("stopped before the first step (%v); nothing to save", e.Cause)
	}
	return fmt.Sprintf("stopped after step %d (%v); no run directory, so nothing was saved", e.Step, e.Cause)
}

func (e *StoppedError) Unwrap() error { return e.Cause }

// ErrStop as the cause of a cancelled context asks a run to save and end, as SIGTERM does.
var ErrStop = errors.New("stop requested")

var errBudget = errors.New("the budget of steps is used up")

// stopped turns the end by context or budget into a checkpoint and its error; other errors stay.
func (t *trainer) stopped(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(err, errBudget) {
		cause = err
	} else if cause == nil || !errors.Is(err, ctx.Err()) && !errors.Is(err, cause) {
		return err
	}
	s := &StoppedError{Cause: cause, Step: t.p.Step}
	if t.dir.Path() == "" || t.p.Step == 0 {
		return s
	}
	if err := t.flush(); err != nil {
		return err
	}
	if err := t.saver.save(); err != nil {
		return errors.Join(err, s)
	}
	s.Checkpoint = filepath.Join(t.dir.Path(), checkpoints, t.saver.newest)
	return s
}

// saver writes a run's checkpoints.
type saver struct {
	t      *trainer
	dir    string // empty: none are written
	every  time.Duration
	steps  int
	last   time.Time
	newest string // name of the newest checkpoint of this process
	failed error  // of the last save
	where  rundir.Environment
}

// frozenInterval is how often a run on features saves where nothing else is asked: its epochs take less than a second.
const frozenInterval = 30 * time.Second

func newSaver(t *trainer) *saver {
	s := &saver{t: t, last: time.Now()}
	if t.dir.Path() != "" && !t.c.Run.SaveEvery.Off {
		s.dir = filepath.Join(t.dir.Path(), checkpoints)
	}
	s.every, s.steps = t.c.Run.SaveEvery.Time, t.c.Run.SaveEvery.Steps
	if t.c.Run.SaveEvery == (config.SaveEvery{}) && t.c.Model.Mode == config.Frozen {
		s.every = frozenInterval
	}
	return s
}

// due says whether time or steps ask for a checkpoint.
func (s *saver) due() bool {
	return s.every > 0 && time.Since(s.last) >= s.every || s.steps > 0 && s.t.p.Step > 0 && s.t.p.Step%s.steps == 0
}

func (s *saver) afterStep() error {
	if s.dir == "" || !s.due() {
		return nil
	}
	if err := s.t.flush(); err != nil {
		return err
	}
	return s.try()
}

func (s *saver) endOfEpoch(EpochRecord) error {
	if s.dir == "" || s.every > 0 && !s.due() && s.t.p.Done == "" {
		return nil
	}
	return s.try()
}

// try saves; a first failure is said and training goes on, a second in a row, or one at the run's end, is an error.
func (s *saver) try() error {
	err := s.save()
	if err == nil {
		s.failed = nil
		return nil
	}
	if s.failed != nil || s.t.p.Done != "" {
		return err
	}
	s.failed = err
	s.t.ev.Say(fmt.Sprintf("the checkpoint could not be written, the one before is untouched: %v", err))
	return nil
}

// name sorts by time.
func (p *position) name() string {
	phase := 0
	switch {
	case p.Labelled:
		phase = 2
	case p.Trained:
		phase = 1
	case p.Batch == 0:
		phase = 3 // after the epoch that ended with this step
	}
	return fmt.Sprintf("%s%09d-%d", checkpointPre, p.Step, phase)
}

// save writes a checkpoint: into a folder of another name, which is then renamed; then the pointer; then it removes
// what is too old.
func (s *saver) save() (err error) {
	t := s.t
	if s.dir == "" { // a stop is saved even where none were asked for
		s.dir = filepath.Join(t.dir.Path(), checkpoints)
	}
	s.last = time.Now()
	name := t.p.name()
	if name == s.newest { // of this moment, written or read just now
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	temp := filepath.Join(s.dir, unfinishedPre+name)
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	if err := os.Mkdir(temp, 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	p := t.p
	if p.Random == nil {
		if p.Random, err = t.random.MarshalBinary(); err != nil {
			return err
		}
	}
	m := manifest{Format: manifestFormat, Position: p, Where: s.where}
	var sd nn.StateDict
	if e := torch.Try(func() { sd, m.Optimizer, m.Numbers = t.tensors() }); e != nil {
		return e
	}
	if t.step.Scaler != nil {
		st := t.step.Scaler.StateDict()
		m.Scaler = &st
	}
	path := filepath.Join(temp, tensorsFile)
	sum, err := nn.SaveSafetensorsSum(path, sd, map[string]string{"format": "pt"})
	if err != nil {
		return err
	}
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	m.Files = []fileSum{{tensorsFile, st.Size(), sum}}
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(temp, manifestFile), 0o644, append(b, '\n')); err != nil {
		return err
	}
	final := filepath.Join(s.dir, name)
	if err := os.RemoveAll(final); err != nil { // of the same moment: damaged, or equal
		return err
	}
	if err := atomicfile.Rename(temp, final); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(s.dir); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(s.dir, latestFile), 0o644, []byte(name+"\n")); err != nil {
		return err
	}
	s.newest = name
	return s.prune()
}

func sumFile(path string) (fileSum, error) {
	sum, err := safetensors.Hash(path)
	if err != nil {
		return fileSum{}, err
	}
	st, err := os.Stat(path)
	if err != nil {
		return fileSum{}, err
	}
	return fileSum{filepath.Base(path), st.Size(), sum}, nil
}

// tensors are all tensors of the run by key, with what goes beside them.
func (t *trainer) tensors() (nn.StateDict, optim.State, map[string]float64) {
	sd := nn.StateDict{"generator": t.torch.State()}
	for k, x := range t.l.state() {
		sd["model."+k] = x.Detach()
	}
	o := t.step.Optimizer.StateDict()
	for k, x := range o.Tensors {
		sd["optimizer."+k] = x
	}
	e := t.step.Estimator.State()
	for k, x := range e.Tensors {
		sd["estimator."+k] = x.Detach()
	}
	if t.ema != nil {
		for k, x := range t.ema.StateDict() {
			sd["ema."+k] = x
		}
	}
	return sd, o, e.Numbers
}

// list names the finished checkpoints, the newest first.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), checkpointPre) {
			names = append(names, e.Name())
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(names)))
	return names, err
}

// prune removes checkpoints that are neither among the newest nor among the best, and remains of broken saves.
func (s *saver) prune() error {
	names, err := list(s.dir)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, n := range names[:min(max(s.t.c.Run.KeepLast, 1), len(names))] {
		keep[n] = true
	}
	if s.t.c.Run.KeepBest > 0 {
		type scored struct {
			name string
			val  float64
		}
		var ended []scored
		for _, n := range names {
			m, err := readManifest(filepath.Join(s.dir, n))
			if err == nil && m.Position.Batch == 0 && len(m.Position.Epochs) > 0 {
				ended = append(ended, scored{n, m.Position.Epochs[len(m.Position.Epochs)-1].ValMAP})
			}
		}
		sort.SliceStable(ended, func(i, j int) bool { return ended[i].val > ended[j].val })
		for _, e := range ended[:min(s.t.c.Run.KeepBest, len(ended))] {
			keep[e.name] = true
		}
	}
	for _, n := range names {
		if !keep[n] {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, n)))
		}
	}
	return err
}

func readManifest(dir string) (manifest, error) {
	var m manifest
	b, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%s: %w", manifestFile, err)
	}
	if m.Format != manifestFormat {
		return m, fmt.Errorf("%s has format %d, this program reads %d", manifestFile, m.Format, manifestFormat)
	}
	return m, nil
}

// oldNumbers gives the numbers of the estimator's state in the newest checkpoint whose manifest can be read.
func oldNumbers(run string) (numbers map[string]float64, there bool) {
	if run == "" {
		return nil, false
	}
	dir := filepath.Join(run, checkpoints)
	names, err := list(dir)
	if err != nil {
		return nil, false // resuming says why
	}
	for _, n := range names {
		if m, err := readManifest(filepath.Join(dir, n)); err == nil {
			return m.Numbers, true
		}
	}
	return nil, false
}

// load reads a checkpoint after comparing its files with the manifest.
func load(dir string) (m manifest, sd nn.StateDict, err error) {
	if m, err = readManifest(dir); err != nil {
		return m, nil, err
	}
	if len(m.Files) != 1 || m.Files[0].Name != tensorsFile {
		return m, nil, fmt.Errorf("%s names other files than %s", manifestFile, tensorsFile)
	}
	sum, err := sumFile(filepath.Join(dir, tensorsFile))
	if err != nil {
		return m, nil, err
	}
	if sum != m.Files[0] {
		return m, nil, fmt.Errorf("%s has %d bytes with SHA-256 %.8s…, the manifest says %d and %.8s…", sum.Name, sum.Size, sum.SHA256, m.Files[0].Size, m.Files[0].SHA256)
	}
	sd, _, err = nn.LoadSafetensors(filepath.Join(dir, tensorsFile))
	return m, sd, err
}

// resume puts t where the newest sound checkpoint of a run directory stands; without one t stays at the start. Of
// several processes the first chooses.
func (t *trainer) resume(run string, env rundir.Environment) error {
	dir := filepath.Join(run, checkpoints)
	var err error
	if t.procs.Rank() == 0 {
		err = t.resumeNewest(dir, env)
	}
	name, err := t.procs.first(err, t.saver.newest)
	if err != nil || t.procs.Rank() == 0 || name == "" {
		return err
	}
	m, sd, err := load(filepath.Join(dir, name))
	if err == nil {
		err = t.restore(m, sd)
	}
	if err != nil {
		return fmt.Errorf("%s, which process 0 has read: %w; all processes must see the same run directory", name, err)
	}
	return nil
}

func (t *trainer) resumeNewest(dir string, env rundir.Environment) error {
	names, err := list(dir)
	if err != nil {
		return err
	}
	if b, err := os.ReadFile(filepath.Join(dir, latestFile)); err == nil {
		// The pointer is written last: what sorts after it may be whole, but a pointer that leads nowhere means nothing.
		if i := slices.Index(names, strings.TrimSpace(string(b))); i > 0 {
			names = append([]string{names[i]}, slices.Delete(slices.Clone(names), i, i+1)...)
		}
	}
	var damaged []string
	for _, name := range names {
		m, sd, err := load(filepath.Join(dir, name))
		if err == nil {
			err = t.sameData(m.Where, env)
			if err != nil {
				return err
			}
			err = t.restore(m, sd)
		}
		if err != nil {
			damaged = append(damaged, fmt.Sprintf("%s is damaged (%v)", name, err))
			continue
		}
		t.saver.newest = name
		t.warn(damaged, fmt.Sprintf("going on from %s: epoch %d, step %d", name, t.p.Epoch, t.p.Step), m.Where, env)
		return nil
	}
	t.warn(damaged, "no checkpoint to go on from: starting at the beginning", env, env)
	if t.p.Step > 0 || len(damaged) > 0 { // a failed restore may have left half a state
		return t.restart()
	}
	return nil
}

// warn says in one line what was found.
func (t *trainer) warn(damaged []string, found string, old, now rundir.Environment) {
	if len(damaged) > 0 {
		found = "warning: " + strings.Join(damaged, "; ") + "; " + found
	}
	var other []string
	for _, x := range []struct{ what, was, is string }{
		{"device", old.Where(), now.Where()}, {"threads", fmt.Sprint(old.Threads), fmt.Sprint(now.Threads)},
		{"CPU capability", old.CPU, now.CPU}, {"libtorch", old.Libtorch, now.Libtorch},
		{"precision", old.Precision, now.Precision},
		{"processes", fmt.Sprint(max(old.Processes, 1)), fmt.Sprint(max(now.Processes, 1))},
	} {
		if x.was != x.is {
			other = append(other, fmt.Sprintf("%s %s, was %s", x.what, x.is, x.was))
		}
	}
	if other != nil {
		found += "; the last bits may differ from an uninterrupted run: " + strings.Join(other, ", ")
	}
	t.ev.Say(found)
}

// sameData refuses to go on with other data than those that the run began with.
func (t *trainer) sameData(old, now rundir.Environment) error {
	for _, x := range []struct{ what, was, is string }{
		{"the data set", old.DataSHA256, now.DataSHA256}, {"the observed labels", old.ObservedSHA, now.ObservedSHA}, {"the weights", old.WeightsSHA256, now.WeightsSHA256}, {"the features", old.Features, now.Features},
	} {
		if x.was != x.is {
			return fmt.Errorf("%w: %s changed since the checkpoint; start another run", ErrData, x.what)
		}
	}
	return nil
}

// restore puts a checkpoint's contents into t.
func (t *trainer) restore(m manifest, sd nn.StateDict) (err error) {
	groups := map[string]nn.StateDict{"model": {}, "optimizer": {}, "estimator": {}, "ema": {}}
	for k, x := range sd {
		if kind, rest, ok := strings.Cut(k, "."); ok && groups[kind] != nil {
			groups[kind][rest] = x
		}
	}
	var bad error
	err = torch.Try(func() {
		torch.NoGrad(func() {
			if bad = copyInto(t.l.state(), groups["model"]); bad != nil {
				return
			}
			if t.ema != nil {
				if bad = copyInto(t.ema.StateDict(), groups["ema"]); bad != nil {
					return
				}
			}
			m.Optimizer.Tensors = groups["optimizer"]
			if bad = t.step.Optimizer.LoadStateDict(m.Optimizer); bad != nil {
				return
			}
			if bad = t.step.Estimator.LoadState(label.State{Tensors: groups["estimator"], Numbers: m.Numbers}); bad != nil {
				return
			}
			if t.step.Scaler != nil && m.Scaler != nil {
				if bad = t.step.Scaler.LoadStateDict(*m.Scaler); bad != nil {
					return
				}
			}
			if g := sd["generator"]; g != nil {
				t.torch.SetState(g)
			}
		})
	})
	sd.Free()
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	if err := t.random.UnmarshalBinary(m.Position.Random); err != nil {
		return err
	}
	t.p = m.Position
	if t.p.Trained { // the epoch's draws are behind
		n := len(t.l.usable())
		t.random.Permutation(n)
		if *t.c.Data.Flip {
			for range n {
				t.random.RandomSample()
			}
		}
	}
	return t.dir.Metrics(t.p.Epochs)
}

// restart puts t at the beginning again.
func (t *trainer) restart() error {
	fresh, err := newSession(t.c, t.ds, t.ev)
	if err != nil {
		return err
	}
	fresh.procs = t.procs
	again, err := newTrainer(context.Background(), fresh, t.dir)
	if err != nil {
		return err
	}
	err = t.l.close()
	again.saver.where = t.saver.where
	again.saver.newest = ""
	*t = *again
	t.saver.t = t
	return err
}

func copyInto(to, from nn.StateDict) error {
	for k, x := range to {
		y := from[k]
		if y == nil || !slices.Equal(x.Shape(), y.Shape()) || x.DType() != y.DType() {
			return fmt.Errorf("tensor %q of the checkpoint does not fit this run", k)
		}
	}
	for k, x := range to {
		x.Detach().Copy_(from[k])
	}
	return nil
}

// tracedSteps is how many first steps a run records for Verify.
const tracedSteps = 20

// traceStep records the hash of all weights after one of the first steps.
func (t *trainer) traceStep() error {
	if t.dir.Path() == "" && !t.traced || t.p.Step > tracedSteps {
		return nil
	}
	t.p.Trace = append(t.p.Trace, stateHash(t.l.state()))
	if t.p.Step == tracedSteps {
		return t.dir.JSON(traceFile, t.p.Trace)
	}
	return nil
}

const traceFile = "steps.json"

// stateHash is the SHA-256 of names and values.
func stateHash(sd nn.StateDict) string {
	h := sha256.New()
	for _, k := range sd.Keys() {
		fmt.Fprintln(h, k)
		torch.Scope(func(*torch.Arena) {
			x := sd[k].Detach().ToDevice(torch.CPU).Contiguous()
			switch x.DType() {
			case torch.Float32:
				torch.View(x, func(v []float32) { h.Write(bytesOf(v)) })
			case torch.Int64:
				torch.View(x, func(v []int64) { h.Write(bytesOf(v)) })
			default:
				fmt.Fprintln(h, torch.ToSlice[float64](x.ToDType(torch.Float64)))
			}
		})
	}
	return hex.EncodeToString(h.Sum(nil))
}
