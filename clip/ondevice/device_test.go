package ondevice_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/clip/pretrain"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/torchtest"
)

// near compares as the goldens do.
func near(t testing.TB, what string, want, got *torch.Tensor, rtol, atol float64) {
	t.Helper()
	require.Equal(t, torch.DeviceCPU, got.Device().Type, what)
	require.Equal(t, want.Shape(), got.Shape(), what)
	w, g := torch.ToSlice[float64](want), torch.ToSlice[float64](got)
	for i := range w {
		if d := w[i] - g[i]; !(max(d, -d) <= atol+rtol*max(w[i], -w[i])) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g[i], w[i])
		}
	}
}

func variants(t testing.TB) (dirs []string) {
	root := testroot.Testdata("clip", "variants")
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		dirs = append(dirs, filepath.Join(root, e.Name()))
	}
	require.NotEmpty(t, dirs)
	return dirs
}

// Every configuration, on the device, gives what the libraries that made it gave: features, tokens, attention and texts; in the narrow types what the CPU gives in them.
func TestModelsOnDevice(t *testing.T) {
	device := torchtest.Device(t)
	for _, dir := range variants(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			e, _, err := nn.LoadSafetensors(filepath.Join(dir, "expected.safetensors"))
			require.NoError(t, err)
			for _, dtype := range []torch.DType{torch.Float32, torch.BFloat16, torch.Float16} {
				m, err := clip.Open(dir, clip.Options{Device: device, DType: dtype, Batch: 3})
				require.NoError(t, err)
				require.Equal(t, device, m.Device())
				require.False(t, m.Frozen())
				require.Greater(t, torchtest.DeviceBytes(), m.Memory()*9/10, "the weights are there")
				rtol, atol := 1e-4, 1e-5
				if dtype != torch.Float32 {
					rtol, atol = 0.1, 0.15
				}
				want := clip.Want{Tokens: true, Attention: true}
				on, err := m.Details(t.Context(), e["pixel_values"], want)
				require.NoError(t, err)
				near(t, "tokens", e["patch_tokens"], on.Tokens, rtol, atol)
				near(t, "features with details", e["image_features"], on.Embeddings, rtol, atol)
				image, err := m.EncodeImage(t.Context(), e["pixel_values"])
				require.NoError(t, err)
				near(t, "image", e["image_features"], image, rtol, atol)
				image, err = m.EncodeImage(t.Context(), e["pixel_values"].ToDevice(device)) // already there
				require.NoError(t, err)
				near(t, "image that was there", e["image_features"], image, rtol, atol)
				text, err := m.EncodeIDs(t.Context(), e["input_ids"])
				require.NoError(t, err)
				near(t, "text", e["text_features"], text, rtol, atol)
				text, err = m.EncodeIDs(t.Context(), e["input_ids"].ToDevice(device))
				require.NoError(t, err)
				near(t, "text of ids that were there", e["text_features"], text, rtol, atol)
				if other := e["other.pixel_values"]; other != nil {
					y, err := m.EncodeImage(t.Context(), other)
					require.NoError(t, err)
					near(t, "another size", e["other.image_features"], y, rtol, atol)
				}
				if dtype == torch.Float32 {
					cpu, err := clip.Open(dir, clip.Options{})
					require.NoError(t, err)
					here, err := cpu.Details(t.Context(), e["pixel_values"], want)
					require.NoError(t, err)
					require.Len(t, on.Attention, len(here.Attention))
					for i := range here.Attention {
						near(t, fmt.Sprint("attention ", i), here.Attention[i], on.Attention[i], 1e-4, 1e-5)
					}
					near(t, "logits", e["logits_per_image"], m.Logits(clip.Normalize(image), clip.Normalize(text)), 1e-4, 1e-5)
					cpu.Close()
				}
				m.Close()
			}
		})
	}
	require.Zero(t, torchtest.DeviceRefusals())
}

