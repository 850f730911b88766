package train

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

func withDecoder(dir, method string) config.Config {
	c := small(dir, method)
	c.Model.Head, c.Model.DecoderDim, c.Schedule.Epochs = config.HeadDecoder, 16, 2
	c.Optim.BatchSize, c.Run.Threads = 12, 1
	return c
}

// TestTwoStages trains LAC's recipe: the second stage starts from the first one's weights, has a fresh projection head,
// and the run can be used.
func TestTwoStages(t *testing.T) {
	c := withDecoder(folder(t, 60), "lac")
	c.Run.Dir, c.Optim.EMA, c.Optim.EMABest, c.Schedule.Name, c.Optim.Name, c.Optim.WeightDecay = filepath.Join(
		t.TempDir(),
		"run",
	), 0.9, true, "onecycle", "adamw", 0.01
	var notes []string
	res, err := Run(context.Background(), c, RunOptions{Events: Events{Note: func(s string) { notes = append(notes, s) }}})
	require.NoError(t, err)
	require.Len(t, res.Epochs, 2)
	said := strings.Join(notes, "\n")
	require.Contains(t, said, "stage 1 of 2: plc")
	require.Contains(t, said, "tensors taken, 4 fresh, 0 not used", "the projection head is new: two layers, weight and bias")
	first, err := rundir.Read(filepath.Join(c.Run.Dir, "stage1"))
	require.NoError(t, err)
	require.Equal(t, "plc", first.Method.ID)
	require.Empty(t, first.Method.Params, "δ of the first stage is its own default")

	tagger, err := Load(c.Run.Dir, TaggerOptions{Workers: 1})
	require.NoError(t, err)
	labels, err := tagger.TagFile(context.Background(), filepath.Join(c.Data.Path, "images", "000.png"))
	require.NoError(t, err)
	require.Len(t, labels, len(tagger.Config.LabelNames))
	require.NoError(t, tagger.Close())
	ev, err := Evaluate(context.Background(), c.Run.Dir, data.Test, Events{})
	require.NoError(t, err)
	require.InDelta(t, res.Best.TestMAP, ev.MAP, 1e-6)

	// What is there is not trained again.
	require.NoError(t, os.Remove(filepath.Join(c.Run.Dir, "run.yaml")))
	require.NoError(t, os.RemoveAll(filepath.Join(c.Run.Dir, checkpoints)))
	notes = nil
	again, err := Run(
		context.Background(),
		c,
		RunOptions{Events: Events{Note: func(s string) { notes = append(notes, s) }}},
	)
	require.NoError(t, err)
	require.NotContains(t, strings.Join(notes, "\n"), "stage 1 of 2")
	require.Equal(t, res.Epochs[1].Loss, again.Epochs[1].Loss)
}

// TestResumeLAC stops in the middle of an epoch: queue, average, dropout and both views go on to the bit.
func TestResumeLAC(t *testing.T) {
	c := withDecoder(folder(t, 60), "lac")
	c.Stages.Count, c.Method.QueueSize, c.Optim.EMA = 1, 20, 0.9
	c.Run.Dir = filepath.Join(t.TempDir(), "whole")
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	sum := func(run string) string {
		names, err := list(filepath.Join(run, checkpoints))
		require.NoError(t, err)
		m, sd, err := load(filepath.Join(run, checkpoints, names[0]))
		require.NoError(t, err)
		require.NotNil(t, sd["estimator.features"])
		require.Positive(t, sd["estimator.labels"].CountNonzero().ItemInt())
		sd.Free()
		return m.Files[0].SHA256
	}
	want := sum(c.Run.Dir)
	c.Run.Dir, c.Run.MaxSteps = filepath.Join(t.TempDir(), "cut"), 4
	_, err = Run(context.Background(), c, RunOptions{})
	var stopped *StoppedError
	require.ErrorAs(t, err, &stopped)
	_, err = Resume(context.Background(), c.Run.Dir, nil, RunOptions{})
	require.NoError(t, err)
	require.Equal(t, want, sum(c.Run.Dir))
}

// TestHeads trains other methods with LAC's decoder and with ML-Decoder.
func TestHeads(t *testing.T) {
	dir := folder(t, 60)
	for _, head := range []string{config.HeadDecoder, config.HeadMLDecoder} {
		for _, method := range []string{"an", "em", "role", "plc"} {
			t.Run(head+"/"+method, func(t *testing.T) {
				c := withDecoder(dir, method)
				c.Model.Head, c.Schedule.Epochs, c.Run.Dir = head, 1, filepath.Join(t.TempDir(), "run")
				if head == config.HeadMLDecoder {
					c.Model.DecoderDim = 32
				}
				res, err := Run(context.Background(), c, RunOptions{})
				require.NoError(t, err)
				ev, err := Evaluate(context.Background(), c.Run.Dir, data.Test, Events{})
				require.NoError(t, err)
				require.InDelta(t, res.Best.TestMAP, ev.MAP, 1e-6)
			})
		}
	}
}

