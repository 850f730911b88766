//go:build cgo

package pixel

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// TestDrawnAsPillow decodes the drawn pictures of testdata, which are there without a data root, as Pillow does: odd
// modes, turned ones, broken ones.
func TestDrawnAsPillow(t *testing.T) {
	b, err := os.ReadFile(testroot.Testdata("pictures", "pillow.json"))
	require.NoError(t, err)
	var golden struct {
		Files map[string]struct {
			Error    string
			Mode     string
			WH       [2]int
			RGB      uint32
			TurnedWH [2]int `json:"turned_wh"`
			Turned   uint32
		}
	}
	require.NoError(t, json.Unmarshal(b, &golden))
	entries, err := os.ReadDir(testroot.Testdata("pictures", "awkward"))
	require.NoError(t, err)
	require.Len(t, golden.Files, len(entries))
	for name, want := range golden.Files {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(testroot.Testdata("pictures", "awkward", name))
			require.NoError(t, err)
			p, err := Decode(b, Options{PillowGray16: true})
			if want.Error != "" {
				require.Error(t, err, "Pillow raises %s", want.Error)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want.WH, [2]int{p.W, p.H})
			require.Equal(t, want.RGB, crc(p.Pix), "mode %s", want.Mode)
			p, err = Decode(b, Options{PillowGray16: true, ApplyEXIF: true})
			require.NoError(t, err)
			require.Equal(t, want.TurnedWH, [2]int{p.W, p.H})
			require.Equal(t, want.Turned, crc(p.Pix), "turned")
		})
	}
}
