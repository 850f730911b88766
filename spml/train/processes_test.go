package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
	"github.com/gospml/gospml/torch/nn"
)

// worker is the environment variable that makes the test program one of several training processes: the folder with its
// jobs.
const worker = "GOSPML_TEST_WORKER"

// faulty makes process 1 fail in its third step.
const faulty = "GOSPML_TEST_FAULT"

// job is a run that a group does; runs of one group follow each other.
type job struct {
	Config config.Config
	Resume bool
}

// account is what a process says of a job.
type account struct {
	Hash   string // of the weights at the end
	Error  string
	Epochs []EpochRecord
	Places [][]int // of each batch that it saw
	Broken []string
}

// recorder notes which places come.
type recorder struct {
	learner
	seen *[][]int
}

func (r recorder) batches(ctx context.Context, order []int, flip []bool, start int) iter.Seq2[*view, error] {
	return func(yield func(*view, error) bool) {
		for v, err := range r.learner.batches(ctx, order, flip, start) {
			if v != nil {
				*r.seen = append(*r.seen, slices.Clone(v.places))
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// work is the program of a process.
func work() int {
	dir := os.Getenv(worker)
	b, err := os.ReadFile(filepath.Join(dir, "jobs.json"))
	var jobs []job
	if err == nil {
		err = json.Unmarshal(b, &jobs)
	}
	if err == nil {
		err = torch.SetNumThreads(1)
	}
	procs, e := Join(time.Minute)
	if err = errors.Join(err, e); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if procs.Rank() == 1 && os.Getenv(faulty) != "" {
		faults.beforeStep = func(t *trainer) {
			if t.p.Step == 2 {
				outOfMemory()
			}
		}
	}
	var all []account
	for _, j := range jobs {
		var r account
		c, err := j.Config.Ready()
		if err == nil {
			var res *Result
			err = compute.Guard(func() (err error) {
				defer func() { err = procs.settle(err) }()
				done := false
				res, err = run(context.Background(), c, RunOptions{Processes: procs}, j.Resume, func(t *trainer) {
					if !done {
						t.l, done = recorder{t.l, &r.Places}, true
						return
					}
					r.Hash = stateHash(t.l.state())
				})
				return err
			})
			if res != nil {
				r.Epochs = res.Epochs
				for _, b := range res.Broken {
					r.Broken = append(r.Broken, b.Name)
				}
			}
		}
		if err != nil {
			r.Error = err.Error()
			var stopped *StoppedError
			if !errors.As(err, &stopped) {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
		all = append(all, r)
	}
	if err := procs.Close(nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if b, err = json.Marshal(all); err == nil {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("report-%d.json", procs.Rank())), b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

type process struct {
	*exec.Cmd
	out bytes.Buffer
}

// launch starts size processes as torchrun does: this one hosts their store.
func launch(t *testing.T, dir string, size, restart int, jobs []job) []*process {
	t.Helper()
	b, err := json.Marshal(jobs)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "jobs.json"), b, 0o644))
	store, err := dist.NewTCPStore("127.0.0.1", 0, true, 0, time.Minute)
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	var ps []*process
	for rank := range size {
		p := &process{Cmd: exec.Command(os.Args[0])}
		p.Env = append(os.Environ(), worker+"="+dir,
			fmt.Sprint("RANK=", rank), fmt.Sprint("LOCAL_RANK=", rank), fmt.Sprint("WORLD_SIZE=", size), fmt.Sprint("LOCAL_WORLD_SIZE=", size),
			"MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", store.Port()), "TORCHELASTIC_RUN_ID=test", "TORCHELASTIC_USE_AGENT_STORE=True",
			fmt.Sprint("TORCHELASTIC_RESTART_COUNT=", restart), "OMP_NUM_THREADS=1")
		p.Stdout, p.Stderr = &p.out, &p.out
		require.NoError(t, p.Start())
		t.Cleanup(func() { p.Process.Kill() })
		ps = append(ps, p)
	}
	return ps
}

// together runs a group to its end and gives the reports, by rank and job.
func together(t *testing.T, size int, jobs []job) [][]account {
	t.Helper()
	dir := t.TempDir()
	var out [][]account
	ps := launch(t, dir, size, 0, jobs)
	for rank, p := range ps {
		require.NoError(t, p.Wait(), "rank %d: %s", rank, &p.out)
	}
	for rank := range ps {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("report-%d.json", rank)))
		require.NoError(t, err)
		var r []account
		require.NoError(t, json.Unmarshal(b, &r))
		out = append(out, r)
	}
	return out
}

// lastWeights are the model's tensors of a run's newest checkpoint.
func lastWeights(t *testing.T, run string) nn.StateDict {
	names, err := list(filepath.Join(run, checkpoints))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	_, sd, err := load(filepath.Join(run, checkpoints, names[0]))
	require.NoError(t, err)
	for k := range sd {
		if !strings.HasPrefix(k, "model.") && !strings.HasPrefix(k, "estimator.") && !strings.HasPrefix(k, "ema.") {
			delete(sd, k)
		}
	}
	return sd
}

// near compares runs tensor by tensor: |a - b| ≤ tol·max(1, |b|); maps in 8 bits may differ by one level.
func near(t *testing.T, want, got nn.StateDict, tol float64) {
	t.Helper()
	require.Equal(t, want.Keys(), got.Keys())
	for _, k := range want.Keys() {
		a, b := torch.ToSlice[float64](want[k]), torch.ToSlice[float64](got[k])
		tol := tol
		if want[k].DType() == torch.Uint8 {
			tol = 1
		}
		require.Equal(t, len(a), len(b), k)
		for i := range a {
			require.LessOrEqual(t, max(a[i]-b[i], b[i]-a[i]), tol*max(1, a[i], -a[i]), "%s, element %d: %v and %v", k, i, a[i], b[i])
		}
	}
}

// TestProcessesEqualOne: two processes train to the weights, estimates and scores of one, for losses that see the whole
// batch, estimators that learn, live batch normalisation, latents, decoders, micro-batches and a photo that cannot be
// read.
func TestProcessesEqualOne(t *testing.T) {
	dir := folder(t, 40) // 24 training rows: batches of 12, 12; or 10, 10, 4
	require.NoError(t, os.WriteFile(filepath.Join(dir, "images", "011.png"), []byte("no picture"), 0o644))
	values := make([]float32, 40*8)
	for i := range values {
		values[i] = float32(math.Sin(float64(i * i)))
	}
	a, err := npy.New([]int64{40, 8}, values)
	require.NoError(t, err)
	features := filepath.Join(dir, "features.npy")
	require.NoError(t, npy.Write(features, a))
	yes := true
	cases := []struct {
		name   string
		change func(*config.Config)
	}{
		{
			"live statistics, an, flips, average",
			func(c *config.Config) { c.Model.BatchNorm, c.Data.Flip, c.Optim.EMA = config.BatchNormLive, &yes, 0.9 },
		},
		{
			"live statistics, epr",
			func(c *config.Config) { c.Model.BatchNorm, c.Method.ID = config.BatchNormLive, "epr" },
		},
		{
			"an, flips, average, clipping",
			func(c *config.Config) { c.Data.Flip, c.Optim.EMA, c.Optim.ClipNorm = &yes, 0.9, 0.5 },
		},
		{"an, micro-batches", func(c *config.Config) { c.Optim.MicroBatch = 2 }},
		{"epr, micro-batches", func(c *config.Config) { c.Method.ID, c.Optim.MicroBatch = "epr", 4 }},
		{"role", func(c *config.Config) { c.Method.ID = "role" }},
		{"em-apl", func(c *config.Config) { c.Method.ID, c.Method.Params = "em-apl", map[string]float64{"warmup": 1} }},
		{"ll-cp", func(c *config.Config) { c.Method.ID, c.Method.Params = "ll-cp", map[string]float64{"delta_rel": 0.05} }},
		{"l1r", func(c *config.Config) { c.Method.ID, c.Method.Params = "l1r", map[string]float64{"lam": 0.01} }},
		{"en-scl, flips", func(c *config.Config) { c.Method.ID, c.Data.Flip = "en-scl", &yes }},
		{"mime", func(c *config.Config) { c.Method.ID, c.Method.LatentDim = "mime", 8 }},
		{"smile", func(c *config.Config) { c.Method.ID, c.Method.LatentDim = "smile", 8 }},
		{"lac", func(c *config.Config) {
			c.Method.ID, c.Model.DecoderDim, c.Method.QueueSize, c.Stages.Count = "lac", 16, 32, 1
		}},
		{"features, an", func(c *config.Config) { c.Model.Mode, c.Model.Features = config.Frozen, config.Paths{features} }},
		{"features, mime", func(c *config.Config) {
			c.Model.Mode, c.Model.Features, c.Method.ID, c.Method.LatentDim = config.Frozen, config.Paths{features}, "mime", 8
		}},
	}
	var jobs []job
	runs := t.TempDir()
	for i, k := range cases {
		c := small(dir, "an")
		// Plain gradient descent: Adam divides rounding by rounding where a gradient is 0.
		c.Schedule.Epochs, c.Optim.BatchSize, c.Run.Threads = 2, 10, 1
		c.Optim.Name, c.Optim.Momentum, c.Optim.LR, c.Run.SaveEvery = "sgd", 0.9, 1e-3, config.SaveEvery{
			Steps: 1000,
		}
		c.Model.BatchNorm = config.BatchNormFrozen
		k.change(&c)
		c.Run.Dir = filepath.Join(runs, fmt.Sprint("two-", i))
		jobs = append(jobs, job{Config: c})
	}
	reports := together(t, 2, jobs)
	for i, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			c := jobs[i].Config
			c.Run.Dir = filepath.Join(runs, fmt.Sprint("one-", i))
			res, err := Run(context.Background(), c, RunOptions{})
			require.NoError(t, err)
			if strings.Contains(k.name, "lac") { // its dropout draws in each process
				require.Equal(t, reports[0][i].Hash, reports[1][i].Hash)
				return
			}
			tol := 1e-6
			if c.Model.BatchNorm == config.BatchNormLive { // dividing by a batch's deviation enlarges rounding
				tol = 5e-6
			}
			near(t, lastWeights(t, c.Run.Dir), lastWeights(t, jobs[i].Config.Run.Dir), tol)
			for rank := range reports {
				r := reports[rank][i]
				require.Equal(t, reports[0][i].Hash, r.Hash, "both hold the same weights")
				require.Len(t, r.Epochs, len(res.Epochs))
				for e := range r.Epochs {
					require.InDelta(t, res.Epochs[e].Loss, r.Epochs[e].Loss, 1e-6)
					require.InDelta(t, res.Epochs[e].ValMAP, r.Epochs[e].ValMAP, 1e-4)
				}
				if c.Model.Mode != config.Frozen {
					require.Equal(t, []string{"011.png"}, r.Broken)
				}
			}
		})
	}
}

