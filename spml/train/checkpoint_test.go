package train

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/rundir"
)

// scenes trains a head on the stored features of MIML.
func scenes(t *testing.T, id string, seed uint32) config.Config {
	return config.Config{
		Data:   config.Data{Path: testroot.Shared(t, "data", "miml")},
		Method: config.Method{ID: id},
		Model: config.Model{
			Features: config.Paths{testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy")},
			Mode:     config.Frozen,
		},
		Run: config.Run{Seed: seed},
	}
}

// newestSum is the hash of the tensors of a run's newest checkpoint, and its position.
func newestSum(t *testing.T, run string) (string, position) {
	names, err := list(filepath.Join(run, checkpoints))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	m, sd, err := load(filepath.Join(run, checkpoints, names[0]))
	require.NoError(t, err)
	sd.Free()
	return m.Files[0].SHA256, m.Position
}

// untimed drops what a clock measured.
func untimed(p position) position {
	p.Seconds, p.Best.Seconds = 0, 0
	for i := range p.Epochs {
		p.Epochs[i].Seconds = 0
	}
	return p
}

// interrupted trains a run that is stopped at the given steps and goes on, each time in a new trainer.
func interrupted(t *testing.T, c config.Config, stops ...int) {
	for i, at := range stops {
		var err error
		if i == 0 {
			c.Run.MaxSteps = at
			_, err = Run(context.Background(), c, RunOptions{})
		} else {
			_, err = Resume(context.Background(), c.Run.Dir, func(c *config.Config) { c.Run.MaxSteps = at }, RunOptions{})
		}
		var stopped *StoppedError
		require.ErrorAs(t, err, &stopped)
		require.Equal(t, at, stopped.Step)
		require.NotEmpty(t, stopped.Checkpoint)
	}
	res, err := Resume(context.Background(), c.Run.Dir, nil, RunOptions{})
	require.NoError(t, err)
	require.Len(t, res.Epochs, c.Schedule.Epochs)
}

// TestResumeToTheBit stops runs in the middle of epochs and compares everything that is kept with a run that was not
// stopped.
func TestResumeToTheBit(t *testing.T) {
	dir := folder(t, 60) // 36 training rows: 3 steps an epoch
	yes := true
	quick := []string{
		"an, flips, ema, cosine, clipping", "role, lazy table, cosine", "em-apl", "en-scl, flips", "mime, adamw",
		"gr, learned schedule",
	}
	for name, change := range map[string]func(*config.Config){
		"an, flips, ema, cosine, clipping": func(c *config.Config) {
			c.Method.ID, c.Data.Flip, c.Optim.EMA = "an", &yes, 0.9
			c.Schedule.Name, c.Schedule.WarmupEpochs, c.Optim.ClipNorm = "cosine", 0.5, 0.5
		},
		"role": func(c *config.Config) { c.Method.ID = "role" },
		"role, lazy table, cosine": func(c *config.Config) {
			c.Method.ID, c.Schedule.Name = "role", "cosine"
			c.Method.Params = map[string]float64{"table": loss.TableLazy}
		},
		"em-apl": func(c *config.Config) { c.Method.ID, c.Method.Params = "em-apl", map[string]float64{"warmup": 1} },
		"ll-cp": func(c *config.Config) {
			c.Method.ID, c.Method.Params = "ll-cp", map[string]float64{"delta_rel": 0.05}
		},
		"en-cl":         func(c *config.Config) { c.Method.ID = "en-cl" },
		"en-scl, flips": func(c *config.Config) { c.Method.ID, c.Data.Flip = "en-scl", &yes },
		"mime, adamw":   func(c *config.Config) { c.Method.ID, c.Method.LatentDim, c.Optim.Name = "mime", 8, "adamw" },
		"smile, sgd": func(c *config.Config) {
			c.Method.ID, c.Method.LatentDim, c.Optim.Name, c.Optim.Momentum = "smile", 8, "sgd", 0.9
		},
		"gr, frozen epoch": func(c *config.Config) { c.Method.ID, c.Schedule.FreezeEpochs = "gr", 1 },
		"em, micro":        func(c *config.Config) { c.Method.ID, c.Optim.MicroBatch = "em", 3 },
		"gr, learned schedule": func(c *config.Config) {
			c.Method.ID, c.Method.Params = "gr", map[string]float64{"schedule": loss.PointsLearned}
		},
	} {
		if !testroot.Nightly() && !slices.Contains(quick, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := small(dir, "an")
			c.Schedule.Epochs, c.Optim.BatchSize, c.Run.Threads = 2, 12, 1
			change(&c)
			c.Run.Dir = filepath.Join(t.TempDir(), "whole")
			_, err := Run(context.Background(), c, RunOptions{})
			require.NoError(t, err)
			want, wantPos := newestSum(t, c.Run.Dir)
			wantScores, err := rundir.ReadEpochScores(c.Run.Dir)
			require.NoError(t, err)
			require.Len(t, wantScores, c.Schedule.Epochs)

			c.Run.Dir = filepath.Join(t.TempDir(), "cut")
			interrupted(t, c, 2, 5)
			got, pos := newestSum(t, c.Run.Dir)
			require.Equal(t, untimed(wantPos), untimed(pos))
			require.Equal(t, want, got, "weights, optimiser, estimator, average and generator are equal to the bit")
			scores, err := rundir.ReadEpochScores(c.Run.Dir)
			require.NoError(t, err)
			require.Equal(t, wantScores, scores)
		})
	}
}

