package command

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// tinySet is a data set of 20 small pictures, each with one label and a grey of its own.
func tinySet(t *testing.T, classes int) string {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	labels, split := "filename", "filename,split\n"
	for c := range classes {
		labels += fmt.Sprintf(",label%d", c)
	}
	labels += "\n"
	for i := range 20 {
		m := image.NewRGBA(image.Rect(0, 0, 40, 40))
		for p := range 1600 {
			m.Set(p%40, p/40, color.RGBA{R: uint8(255 * (i % classes) / classes), B: uint8(255 - 255*(i%2)), G: uint8(5*i + p%9), A: 255})
		}
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m))
		name := fmt.Sprintf("%02d.png", i)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "images", name), b.Bytes(), 0o644))
		labels += name
		for c := range classes {
			if c == i%classes {
				labels += ",1"
			} else {
				labels += ",0"
			}
		}
		labels += "\n"
		split += name + "," + []string{"train", "val", "val", "test"}[i%4] + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "split.csv"), []byte(split), 0o644))
	return dir
}

// TestExport writes a model for timm with thresholds of its own, which predict then takes.
func TestExport(t *testing.T) {
	dir := tinySet(t, 2)
	run, out := filepath.Join(dir, "run"), filepath.Join(dir, "out")
	code, _, stderr := spml(t, nil, "train", "--data", dir, "--method", "an", "--backbone", "resnet18", "--image-size", "32", "--epochs", "1", "--run", run)
	require.Zero(t, code, stderr)
	code, stdout, stderr := spml(t, nil, "export", run, out, "--to", "timm", "--calibrate")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "thresholds of 2 classes")
	b, err := os.ReadFile(filepath.Join(out, "config.json"))
	require.NoError(t, err)
	require.Contains(t, string(b), `"thresholds": [`)
	card, err := os.ReadFile(filepath.Join(out, "README.md"))
	require.NoError(t, err)
	require.Regexp(t, `(?s)^---\nlibrary_name: timm\n.*model-index:.*type: mAP.*\n---\n\n# resnet18`, string(card))
	require.Contains(t, string(card), "| method | an |")
	require.Contains(t, string(card), "its own threshold")
	require.NotContains(t, string(card), dir, "no place of this machine")
	photo := filepath.Join(dir, "images", "01.png")
	_, a, _ := spml(t, nil, "predict", run, photo, "--format", "csv")
	_, c, _ := spml(t, nil, "predict", out, photo, "--format", "csv")
	require.Equal(t, a, c)
	require.Equal(t, 2, strings.Count(c, "\n"))

	code, _, stderr = spml(t, nil, "export", run, out)
	require.NotZero(t, code)
	require.Contains(t, stderr, "remove it, or name another")
	code, _, stderr = spml(t, nil, "export", run, out+"2", "--to", "tflite")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "timm, onnx, torchscript, safetensors")
	code, _, stderr = spml(t, nil, "export", run, out+"2", "--onnx-input", "bytes")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "belongs to --to onnx")
	for _, wrong := range [][]string{{"--photos", "3"}, {"--quantize", "--to", "timm"}, {"--quantize", "--photos", "0"}} {
		code, _, stderr = spml(t, nil, append([]string{"export", run, out + "2"}, wrong...)...)
		require.Equal(t, exitUsage, code, stderr)
	}
	code, stdout, stderr = spml(t, nil, "export", run, out+"8", "--quantize", "--photos", "3")
	if strings.Contains(stderr, "no AVX512_VNNI") {
		return
	}
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "int8, by 3 photos; on 10 of validation mAP")
	code, c, stderr = spml(t, nil, "predict", out+"8", photo, "--format", "csv")
	require.Zero(t, code, stderr)
	require.Equal(t, 2, strings.Count(c, "\n"))
	require.NotEqual(t, a, c)
	code, _, stderr = spml(t, nil, "predict", out+"8", photo, "--precision", "fp32")
	require.NotZero(t, code)
	require.Contains(t, stderr, "predicts in int8, not in fp32")
}

// pythonWithEngines is a Python with onnx, onnxruntime and openvino, as `make bench-infer` makes one.
func pythonWithEngines(t *testing.T) string {
	cache := os.Getenv("GOSPML_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		require.NoError(t, err)
		cache = filepath.Join(dir, "gospml")
	}
	python := filepath.Join(cache, "peers-infer", "bin", "python")
	if out, err := exec.Command(python, "-c", "import onnx, onnxruntime, openvino, PIL").CombinedOutput(); err != nil {
		t.Skipf("no Python with ONNX Runtime and OpenVINO; `make bench-infer` makes one: %v %s", err, out)
	}
	return python
}

// TestExportONNX: files of models that two methods trained tag photos as predict does, in ONNX Runtime and OpenVINO,
// which know of classes, thresholds and preprocessing only what the file says.
func TestExportONNX(t *testing.T) {
	python := pythonWithEngines(t)
	dir := t.TempDir()
	photos := filepath.Join(dir, "photos")
	require.NoError(t, os.Mkdir(photos, 0o755))
	all, err := filepath.Glob(filepath.Join(testroot.Shared(t, "data", "miml", "images"), "*"))
	require.NoError(t, err)
	require.Greater(t, len(all), 64)
	for _, p := range all[:64] {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(photos, filepath.Base(p)), b, 0o644))
	}
	set := tinySet(t, 3)
	backbones := []string{"small_cnn", "mobilenet_v2", "resnet18", "resnet34", "resnet50", "resnet101", "squeezenet1_0",
		"squeezenet1_1", "convnext_tiny", "convnext_small", "vit_small_patch16", "vit_base_patch16", "vit_base_patch32",
		"vit_small_patch14_dinov2", "vit_base_patch14_dinov2", "vit_base_patch16_siglip"}
	backbones = backbones[:testroot.Count(t, "GOSPML_ONNX_NETWORKS", 1, len(backbones))]
	for _, backbone := range backbones {
		for _, method := range [][]string{{"--method", "em"}, {"--method", "lac"}} {
			name := filepath.Join(dir, backbone+"-"+method[1])
			run := append([]string{"train", "--data", set, "--backbone", backbone, "--epochs", "2", "--run", name}, method...)
			code, _, stderr := spml(t, nil, run...)
			require.Zero(t, code, stderr)
			code, _, stderr = spml(t, nil, "export", name, name+".onnx", "--to", "onnx", "--onnx-input", "bytes")
			require.Zero(t, code, stderr)
			code, want, stderr := spml(t, nil, "predict", name, photos, "--format", "csv")
			require.Zero(t, code, stderr)
			require.NoError(t, os.WriteFile(name+".csv", []byte(want), 0o644))
			out, err := exec.Command(python, filepath.Join("testdata", "tag_onnx.py"), name+".onnx", name+".csv",
				photos).CombinedOutput()
			require.NoError(t, err, "%s: %s", name, out)
			require.Contains(t, string(out), "64 photos, labels of both engines equal")
		}
	}
}