func TestLACWithoutQueue(t *testing.T) {
	c := withDecoder(folder(t, 40), "lac")
	c.Stages.Count, c.Method.QueueSize, c.Schedule.Epochs = 1, -1, 1
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
}

func TestHeadErrors(t *testing.T) {
	for _, x := range []struct {
		change func(*config.Config)
		says   string
	}{
		{func(c *config.Config) { c.Model.Head = "tree" }, "no head is called"},
		{func(c *config.Config) { c.Method.ID, c.Model.Head = "lac", config.HeadLinear }, "--head decoder"},
		{func(c *config.Config) { c.Method.ID, c.Model.Head = "mime", config.HeadMLDecoder }, "a head of its own"},
		{func(c *config.Config) { c.Stages.Count = 2 }, "belong to lac"},
		{func(c *config.Config) { c.Method.ID, c.Stages.Count = "lac", 3 }, "want 0 to 2"},
		{func(c *config.Config) { c.Optim.EMABest = true }, "set ema too"},
		{func(c *config.Config) { c.Method.ID, c.Optim.MicroBatch = "plc", 4 }, "leave micro_batch out"},
		{func(c *config.Config) {
			c.Model.Head, c.Model.Mode, c.Model.Features = config.HeadDecoder, config.Frozen, config.Paths{"x.npy"}
		}, "leave --frozen out"},
	} {
		c := small("somewhere", "an")
		x.change(&c)
		_, err := c.Resolve()
		require.ErrorContains(t, err, x.says)
	}
	c := withDecoder(folder(t, 20), "lac")
	_, err := Run(context.Background(), c, RunOptions{})
	require.ErrorContains(t, err, "give --run")
}

// The frozen embeddings of a strong view depend on seed, epoch and row alone.
func TestStrongViewIsDrawnByRow(t *testing.T) {
	c, err := withDecoder(folder(t, 20), "plc").Ready()
	require.NoError(t, err)
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	s, err := newSession(c, ds, Events{})
	require.NoError(t, err)
	f, err := newFineTune(s)
	require.NoError(t, err)
	defer f.close()
	views := func(order []int, epoch int) map[int][]float32 {
		m := map[int][]float32{}
		for v, err := range f.batches(context.Background(), order, nil, 0) {
			require.NoError(t, err)
			torch.Scope(func(*torch.Arena) {
				x, err := f.strong(v, epoch)
				require.NoError(t, err)
				for i, p := range v.places {
					m[p] = torch.ToSlice[float32](x.Select(0, i).Contiguous().Flatten(0, -1))
				}
			})
		}
		return m
	}
	a, b := views([]int{0, 1, 2, 3}, 1), views([]int{3, 1, 0}, 1)
	for p := range b {
		require.Equal(t, a[p], b[p])
	}
	require.NotEqual(t, a, views([]int{0, 1, 2, 3}, 2))
	require.NotContains(t, nn.StateDictOf(f.Model), "body.fc.weight")
}

// TestExplain gives a map for each label, whatever head the model has.
func TestExplain(t *testing.T) {
	dir := folder(t, 40)
	for head, kind := range map[string]string{config.HeadDecoder: "attention", config.HeadLinear: "cam"} {
		c := withDecoder(dir, "an")
		c.Model.Head, c.Schedule.Epochs, c.Run.Dir = head, 1, filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), c, RunOptions{})
		require.NoError(t, err)
		tagger, err := Load(c.Run.Dir, TaggerOptions{Workers: 1})
		require.NoError(t, err)
		opened, err := model.Open(c.Run.Dir)
		require.NoError(t, err)
		photo, err := os.ReadFile(filepath.Join(dir, "images", "001.png"))
		require.NoError(t, err)
		e, err := tagger.Explain(context.Background(), photo)
		require.NoError(t, err)
		require.Equal(t, kind, e.Kind)
		p, err := tagger.Probabilities(context.Background(), photo)
		require.NoError(t, err)
		require.InDeltaSlice(t, p, e.Probabilities, 1e-6)
		require.Len(t, e.Maps, len(p))
		for c, m := range e.Maps {
			require.Len(t, m, e.H*e.W)
			sum := 0.0
			for _, v := range m {
				sum += float64(v)
			}
			if kind == "attention" {
				require.InDelta(t, 1, sum, 1e-4)
				continue
			}
			logit := math.Log(float64(p[c]) / (1 - float64(p[c])))
			bias := opened.Net.Head().Bias.At(c).Item()
			require.InDelta(t, logit-bias, sum/float64(e.H*e.W), 1e-3, "the map's mean is the logit without its bias")
		}
		_, err = tagger.Explain(context.Background(), []byte("no photo"))
		require.Error(t, err)
		require.NoError(t, tagger.Close())
	}
}