// TestOtherNumberOfProcesses stops four processes in the middle of an epoch; two go on: each image comes once an epoch,
// and the end is that of one process.
func TestOtherNumberOfProcesses(t *testing.T) {
	dir := folder(t, 60) // 36 training rows: 8, 8, 8, 8, 4
	c := small(dir, "role")
	c.Optim.BatchSize, c.Run.Threads, c.Optim.Name = 8, 1, "sgd"
	c.Optim.LR, c.Schedule.Epochs, c.Model.BatchNorm = 0.01, 2, config.BatchNormFrozen
	c.Run.Dir = filepath.Join(t.TempDir(), "one")
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	want := lastWeights(t, c.Run.Dir)

	c.Run.Dir, c.Run.MaxSteps = filepath.Join(t.TempDir(), "several"), 2
	four := together(t, 4, []job{{Config: c}})
	require.Contains(t, four[0][0].Error, "checkpoint")
	c.Run.MaxSteps = 0
	two := together(t, 2, []job{{c, true}})
	var seen []int
	for _, group := range [][][]account{four, two} {
		for _, r := range group {
			for i, part := range r[0].Places {
				if len(group) == 4 && i < 2 || len(group) == 2 && i < 3 { // of the first epoch; the budget ends four at their third batch
					seen = append(seen, part...)
				}
			}
		}
	}
	slices.Sort(seen)
	all := make([]int, 36)
	for i := range all {
		all[i] = i
	}
	require.Equal(t, all, seen)
	near(t, want, lastWeights(t, c.Run.Dir), 1e-6)
}

