package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/spml/vlm"
)

// drawnFolder is a CSV data set of n drawn pictures.
func drawnFolder(t *testing.T, n int) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	labels := &strings.Builder{}
	fmt.Fprintf(labels, "filename,%s\n", strings.Join(shapes.Classes[:], ","))
	rgb := make([]byte, shapes.PictureBytes)
	for i := range n {
		y := shapes.Draw(9, uint64(i), rgb)
		m := image.NewRGBA(image.Rect(0, 0, shapes.Size, shapes.Size))
		for p := range shapes.Size * shapes.Size {
			copy(m.Pix[4*p:], rgb[3*p:3*p+3])
			m.Pix[4*p+3] = 255
		}
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m))
		name := fmt.Sprintf("%03d.png", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", name), b.Bytes(), 0o644))
		fmt.Fprint(labels, name)
		for _, v := range y {
			fmt.Fprintf(labels, ",%d", v)
		}
		fmt.Fprintln(labels)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels.String()), 0o644))
	return dir
}

// From photos to labels to a trained model, with the built-in CLIP.
func TestPseudoLabelAndTrain(t *testing.T) {
	const n = 40
	dir, tmp := drawnFolder(t, n), t.TempDir()
	for _, method := range []string{"vlpl", "damp"} {
		out, html := filepath.Join(tmp, method+".npy"), filepath.Join(tmp, method+".html")
		args := []string{"pseudo-label", "--method", method, "--clip", "builtin", "--data", dir, "--out", out, "--theta", "0.2", "--seed", "3"}
		if method == "damp" {
			args = append(args, "--grid", "2", "--data-set", "voc", "--html", html)
		}
		code, stdout, stderr := spml(t, nil, args...)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "pseudo-positives against the full labels of 40 photos")
		require.Contains(t, stdout, "wrote "+out)
		a, err := npy.Read(out)
		require.NoError(t, err)
		require.Equal(t, []int64{n, int64(len(shapes.Classes))}, a.Shape)

		run := filepath.Join(tmp, "run-"+method)
		code, _, stderr = spml(t, nil, "train", "--data", dir, "--data-seed", "3", "--method", "vlpl", "--pseudo-labels", out, "--backbone", "small_cnn",
			"--image-size", "64", "--epochs", "1", "--batch-size", "8", "--run", run)
		require.Zero(t, code, stderr)
		require.DirExists(t, run)
		if method == "damp" {
			require.FileExists(t, html)
		}
	}
	out := filepath.Join(tmp, "labels.jsonl")
	code, stdout, stderr := spml(t, nil, "pseudo-label", "--method", "damp", "--form", "code", "--grid", "2", "--clip", "builtin", "--data", dir, "--out", out, "--json")
	require.Zero(t, code, stderr)
	var sum vlm.Summary
	require.NoError(t, json.Unmarshal([]byte(stdout), &sum))
	require.Equal(t, n, sum.Photos)
	b, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, n, bytes.Count(b, []byte("\n")))
}

// Parts of a pass, by flag and by a launcher's variables, end in the files of the whole.
func TestPseudoLabelShards(t *testing.T) {
	dir, tmp := drawnFolder(t, 30), t.TempDir()
	label := func(out string, more ...string) string {
		code, stdout, stderr := spml(t, nil, append([]string{"pseudo-label", "--method", "vlpl", "--clip", "builtin", "--data", dir, "--batch-size", "4", "--out",
			filepath.Join(tmp, out+".npy"), "--evidence", filepath.Join(tmp, out+".jsonl")}, more...)...)
		require.Zero(t, code, stderr)
		return stdout
	}
	same := func(out string) {
		t.Helper()
		for _, end := range []string{".npy", ".jsonl"} {
			want, err := os.ReadFile(filepath.Join(tmp, "whole"+end))
			require.NoError(t, err)
			got, err := os.ReadFile(filepath.Join(tmp, out+end))
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
	}
	require.Contains(t, label("whole"), "30 photos")
	require.Contains(t, label("flags", "--shard", "3/3"), "shard 3/3 has ended; 1/3, 2/3 have not")
	require.Contains(t, label("flags", "--shard", "1/3"), "2/3 have not")
	require.Contains(t, label("flags", "--shard", "2/3"), "30 photos")
	same("flags")
	t.Setenv("WORLD_SIZE", "2")
	t.Setenv("MASTER_ADDR", "127.0.0.1")
	t.Setenv("MASTER_PORT", "29500")
	t.Setenv("RANK", "0")
	require.Contains(t, label("ranks"), "2/2 have not")
	t.Setenv("RANK", "1")
	require.Contains(t, label("ranks"), "wrote ")
	same("ranks")
	code, _, stderr := spml(t, nil, "pseudo-label", "--method", "vlpl", "--clip", "builtin", "--data", dir, "--out", filepath.Join(tmp, "x.npy"), "--shard", "3/2")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "want I/N")
}

func TestPseudoLabelUsage(t *testing.T) {
	dir, out := drawnFolder(t, 3), filepath.Join(t.TempDir(), "l.npy")
	base := []string{"pseudo-label", "--method", "vlpl", "--clip", "builtin", "--data", dir, "--out", out}
	for _, test := range []struct {
		args []string
		text string
	}{
		{base[:3], "wants --clip"},
		{append(base[:8:8], out+".txt"), ".npy or .jsonl"},
		{append(base[:9:9], "--grid", "3"), "belongs to --method damp"},
		{append(base[:9:9], "--data-set", "x"), "no published numbers"},
		{append(base[:9:9], "--theta", "7"), "θ = 7"},
		{append(base[:9:9], "--template", "photo"), "no {name}"},
	} {
		code, _, stderr := spml(t, nil, test.args...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, test.text)
		require.NoFileExists(t, out)
	}
}

// The released text features are of ViT-L/14's width, which a small CLIP has not.
func TestPseudoLabelWidth(t *testing.T) {
	features := testroot.Shared(t, "data", "clip", "text_features_vit_l14_336", "VOC20text_feature.npy")
	code, _, stderr := spml(t, nil, "pseudo-label", "--method", "vlpl", "--clip", testroot.Shared(t, "data", "clip_tiny", "openai_vit"),
		"--data", testroot.Shared(t, "data", "VOCdevkit"), "--text-features", features, "--out", filepath.Join(t.TempDir(), "l.npy"))
	require.Equal(t, exitUsage, code, stderr)
	require.Contains(t, stderr, "[20 768]")
}
