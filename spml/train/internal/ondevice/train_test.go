package ondevice_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/evaluate"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/network"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/torchtest"
)

// device is where the runs of these tests compute beside the CPU.
const device = "privateuseone:0"

func TestMain(m *testing.M) {
	compute.LossForm = string(loss.Composed) // the device has no fused kernels
	os.Exit(m.Run())
}

// photos is a folder of drawn pictures with labels and a split.
func photos(t *testing.T, n int) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	ds, err := shapes.New(7, n, 0, 0)
	require.NoError(t, err)
	r, err := ds.Source.NewReader(data.ReadOptions{})
	require.NoError(t, err)
	defer r.Close()
	labels, split := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintf(labels, "filename,%s\n", strings.Join(ds.Classes, ","))
	fmt.Fprintln(split, "filename,split")
	const side = 32
	rgb := make([]byte, side*side*3)
	for i := range n {
		require.NoError(t, r.Read(i, side, side, rgb))
		m := image.NewNRGBA(image.Rect(0, 0, side, side))
		for p := range side * side {
			copy(m.Pix[4*p:], rgb[3*p:3*p+3])
			m.Pix[4*p+3] = 255
		}
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m))
		name := fmt.Sprintf("%03d.png", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", name), b.Bytes(), 0o644))
		fmt.Fprint(labels, name)
		for _, y := range ds.LabelRow(i) {
			fmt.Fprintf(labels, ",%d", y)
		}
		fmt.Fprintln(labels)
		fmt.Fprintf(split, "%s,%s\n", name, []string{"train", "train", "val", "test"}[i%4])
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels.String()), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "split.csv"), []byte(split.String()), 0o644))
	return dir
}

func settingsOf(dir, method string) config.Config {
	c := config.Config{
		Data:     config.Data{Path: dir, ImageSize: 32},
		Method:   config.Method{ID: method},
		Model:    config.Model{Backbone: "small_cnn"},
		Optim:    config.Optim{BatchSize: 8, LR: 1e-3},
		Schedule: config.Schedule{Epochs: 3},
		Run:      config.Run{Seed: 3, Threads: 1, Precision: config.FP32},
	}
	if e, err := loss.Lookup(method); err == nil && slices.ContainsFunc(e.Params, func(p loss.Param) bool { return p.Name == "warmup" }) {
		c.Method.Params = map[string]float64{"warmup": 1} // estimators begin after the first epoch
	}
	return c
}

// outcome is what a run leaves.
type outcome struct {
	losses []float64
	maps   []float64
	model  nn.StateDict
	state  nn.StateDict // of the last checkpoint
	notes  string
	run    string
}

func do(t *testing.T, c config.Config, d string) outcome {
	t.Helper()
	c.Run.Device = d
	c.Run.Dir = filepath.Join(t.TempDir(), "run")
	var notes []string
	res, err := train.Run(
		context.Background(),
		c,
		train.RunOptions{Events: train.Events{Note: func(s string) { notes = append(notes, s) }}},
	)
	require.NoError(t, err, "on %s", d)
	return read(t, c.Run.Dir, res, notes)
}

func read(t *testing.T, run string, res *train.Result, notes []string) outcome {
	o := outcome{notes: strings.Join(notes, "\n"), run: run}
	for _, e := range res.Epochs {
		o.losses, o.maps = append(o.losses, e.Loss), append(o.maps, e.ValMAP, e.TestMAP)
	}
	var err error
	o.model, _, err = nn.LoadSafetensors(filepath.Join(run, "model", "model.safetensors"))
	require.NoError(t, err)
	latest, err := os.ReadFile(filepath.Join(run, "checkpoints", "latest"))
	require.NoError(t, err)
	o.state, _, err = nn.LoadSafetensors(filepath.Join(run, "checkpoints", strings.TrimSpace(string(latest)), "state.safetensors"))
	require.NoError(t, err)
	return o
}

