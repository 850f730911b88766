package audit

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data"
)

var update = flag.Bool("update", false, "write the files that testdata/make.py takes through the tools")

// sample is a small set whose names need care: photos in folders, with spaces, commas and quotes; a class with a comma.
func sample(t testing.TB) (*Evidence, *Table) {
	classes := []string{"dog", "traffic light", `10" disc, red`, "café"}
	images := []string{"a/one.jpg", "a b/two, 2.jpg", "über.png", `four "4".jpg`, "five#5%.jpg"}
	n, c := len(images), len(classes)
	ds := &data.Dataset{Name: "sample", Classes: classes, Images: images, Split: make([]data.Split, n), Labels: make([]int8, n*c), Observed: make([]int8, n*c)}
	for i := range n {
		ds.Observed[i*c+i%c], ds.Labels[i*c+i%c] = 1, 1
		ds.Labels[i*c+(i+1)%c] = 1
	}
	ds.Observed[0*c+3] = -1
	require.NoError(t, ds.Validate())
	e := &Evidence{Data: ds, Rows: []int{0, 1, 2, 3, 4}, Values: map[Source][]float32{Model: make([]float32, n*c), Clip: make([]float32, n*c), Neighbours: make([]float32, n*c)}}
	for i := range n * c {
		for k, s := range Sources {
			e.Values[s][i] = float32((i*7+k*5)%11) / 11
		}
	}
	for i := range n {
		e.Near = append(e.Near, []int{(i + 1) % n, (i + 2) % n})
	}
	table, err := Rank(context.Background(), e, Options{Top: 9})
	require.NoError(t, err)
	return e, table
}

type number float64

func (x *number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*x = number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(x))
}

// golden are cases of testdata/make.py: scipy's ranks and its Fisher combination, scikit-learn's average precision.
type golden struct {
	N, C     int
	Observed []int8
	Labels   []int8
	Values   map[Source][]number
	Weights  map[Source]float64
	Scores   []float64          // of the pairs in order of row and class
	Order    [][2]int           // row, column by falling score
	Average  map[string]float64 // of the audit and of each source
	At       []int
	Of       []float64
}

func TestRankGolden(t *testing.T) {
	b, err := os.ReadFile("testdata/rank.json")
	require.NoError(t, err)
	var cases []golden
	require.NoError(t, json.Unmarshal(b, &cases))
	require.GreaterOrEqual(t, len(cases), 8)
	for _, g := range cases {
		ds := &data.Dataset{Name: "g", Labels: g.Labels, Observed: g.Observed, Split: make([]data.Split, g.N)}
		for i := range g.N {
			ds.Images = append(ds.Images, string(rune('a'+i)))
		}
		for i := range g.C {
			ds.Classes = append(ds.Classes, string(rune('A'+i)))
		}
		e := &Evidence{Data: ds, Values: map[Source][]float32{}}
		for i := range g.N {
			e.Rows = append(e.Rows, i)
		}
		for s, v := range g.Values {
			for _, x := range v {
				e.Values[s] = append(e.Values[s], float32(x))
			}
		}
		table, err := Rank(context.Background(), e, Options{Weights: g.Weights})
		require.NoError(t, err)
		require.Len(t, table.Candidates, len(g.Scores))
		scores := map[[2]int]float64{}
		for _, x := range table.Candidates {
			scores[[2]int{x.Row, x.Column}] = x.Score
			sum := 0.0
			for _, s := range x.Shares {
				require.GreaterOrEqual(t, s.Part, 0.0)
				sum += s.Part
			}
			require.InDelta(t, x.Score, sum, 1e-12, "the parts sum to the score")
		}
		k := 0
		for i := range g.N {
			for c := range g.C {
				if g.Observed[i*g.C+c] == 0 {
					require.InDelta(t, g.Scores[k], scores[[2]int{i, c}], 1e-9)
					k++
				}
			}
		}
		for i, at := range g.Order {
			require.InDelta(t, scores[at], table.Candidates[i].Score, 1e-9, "place %d", i)
		}
		for _, p := range table.Precision {
			require.InDelta(t, g.Average[p.By], p.Average, 1e-9, p.By)
			if p.By == "audit" {
				require.Equal(t, g.At, p.At)
				require.InDeltaSlice(t, g.Of, p.Of, 1e-9)
			}
		}
		require.Len(t, table.Precision, len(g.Average))
	}
}

