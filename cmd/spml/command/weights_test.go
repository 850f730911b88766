package command

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// What a person sees: the list, a fetch from a mirror, a check, and sentences with the next command.
func TestWeights(t *testing.T) {
	asked := ""
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		_, _ = w.Write([]byte("not weights, but bytes"))
	}))
	defer mirror.Close()
	env := []string{"GOSPML_WEIGHTS=" + t.TempDir(), "GOSPML_WEIGHTS_MIRROR=" + mirror.URL}
	const vit = "vit_tiny_patch16_224.augreg_in21k"

	code, _, stderr := spml(t, env, "weights", "path", vit)
	require.Equal(t, exitMissing, code)
	require.Equal(t, "spml: weights "+vit+" are not on this machine; fetch them with: spml weights get "+vit+"\n", stderr)
	code, _, stderr = spml(t, env, "weights", "get", vit, "--offline")
	require.Equal(t, exitMissing, code, stderr)
	require.Empty(t, asked, "--offline opens no connection")

	code, stdout, stderr := spml(t, env, "weights", "get", vit)
	require.Zero(t, code, stderr)
	require.Equal(t, "/huggingface.co/timm/"+vit+"/resolve/main/model.safetensors", asked)
	require.Contains(t, stderr, "its publisher states no hash")
	require.FileExists(t, stdout[:len(stdout)-1])
	code, stdout, stderr = spml(t, env, "weights", "list", "tiny", "--json")
	require.Zero(t, code, stderr)
	var rows []struct{ Name, File string }
	require.NoError(t, json.Unmarshal([]byte(stdout), &rows))
	require.Len(t, rows, 3) // two of ViT, one of ConvNeXt
	here := 0
	for _, r := range rows {
		if r.File != "" {
			here++
			require.Equal(t, vit, r.Name)
		}
	}
	require.Equal(t, 1, here)
	code, stdout, stderr = spml(t, env, "weights", "verify")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, vit+"  agrees with the publisher's: none published")

	// Bytes of another file behind a name with a hash.
	code, _, stderr = spml(t, env, "train", "--data", "shapes", "--method", "an", "--weights", "resnet18.imagenet1k_v1")
	require.Equal(t, exitData, code)
	require.Contains(t, stderr, "that of resnet18.imagenet1k_v1 begins with f37072fd: it is damaged or another file")
	code, _, stderr = spml(t, env, "train", "--data", "shapes", "--method", "an", "--weights", "resnet50.imagenet1k_v3")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, `did you mean "resnet50.imagenet1k_v1"?`)
}

// --weights NAME trains with the file that is there, and with the backbone that it is for.
func TestWeightsByName(t *testing.T) {
	b, err := os.ReadFile(testroot.Shared(t, "data", "weights", "squeezenet1_0.safetensors"))
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "squeezenet1_0.imagenet1k_v1", "squeezenet1_0-b66bff10.pth")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, b, 0o644))
	code, stdout, stderr := spml(t, []string{"GOSPML_WEIGHTS=" + dir}, "config", "show", "--data", "shapes", "--method",
		"an", "--weights", "squeezenet1_0.imagenet1k_v1", "--offline")
	require.Zero(t, code, stderr)
	require.Regexp(t, `(?m)^weights: +`+regexp.QuoteMeta(file)+`$`, stdout)
	require.Regexp(t, `(?m)^backbone: +squeezenet1_0$`, stdout)
}
