package compare

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
)

// TestUnfitRowsAreLeftOut: what cannot be trained is known before the first run and stands in every form of the table
// with the reason; the others run, the first of them is the baseline.
func TestUnfitRowsAreLeftOut(t *testing.T) {
	v, err := Methods([]string{"em-apl", "smile-classifier", "an", "em"})
	require.NoError(t, err)
	dir := t.TempDir()
	var notes []string
	o := Options{Settings: map[string]any{"data": "shapes", "data_options": "train=64,val=8,test=16", "image_size": 16, "epochs": 1}, Variants: v, Seeds: []uint32{1}, Dir: dir, Replicates: 10,
		Note: func(s string) { notes = append(notes, s) }}
	rows, err := o.Resolve()
	require.NoError(t, err)
	require.Len(t, rows, 4)
	require.Contains(t, rows[2].LeftOut, "makes its labels after 5 epochs")
	table, err := Run(context.Background(), o)
	require.NoError(t, err)
	var names []string
	for _, r := range table.Rows {
		names = append(names, r.Name)
	}
	require.Equal(t, []string{"an", "em", "em-apl", "smile-classifier"}, names)
	require.Equal(t, "em-apl is left out: "+table.Rows[2].LeftOut, notes[0], "said before the first run: %q", notes)
	require.NotNil(t, table.Rows[1].Difference)
	require.NoDirExists(t, filepath.Join(dir, "em-apl"))
	for _, format := range Formats {
		var b bytes.Buffer
		require.NoError(t, table.Write(&b, format))
		require.Contains(t, b.String(), "makes its labels after 5 epochs", format)
		require.Contains(t, b.String(), "add --frozen", format)
		switch format {
		case "csv":
			cells, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
			require.NoError(t, err, "every line has as many cells")
			for _, c := range cells[3:] {
				require.Empty(t, strings.Join(c[2:len(c)-1], ""), "a left-out row has no numbers")
			}
		case "json":
			var back Table
			require.NoError(t, json.Unmarshal(b.Bytes(), &back))
			require.Equal(t, *table, back)
		}
	}

	o.Variants, o.Dir = v[:2], t.TempDir()
	var setting *config.Error
	_, err = Run(context.Background(), o)
	require.ErrorAs(t, err, &setting, "where nothing can run, the first error")
	require.ErrorContains(t, err, "em-apl makes its labels after 5 epochs")
}