func TestRankRefuses(t *testing.T) {
	e, _ := sample(t)
	ctx := context.Background()
	_, err := Rank(ctx, e, Options{Of: "some"})
	require.ErrorContains(t, err, "want observed or full")
	_, err = Rank(ctx, e, Options{Weights: map[Source]float64{Model: -1}})
	require.ErrorContains(t, err, "not negative")
	_, err = Rank(ctx, e, Options{Weights: map[Source]float64{Model: 0, Clip: 0, Neighbours: 0}})
	require.ErrorContains(t, err, "no source has a weight")
	short := *e
	short.Values = map[Source][]float32{Model: {1}}
	_, err = Rank(ctx, &short, Options{})
	require.ErrorContains(t, err, "want 5 rows of 4 classes")
	none := *e.Data
	none.Observed = nil
	short = *e
	short.Data = &none
	_, err = Rank(ctx, &short, Options{Of: Observed})
	require.ErrorContains(t, err, "has no observed labels")
	full, err := Rank(ctx, &short, Options{})
	require.NoError(t, err)
	require.Equal(t, Full, full.Of)
	require.Nil(t, full.Precision, "there is nothing to measure by")
	require.Equal(t, 10, full.Pairs)
}

// A source alone orders as it says; one of no weight has no say.
func TestWeights(t *testing.T) {
	e, _ := sample(t)
	only, err := Rank(context.Background(), e, Options{Weights: map[Source]float64{Model: 0, Neighbours: 0}})
	require.NoError(t, err)
	require.Equal(t, []Source{Clip}, only.Sources)
	require.Len(t, only.Precision, 1)
	last := math.Inf(1)
	for _, x := range only.Candidates {
		require.Len(t, x.Shares, 1)
		require.LessOrEqual(t, x.Shares[0].Value, last)
		last = x.Shares[0].Value
	}
}

func TestNearest(t *testing.T) {
	// angles of 0, 10, 25, 90 and 95 degrees, of different lengths
	var x []float32
	for i, a := range []float64{0, 10, 25, 90, 95} {
		s, c := math.Sincos(a * math.Pi / 180)
		x = append(x, float32(c*float64(i+1)), float32(s*float64(i+1)))
	}
	near, err := NearestRows(context.Background(), x, 5, 2, 2)
	require.NoError(t, err)
	require.Equal(t, [][]int{{1, 2}, {0, 2}, {1, 0}, {4, 2}, {3, 2}}, near)
	near, err = NearestRows(context.Background(), append(x[:2:2], x[:2]...), 2, 2, 9)
	require.NoError(t, err)
	require.Equal(t, [][]int{{1}, {0}}, near, "a twin is a neighbour, a photo is not its own")
	_, err = NearestRows(context.Background(), x, 5, 3, 2)
	require.ErrorContains(t, err, "not 3 features of 5 rows")
}

// files are what the tools are given; testdata/make.py made the exports of them.
func TestToolFiles(t *testing.T) {
	e, table := sample(t)
	write := map[string]func(*bytes.Buffer) error{
		"label-studio.json":     func(b *bytes.Buffer) error { return table.WriteLabelStudio(b, e.Data, "/data/local-files/?d=") },
		"label-studio.xml":      func(b *bytes.Buffer) error { return WriteLabelStudioConfig(b, e.Data.Classes) },
		"fiftyone/samples.json": func(b *bytes.Buffer) error { return table.WriteFiftyOne(b, e.Data, "photos") },
	}
	for name, f := range write {
		var b bytes.Buffer
		require.NoError(t, f(&b))
		file := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), b.String(), "%s: run go test ./spml/audit -update, then testdata/make.py", name)
	}
}