// same compares runs: to the bit, or with a relative tolerance.
func same(t *testing.T, want, got outcome, tolerance float64) {
	t.Helper()
	if tolerance == 0 {
		require.Equal(t, want.losses, got.losses)
		require.Equal(t, want.maps, got.maps)
	} else {
		require.InEpsilonSlice(t, want.losses, got.losses, tolerance)
	}
	for _, sd := range [][2]nn.StateDict{{want.model, got.model}, {want.state, got.state}} {
		require.Equal(t, sd[0].Keys(), sd[1].Keys())
		for _, k := range sd[0].Keys() {
			a, b := sd[0][k], sd[1][k]
			require.Equal(t, a.DType(), b.DType(), k)
			if tolerance == 0 {
				require.True(t, bytes.Equal(a.Bytes(), b.Bytes()), "%s differs", k)
				continue
			}
			x, y := torch.ToSlice[float64](a), torch.ToSlice[float64](b)
			size := 0.0
			for i := range x {
				size = max(size, math.Abs(x[i]))
			}
			for i := range x {
				require.InDelta(t, x[i], y[i], tolerance*size, k)
			}
		}
	}
}

// TestMethods trains every method on the CPU and on the device: the same losses, scores, weights and state.
func TestMethods(t *testing.T) {
	torchtest.Device(t)
	dir := photos(t, 64)
	for _, e := range loss.Entries() {
		if method.Of(e).Lacks() != "" {
			continue
		}
		t.Run(e.ID, func(t *testing.T) {
			c := settingsOf(dir, e.ID)
			tolerance := 0.0
			switch {
			case e.ID == "smile-classifier":
				frozen(t, &c, do(t, settingsOf(dir, "an"), "cpu").run)
			case e.Needs&loss.PseudoLabels != 0:
				c.Data.Path, c.Data.Options, c.Data.ImageSize = config.Shapes, config.DataOptions{Train: 16, Val: 8, Test: 8}, 64
			case e.ID == "lac":
				c.Optim.Name, c.Model.DecoderDim, c.Method.QueueSize, c.Optim.LR, tolerance = "sgd", 16, 24, 0.05, 1e-4
			}
			want, got := do(t, c, "cpu"), do(t, c, device)
			require.Contains(t, got.notes, "privateuseone:0, as set")
			if strings.HasPrefix(e.ID, "smile") { // the device draws the noise of its label distributions itself
				require.InEpsilonSlice(t, want.losses, got.losses, 0.3)
				want = do(t, c, device)
			}
			same(t, want, got, tolerance)
		})
	}
}

// frozen makes c train on features of the photos.
func frozen(t *testing.T, c *config.Config, run string) {
	c.Model.Mode, c.Model.Weights, c.Data.Flip = config.Frozen, filepath.Join(run, "model", "model.safetensors"), nil
}

// TestSettings trains with what changes a step.
func TestSettings(t *testing.T) {
	torchtest.Device(t)
	dir := photos(t, 64)
	first := do(t, settingsOf(dir, "an"), "cpu").run
	for name, x := range map[string]struct {
		method    string
		set       func(c *config.Config)
		tolerance float64
	}{
		"frozen":         {"role", func(c *config.Config) { frozen(t, c, first) }, 0},
		"frozen, quick":  {"em-apl", func(c *config.Config) { frozen(t, c, first) }, 0},
		"frozen, latent": {"mime", func(c *config.Config) { frozen(t, c, first) }, 0},
		"decoder": {"an", func(c *config.Config) {
			c.Model.Head, c.Model.DecoderDim, c.Optim.Name, c.Optim.LR = config.HeadDecoder, 16, "sgd", 0.05
		}, 1e-4},
		"ml-decoder": {"an", func(c *config.Config) {
			c.Model.Head, c.Model.DecoderDim, c.Optim.Name, c.Optim.LR = config.HeadMLDecoder, 16, "sgd", 0.05
		}, 1e-4},
		"average":      {"role", func(c *config.Config) { c.Optim.EMA, c.Optim.EMABest = 0.9, true }, 0},
		"accumulation": {"gr", func(c *config.Config) { c.Optim.MicroBatch = 3 }, 0},
		"whole batch":  {"epr", func(c *config.Config) { c.Optim.MicroBatch = 3 }, 0},
		"clipping": {"em", func(c *config.Config) {
			c.Optim.ClipNorm, c.Optim.Name, c.Optim.WeightDecay = 0.01, "adamw", 0.01
		}, 0},
		"in backward": {"an", func(c *config.Config) { c.Optim.InBackward = true }, 0},
		"schedule": {"an", func(c *config.Config) {
			c.Schedule.Name, c.Schedule.FreezeEpochs, c.Optim.Name, c.Optim.Momentum = "onecycle", 1, "sgd", 0.9
		}, 0},
		"mobilenet": {"an", func(c *config.Config) {
			c.Model.Backbone, c.Schedule.Epochs, c.Optim.Name, c.Optim.LR = "mobilenet_v2", 1, "sgd", 0.01
		}, 0},
		"resnet": {"en-scl", func(c *config.Config) {
			c.Model.Backbone, c.Schedule.Epochs, c.Optim.Name, c.Optim.LR = "resnet18", 1, "sgd", 0.01
		}, 0},
		"clip": {"an", func(c *config.Config) {
			c.Model.Backbone, c.Model.Weights, c.Data.ImageSize = config.BackboneClip, config.BuiltinClip, 64
			c.Schedule.Epochs, c.Optim.Name, c.Optim.LR = 1, "sgd", 0.01
		}, 1e-4},
		"dualcoop": {"dualcoop", func(c *config.Config) {
			c.Model.Backbone, c.Pseudo.Clip, c.Data.ImageSize = "", config.BuiltinClip, 64
			c.Schedule.Epochs, c.Optim.LR = 1, 0.001
		}, 1e-4},
	} {
		t.Run(name, func(t *testing.T) {
			c := settingsOf(dir, x.method)
			x.set(&c)
			same(t, do(t, c, "cpu"), do(t, c, device), x.tolerance)
		})
	}
}

