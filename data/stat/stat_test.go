package stat

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/internal/testroot"
)

func TestOf(t *testing.T) {
	d := &data.Dataset{Name: "small <set>", Classes: []string{"a", "b", "c"}, Images: []string{"1", "2", "3", "4"}, Split: []data.Split{0, 0, 1, 2},
		Labels:   []int8{1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0},
		Observed: []int8{1, 0, -1, 1, 0, 0, 0, 0, 0, 0, 1, 0}}
	s := Of(d)
	require.Equal(t, Parts{2, 1, 1}, s.Rows)
	require.Equal(t, Class{"a", Parts{2, 0, 1}, Parts{2, 0, 0}, Parts{0, 0, 1}, Parts{}}, s.Classes[0])
	require.Equal(t, Class{"b", Parts{1, 0, 1}, Parts{0, 0, 1}, Parts{1, 0, 0}, Parts{}}, s.Classes[1])
	require.Equal(t, Parts{1, 0, 0}, s.Classes[2].Negatives)
	require.Equal(t, Parts{0, 1, 0}, s.Empty)
	require.Equal(t, [][]int{{3, 2, 0}, {2, 2, 0}, {0, 0, 0}}, s.CoOccurrence)
	require.Equal(t, []int{1, 1, 2}, s.Histogram)
	require.Equal(t, 1.25, s.Cardinality)
	require.Equal(t, []float64{1.5, 0, 2}, s.ByPart)
	require.Equal(t, 3, s.Distinct)
	require.Equal(t, 1.5, s.Imbalance)
	require.Equal(t, 0.75, s.ObservedMean)
	require.Equal(t, []string{"b", "c"}, s.Unseen)

	for name, set := range map[string]*data.Dataset{"full": d, "observed": {Name: "o", Classes: d.Classes, Images: d.Images, Split: d.Split, Observed: d.Observed}, "bare": {Name: "x", Classes: d.Classes, Images: d.Images, Split: d.Split}} {
		var b bytes.Buffer
		require.NoError(t, SVG(&b, Of(set)), name)
		require.NotContains(t, b.String(), "NaN")
		x := xml.NewDecoder(&b)
		for {
			_, err := x.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err, name)
		}
	}
}

func TestPhotos(t *testing.T) {
	dir := t.TempDir()
	photo, err := os.ReadFile(testroot.Shared(t, "data", "voc_labelme", "JPEGImages", "2011_000003.jpg"))
	require.NoError(t, err)
	for name, b := range map[string][]byte{"a.jpg": photo, "b.jpg": photo, "c.jpg": photo[:2000], "d.jpg": nil} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "t.csv"), []byte("image,x,y,split\na.jpg,1,0,train\nb.jpg,0,1,test\nc.jpg,1,0,train\nd.jpg,1,0,train\ne.jpg,1,0,train\n"), 0o644))
	d, err := data.Open(filepath.Join(dir, "t.csv"), data.Options{Missing: data.MissingKeep, NoValidation: true})
	require.NoError(t, err)
	defer d.Close()
	for _, jobs := range []int{1, 3, 16} {
		f, err := Photos(t.Context(), d, jobs, false)
		require.NoError(t, err)
		require.Equal(t, Quartiles{500, 500, 500, 500, 500}, f.Width)
		require.Equal(t, Quartiles{338, 338, 338, 338, 338}, f.Height)
		require.Len(t, f.Duplicates, 1)
		require.Equal(t, []string{"a.jpg", "b.jpg"}, f.Duplicates[0].Images)
		require.True(t, f.Duplicates[0].Labels && f.Duplicates[0].Parts)
		var bad []string
		for _, u := range f.Unreadable {
			bad = append(bad, u.Image)
		}
		require.Equal(t, "c.jpg d.jpg e.jpg", strings.Join(bad, " "))
	}
}