// TestMemorySwitches: checkpointing leaves every bit of the weights, frozen stages and constant normalisation leave
// theirs, and what cannot be is said.
func TestMemorySwitches(t *testing.T) {
	dir := folder(t, 30)
	weights := func(checkpointing string, inBackward bool) map[string][]float32 {
		c := withDecoder(dir, "plc")
		c.Model.Backbone, c.Model.BatchNorm, c.Model.FreezeAt = "resnet18", config.BatchNormConstant, 2
		c.Model.GradCheckpointing, c.Optim.InBackward, c.Schedule.Epochs = checkpointing, inBackward, 1
		c.Run.Dir = filepath.Join(t.TempDir(), "run")
		_, err := Run(context.Background(), c, RunOptions{})
		require.NoError(t, err)
		sd, _, err := nn.LoadSafetensors(filepath.Join(c.Run.Dir, "model", model.WeightsFile))
		require.NoError(t, err)
		defer sd.Free()
		out := map[string][]float32{}
		for k, w := range sd {
			if w.DType() == torch.Float32 {
				out[k] = torch.ToSlice[float32](w)
			}
		}
		return out
	}
	plain := weights(config.CheckpointNone, false)
	require.Equal(t, plain, weights(config.CheckpointHead, false))
	require.Equal(t, plain, weights(config.CheckpointAll, false))
	require.Equal(t, plain, weights(config.CheckpointNone, true))
	for _, v := range plain["body.layer3.0.bn1.weight"] {
		require.EqualValues(t, 1, v, "gain is constant")
	}

	for _, x := range []struct {
		change func(*config.Config)
		says   string
	}{
		{func(c *config.Config) { c.Model.GradCheckpointing = "some" }, "none of none, head, all"},
		{func(c *config.Config) {
			c.Model.Head, c.Model.GradCheckpointing = config.HeadLinear, config.CheckpointHead
		}, "--head decoder"},
		{func(c *config.Config) { c.Model.FreezeAt = -1 }, "want 0 to 100"},
		{func(c *config.Config) { c.Optim.InBackward, c.Optim.ClipNorm = true, 1 }, "each gradient once and alone"},
		{func(c *config.Config) {
			c.Optim.InBackward, c.Model.GradCheckpointing = true, config.CheckpointHead
		}, "each gradient once and alone"},
		{func(c *config.Config) {
			c.Model.Head, c.Model.Mode = config.HeadLinear, config.Frozen
			c.Model.Features, c.Model.FreezeAt = config.Paths{"x.npy"}, 1
		}, "--frozen trains no backbone"},
		{func(c *config.Config) { c.Stages.First = "x" }, "one stage"},
		{func(c *config.Config) { c.Stages.Delta = 0.5 }, "one stage"},
		{func(c *config.Config) { c.Method.ID, c.Stages.Delta = "lac", 1 }, "below 1"},
		{func(c *config.Config) { c.Method.StrongView = "crop" }, "compare two views"},
		{func(c *config.Config) { c.Method.ID, c.Method.StrongView = "plc", "weak" }, "no strong view"},
	} {
		c := withDecoder("somewhere", "an")
		x.change(&c)
		_, err := c.Resolve()
		require.ErrorContains(t, err, x.says)
	}
	for _, x := range []struct {
		change func(*config.Config)
		says   string
	}{
		{func(c *config.Config) { c.Model.FreezeAt = 1 }, "stages of a ResNet"},
		{func(c *config.Config) { c.Model.GradCheckpointing = config.CheckpointAll }, "small_cnn is none"},
		{func(c *config.Config) {
			c.Model.Backbone, c.Model.GradCheckpointing = "resnet18", config.CheckpointAll
			c.Model.BatchNorm = config.BatchNormLive
		}, "set batch_norm frozen"},
	} {
		c := withDecoder(dir, "an")
		x.change(&c)
		_, err := Run(context.Background(), c, RunOptions{})
		require.ErrorContains(t, err, x.says)
	}
}