// TestResume stops in an epoch on the device and goes on there, on the CPU, and the other way round.
func TestResume(t *testing.T) {
	torchtest.Device(t)
	c := settingsOf(photos(t, 64), "em-apl")
	want := do(t, c, "cpu")
	for _, x := range [][2]string{{device, device}, {device, "cpu"}, {"cpu", device}} {
		t.Run(x[0]+" "+x[1], func(t *testing.T) {
			c := c
			c.Run.Device, c.Run.Dir, c.Run.MaxSteps = x[0], filepath.Join(t.TempDir(), "run"), 6
			var stopped *train.StoppedError
			_, err := train.Run(context.Background(), c, train.RunOptions{})
			require.ErrorAs(t, err, &stopped)
			var notes []string
			res, err := train.Resume(
				context.Background(),
				c.Run.Dir,
				func(c *config.Config) { c.Run.Device, c.Run.MaxSteps = x[1], 0 },
				train.RunOptions{Events: train.Events{Note: func(s string) { notes = append(notes, s) }}},
			)
			require.NoError(t, err)
			got := read(t, c.Run.Dir, res, notes)
			same(t, want, got, 0)
			if x[0] != x[1] {
				require.Contains(t, got.notes, "the last bits may differ from an uninterrupted run: device ")
			} else {
				require.NotContains(t, got.notes, "may differ")
			}
		})
	}
}

// rank is the environment variable with the settings of a process of TestProcesses.
const rank = "GOSPML_TEST_RANK"

// TestProcesses: two processes, each with a device, end with the weights of one on the CPU.
func TestProcesses(t *testing.T) {
	torchtest.Device(t)
	processes(t, device)
}