// decided are the decisions that testdata/make.py enters in the tools: candidates by rank.
var decided = map[int]string{1: Accept, 2: Refuse, 3: Accept, 4: Refuse, 5: Accept}

func expected(table *Table) map[[2]string]bool {
	m := map[[2]string]bool{}
	for _, x := range table.Candidates {
		if d := decided[x.Rank]; d != "" {
			m[[2]string{x.Image, x.Label}] = d == Accept
		}
	}
	return m
}

func asMap(t *testing.T, d *Decisions) map[[2]string]bool {
	m := map[[2]string]bool{}
	for _, x := range d.All {
		_, twice := m[[2]string{x.Image, x.Label}]
		require.False(t, twice)
		m[[2]string{x.Image, x.Label}] = x.Accept
	}
	return m
}

// TestFiftyOneRoundTrip reads what FiftyOne exported after it imported our file: ranks 1, 3 and 5 tagged accept, 2 tagged refuse, 4 deleted.
func TestFiftyOneRoundTrip(t *testing.T) {
	_, table := sample(t)
	d, err := ReadDecisions("testdata/fiftyone_export.json")
	require.NoError(t, err)
	require.Equal(t, expected(table), asMap(t, d))
	require.Equal(t, len(table.Candidates)-len(decided), d.Undecided)
}

// TestLabelStudioRoundTrip reads the exports of Label Studio's converter: in annotated tasks every candidate is decided.
func TestLabelStudioRoundTrip(t *testing.T) {
	e, table := sample(t)
	b, err := os.ReadFile("testdata/label_studio_decided.json") // what the script ticked
	require.NoError(t, err)
	var script struct {
		Annotated int
		Ticked    map[string][]string
	}
	require.NoError(t, json.Unmarshal(b, &script))
	require.Greater(t, script.Annotated, 2)
	want := map[[2]string]bool{}
	open := 0
	for _, p := range table.byPhoto(e.Data) {
		ticked, ok := script.Ticked[p.image]
		if !ok {
			open += len(p.candidates)
			continue
		}
		for _, x := range p.candidates {
			want[[2]string{p.image, x.Label}] = false
		}
		for _, c := range p.carries {
			want[[2]string{p.image, c}] = false
		}
		for _, l := range ticked {
			want[[2]string{p.image, l}] = true
		}
		for _, c := range p.carries { // what stays is no decision
			if want[[2]string{p.image, c}] {
				delete(want, [2]string{p.image, c})
			}
		}
	}
	for _, file := range []string{"testdata/label_studio_export.json", "testdata/label_studio_export_min.json"} {
		d, err := ReadDecisions(file)
		require.NoError(t, err)
		require.Equal(t, want, asMap(t, d), file)
		if !strings.Contains(file, "_min") { // JSON_MIN leaves out what nobody annotated
			require.Equal(t, open, d.Undecided, file)
		}
	}
}

func TestCSVRoundTrip(t *testing.T) {
	e, table := sample(t)
	var b bytes.Buffer
	require.NoError(t, table.WriteCSV(&b))
	recs, err := csv.NewReader(bytes.NewReader(b.Bytes())).ReadAll()
	require.NoError(t, err)
	require.Len(t, recs, 1+len(table.Candidates))
	for i := range recs[1:] {
		recs[i+1][len(recs[i+1])-1] = decided[i+1]
	}
	b.Reset()
	require.NoError(t, csv.NewWriter(&b).WriteAll(recs))
	d, err := ParseDecisions("audit.csv", append([]byte("\ufeff"), b.Bytes()...))
	require.NoError(t, err)
	require.Equal(t, expected(table), asMap(t, d))
	require.Equal(t, len(table.Candidates)-len(decided), d.Undecided)

	next, a, err := Apply(e.Data, Observed, d)
	require.NoError(t, err)
	require.Equal(t, 3, a.Accepted)
	require.Equal(t, 2, a.Refused)
	changed := 0
	for i := range next.Observed {
		if next.Observed[i] != e.Data.Observed[i] {
			changed++
			key := [2]string{e.Data.Images[i/4], e.Data.Classes[i%4]}
			want, ok := expected(table)[key]
			require.True(t, ok, key)
			require.Equal(t, map[bool]int8{true: 1, false: -1}[want], next.Observed[i])
		}
	}
	require.Equal(t, 5, changed, "the given labels of the first set are as they were, and nothing is lost")
	_, again, err := Apply(next, Observed, d)
	require.NoError(t, err)
	require.Equal(t, 5, again.Same)
}

