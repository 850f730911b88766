package train_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/safetensors"
)

// oldRun is what the version that began a run made of it: testdata/runs-1d122fe.json.
type oldRun struct {
	State         string    `json:"state_sha256"` // of the newest checkpoint's tensors after the last epoch
	Model         string    `json:"model_sha256"`
	Loss          []float64 `json:"loss"`
	Val           []float64 `json:"val_map"`
	Test          []float64 `json:"test_map"`
	Probabilities []float32 `json:"probabilities"` // of the first drawn picture
}

// TestRunsOfEarlierVersions goes on with runs that commit 1d122fe began: the folders load, end with the bits that
// commit gave them, and predict. Kernels differ from processor to processor, so on another one numbers stand for bits.
func TestRunsOfEarlierVersions(t *testing.T) {
	dir := t.TempDir()
	unpackRuns(t, filepath.Join("testdata", "runs-1d122fe.tar.gz"), dir)
	var want struct {
		Processor string            `json:"processor"`
		Runs      map[string]oldRun `json:"runs"`
	}
	b, err := os.ReadFile(filepath.Join("testdata", "runs-1d122fe.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &want))
	same := want.Processor == processor()
	for _, name := range []string{"em", "role", "lac"} {
		run := filepath.Join(dir, name)
		// The saved model of a run that is not done predicts; role was stopped before it had one.
		before, err := model.OpenTagger(run, model.TaggerOptions{Workers: 1, Device: "cpu"})
		switch {
		case name == "em":
			require.NoError(t, err)
			require.InDelta(t, 0.75, before.Config.Threshold, 0)
			require.NoError(t, before.Close())
		default:
			require.ErrorIs(t, err, os.ErrNotExist)
		}
		res, err := train.Resume(context.Background(), run, nil, train.RunOptions{})
		require.NoError(t, err, name)
		r := oldRun{}
		for _, e := range res.Epochs {
			r.Loss, r.Val, r.Test = append(r.Loss, e.Loss), append(r.Val, e.ValMAP), append(r.Test, e.TestMAP)
		}
		newest, err := os.ReadFile(filepath.Join(run, "checkpoints", "latest"))
		require.NoError(t, err)
		r.State, err = safetensors.Hash(filepath.Join(run, "checkpoints", strings.TrimSpace(string(newest)), "state.safetensors"))
		require.NoError(t, err)
		r.Model, err = safetensors.Hash(filepath.Join(run, "model", "model.safetensors"))
		require.NoError(t, err)
		tagger, err := model.OpenTagger(run, model.TaggerOptions{Workers: 1, Device: "cpu"})
		require.NoError(t, err)
		r.Probabilities, err = tagger.Probabilities(context.Background(), drawnPicture(t))
		require.NoError(t, err)
		require.NoError(t, tagger.Close())
		report, err := train.Evaluate(context.Background(), run, data.Test, train.Events{})
		require.NoError(t, err)
		require.InDelta(t, res.Best.TestMAP, report.MAP, 1e-6, name)
		w := want.Runs[name]
		if same {
			// Predictions come from the frozen form, which rounds otherwise: 1e-6.
			require.InDeltaSlice(t, w.Probabilities, r.Probabilities, 1e-6, name)
			w.Probabilities, r.Probabilities = nil, nil
			require.Equal(t, w, r, "%s ends with the bits of the version that began it", name)
			v, err := train.Verify(context.Background(), run, train.Events{})
			require.NoError(t, err)
			require.Zero(t, v.Differs, name)
			continue
		}
		require.InDeltaSlice(t, w.Loss, r.Loss, 1e-3, name)
		require.InDeltaSlice(t, w.Probabilities, r.Probabilities, 1e-2, name)
	}
	if !same {
		t.Logf("bits were recorded on %q, this is %q: numbers were compared", want.Processor, processor())
	}
}

// processor names what decides which kernels run.
func processor() string {
	name := "?"
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if key, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %s", name, torch.CPUCapability())
}

// unpackRuns unpacks run folders. Their run.yaml have @DIR@ in place of the folder that they lay in.
func unpackRuns(t *testing.T, archive, dir string) {
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		path := filepath.Join(dir, h.Name)
		if h.FileInfo().IsDir() {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		if filepath.Base(path) == "run.yaml" {
			b = bytes.ReplaceAll(b, []byte("@DIR@"), []byte(dir))
		}
		require.NoError(t, os.WriteFile(path, b, 0o644))
	}
}

// drawnPicture is a picture of shapes as PNG.
func drawnPicture(t *testing.T) []byte {
	ds, err := shapes.New(3, 1, 0, 0)
	require.NoError(t, err)
	defer ds.Close()
	r, err := ds.Source.NewReader(data.ReadOptions{})
	require.NoError(t, err)
	defer r.Close()
	const side = 32
	rgb := make([]byte, 3*side*side)
	require.NoError(t, r.Read(0, side, side, rgb))
	m := image.NewRGBA(image.Rect(0, 0, side, side))
	for p := range side * side {
		copy(m.Pix[4*p:], rgb[3*p:3*p+3])
		m.Pix[4*p+3] = 255
	}
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, m))
	return b.Bytes()
}