// processes is TestProcesses on devices of a kind.
func processes(t *testing.T, device string) {
	if settings := os.Getenv(rank); settings != "" {
		var cases []config.Config
		require.NoError(t, json.Unmarshal([]byte(settings), &cases))
		procs, err := train.Join(time.Minute)
		require.NoError(t, err)
		for i, c := range cases {
			c.Run.Device = device
			_, err = train.Run(context.Background(), c, train.RunOptions{Processes: procs})
			require.NoError(t, err)
			if strings.HasPrefix(device, "private") {
				require.GreaterOrEqual(t, torchtest.DeviceCollectives(), 6*(i+1), "a message a step from device to device")
			}
		}
		require.NoError(t, procs.Close(nil))
		return
	}
	dir := photos(t, 48)
	var cases []config.Config
	for i, change := range []func(c *config.Config){
		func(c *config.Config) { c.Model.BatchNorm, c.Optim.EMA = config.BatchNormLive, 0.9 },
		func(c *config.Config) { c.Method.ID = "epr" },
		func(c *config.Config) { c.Method.ID = "role" },
		func(c *config.Config) { c.Method.ID, c.Method.LatentDim = "mime", 8 },
	} {
		c := settingsOf(dir, "an")
		c.Schedule.Epochs, c.Optim.Name, c.Optim.Momentum = 2, "sgd", 0.9
		c.Optim.LR, c.Model.BatchNorm = 1e-3, config.BatchNormFrozen
		change(&c)
		c.Run.Dir = filepath.Join(t.TempDir(), fmt.Sprint(i))
		cases = append(cases, c)
	}
	settings, err := json.Marshal(cases)
	require.NoError(t, err)
	store, err := dist.NewTCPStore("127.0.0.1", 0, true, 0, time.Minute)
	require.NoError(t, err)
	defer store.Close()
	var group [2]*exec.Cmd
	var said [2]bytes.Buffer
	for r := range group {
		group[r] = exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		group[r].Env = append(os.Environ(), rank+"="+string(settings), fmt.Sprint("RANK=", r), fmt.Sprint("LOCAL_RANK=", r), "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2",
			"MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", store.Port()), "TORCHELASTIC_RUN_ID=test", "TORCHELASTIC_USE_AGENT_STORE=True", "OMP_NUM_THREADS=1")
		group[r].Stdout, group[r].Stderr = &said[r], &said[r]
		require.NoError(t, group[r].Start())
		t.Cleanup(func() { group[r].Process.Kill() })
	}
	for r := range group {
		require.NoError(t, group[r].Wait(), "process %d: %s", r, &said[r])
	}
	for _, c := range cases {
		want := do(t, c, "cpu").model
		got, _, err := nn.LoadSafetensors(filepath.Join(c.Run.Dir, "model", "model.safetensors"))
		require.NoError(t, err)
		for _, k := range want.Keys() {
			require.InDeltaSlice(
				t,
				torch.ToSlice[float64](want[k]),
				torch.ToSlice[float64](got[k]),
				5e-6,
				"%s, batch normalisation %s: %s",
				c.Method.ID,
				c.Model.BatchNorm,
				k,
			)
		}
	}
}

// TestMemory runs out of the device's memory: the batch is cut, and the run ends with the weights of a run that was cut
// from the start.
func TestMemory(t *testing.T) {
	torchtest.Device(t)
	c := settingsOf(photos(t, 64), "an")
	c.Model.BatchNorm, c.Optim.BatchSize, c.Schedule.Epochs = config.BatchNormFrozen, 32, 1
	c.Optim.MicroBatch = 16
	runtime.GC()
	torchtest.DevicePeak()
	before := torchtest.DeviceBytes()
	want := do(t, c, device)
	room := torchtest.DevicePeak() - before
	c.Optim.MicroBatch = 0
	runtime.GC()
	torchtest.LimitDevice(t, torchtest.DeviceBytes()+room*21/20)
	got := do(t, c, device)
	require.Contains(t, got.notes, "out of memory at step 1: from here on 16 images at a time")
	same(t, want, got, 0)
}

