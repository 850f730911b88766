package data

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// fixture is an entry of testdata/data/formats/expected.json, which the tools' own readers made.
type fixture struct {
	Path, Format string
	Options      Options
	Classes      []string
	Rows         map[string][]string
	Observed     map[string][2][]string
}

func fixtures(t testing.TB) []fixture {
	b, err := os.ReadFile(testroot.Testdata("data", "formats", "expected.json"))
	require.NoError(t, err)
	var all []fixture
	require.NoError(t, json.Unmarshal(b, &all))
	require.Greater(t, len(all), 25)
	return all
}

func TestFormatFixtures(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range fixtures(t) {
		t.Run(f.Path, func(t *testing.T) {
			d, err := Open(testroot.Testdata("data", "formats", f.Path), f.Options)
			require.NoError(t, err)
			defer d.Close()
			require.Equal(t, f.Format, d.Info.Format)
			seen[f.Format] = true
			require.NoError(t, d.Validate())
			require.Equal(t, f.Classes, d.Classes)
			names := slices.Sorted(slices.Values(d.Images))
			if f.Rows != nil {
				require.Equal(t, slices.Sorted(maps.Keys(f.Rows)), names)
				for i, n := range d.Images {
					require.True(t, d.full(i), n)
					require.Equal(t, sorted(f.Rows[n]), sorted(d.names(columnsOf(d.LabelRow(i), 1))), n)
				}
			}
			if f.Observed != nil {
				require.Equal(t, slices.Sorted(maps.Keys(f.Observed)), names)
				for i, n := range d.Images {
					require.Equal(t, sorted(f.Observed[n][0]), sorted(d.names(columnsOf(d.ObservedRow(i), 1))), n)
					require.Equal(t, sorted(f.Observed[n][1]), sorted(d.names(columnsOf(d.ObservedRow(i), -1))), n)
				}
			}
		})
	}
	for _, f := range Formats() {
		if !slices.Contains([]string{"tsv", "box-list", "folders"}, f.Name) { // these are in TestRealSets and TestFolders
			require.True(t, seen[f.Name], "%s has no fixture", f.Name)
		}
	}
}

func sorted(s []string) []string {
	out := append([]string{}, s...)
	slices.Sort(out)
	return out
}

// TestRealSets opens every real set. The counts were made from the annotations by testdata/data/real_counts.py, not by this package.
func TestRealSets(t *testing.T) {
	root := testroot.Shared(t, "data")
	b, err := os.ReadFile(testroot.Testdata("data", "real_counts.json"))
	require.NoError(t, err)
	var sets []struct {
		Path, Set, Format string
		Rows              int
		Parts             []int // train and val, test; nil where the files name none
		Classes           map[string]int
		Counts            []int // positives of each column
		Observed          int
	}
	require.NoError(t, json.Unmarshal(b, &sets))
	require.Greater(t, len(sets), 20)
	for _, s := range sets {
		t.Run(s.Path, func(t *testing.T) {
			d, err := Open(filepath.Join(root, s.Path), Options{Seed: 1200, Missing: MissingKeep})
			require.NoError(t, err)
			defer d.Close()
			require.Equal(t, s.Format, d.Info.Format)
			require.Equal(t, s.Rows, d.N())
			if s.Parts != nil {
				require.Equal(t, s.Parts, []int{len(d.Rows(Train)) + len(d.Rows(Val)), len(d.Rows(Test))})
			}
			if s.Counts != nil {
				require.Len(t, d.Classes, len(s.Counts))
			}
			counts := make([]int, d.C())
			for i := range d.N() {
				if d.full(i) {
					for _, c := range columnsOf(d.LabelRow(i), 1) {
						counts[c]++
					}
				}
			}
			if s.Counts != nil {
				require.Equal(t, s.Counts, counts)
			}
			for name, n := range s.Classes {
				c := slices.Index(d.Classes, name)
				require.GreaterOrEqual(t, c, 0, name)
				require.Equal(t, n, counts[c], name)
			}
			if s.Observed > 0 {
				n := 0
				for _, r := range d.Rows(Train) {
					n += len(columnsOf(d.ObservedRow(r), 1))
				}
				require.Equal(t, s.Observed, n)
			}
		})
	}
}

// Photos of COCO's training part lie in a folder of their own; the list with their labels names 82,081.
func TestPhotosBesideAList(t *testing.T) {
	photos, lists := testroot.Shared(t, "data", "coco", "train2014_224"), testroot.Shared(t, "data", "labels", "spml")
	d, err := Open(filepath.Join(lists, "coco"), Options{Images: photos, Missing: MissingSkip, Seed: 1200})
	require.NoError(t, err)
	defer d.Close()
	text, err := os.ReadFile(filepath.Join(lists, "coco_train_full.txt"))
	require.NoError(t, err)
	rows, positives := 0, 0
	for _, line := range strings.Split(string(text), "\n") {
		name, labels, ok := strings.Cut(line, ",")
		if _, err := os.Stat(filepath.Join(photos, name)); !ok || err != nil {
			continue
		}
		rows, positives = rows+1, positives+len(strings.Fields(labels))
	}
	require.Greater(t, rows, 90)
	require.Equal(t, rows, d.N())
	n := 0
	for i := range d.N() {
		n += len(columnsOf(d.LabelRow(i), 1))
	}
	require.Equal(t, positives, n)
}