// TestResumeTwoStages stops a two-stage run in the middle of an epoch of stage two, and another one in stage one:
// weights, running average, queue and generators go on to the bit.
func TestResumeTwoStages(t *testing.T) {
	c := withDecoder(folder(t, 60), "lac")
	c.Method.QueueSize, c.Optim.EMA, c.Optim.EMABest = 20, 0.9, true
	c.Schedule.Name, c.Optim.Name, c.Optim.WeightDecay = "onecycle", "adamw", 0.01
	c.Run.Dir = filepath.Join(t.TempDir(), "whole")
	whole, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	want := lastCheckpoint(t, c.Run.Dir)
	require.Positive(t, want["estimator.labels"].CountNonzero().ItemInt())
	require.NotNil(t, want["estimator.features"])
	require.NotEmpty(t, slices.DeleteFunc(want.Keys(), func(k string) bool { return !strings.HasPrefix(k, "ema.") }))

	same := func(t *testing.T, res *Result, run string) {
		for i := range whole.Epochs {
			require.Equal(t, whole.Epochs[i].Loss, res.Epochs[i].Loss)
			require.Equal(t, whole.Epochs[i].ValMAP, res.Epochs[i].ValMAP)
		}
		got := lastCheckpoint(t, run)
		require.Equal(t, want.Keys(), got.Keys())
		for _, k := range want.Keys() {
			require.True(t, want[k].Equal(got[k]), k)
		}
	}
	for _, stage := range []int{1, 2} {
		t.Run(fmt.Sprint("stage ", stage), func(t *testing.T) {
			c := c
			c.Run.Dir = filepath.Join(t.TempDir(), "cut")
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			at, steps := 0, 0
			_, err := Run(ctx, c, RunOptions{Events: Events{
				Note: func(s string) {
					if strings.HasPrefix(s, "stage ") {
						at++
					}
				},
				Step: func(s Step) {
					if s.Phase == "train" && at == stage {
						if steps++; steps == 2 {
							stop(ErrStop)
						}
					}
				},
			}})
			var stopped *StoppedError
			require.ErrorAs(t, err, &stopped)
			require.Equal(t, 2, steps, "stopped at once, in the middle of the first epoch")
			res, err := Resume(t.Context(), c.Run.Dir, nil, RunOptions{})
			require.NoError(t, err)
			same(t, res, c.Run.Dir)
		})
	}
}

func lastCheckpoint(t *testing.T, run string) nn.StateDict {
	names, err := list(filepath.Join(run, checkpoints))
	require.NoError(t, err)
	_, sd, err := load(filepath.Join(run, checkpoints, names[0]))
	require.NoError(t, err)
	t.Cleanup(sd.Free)
	return sd
}

// The strong views are different ones, a first stage may have its own δ, and what a method cannot use is refused.
func TestStrongViews(t *testing.T) {
	dir := folder(t, 40)
	losses := map[float64]string{}
	for _, view := range config.StrongViews() {
		c := withDecoder(dir, "plc")
		c.Method.StrongView, c.Schedule.Epochs, c.Run.Dir = view, 1, filepath.Join(t.TempDir(), "run")
		res, err := Run(t.Context(), c, RunOptions{})
		require.NoError(t, err, view)
		require.Empty(t, losses[res.Epochs[0].Loss], "%s is as %s", view, losses[res.Epochs[0].Loss])
		losses[res.Epochs[0].Loss] = view
	}
	c := withDecoder(dir, "lac")
	c.Stages.Delta, c.Method.StrongView, c.Method.Params = 0.7, "crop", map[string]float64{"delta": 0.3, "lam": 2}
	c, err := c.Resolve()
	require.NoError(t, err)
	first, err := c.FirstStage()
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"delta": 0.7, "lam": 2}, first.Method.Params)
	require.Equal(t, "crop", first.Method.StrongView)
}

// The parts of shapes may be of another size, and what is no part is refused.
func TestShapesParts(t *testing.T) {
	c, err := config.Config{
		Data:   config.Data{Path: config.Shapes, Options: config.DataOptions{Train: 30, Test: 7}},
		Method: config.Method{ID: "an"},
	}.Resolve()
	require.NoError(t, err)
	ds, err := c.Data.Open()
	require.NoError(t, err)
	defer ds.Close()
	require.Len(t, ds.Rows(data.Train), 30)
	require.Len(t, ds.Rows(data.Val), 500)
	require.Len(t, ds.Rows(data.Test), 7)
	for _, bad := range []string{"train=0", "missing=skip", "val=x"} {
		var o config.DataOptions
		err := o.UnmarshalText([]byte(bad))
		if err == nil {
			_, err = config.Config{Data: config.Data{Path: config.Shapes, Options: o}, Method: config.Method{ID: "an"}}.Resolve()
		}
		require.ErrorContains(t, err, "shapes takes train=N")
	}
	c = withDecoder("x", "lac")
	c.Optim.LR, c.Stages.LR = 1e-4, 1e-3
	c.Model.Weights, c.Data.Path, c.Model.Backbone = "", config.Shapes, "small_cnn"
	c, err = c.Resolve()
	require.NoError(t, err)
	first, err := c.FirstStage()
	require.NoError(t, err)
	require.Equal(
		t,
		[]float64{1e-3, 1e-3, 1e-4, 1e-4},
		[]float64{first.Optim.LR, first.Optim.HeadLR, c.Optim.LR, c.Optim.HeadLR},
	)
}