// TestNotFinite ends a run whose loss is no number, with its report.
func TestNotFinite(t *testing.T) {
	torchtest.Device(t)
	c := settingsOf(photos(t, 64), "an")
	c.Optim.LR, c.Optim.WeightDecay, c.Optim.Name = 1e6, 1e6, "sgd" // weights grow by 10¹² in each step
	type report struct {
		Epoch, Step int
		Samples     []string
	}
	var said [2]report
	for i, d := range []string{"cpu", device} {
		c.Run.Device, c.Run.Dir = d, filepath.Join(t.TempDir(), "run")
		_, err := train.Run(context.Background(), c, train.RunOptions{})
		require.ErrorIs(t, err, train.ErrNotFinite)
		b, err := os.ReadFile(filepath.Join(c.Run.Dir, "nan.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &said[i]))
		latest, err := filepath.Glob(filepath.Join(c.Run.Dir, "checkpoints", "step-*"))
		require.NoError(t, err)
		require.Empty(t, latest, "no checkpoint of weights that are no numbers")
	}
	require.Equal(t, said[0], said[1], "the step and its photos")
	require.NotEmpty(t, said[0].Samples)
}

// TestNothingWaits: behind the second step of an epoch no method's step waits for the device. It counts in the composed
// form, of every method.
func TestNothingWaits(t *testing.T) {
	torchtest.Device(t)
	steps := func(t *testing.T, c config.Config) {
		c.Run.Device = device
		var seen []int
		_, err := train.Run(context.Background(), c, train.RunOptions{Events: train.Events{Step: func(s train.Step) {
			if s.Phase == "train" && s.Epoch == 1 {
				seen = append(seen, torchtest.DeviceWaits())
			}
		}}})
		require.NoError(t, err)
		require.Greater(t, len(seen), 3)
		for i := range seen[2:] {
			require.Zero(t, seen[i+2]-seen[i+1], "step %d", i+2)
		}
	}
	for _, e := range loss.Entries() {
		if method.Of(e).Lacks() != "" || e.ID == "smile-classifier" { // of which TestFrozenWaits is
			continue
		}
		t.Run(e.ID, func(t *testing.T) {
			c := settingsOf(photos(t, 96), e.ID)
			if e.ID == "lac" {
				c.Stages.Count = 1
				c.Optim.Name, c.Model.DecoderDim, c.Method.QueueSize, c.Optim.LR = "sgd", 16, 24, 0.05
			}
			if e.Needs&loss.PseudoLabels != 0 {
				c.Data.Path, c.Data.Options, c.Data.ImageSize = config.Shapes, config.DataOptions{Train: 48, Val: 8, Test: 8}, 64
			}
			steps(t, c)
			if e.ID == "an" {
				for _, head := range []string{config.HeadDecoder, config.HeadMLDecoder} {
					c.Model.Head, c.Model.DecoderDim, c.Optim.Name, c.Optim.LR = head, 16, "sgd", 0.05
					steps(t, c)
				}
			}
			if e.ID == "en-scl" || e.ID == "gpr" { // parts of a batch arrive one by one
				c.Optim.MicroBatch = 3
				steps(t, c)
			}
		})
	}
}

// TestFrozenWaits is TestNothingWaits of heads on features, whose epochs are too short to be told of each step: an
// epoch of twice as many steps waits as often.
func TestFrozenWaits(t *testing.T) {
	torchtest.Device(t)
	dir := photos(t, 96)
	first := do(t, settingsOf(dir, "an"), "cpu").run
	for _, method := range []string{"smile-classifier", "mime", "role", "em-apl"} {
		t.Run(method, func(t *testing.T) {
			waits := func(batch int) int {
				c := settingsOf(dir, method)
				frozen(t, &c, first)
				c.Run.Device, c.Optim.BatchSize, c.Schedule.Epochs = device, batch, 2
				var at []int
				_, err := train.Run(context.Background(), c, train.RunOptions{Events: train.Events{Step: func(s train.Step) {
					if s.Phase == "train" {
						at = append(at, torchtest.DeviceWaits())
					}
				}}})
				require.NoError(t, err)
				require.Len(t, at, 2)
				return at[1] - at[0]
			}
			require.Equal(t, waits(12), waits(4))
		})
	}
}

// TestDraws: the device draws from its generator, the default one of the CPU here, as the CPU does from that.
func TestDraws(t *testing.T) {
	d := torchtest.Device(t)
	a, b := torch.Rand(torch.S(5, 7), torch.NewGenerator(1)).AddScalar(0.5), torch.Rand(torch.S(5, 7),
		torch.NewGenerator(2)).AddScalar(0.5)
	torch.ManualSeed(3)
	want := label.SampleBeta(a, b, nil)
	torch.ManualSeed(3)
	waits := torchtest.DeviceWaits()
	x, y := a.Send(d), b.Send(d)
	got := label.SampleBeta(x, y, torch.NewGenerator(4))
	require.Equal(t, waits, torchtest.DeviceWaits())
	require.Equal(t, torch.ToSlice[float32](want), torch.ToSlice[float32](got.ToDevice(torch.CPU)))
}

// TestTrainedModel is used on the device by everything that reads it.
func TestTrainedModel(t *testing.T) {
	torchtest.Device(t)
	c := settingsOf(photos(t, 64), "an")
	o := do(t, c, device)
	for _, part := range []data.Split{data.Val, data.Test} {
		r, err := evaluate.Run(context.Background(), o.run, evaluate.Options{Part: part}, train.Events{})
		require.NoError(t, err)
		require.InDelta(t, o.maps[len(o.maps)-2+int(part-data.Val)], r.MAP, 30)
	}
	photo, err := os.ReadFile(filepath.Join(c.Data.Path, "images", "003.png"))
	require.NoError(t, err)
	type use struct {
		report      *evaluate.Report
		outputs     *network.Outputs
		labels      []model.Label
		explanation *model.Explanation
	}
	var uses [2]use
	for i, d := range []string{"cpu", device} {
		u := &uses[i]
		on := evaluate.Options{Part: data.Test, Device: d}
		u.report, err = evaluate.Run(context.Background(), o.run, on, train.Events{})
		require.NoError(t, err)
		var ds *data.Dataset
		ds, u.outputs, err = evaluate.Outputs(context.Background(), o.run, evaluate.OutputsOptions{Device: d}, train.Events{})
		require.NoError(t, err)
		require.NoError(t, ds.Close())
		tagger, err := model.OpenTagger(filepath.Join(o.run, "model"), model.TaggerOptions{Device: d})
		require.NoError(t, err)
		require.Equal(t, d, strings.TrimSuffix(tagger.Device().String(), ":-1"))
		u.labels, err = tagger.Tag(context.Background(), photo)
		require.NoError(t, err)
		u.explanation, err = tagger.Explain(context.Background(), photo)
		require.NoError(t, err)
		require.NoError(t, tagger.Close())
	}
	// The CPU computes in the frozen form, whose last bits are others.
	const close = 1e-5
	cpu, there := uses[0], uses[1]
	require.Equal(t, cpu.report, there.report)
	require.Equal(t, cpu.outputs.Rows, there.outputs.Rows)
	require.InDeltaSlice(t, cpu.outputs.Values, there.outputs.Values, close)
	require.InDeltaSlice(t, cpu.outputs.Features, there.outputs.Features, close)
	require.Len(t, there.labels, len(cpu.labels))
	for i, l := range cpu.labels {
		require.Equal(t, l.Name, there.labels[i].Name)
		require.InDelta(t, l.Probability, there.labels[i].Probability, close)
	}
	require.InDeltaSlice(t, cpu.explanation.Probabilities, there.explanation.Probabilities, close)
	for i, m := range cpu.explanation.Maps {
		require.InDeltaSlice(t, m, there.explanation.Maps[i], close)
	}
	before := compute.MemoryOf
	compute.MemoryOf = func(torch.Device) (compute.Memory, bool) {
		return compute.Memory{Used: int64(torchtest.DeviceBytes()), Peak: int64(torchtest.DevicePeak()), Free: 1,
			Total: 2}, true
	}
	t.Cleanup(func() { compute.MemoryOf = before })
	c.Run.Device, c.Optim.BatchSize = device, 4 // the measured steps leave photos to read
	p, err := train.Estimate(context.Background(), c, train.Events{})
	require.NoError(t, err)
	require.Equal(t, device+", as set", p.Card.Device)
	require.Greater(t, p.Card.Peak, p.ModelBytes)
	require.EqualValues(t, 2, p.Card.Total)
	require.Positive(t, p.FeedPerSecond)
	require.Positive(t, p.StepPerSecond)
	var used int64
	c.Schedule.Epochs, c.Run.Dir = 1, ""
	_, err = train.Run(context.Background(), c, train.RunOptions{Events: train.Events{
		Step: func(s train.Step) { used = s.CardBytes }}})
	require.NoError(t, err)
	require.Positive(t, used, "the line of progress shows it")
	c.Run.Device = "cuda:99"
	_, err = train.Run(context.Background(), c, train.RunOptions{})
	require.Error(t, err)
	c.Run.Device = "gpu"
	_, err = train.Run(context.Background(), c, train.RunOptions{})
	var bad *config.Error
	require.True(t, errors.As(err, &bad))
	require.ErrorContains(t, err, `device "gpu" is none of auto, cpu, cuda, cuda:N`)
}
