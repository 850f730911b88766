package clip

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Configurations that no release of OpenAI has agree with the libraries that have them (testdata/clip/make_variants.py), also packed, and after being written and read again.
func TestVariants(t *testing.T) {
	root := testroot.Testdata("clip", "variants")
	dirs, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, dirs, 12)
	for _, d := range dirs {
		t.Run(d.Name(), func(t *testing.T) {
			dir := filepath.Join(root, d.Name())
			e, _, err := nn.LoadSafetensors(filepath.Join(dir, "expected.safetensors"))
			require.NoError(t, err)
			m, _, err := Load(dir, LoadOptions{})
			require.NoError(t, err)
			agrees := func(m *CLIP) {
				torch.NoGrad(func() {
					x := m.Visual.Details(e["pixel_values"], Want{Tokens: true})
					near(t, "tokens", e["patch_tokens"], x.Tokens, 1e-4, 1e-5)
					image, text := m.Visual.Forward(e["pixel_values"]), m.ForwardText(e["input_ids"])
					near(t, "image with details", e["image_features"], x.Embeddings, 1e-4, 1e-5)
					near(t, "image", e["image_features"], image, 1e-4, 1e-5)
					near(t, "text", e["text_features"], text, 1e-4, 1e-5)
					near(t, "logits", e["logits_per_image"], m.Logits(Normalize(image), Normalize(text)), 1e-4, 1e-5)
					if other := e["other.pixel_values"]; other != nil {
						near(t, "another size", e["other.image_features"], m.Visual.Forward(other), 1e-4, 1e-5)
					}
				})
			}
			agrees(m)
			forms := []Form{Own, OpenCLIP}
			if strings.HasPrefix(d.Name(), "hf") {
				forms = []Form{Own, HuggingFace}
			}
			for _, form := range forms {
				out := t.TempDir()
				require.NoError(t, Export(out, m, form, 0))
				again, _, err := Load(out, LoadOptions{})
				require.NoError(t, err)
				agrees(again)
			}
			model, err := NewModel(m, Options{DType: torch.BFloat16, Batch: 3}) // texts of several lengths in one batch
			require.NoError(t, err)
			defer model.Close()
			image, err := model.EncodeImage(t.Context(), e["pixel_values"])
			require.NoError(t, err)
			text, err := model.EncodeIDs(t.Context(), e["input_ids"])
			require.NoError(t, err)
			require.Greater(t, cosine(e["image_features"], image), 0.998)
			require.Greater(t, cosine(e["text_features"], text), 0.998)
		})
	}
	m, _, err := Load(filepath.Join(root, "oc_final_ln"), LoadOptions{})
	require.NoError(t, err)
	require.ErrorContains(t, Export(t.TempDir(), m, HuggingFace, 0), "open_clip says so")
}

// The length of a safetensors header may begin with the byte of a pickle.
func TestContainerOfEveryHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	for size := uint64(2); size < 4096; size += 7 {
		for _, n := range []uint64{size, size&^0xff | 0x80} {
			b := append(binary.LittleEndian.AppendUint64(nil, n), '{')
			require.NoError(t, os.WriteFile(path, append(b, make([]byte, n)...), 0o666))
			kind, err := container(path)
			require.NoError(t, err)
			require.Equal(t, "safetensors", kind, n)
		}
	}
	require.NoError(t, os.WriteFile(path, []byte("\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."), 0o666)) // torch.save before 1.6
	kind, err := container(path)
	require.NoError(t, err)
	require.Equal(t, "pth", kind)
}
