package pretrain

import (
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
	"github.com/gospml/gospml/torch/nn"
)

// The test program starts itself as the processes of a group.
const rankFolder = "GOSPML_PRETRAIN_RANK"

func TestMain(m *testing.M) {
	dir := os.Getenv(rankFolder)
	if dir == "" {
		os.Exit(m.Run())
	}
	dist.Main(func() error { return rankOf(dir) })
}

// plain has no batch normalisation, so that parts of a batch do not see each other but in the loss.
func plain(steps int) Settings {
	s := small()
	s.Model.Vision = &clip.Vision{ImageSize: [2]int{64, 64}, PatchSize: 16, Width: 16, Heads: 2, Layers: 2, MLP: 32, Act: clip.QuickGELU, Eps: 1e-5, Positions: clip.PositionsAuto}
	s.Steps, s.Batch, s.Warmup, s.LR = steps, 12, 0, 1e-3
	return s
}

// towers are a ViT, and a ModifiedResNet, whose normalisation sees the whole batch too.
func towers() iter.Seq2[string, Settings] {
	return func(yield func(string, Settings) bool) {
		resnet := small()
		resnet.Steps, resnet.Warmup, resnet.LR = 3, 0, 1e-3
		_ = yield("vit", plain(4)) && yield("resnet", resnet)
	}
}

func rankOf(dir string) error {
	if err := torch.SetNumThreads(1); err != nil {
		return err
	}
	env, err := dist.FromEnv()
	if err != nil {
		return err
	}
	g, err := dist.Init(env, dist.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer g.Close()
	for name, s := range towers() {
		m, losses, err := train(g, s)
		if err != nil {
			return err
		}
		if err := nn.SaveSafetensors(filepath.Join(dir, fmt.Sprint(name, g.Rank(), ".safetensors")), withLosses(m, losses), nil); err != nil {
			return err
		}
	}
	s := plain(4)
	s.Batch = 13
	if _, _, err := train(g, s); err == nil {
		return fmt.Errorf("a batch of 13 was cut into %d parts", g.Size())
	}
	return nil
}

func train(g *dist.Group, s Settings) (m *clip.CLIP, losses []float32, err error) {
	m, err = RunGroup(context.Background(), g, s, NewShapes(ShapesSeed, 100), Events{Step: func(p Step) { losses = append(losses, float32(p.Loss)) }})
	return m, losses, err
}

func withLosses(m *clip.CLIP, losses []float32) nn.StateDict {
	sd := nn.StateDictOf(m)
	sd["losses"] = torch.FromSlice(losses, len(losses))
	return sd
}

// Two processes give the losses and the parameters of one.
func TestTwoProcessesEqualOne(t *testing.T) {
	wants := map[string]nn.StateDict{}
	for name, s := range towers() {
		m, losses, err := train(nil, s)
		require.NoError(t, err)
		wants[name] = withLosses(m, losses)
	}
	dir := t.TempDir()
	store, err := dist.NewTCPStore("127.0.0.1", 0, true, 0, time.Minute)
	require.NoError(t, err)
	defer store.Close()
	self, err := os.Executable()
	require.NoError(t, err)
	var running []*exec.Cmd
	for rank := range 2 {
		c := exec.CommandContext(t.Context(), self, "-test.run=^$")
		c.Env = append(os.Environ(), rankFolder+"="+dir, fmt.Sprint("RANK=", rank), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", store.Port()),
			"TORCHELASTIC_USE_AGENT_STORE=True", "OMP_NUM_THREADS=1")
		c.Stderr = os.Stderr
		require.NoError(t, c.Start())
		running = append(running, c)
	}
	for rank, c := range running {
		require.NoError(t, c.Wait(), "rank %d", rank)
	}
	for name, want := range wants {
		for rank := range 2 {
			got, _, err := nn.LoadSafetensors(filepath.Join(dir, fmt.Sprint(name, rank, ".safetensors")))
			require.NoError(t, err)
			require.Len(t, got, len(want))
			for k, w := range want {
				if strings.HasSuffix(k, "in_proj_bias") || strings.HasSuffix(k, "k_proj.bias") { // the keys' part has no gradient but rounding, which Adam enlarges
					continue
				}
				tolerance := map[string]float64{"vit": 1e-6, "resnet": 1e-5}[name]
				if k != "losses" { // Adam's step of a gradient near zero, which a ModifiedResNet has more of
					tolerance = map[string]float64{"vit": 2e-5, "resnet": 2e-4}[name]
				}
				d := w.ToDType(torch.Float64).Sub(got[k].ToDType(torch.Float64)).Abs().Max().Item()
				require.LessOrEqual(t, d, tolerance*(1+w.ToDType(torch.Float64).Abs().Max().Item()), "%s %s", name, k)
			}
		}
	}
}