func TestApply(t *testing.T) {
	e, _ := sample(t)
	one := func(image, label string, accept bool) *Decisions {
		return &Decisions{All: []Decision{{image, label, accept, "f:1"}}}
	}
	_, _, err := Apply(e.Data, Observed, one("gone.jpg", "dog", true))
	require.ErrorIs(t, err, ErrDecisions)
	require.ErrorContains(t, err, `no photo "gone.jpg"`)
	_, _, err = Apply(e.Data, Observed, one("über.png", "cat", true))
	require.ErrorContains(t, err, `no class "cat"`)
	_, _, err = Apply(e.Data, Observed, one("über.png", "dog", true), one("über.png", "dog", false))
	require.ErrorContains(t, err, "decide differently on dog of über.png")
	_, a, err := Apply(e.Data, Observed, one("über.png", "dog", true), one("über.png", "dog", true))
	require.NoError(t, err)
	require.Equal(t, 1, a.Accepted)
	require.Equal(t, []string{"dog of über.png"}, a.Against)
	next, a, err := Apply(e.Data, Observed, one("a/one.jpg", "dog", false)) // the given positive
	require.NoError(t, err)
	require.Equal(t, 1, a.Removed)
	require.Equal(t, int8(-1), next.Observed[0])
	require.Equal(t, int8(1), e.Data.Observed[0], "the given set is as it was")
	next, a, err = Apply(e.Data, Full, one("a/one.jpg", "dog", false), one("a/one.jpg", "café", true))
	require.NoError(t, err)
	require.Equal(t, []int{1, 1}, []int{a.Removed, a.Accepted})
	require.Equal(t, []int8{0, 1, 0, 1}, next.Labels[:4])
	require.Equal(t, []int8{0, 0, 0, 0}, next.Observed[:4], "observed labels that the full ones now contradict are unknown again")
	require.NoError(t, next.Validate())
}

func TestWrongDecisions(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "the file is empty",
		"image,label\na,b\n":                `no column "decision"`,
		"image,label,decision\na,b\n":       "wrong number of fields",
		"image,label,decision\na,b,no":      "line 2: the decision \"no\" is none of accept, refuse or nothing",
		"image,label,decision\n,b,accept\n": "must be named",
		`[{"data":{"image":"x"}}]`:          "spml_",
		`[{"data":3}]`:                      "task 0: data",
		`[1]`:                               "cannot unmarshal",
		`{"samples":[{"filepath":"x"}]}`:    "sample 0 has no spml_image",
		`{}`:                                "there are no samples",
		`{"samples":[{"spml_image":"x","spml_candidates":["a"],"audit":{"classifications":[{"label":"a","tags":["accept","refuse"]}]}}]}`: "tagged both",
	} {
		_, err := ParseDecisions("f", []byte(text))
		require.ErrorIs(t, err, ErrDecisions, text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzDecisions(f *testing.F) {
	for _, s := range []string{"image,label,decision\na,b,accept\n", `[{"data":{"image":"x","spml_image":"x","spml_candidates":["a"],"spml_carries":[]},"annotations":[{"result":[]}]}]`,
		`[{"annotation_id":1,"spml_image":"x","spml_candidates":["a"],"spml_carries":[],"labels":"a"}]`, `{"samples":[{"spml_image":"x","spml_candidates":["a"]}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ParseDecisions("f", b)
		if err != nil {
			require.ErrorIs(t, err, ErrDecisions)
			return
		}
		for _, x := range d.All {
			require.NotEmpty(t, x.From)
		}
	})
}
