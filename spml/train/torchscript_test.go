package train

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/jit"
	"github.com/gospml/gospml/torch/nn"
)

// TestTorchScript exports models of several kinds: the file has the model's keys and logits, for batches of any size,
// and a full disk leaves nothing.
func TestTorchScript(t *testing.T) {
	dir := folder(t, 20)
	for name, change := range map[string]func(t *testing.T, c *config.Config){
		"mobilenet_v2": func(t *testing.T, c *config.Config) { c.Model.Backbone = "mobilenet_v2" },
		"resnet18":     func(t *testing.T, c *config.Config) { c.Model.Backbone = "resnet18" },
		"small_cnn":    func(t *testing.T, c *config.Config) {},
		"features": func(t *testing.T, c *config.Config) {
			*c = scenes(t, "an", 1)
			c.Schedule.Epochs = 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := small(dir, "an")
			change(t, &c)
			c.Schedule.Epochs, c.Run.Dir = 1, filepath.Join(t.TempDir(), "run")
			_, err := Run(context.Background(), c, RunOptions{})
			require.NoError(t, err)
			to := filepath.Join(t.TempDir(), "model.pt")

			restore := atomicfile.Inject(func(op atomicfile.Operation, path string) error {
				if op == atomicfile.OpWrite {
					return syscall.ENOSPC
				}
				return nil
			})
			err = Export(c.Run.Dir, to, ExportOptions{Form: ExportTorchScript})
			restore()
			require.ErrorIs(t, err, syscall.ENOSPC)
			require.NoFileExists(t, to)

			require.NoError(t, Export(c.Run.Dir, to, ExportOptions{Form: ExportTorchScript}))
			m, err := jit.Load(to)
			require.NoError(t, err)
			defer m.Close()
			sd, err := m.StateDict()
			require.NoError(t, err)
			want, _, err := nn.LoadSafetensors(filepath.Join(c.Run.Dir, "model", model.WeightsFile))
			require.NoError(t, err)
			require.Equal(t, want.Keys(), sd.Keys())
			for k, x := range want {
				require.True(t, x.Equal(sd[k].Detach()), k)
			}
			mc, err := model.ReadConfig(filepath.Join(c.Run.Dir, "model"))
			require.NoError(t, err)
			forward, shape := func(x *torch.Tensor) *torch.Tensor { return torch.Linear(x, want["weight"], want["bias"]) }, []int{mc.NumFeatures}
			if !mc.FeaturesOnly {
				opened, err := model.Open(c.Run.Dir)
				require.NoError(t, err)
				forward, shape = opened.Net.Forward, mc.PretrainedCfg.InputSize[:]
			}
			for _, n := range []int{1, 2, 5} {
				x := torch.Randn(append([]int{n}, shape...), torch.Float32, torch.NewGenerator(1))
				y, err := m.Forward(x)
				require.NoError(t, err)
				require.Equal(t, []int{n, mc.NumClasses}, y.Shape())
				require.InDeltaSlice(t, first(forward(x).Detach()), first(y.Detach()), 1e-5)
			}
		})
	}
}

// TestTorchScriptRefuses: a head whose trace would hold the size of the batch is refused with the reason, and nothing
// is written.
func TestTorchScriptRefuses(t *testing.T) {
	c := withDecoder(folder(t, 20), "an")
	c.Schedule.Epochs, c.Run.Dir = 1, filepath.Join(t.TempDir(), "run")
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "model.pt")
	err = Export(c.Run.Dir, to, ExportOptions{Form: ExportTorchScript})
	require.ErrorIs(t, err, ErrData)
	require.ErrorContains(t, err, "with the head decoder cannot be written as TorchScript")
	require.NoFileExists(t, to)
}
