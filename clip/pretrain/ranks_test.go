package pretrain

import (
	"context"
	"fmt"
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
	s := plain(4)
	m, losses, err := train(g, s)
	if err != nil {
		return err
	}
	s.Batch = 13
	if _, _, err := train(g, s); err == nil {
		return fmt.Errorf("a batch of 13 was cut into %d parts", g.Size())
	}
	return nn.SaveSafetensors(filepath.Join(dir, fmt.Sprint(g.Rank(), ".safetensors")), withLosses(m, losses), nil)
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
	m, losses, err := train(nil, plain(4))
	require.NoError(t, err)
	want := withLosses(m, losses)
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
	for rank := range 2 {
		got, _, err := nn.LoadSafetensors(filepath.Join(dir, fmt.Sprint(rank, ".safetensors")))
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for k, w := range want {
			if strings.HasSuffix(k, "in_proj_bias") { // the keys' part has no gradient but rounding, which Adam enlarges
				continue
			}
			tolerance := 1e-6
			if k != "losses" { // Adam's step of a gradient near zero
				tolerance = 2e-5
			}
			d := w.Sub(got[k].ToDType(w.DType())).Abs().Max().Item()
			require.LessOrEqual(t, d, tolerance*(1+w.Abs().Max().Item()), k)
		}
	}
}