func TestFolders(t *testing.T) {
	dir := folder(t, map[string]string{"train/cat/a.jpg": "x", "train/cat/b.png": "x", "train/dog/c.jpg": "x", "test/cat/d.jpg": "x", "test/dog/notes.txt": "x"})
	d, err := Open(dir, Options{})
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, "folders", d.Info.Format)
	require.Equal(t, []string{"cat", "dog"}, d.Classes)
	require.Equal(t, []string{"train/cat/a.jpg", "train/cat/b.png", "train/dog/c.jpg", "test/cat/d.jpg"}, d.Images)
	require.Nil(t, d.Labels)
	require.Equal(t, []int8{1, 0, 1, 0, 0, 1, 1, 0}, d.Observed)
	require.Equal(t, []Split{Train, Train, Train, Test}, d.Split)
	require.NotNil(t, d.Source)

	d, err = Open(dir, Options{Labels: LabelsFull, NoValidation: true})
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, []int8{1, 0, 1, 0, 0, 1, 1, 0}, d.Labels)
}

// sample is a set with everything that the formats differ in: three parts, rows without labels, an own order of classes, several observed labels.
func sampleSet(t testing.TB, n int, full func(i int) bool) *Dataset {
	d := &Dataset{Name: "sample", Classes: []string{"zebra", "a class, with comma", "Über", "cat"}}
	c := d.C()
	d.Labels, d.Observed, d.Split = make([]int8, n*c), make([]int8, n*c), make([]Split, n)
	if full != nil {
		d.Full = make([]bool, n)
	}
	for i := range n {
		d.Images = append(d.Images, fmt.Sprintf("part %d/photo %03d.jpg", i%3, (i*7)%n))
		d.Split[i] = Split(i * 3 / n)
		for k := range c {
			if (i>>k)&1 == 1 {
				d.Labels[i*c+k] = 1
				d.Observed[i*c+k] = int8((i + k) % 2)
			} else if (i+k)%5 == 0 {
				d.Observed[i*c+k] = -1
			}
		}
		if full != nil {
			if d.Full[i] = full(i); !d.Full[i] {
				for k := range c {
					d.Labels[i*c+k] = max(d.Observed[i*c+k], 0)
				}
			}
		}
	}
	require.NoError(t, d.Validate())
	return d
}

// TestRoundTrips writes a set in each format that is written and opens it again: equal where the format says that it loses nothing.
func TestRoundTrips(t *testing.T) {
	plain := sampleSet(t, 48, nil)
	partial := sampleSet(t, 48, func(i int) bool { return i%3 != 0 })
	noObserved := *plain
	noObserved.Observed = nil
	simple := sampleSet(t, 40, nil) // what VOC's lists hold
	simple.Classes, simple.Observed = []string{"ant", "bee", "cow", "dog"}, nil
	for i := range simple.Images {
		simple.Images[i] = fmt.Sprintf("2008_%06d.jpg", i)
		simple.Labels[i*4+i%4] = 1
	}
	positives := *plain
	positives.Observed = slices.Clone(plain.Observed)
	for i, v := range positives.Observed {
		positives.Observed[i] = max(v, 0)
	}
	positives.Images = slices.Clone(plain.Images)
	held := map[string]int{}
	for name, d := range map[string]*Dataset{"plain": plain, "partial": partial, "no observed": &noObserved, "simple": simple, "positives": &positives} {
		for _, f := range Formats() {
			if !f.Writes() || f.write.photos {
				continue
			}
			lost, err := Loses(d, f.Name)
			require.NoError(t, err)
			dir := filepath.Join(t.TempDir(), "out")
			err = Write(d, dir, WriteOptions{Format: f.Name})
			if len(lost) > 0 {
				var le *LossyError
				require.ErrorAs(t, err, &le, "%s as %s", name, f.Name)
				require.NoDirExists(t, dir)
				require.NoError(t, Write(d, dir, WriteOptions{Format: f.Name, Lossy: true}))
				back, err := Open(dir, Options{Format: f.Name, Missing: MissingKeep, Images: dir})
				require.NoError(t, err, "%s as %s", name, f.Name)
				require.NoError(t, back.Close())
				continue
			}
			held[f.Name]++
			require.NoError(t, err, "%s as %s", name, f.Name)
			back, err := Open(dir, Options{Missing: MissingKeep, Images: dir, NoValidation: true})
			require.NoError(t, err, "%s as %s", name, f.Name)
			require.NoError(t, back.Close())
			require.Equal(t, f.Name, back.Info.Format)
			require.Equal(t, d.Images, back.Images, "%s as %s", name, f.Name)
			require.Equal(t, d.Classes, back.Classes, "%s as %s", name, f.Name)
			require.Equal(t, d.Labels, back.Labels, "%s as %s", name, f.Name)
			require.Equal(t, d.Full, back.Full, "%s as %s", name, f.Name)
			require.Equal(t, d.Split, back.Split, "%s as %s", name, f.Name)
			if d.Observed != nil {
				require.Equal(t, d.Observed, back.Observed, "%s as %s", name, f.Name)
			}
		}
	}
	t.Log(held)
	for _, f := range []string{"csv", "jsonl", "coco", "spml-list", "voc", "label-studio"} {
		require.Positive(t, held[f], "no set was written as %s without loss", f)
	}
}

// TestConvertedDraws: the observed labels of a converted set are those of the first, not drawn anew.
func TestConvertedDraws(t *testing.T) {
	d, err := Open(testroot.Testdata("data", "formats", "pycocotools"), Options{Seed: 7})
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "csv")
	require.NoError(t, Write(d, dir, WriteOptions{Format: "csv"}))
	back, err := Open(dir, Options{Seed: 8, Missing: MissingKeep, Images: dir})
	require.NoError(t, err)
	defer back.Close()
	require.Equal(t, d.Observed, back.Observed)
	require.Equal(t, d.Fingerprint(), back.Fingerprint())
}