// TestKilledProcess: a process dies, the others end with an error, the launcher starts all again, and they end with the
// weights of an undisturbed group, bit for bit.
func TestKilledProcess(t *testing.T) {
	dir := folder(t, 60)
	c := small(dir, "role")
	c.Optim.BatchSize, c.Run.Threads, c.Schedule.Epochs, c.Run.SaveEvery = 8, 1, 3, config.SaveEvery{Steps: 2}
	c.Run.Dir = filepath.Join(t.TempDir(), "whole")
	undisturbed := together(t, 2, []job{{Config: c}})
	want, _ := newestSum(t, c.Run.Dir)

	c.Run.Dir = filepath.Join(t.TempDir(), "killed")
	at := t.TempDir()
	ps := launch(t, at, 2, 0, []job{{Config: c}})
	for { // a checkpoint is there, the end is not
		if names, _ := list(filepath.Join(c.Run.Dir, checkpoints)); len(names) > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	require.NoError(t, ps[1].Process.Kill())
	require.Error(t, ps[0].Wait(), "its peer is dead")
	require.Error(t, ps[1].Wait())
	require.Contains(t, ps[0].out.String(), "rank 0 of 2")
	_, pos := newestSum(t, c.Run.Dir)
	require.Less(t, pos.Step, 15)

	ps = launch(t, at, 2, 1, []job{{c, true}})
	for rank, p := range ps {
		require.NoError(t, p.Wait(), "rank %d: %s", rank, &p.out)
	}
	got, _ := newestSum(t, c.Run.Dir)
	require.Equal(t, want, got)
	b, err := os.ReadFile(filepath.Join(at, "report-0.json"))
	require.NoError(t, err)
	var again []account
	require.NoError(t, json.Unmarshal(b, &again))
	require.Equal(t, undisturbed[0][0].Hash, again[0].Hash)
}

// TestProcessesFailTogether: an error of one process ends all, in words that name it.
func TestProcessesFailTogether(t *testing.T) {
	dir := folder(t, 40)
	c := small(dir, "an")
	c.Run.Dir, c.Run.Threads = filepath.Join(t.TempDir(), "run"), 1
	t.Setenv(faulty, "yes")
	ps := launch(t, t.TempDir(), 2, 0, []job{{Config: c}})
	require.Error(t, ps[0].Wait())
	require.Error(t, ps[1].Wait())
	require.Contains(t, ps[0].out.String(), "process 1: ")
	require.NotContains(t, ps[0].out.String(), "panic")
	require.Contains(t, ps[1].out.String(), "can't allocate memory")
}