// The built-in model does zero-shot on the device, from files and many goroutines.
func TestZeroShotOnDevice(t *testing.T) {
	device := torchtest.Device(t)
	open := func(o clip.Options) *clip.Model {
		m, err := clip.OpenBuiltin(o)
		require.NoError(t, err)
		t.Cleanup(m.Close)
		return m
	}
	cpu, m := open(clip.Options{}), open(clip.Options{Device: device})
	classes, templates := []string{"circle", "square", "red"}, []string{"a {}.", "a drawing of a {}."}
	here, err := cpu.ClassFeatures(t.Context(), classes, templates)
	require.NoError(t, err)
	there, err := m.ClassFeatures(t.Context(), classes, templates)
	require.NoError(t, err)
	near(t, "class features", here, there, 1e-4, 1e-5)
	a, err := cpu.ZeroShot(t.Context(), classes, templates)
	require.NoError(t, err)
	b, err := m.ZeroShot(t.Context(), classes, templates)
	require.NoError(t, err)
	h, w := m.ImageSize()
	x := torch.Randn(torch.S(5, 3, h, w))
	want, err := cpu.EncodeImage(t.Context(), x)
	require.NoError(t, err)
	scores, err := a.Embeddings(t.Context(), want)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got, err := m.EncodeImage(t.Context(), x)
			if err != nil {
				t.Error(err)
				return
			}
			for _, y := range []*torch.Tensor{got, got.ToDevice(device)} {
				s, err := b.Embeddings(t.Context(), y)
				if err != nil {
					t.Error(err)
					return
				}
				for i := range s.Cosines {
					if d := s.Cosines[i] - scores.Cosines[i]; max(d, -d) > 1e-5 {
						t.Errorf("cosine %d is %v, want %v", i, s.Cosines[i], scores.Cosines[i])
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// Towers on the device train: the gradients of the contrastive loss are the CPU's.
func TestGradientsOnDevice(t *testing.T) {
	device := torchtest.Device(t)
	for _, dir := range variants(t) {
		gradients := func(move bool) map[string]*torch.Tensor {
			m, _, err := clip.Load(dir, clip.LoadOptions{})
			require.NoError(t, err)
			e, _, err := nn.LoadSafetensors(filepath.Join(dir, "expected.safetensors"))
			require.NoError(t, err)
			x, ids := e["pixel_values"], e["input_ids"].Slice(0, 0, 2, 1)
			if move {
				nn.ToDevice(m, device)
				x, ids = x.ToDevice(device), ids.ToDevice(device)
			}
			m.ContrastiveLoss(m.Visual.Forward(x), m.ForwardText(ids)).Backward()
			out := map[string]*torch.Tensor{}
			for name, p := range nn.NamedParameters(m) {
				if g := p.Grad(); g != nil {
					out[name] = g.ToDevice(torch.CPU)
				}
			}
			return out
		}
		want, got := gradients(false), gradients(true)
		require.Len(t, got, len(want))
		require.Contains(t, want, "logit_scale")
		for name := range want {
			near(t, filepath.Base(dir)+" "+name, want[name], got[name], 1e-4, 1e-6)
		}
	}
}

// Pretraining on the device takes the CPU's steps.
func TestPretrainOnDevice(t *testing.T) {
	device := torchtest.Device(t)
	run := func(d torch.Device) (losses []float64, m *clip.CLIP) {
		s := pretrain.Shapes()
		s.Steps, s.Batch, s.Device = 3, 8, d
		m, err := pretrain.Run(t.Context(), s, pretrain.NewShapes(pretrain.ShapesSeed, 40), pretrain.Events{Step: func(p pretrain.Step) { losses = append(losses, p.Loss) }})
		require.NoError(t, err)
		return losses, m
	}
	want, here := run(torch.CPU)
	got, there := run(device)
	require.InDeltaSlice(t, want, got, 1e-5)
	a, b := nn.StateDictOf(here), nn.StateDictOf(there)
	for name, p := range a {
		near(t, name, p, b[name], 1e-3, 1e-5)
	}
}

// pretrainRank is the environment variable that makes the test program one of two processes of a pretraining.
const pretrainRank = "GOSPML_TEST_PRETRAIN"

// TestPretrainOnTwoDevices: two processes, each with a device, get the losses and the model of one on the CPU, and
// send each other embeddings and gradients from device to device.
func TestPretrainOnTwoDevices(t *testing.T) {
	s := pretrain.Shapes()
	s.Steps, s.Batch = 3, 8
	run := func(ctx context.Context, g *dist.Group, s pretrain.Settings) (losses []float32, m *clip.CLIP) {
		m, err := pretrain.RunGroup(ctx, g, s, pretrain.NewShapes(pretrain.ShapesSeed, 40), pretrain.Events{
			Step: func(p pretrain.Step) { losses = append(losses, float32(p.Loss)) },
		})
		require.NoError(t, err)
		return losses, m
	}
	if dir := os.Getenv(pretrainRank); dir != "" {
		require.NoError(t, torch.SetNumThreads(1))
		d := torchtest.Device(t)
		env, err := dist.FromEnv()
		require.NoError(t, err)
		g, err := dist.Init(env, dist.Options{Timeout: time.Minute})
		require.NoError(t, err)
		defer g.Close()
		s.Device = torch.Device{Type: d.Type, Index: env.LocalRank}
		losses, m := run(t.Context(), g, s)
		require.GreaterOrEqual(t, torchtest.DeviceCollectives(), 3*s.Steps, "two towers' embeddings and the gradients")
		sd := nn.StateDictOf(m)
		sd["losses"] = torch.FromSlice(losses)
		require.NoError(t, nn.SaveSafetensors(filepath.Join(dir, fmt.Sprint(env.Rank, ".safetensors")), sd, nil))
		require.NoError(t, g.Barrier())
		return
	}
	dir := t.TempDir()
	store, err := dist.NewTCPStore("127.0.0.1", 0, true, 0, time.Minute)
	require.NoError(t, err)
	defer store.Close()
	var group [2]*exec.Cmd
	var said [2]bytes.Buffer
	for r := range group {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPretrainOnTwoDevices$")
		c.Env = append(os.Environ(), pretrainRank+"="+dir, fmt.Sprint("RANK=", r), fmt.Sprint("LOCAL_RANK=", r),
			"WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", store.Port()),
			"TORCHELASTIC_USE_AGENT_STORE=True", "OMP_NUM_THREADS=1")
		c.Stdout, c.Stderr = &said[r], &said[r]
		require.NoError(t, c.Start())
		group[r] = c
	}
	for r, c := range group {
		require.NoError(t, c.Wait(), "process %d: %s", r, &said[r])
	}
	losses, m := run(t.Context(), nil, s)
	want := nn.StateDictOf(m)
	want["losses"] = torch.FromSlice(losses)
	for r := range group {
		got, _, err := nn.LoadSafetensors(filepath.Join(dir, fmt.Sprint(r, ".safetensors")))
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for k, w := range want {
			if strings.HasSuffix(k, "k_proj.bias") || strings.HasSuffix(k, "in_proj_bias") {
				continue // the keys' part has no gradient but rounding, which Adam enlarges
			}
			near(t, k, w, got[k], 1e-3, 2e-4)
		}
	}
}

// TestBytesCross: files and views go to the device as bytes, a quarter of what float32 would be, and end with the bits
// of pictures that were normalised on the CPU.
func TestBytesCross(t *testing.T) {
	device := torchtest.Device(t)
	var files [][]byte
	for i := range 5 {
		m := image.NewRGBA(image.Rect(0, 0, 50+9*i, 70-3*i))
		for k := range m.Pix {
			m.Pix[k] = byte((k*k + 31*i*k) >> 3)
		}
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m))
		files = append(files, b.Bytes())
	}
	long := clip.OpenAIPreprocess
	long.Resize = clip.LongSide
	via, err := clip.NamedPreprocess("vlpl")
	require.NoError(t, err)
	builtin, err := clip.OpenBuiltin(clip.Options{})
	require.NoError(t, err)
	side, _ := builtin.ImageSize()
	builtin.Close()
	for name, p := range map[string]clip.Preprocess{"squash": {}, "padded": long, "by way of another size": via} {
		o := clip.Options{Device: device, Batch: 2}
		if name != "squash" {
			o.Preprocess = &p
		}
		m, err := clip.OpenBuiltin(o)
		require.NoError(t, err)
		x, err := m.Prepare(t.Context(), files)
		require.NoError(t, err)
		require.Equal(t, torch.Float32, x.DType(), "what a program gets are numbers")
		want, err := m.EncodeImage(t.Context(), x)
		require.NoError(t, err)
		_, before := torchtest.DeviceUploads()
		got, err := m.EncodeFiles(t.Context(), files)
		require.NoError(t, err)
		_, after := torchtest.DeviceUploads()
		each := 1
		if name == "by way of another size" {
			each = 4
		}
		require.Equal(t, each*len(files)*3*side*side, after-before, name)
		torchtest.Equal(t, got, want)

		pre, err := clip.NewPreprocessor(m.Config().Preprocess, side, side, 2, pixel.Options{})
		require.NoError(t, err)
		numbers, broken, err := pre.Views(t.Context(), files, 2, halves)
		require.NoError(t, err)
		require.Equal(t, make([]error, len(files)), broken)
		if pre.SendBytes(m); name == "squash" {
			raw, _, err := pre.Views(t.Context(), files, 2, halves)
			require.NoError(t, err)
			require.Equal(t, []int{2 * len(files), side, side, 3}, raw.Shape())
			want, err := m.EncodeImage(t.Context(), numbers)
			require.NoError(t, err)
			got, err := m.EncodeImage(t.Context(), raw)
			require.NoError(t, err)
			torchtest.Equal(t, got, want)
		}
		m.Close()
	}
}

// halves are the left and the right half of a picture.
func halves(_, w, h int) ([]image.Rectangle, error) {
	return []image.Rectangle{image.Rect(0, 0, w/2, h), image.Rect(w/2, 0, w, h)}, nil
}