// TestResumeOnFeatures does the same for heads on features, with label enhancement's two optimisers among them.
func TestResumeOnFeatures(t *testing.T) {
	for _, id := range []string{"role", "smile-classifier", "en", "mime"} {
		c := scenes(t, id, 3)
		c.Schedule.Epochs, c.Optim.BatchSize = 2, 256
		c.Run.Dir = filepath.Join(t.TempDir(), "whole")
		_, err := Run(context.Background(), c, RunOptions{})
		require.NoError(t, err)
		want, _ := newestSum(t, c.Run.Dir)
		c.Run.Dir = filepath.Join(t.TempDir(), "cut")
		interrupted(t, c, 3, 5)
		got, _ := newestSum(t, c.Run.Dir)
		require.Equal(t, want, got, id)
	}
}

// TestVerify replays the first steps; a changed record is found.
func TestVerify(t *testing.T) {
	c := small(folder(t, 60), "an")
	c.Optim.BatchSize, c.Schedule.Epochs, c.Run.Threads, c.Run.Dir = 4, 3, 1, filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	v, err := Verify(context.Background(), c.Run.Dir, Events{})
	require.NoError(t, err)
	require.Equal(t, tracedSteps, v.Steps)
	require.Zero(t, v.Differs)
	path := filepath.Join(c.Run.Dir, traceFile)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var trace []string
	require.NoError(t, json.Unmarshal(b, &trace))
	trace[6] = strings.Repeat("0", 64)
	b, err = json.Marshal(trace)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o644))
	v, err = Verify(context.Background(), c.Run.Dir, Events{})
	require.NoError(t, err)
	require.Equal(t, 7, v.Differs)
}

