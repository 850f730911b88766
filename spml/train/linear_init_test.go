package train

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// TestLinearInit trains ROLE's two stages: the second begins with the head and the estimates of the first one's best
// epoch, clipped and made logits again, and with a fresh optimiser.
func TestLinearInit(t *testing.T) {
	dir := folder(t, 40)
	c := small(dir, "an")
	c.Schedule.Epochs, c.Run.Dir = 1, filepath.Join(t.TempDir(), "weights")
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	weights := filepath.Join(c.Run.Dir, "model", model.WeightsFile)

	stage := small(dir, "role")
	stage.Model.Mode, stage.Model.Weights, stage.Schedule.Epochs = config.Frozen, weights, 12
	stage.Run.KeepBest, stage.Run.SaveEvery = 1, config.SaveEvery{Epoch: true}
	stage.Optim.LR = 0.5
	stage.Optim.HeadLR = 0.5 // some estimates leave the clip's range, and the best epoch is not the last
	stage.Run.Dir = filepath.Join(t.TempDir(), "linear")
	res, err := Run(context.Background(), stage, RunOptions{})
	require.NoError(t, err)
	require.Less(t, res.Best.Epoch, 12)

	best := savedTable(t, stage.Run.Dir, res.Best.Epoch)
	head, _, err := nn.LoadSafetensors(filepath.Join(stage.Run.Dir, "model", model.WeightsFile))
	require.NoError(t, err)

	next := small(dir, "role")
	next.Model.Weights, next.Model.Init, next.Run.MaxSteps = weights, stage.Run.Dir, 1
	resolved, err := next.Ready()
	require.NoError(t, err)
	var notes []string
	seen := 0
	with := RunOptions{Events: Events{Note: func(s string) { notes = append(notes, s) }}}
	_, err = run(context.Background(), resolved, with, false, func(tr *trainer) {
		if seen++; seen > 1 {
			return
		}
		u := first(tr.step.Estimator.(*label.Role).U.Detach())
		require.Len(t, u, len(best))
		clipped := 0
		for i, x := range best {
			p := 1 / (1 + math.Exp(-x))
			q := math.Min(math.Max(p, 1e-5), 1-1e-5)
			if q != p {
				clipped++
			}
			require.InDelta(t, math.Log(q/(1-q)), u[i], 2e-2*math.Max(1, math.Abs(x)/8), "entry %d, probability %v", i, p)
			require.LessOrEqual(t, math.Abs(u[i]), 11.53)
		}
		require.Positive(t, clipped)
		own := nn.StateDictOf(tr.l.(*fineTune).Model)
		for k, x := range head {
			require.True(t, own[k].Detach().Equal(x), k)
		}
		require.Empty(t, tr.step.Optimizer.StateDict().Tensors, "a fresh optimiser")
	})
	var stopped *StoppedError
	require.ErrorAs(t, err, &stopped)
	require.Contains(t, strings.Join(notes, "\n"), "label estimates of 24 of 24 rows taken")

	other := uint32(99)
	next.Data.Seed = &other
	_, err = Run(context.Background(), next, RunOptions{})
	require.ErrorIs(t, err, ErrData)
	require.ErrorContains(t, err, "other observed labels")
	next.Data.Seed = nil
	require.NoError(t, os.WriteFile(filepath.Join(stage.Run.Dir, method.EstimatesFile), []byte("cut"), 0o644))
	_, err = Run(context.Background(), next, RunOptions{})
	require.Error(t, err)
}

// savedTable is ROLE's table in the checkpoint at the end of an epoch.
func savedTable(t *testing.T, run string, epoch int) []float64 {
	names, err := list(filepath.Join(run, checkpoints))
	require.NoError(t, err)
	for _, n := range names {
		m, sd, err := load(filepath.Join(run, checkpoints, n))
		require.NoError(t, err)
		if m.Position.Epoch == epoch+1 {
			return first(sd["estimator.u"])
		}
		sd.Free()
	}
	t.Fatalf("no checkpoint after epoch %d in %v", epoch, names)
	return nil
}

// TestInitTakesAHeadOnFeatures: a run on stored features has no backbone; its head starts a network's.
func TestInitTakesAHeadOnFeatures(t *testing.T) {
	m := nn.NewLinear(6, 4)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "model"), 0o755))
	require.NoError(t, nn.SaveSafetensors(filepath.Join(dir, "model", model.WeightsFile), nn.StateDict{"weight": m.Weight, "bias": m.Bias}, nil))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model", model.ConfigFile), []byte("{}"), 0o644))
	net := &linearModel{Classifier: nn.NewLinear(6, 4)}
	said, err := model.StartFrom(net, dir)
	require.NoError(t, err)
	require.Contains(t, said, "2 tensors taken, 0 fresh")
	require.True(t, net.Classifier.Weight.Equal(m.Weight))
	require.True(t, net.Classifier.Bias.Equal(m.Bias))
}

// linearModel is a network that is its head.
type linearModel struct{ Classifier *nn.Linear }

func (m *linearModel) Forward(x *torch.Tensor) *torch.Tensor    { return m.Classifier.Forward(x) }
func (m *linearModel) FeatureMap(x *torch.Tensor) *torch.Tensor { return x }
func (m *linearModel) Features(x *torch.Tensor) *torch.Tensor   { return x }
func (m *linearModel) FeatureDim() int                          { return 6 }
func (m *linearModel) Head() *nn.Linear                         { return m.Classifier }
func (m *linearModel) HeadKey() string                          { return "classifier" }
func (m *linearModel) SetHead(l *nn.Linear)                     { m.Classifier = l }