// TestDamagedCheckpoint damages the newest checkpoint in many ways: the one before is taken, with one warning.
func TestDamagedCheckpoint(t *testing.T) {
	dir := folder(t, 60)
	c := small(dir, "role")
	c.Optim.BatchSize, c.Schedule.Epochs, c.Run.SaveEvery, c.Run.Dir, c.Run.MaxSteps = 8, 2, config.SaveEvery{
		Steps: 1,
	}, filepath.Join(t.TempDir(), "run"), 4
	_, err := Run(context.Background(), c, RunOptions{})
	var stopped *StoppedError
	require.ErrorAs(t, err, &stopped)
	ck := filepath.Join(c.Run.Dir, checkpoints)
	names, err := list(ck)
	require.NoError(t, err)
	require.Len(t, names, 2, "the newest two are kept")
	random := rand.New(rand.NewPCG(1, 2))
	manifest, err := os.ReadFile(filepath.Join(ck, names[0], manifestFile))
	require.NoError(t, err)
	tensors, err := os.ReadFile(filepath.Join(ck, names[0], tensorsFile))
	require.NoError(t, err)
	write := func(name string, b []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(ck, names[0], name), b, 0o644))
	}
	for i := range testroot.Count(t, "GOSPML_DAMAGES", 12, 100) {
		write(manifestFile, manifest)
		write(tensorsFile, tensors)
		require.NoError(t, os.WriteFile(filepath.Join(ck, latestFile), []byte(names[0]+"\n"), 0o644))
		switch i % 6 {
		case 0: // a bit turns
			b := append([]byte(nil), tensors...)
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			write(tensorsFile, b)
		case 1:
			write(tensorsFile, tensors[:random.IntN(len(tensors))])
		case 2:
			write(manifestFile, manifest[:random.IntN(len(manifest))])
		case 3:
			require.NoError(t, os.Remove(filepath.Join(ck, names[0], tensorsFile)))
		case 4:
			require.NoError(t, os.Remove(filepath.Join(ck, names[0], manifestFile)))
		case 5:
			write(tensorsFile, append(append([]byte(nil), tensors...), 0))
		}
		var notes []string
		_, err = Resume(
			context.Background(),
			c.Run.Dir,
			func(c *config.Config) { c.Run.MaxSteps, c.Run.SaveEvery = 3, config.SaveEvery{Off: true} },
			RunOptions{Events: Events{Note: func(s string) { notes = append(notes, s) }}},
		)
		require.ErrorAs(t, err, &stopped)
		var warnings []string
		for _, n := range notes {
			if strings.HasPrefix(n, "warning: ") {
				warnings = append(warnings, n)
			}
		}
		require.Len(t, warnings, 1, "case %d", i)
		require.Contains(t, warnings[0], names[0]+" is damaged")
		require.Contains(t, warnings[0], "going on from "+names[1]+": epoch 1, step 3")
	}
	for _, n := range names { // none is left: the run begins again and says so
		require.NoError(t, os.WriteFile(filepath.Join(ck, n, manifestFile), []byte("{"), 0o644))
	}
	var notes []string
	res, err := Resume(
		context.Background(),
		c.Run.Dir,
		nil,
		RunOptions{Events: Events{Note: func(s string) { notes = append(notes, s) }}},
	)
	require.NoError(t, err)
	require.Len(t, res.Epochs, 2)
	require.Contains(t, strings.Join(notes, "\n"), "no checkpoint to go on from: starting at the beginning")
}

// TestBrokenDisk lets each call of a save fail in turn, with a full disk and with a broken one: the error is the
// system's, the checkpoint before can be read, and the run goes on from it to the same end.
func TestBrokenDisk(t *testing.T) {
	dir := folder(t, 40)
	values := make([]float32, 40*8)
	for i := range values {
		values[i] = float32(i%7) - 3
	}
	a, err := npy.New([]int64{40, 8}, values)
	require.NoError(t, err)
	features := filepath.Join(dir, "features.npy")
	require.NoError(t, npy.Write(features, a))
	c := config.Config{
		Data:     config.Data{Path: dir},
		Method:   config.Method{ID: "role"},
		Model:    config.Model{Mode: config.Frozen, Features: config.Paths{features}},
		Optim:    config.Optim{BatchSize: 12},
		Schedule: config.Schedule{Epochs: 1},
	}
	c.Run.Dir = filepath.Join(t.TempDir(), "whole")
	_, err = Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	want, _ := newestSum(t, c.Run.Dir)
	for i := 0; ; i++ {
		at, errno := i/2, []syscall.Errno{syscall.ENOSPC, syscall.EIO}[i%2]
		c.Run.Dir, c.Run.SaveEvery = filepath.Join(t.TempDir(), fmt.Sprint(i)), config.SaveEvery{Steps: 1}
		calls, armed := 0, false
		restore := atomicfile.Inject(func(op atomicfile.Operation, path string) error {
			if !armed && strings.HasSuffix(path, latestFile) && op == atomicfile.OpRename {
				armed = true // from the second checkpoint on
				return nil
			}
			if !armed || !strings.Contains(path, checkpoints) {
				return nil
			}
			if calls++; calls > at {
				return errno
			}
			return nil
		})
		_, err := Run(context.Background(), c, RunOptions{})
		restore()
		if err == nil {
			require.Greater(t, at, 10, "every call of the later saves was broken once")
			break
		}
		require.ErrorIs(t, err, errno)
		newestSum(t, c.Run.Dir)
		_, err = Resume(context.Background(), c.Run.Dir, nil, RunOptions{})
		require.NoError(t, err)
		got, _ := newestSum(t, c.Run.Dir)
		require.Equal(t, want, got)
		left, err := filepath.Glob(filepath.Join(c.Run.Dir, checkpoints, unfinishedPre+"*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// child is the environment variable that makes the test program a training run: the folder of the run.
const child = "GOSPML_TEST_TRAIN"

// childInterval is the number of steps between its checkpoints.
const childInterval = 2

func TestMain(m *testing.M) {
	compute.MatrixUnit = func() bool { return false } // the same runs on every machine
	if os.Getenv(worker) != "" {
		os.Exit(work())
	}
	run := os.Getenv(child)
	if run == "" {
		os.Exit(m.Run())
	}
	c := small(os.Getenv(child+"_DATA"), "role")
	c.Optim.BatchSize, c.Schedule.Epochs, c.Run.Threads, c.Run.SaveEvery, c.Run.Dir = 8, 5, 1, config.SaveEvery{
		Steps: childInterval,
	}, run
	var err error
	// What the parent hears of is done: a step is told after its checkpoint.
	ev := Events{Step: func(s Step) {
		if s.Phase == "train" {
			fmt.Println(
				(s.Epoch-1)*((s.Total+c.Optim.BatchSize-1)/c.Optim.BatchSize) + (s.Done+c.Optim.BatchSize-1)/c.Optim.BatchSize,
			)
		}
	}}
	if rundir.Exists(run) {
		_, err = Resume(context.Background(), run, nil, RunOptions{Events: ev})
	} else {
		_, err = Run(context.Background(), c, RunOptions{Events: ev})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestKill ends a training process by SIGKILL at random moments, again and again: each time a checkpoint can be read
// and at most one interval is lost, and the end is that of a run that nobody disturbed. GOSPML_KILLS sets the number of
// kills (docs/testing.md).
func TestKill(t *testing.T) {
	kills := testroot.Count(t, "GOSPML_KILLS", 3, 200)
	dir := folder(t, 60)
	start := func(run string) *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), child+"="+run, child+"_DATA="+dir)
		cmd.Stderr = os.Stderr
		return cmd
	}
	whole := filepath.Join(t.TempDir(), "whole")
	begun := time.Now()
	require.NoError(t, start(whole).Run())
	length := time.Since(begun)
	want, wantPos := newestSum(t, whole)

	random := rand.New(rand.NewPCG(3, 4))
	killed, ends, lost := 0, 0, 0
	for killed < kills {
		run := filepath.Join(t.TempDir(), "run"+fmt.Sprint(ends))
		step := 0
		for done := false; !done; {
			cmd := start(run)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			exited := make(chan error, 1)
			told := 0 // the last step that the child said was done
			go func() {
				for lines := bufio.NewScanner(out); lines.Scan(); {
					if n, err := strconv.Atoi(lines.Text()); err == nil {
						told = n
					}
				}
				exited <- cmd.Wait()
			}()
			// Not before libtorch is loaded: a kill then would find nothing new.
			wait := time.Duration((0.3 + 0.5*random.Float64()) * float64(length))
			if killed >= kills {
				wait = time.Minute
			}
			select {
			case err := <-exited:
				require.NoError(t, err)
				done = true
			case <-time.After(wait):
				err := cmd.Process.Kill()
				if ended := <-exited; errors.Is(err, os.ErrProcessDone) { // it was faster
					require.NoError(t, ended)
					done = true
					break
				}
				require.NoError(t, err)
				killed++
			}
			names, err := list(filepath.Join(run, checkpoints))
			require.NoError(t, err)
			if len(names) == 0 {
				require.Zero(t, step, "a checkpoint disappeared")
				require.Less(t, told, childInterval, "more than one interval was lost")
				continue
			}
			sum, pos := newestSum(t, run)
			require.NotEmpty(t, sum)
			require.GreaterOrEqual(t, pos.Step, step, "a checkpoint disappeared")
			require.Greater(t, pos.Step, told-childInterval, "more than one interval was lost")
			lost, step = max(lost, told-pos.Step), pos.Step
		}
		got, pos := newestSum(t, run)
		require.Equal(t, want, got)
		require.Equal(t, untimed(wantPos), untimed(pos))
		ends++
	}
	t.Logf("%d kills, %d runs, all equal to the undisturbed one, at most %d step(s) lost of an interval of %d", killed, ends, lost, childInterval)
}

func TestResumeRefusesOtherSettingsAndData(t *testing.T) {
	dir := folder(t, 40)
	c := small(dir, "an")
	c.Optim.BatchSize, c.Run.MaxSteps, c.Run.Dir = 8, 2, filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), c, RunOptions{})
	var stopped *StoppedError
	require.ErrorAs(t, err, &stopped)
	_, err = Resume(context.Background(), c.Run.Dir, func(c *config.Config) { c.Optim.LR = 1 }, RunOptions{})
	require.ErrorContains(t, err, "lr was 0.001, is 1")
	labels := filepath.Join(dir, "labels.csv")
	b, err := os.ReadFile(labels)
	require.NoError(t, err)
	lines := strings.Split(string(b), "\n")
	for i, l := range lines[1:] {
		if strings.HasSuffix(l, ",0") {
			lines[i+1] = strings.TrimSuffix(l, "0") + "1"
		}
	}
	require.NoError(t, os.WriteFile(labels, []byte(strings.Join(lines, "\n")), 0o644))
	_, err = Resume(context.Background(), c.Run.Dir, nil, RunOptions{})
	require.ErrorIs(t, err, ErrData)
	require.ErrorContains(t, err, "changed since the checkpoint")
}

func TestStopSavesAndGoesOn(t *testing.T) {
	c := small(folder(t, 40), "an")
	c.Schedule.Epochs, c.Run.Dir = 1000, filepath.Join(t.TempDir(), "run")
	ctx, stop := context.WithCancelCause(context.Background())
	_, err := Run(ctx, c, RunOptions{Events: Events{Epoch: func(e EpochRecord) {
		if e.Epoch == 2 {
			stop(ErrStop)
		}
	}}})
	require.ErrorIs(t, err, ErrStop)
	var stopped *StoppedError
	require.ErrorAs(t, err, &stopped)
	require.DirExists(t, stopped.Checkpoint)
}

func TestKeepBest(t *testing.T) {
	c := small(folder(t, 60), "an")
	c.Schedule.Epochs, c.Run.KeepLast, c.Run.KeepBest, c.Run.Dir = 6, 1, 2, filepath.Join(t.TempDir(), "run")
	res, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	names, err := list(filepath.Join(c.Run.Dir, checkpoints))
	require.NoError(t, err)
	require.LessOrEqual(t, len(names), 3)
	found := false
	for _, n := range names {
		m, err := readManifest(filepath.Join(c.Run.Dir, checkpoints, n))
		require.NoError(t, err)
		found = found || len(m.Position.Epochs) == res.Best.Epoch
	}
	require.True(t, found, "the best epoch's checkpoint is kept")
}

// TestPieces: gradients added up over parts of a batch are those of the batch, for losses that are means or sums and
// for those that see the whole batch. Batch normalisation is frozen, as parts have statistics of their own.
func TestPieces(t *testing.T) {
	dir := folder(t, 60)
	for _, id := range []string{"an", "l2r", "epr", "ll-cp", "asl code", "gr paper"} {
		var losses [2][]float64
		for i, micro := range []int{0, 5} {
			method, form, _ := strings.Cut(id, " ")
			c := small(dir, method)
			c.Method.Form, c.Model.BatchNorm, c.Optim.MicroBatch, c.Run.Threads = form, config.BatchNormFrozen, micro, 1
			if id == "ll-cp" || id == "ll-r" {
				c.Method.Params = map[string]float64{"delta_rel": 0.1}
			}
			res, err := Run(context.Background(), c, RunOptions{})
			require.NoError(t, err)
			for _, e := range res.Epochs {
				losses[i] = append(losses[i], e.Loss)
			}
		}
		for i, x := range losses[0] {
			require.InEpsilon(t, x, losses[1][i], 1e-5, "%s epoch %d", id, i+1)
		}
	}
}

// TestOutOfMemory: where a part does not fit, parts are halved, once said, and the run's numbers stay.
func TestOutOfMemory(t *testing.T) {
	dir := folder(t, 60)
	c := small(dir, "an")
	c.Model.BatchNorm, c.Run.Threads, c.Optim.BatchSize = config.BatchNormFrozen, 1, 16
	want, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	faults.beforePart = func(images int) {
		if images > 5 {
			outOfMemory()
		}
	}
	defer func() { faults.beforePart = nil }()
	var notes []string
	got, err := Run(context.Background(), c, RunOptions{Events: Events{Note: func(s string) {
		if strings.HasPrefix(s, "out of memory") {
			notes = append(notes, s)
		}
	}}})
	require.NoError(t, err)
	require.Equal(t, []string{
		"out of memory at step 1: from here on 8 images at a time, with the gradients of a batch added up",
		"out of memory at step 1: from here on 4 images at a time, with the gradients of a batch added up",
	}, notes)
	for i, e := range want.Epochs {
		require.InEpsilon(t, e.Loss, got.Epochs[i].Loss, 1e-5)
	}
	faults.beforePart = func(int) { outOfMemory() }
	_, err = Run(context.Background(), c, RunOptions{})
	require.Error(t, err)
}

// TestNaN puts NaN into a weight: nan.json says where, and the last checkpoint is untouched.
func TestNaN(t *testing.T) {
	c := small(folder(t, 60), "an")
	c.Optim.BatchSize, c.Run.SaveEvery, c.Run.Dir = 8, config.SaveEvery{Steps: 1}, filepath.Join(t.TempDir(), "run")
	faults.beforeStep = func(tr *trainer) {
		if tr.p.Step == 3 {
			tr.l.(*fineTune).Model.(*backbone.SmallCNN).Head().Bias.Detach().Fill_(nan())
		}
	}
	defer func() { faults.beforeStep = nil }()
	_, err := Run(context.Background(), c, RunOptions{})
	require.ErrorIs(t, err, ErrNotFinite)
	require.ErrorContains(t, err, "step 5")
	b, err := os.ReadFile(filepath.Join(c.Run.Dir, "nan.json"))
	require.NoError(t, err)
	var r nanReport
	require.NoError(t, json.Unmarshal(b, &r))
	require.Equal(t, 5, r.Step)
	require.Len(t, r.Samples, 4) // 36 rows are four batches of 8 and one of 4
	require.NotEmpty(t, r.NotFinite)
	require.NotEmpty(t, r.Gradients)
	require.Equal(t, []float64{1e-3, 1e-3}, r.LR)
	require.Equal(t, "step-000000004-0", r.LastGood)
	_, pos := newestSum(t, c.Run.Dir)
	require.Equal(t, 4, pos.Step)
}

func TestStopRules(t *testing.T) {
	tr := &trainer{session: &session{c: config.Config{Schedule: config.Schedule{Epochs: 10, Patience: 2, MaxDrop: 3}}}}
	tr.p.Best = EpochRecord{ValMAP: 50}
	require.Empty(t, tr.finished(EpochRecord{Epoch: 3, ValMAP: 47.5}, true))
	require.Contains(t, tr.finished(EpochRecord{Epoch: 3, ValMAP: 46.9}, true), "below the best")
	require.Empty(t, tr.finished(EpochRecord{Epoch: 3, ValMAP: 0}, false), "without validation nothing can be compared")
	tr.p.Bad = 2
	require.Contains(t, tr.finished(EpochRecord{Epoch: 3, ValMAP: 49}, true), "no better validation mAP in 2")
	require.Equal(t, "all epochs", tr.finished(EpochRecord{Epoch: 10, ValMAP: 49}, true))

	c := scenes(t, "em", 1200) // the best epoch of its reference run is the one before the first that is not better
	c.Schedule.Patience = 1
	res, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	last := len(res.Epochs)
	require.Less(t, last, 25)
	require.Equal(t, last-1, res.Best.Epoch)
}

// TestSingleLabelValidation selects the epoch by the observed labels of the validation part.
func TestSingleLabelValidation(t *testing.T) {
	c := scenes(t, "an", 1200)
	c.Schedule.Epochs = 3
	full, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	c.Data.ValLabels = "single"
	single, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	require.Equal(t, full.Epochs[2].TestMAP, single.Epochs[2].TestMAP)
	require.Less(t, single.Epochs[2].ValMAP, full.Epochs[2].ValMAP)
}
