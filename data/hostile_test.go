package data

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"

	"github.com/gospml/gospml/npy"
)

// oneRow makes, for each format that names files in its own files, a set of one row with the given name.
func oneRow(t testing.TB, name string) map[string]map[string]string {
	quoted := strings.NewReplacer(`\`, `\\`, "\x00", `\u0000`).Replace(name)
	array, err := npyStrings([]string{name})
	require.NoError(t, err)
	var images, labels, shard bytes.Buffer
	require.NoError(t, npy.Encode(&images, array))
	one, err := npy.New([]int64{1, 1}, []float64{1})
	require.NoError(t, err)
	require.NoError(t, npy.Encode(&labels, one))
	w := tar.NewWriter(&shard)
	for _, n := range []string{strings.TrimSuffix(name, ".jpg") + ".jpg", strings.TrimSuffix(name, ".jpg") + ".cls"} {
		if w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: n, Size: 1, Mode: 0o644}) == nil {
			w.Write([]byte("0"))
		}
	}
	w.Close()
	return map[string]map[string]string{
		"csv":          {"t.csv": "image,labels\n\"" + name + "\",x\n"},
		"csv folder":   {"labels.csv": "filename,x\n\"" + name + "\",1\n"},
		"jsonl":        {"metadata.jsonl": `{"file_name": "` + quoted + `", "labels": ["x"]}`},
		"coco":         {"c.json": `{"images": [{"id": 1, "file_name": "` + quoted + `"}], "annotations": [{"image_id": 1, "category_id": 1}], "categories": [{"id": 1, "name": "x"}]}`},
		"label-studio": {"e.json": `[{"data": {"image": "` + quoted + `"}, "annotations": [{"result": [{"type": "choices", "value": {"choices": ["x"]}}]}]}]`},
		"local files":  {"e.json": `[{"data": {"image": "/data/local-files/?d=` + quoted + `"}, "annotations": [{"result": [{"type": "choices", "value": {"choices": ["x"]}}]}]}]`},
		"fiftyone":     {"samples.json": `{"samples": [{"filepath": "` + quoted + `", "ground_truth": {"_cls": "Classification", "label": "x"}}]}`},
		"spml-list":    {"voc_train.txt": name + ", 3\n"},
		"box-list":     {"boxes.txt": name + " 1 2 3 4 0\n"},
		"voc":          {"Annotations/1.xml": `<annotation><filename>` + name + `</filename><object><name>x</name></object></annotation>`},
		"cub":          {"images.txt": "1 " + name + "\n", "attributes/image_attribute_labels.txt": "1 1 1 1 1\n", "attributes.txt": "x\n"},
		"tsv":          {"train.tsv": "file\tpositive_attributes\n" + name + "\t0\n"},
		"nus-wide":     {"ImageList/Imagelist.txt": name + "\n", "Labels_x.txt": "1\n"},
		"cole":         {"formatted_train_images.npy": images.String(), "formatted_train_labels.npy": labels.String()},
		"webdataset":   {"s.tar": shard.String()},
	}
}

// TestNamesOutside: names that leave the folder are refused in every format.
func TestNamesOutside(t *testing.T) {
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "x.jpg"), []byte("secret"), 0o644))
	refused := 0
	for _, name := range []string{"../x.jpg", "a/../../x.jpg", "/etc/hostname.jpg", `..\x.jpg`, `C:\x.jpg`, "C:/x.jpg", "a/\x00.jpg", strings.Repeat("long/", 2000) + "x.jpg", ".."} {
		for format, files := range oneRow(t, name) {
			if strings.Contains(name, "\x00") && format == "voc" || format == "webdataset" && (strings.Contains(name, "\x00") || name == "..") {
				continue // XML and tar cannot hold the name
			}
			if name == ".." && (format == "box-list" || format == "spml-list") {
				continue // no name of a file: not recognised as this format
			}
			dir := folder(t, files)
			path := dir
			if len(files) == 1 && format != "voc" && format != "nus-wide" && format != "csv folder" {
				for f := range files {
					path = filepath.Join(dir, f)
				}
			}
			d, err := Open(path, Options{Missing: MissingKeep})
			if err == nil {
				d.Close()
			}
			var fe *FormatError
			require.ErrorAs(t, err, &fe, "%s with %.40q", format, name)
			refused++
		}
	}
	require.Greater(t, refused, 100)

	for format, files := range oneRow(t, "a/photo.jpg") { // the same sets with a good name
		dir := folder(t, files)
		d, err := Open(dir, Options{Missing: MissingKeep, Format: map[string]string{"box-list": "box-list"}[format]})
		if format == "box-list" {
			d, err = Open(filepath.Join(dir, "boxes.txt"), Options{})
		}
		require.NoError(t, err, format)
		require.Equal(t, 1, d.N(), format)
		d.Close()
	}

	// A link out of the folder, for a photo and for the set's own file.
	dir := folder(t, map[string]string{"t.csv": "image,labels\nx.jpg,x\ny.jpg,x\n", "y.jpg": ""})
	require.NoError(t, os.Symlink(filepath.Join(outside, "x.jpg"), filepath.Join(dir, "x.jpg")))
	_, err := Open(filepath.Join(dir, "t.csv"), Options{})
	require.ErrorContains(t, err, "cannot be reached")
	dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "metadata.jsonl"), []byte(`{"file_name": "x.jpg", "labels": ["x"]}`), 0o644))
	require.NoError(t, os.Symlink(filepath.Join(outside, "metadata.jsonl"), filepath.Join(dir, "metadata.jsonl")))
	_, err = Open(dir, Options{Format: "jsonl"})
	require.Error(t, err)
	_, err = Open("a\x00b", Options{})
	require.ErrorContains(t, err, "NUL")
}

// TestBadSets: each error names the file, the line where there is one, and what is wrong.
func TestBadSets(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing known":        {map[string]string{"readme.md": "hello"}, "no data set that is known"},
		"class given twice":    {map[string]string{"metadata.jsonl": `{"file_name": "a.jpg", "labels": ["x"]}`, "classes.txt": "x\nx\n"}, `class "x" is named twice`},
		"unknown class":        {map[string]string{"metadata.jsonl": `{"file_name": "a.jpg", "labels": ["Tv Monitor"]}`, "classes.txt": "tvmonitor\n"}, `is "tvmonitor" meant?`},
		"row twice":            {map[string]string{"t.csv": "image,labels\na.jpg,x\nb.jpg,x\na.jpg,y\n"}, "t.csv:4: \"a.jpg\" has a row already (t.csv:2)"},
		"cut JSON":             {map[string]string{"c.json": `{"images": [{"id": 1, "file_name": "a.jpg"}`}, "ends too early"},
		"no categories":        {map[string]string{"c.json": `{"images": [], "annotations": []}`}, `"categories" is missing`},
		"annotation of nobody": {map[string]string{"c.json": `{"images": [{"id": 1, "file_name": "a"}], "annotations": [{"image_id": 2, "category_id": 1}], "categories": [{"id": 1, "name": "x"}]}`}, "of image 2"},
		"id twice":             {map[string]string{"c.json": `{"images": [{"id": 1, "file_name": "a"}, {"id": 1, "file_name": "b"}], "annotations": [], "categories": [{"id": 1, "name": "x"}]}`}, "two images have the id 1"},
		"UTF-16":               {map[string]string{"t.csv": "\xff\xfei\x00m\x00"}, "UTF-16"},
		"cell":                 {map[string]string{"t.csv": "image,x,y\na.jpg,1,2\n"}, `t.csv:2: "a.jpg", column "y": the value is "2"`},
		"flag":                 {map[string]string{"ImageSets/Main/cat_train.txt": "1  1\n2  3\n"}, `cat_train.txt:2: the flag "3"`},
		"lists differ":         {map[string]string{"ImageSets/Main/cat_train.txt": "1 1\n2 1\n", "ImageSets/Main/dog_train.txt": "1 1\n"}, "it lists 1 images, the lists before it 2"},
		"XML":                  {map[string]string{"Annotations/1.xml": "<annotation><object></annotation>"}, "1.xml:1"},
		"class number":         {map[string]string{"voc_train.txt": "a.jpg, 20\n"}, "voc_train.txt:1: class number 20"},
		"label no attribute":   {map[string]string{"a.arff": "@relation x\n@attribute f numeric\n@data\n1\n", "a.xml": `<labels><label name="y"/></labels>`}, `the label "y" is no attribute`},
		"no labels known":      {map[string]string{"a.arff": "@relation x\n@attribute f numeric\n@data\n1\n"}, "which attributes are labels"},
		"lines missing":        {map[string]string{"ImageList/Imagelist.txt": "a.jpg\nb.jpg\n", "Labels_x.txt": "1\n"}, "it has 1 lines"},
		"parts in some rows":   {map[string]string{"metadata.jsonl": "{\"file_name\": \"a.jpg\", \"labels\": [\"x\"], \"split\": \"train\"}\n{\"file_name\": \"b.jpg\", \"labels\": [\"x\"]}"}, `metadata.jsonl:2: "b.jpg" names no part`},
		"tar":                  {map[string]string{"s.tar": strings.Repeat("no tar file ", 100)}, "s.tar: damaged near byte"},
		"both signs":           {map[string]string{"metadata.jsonl": `{"file_name": "a.jpg", "positive": ["x"], "negative": ["x"]}`}, "positive and negative"},
	} {
		_, err := Open(folder(t, c.files), Options{Missing: MissingKeep})
		require.ErrorContains(t, err, c.want, name)
	}
}

func TestOptionsOfOpen(t *testing.T) {
	dir := folder(t, map[string]string{"metadata.jsonl": "{\"file_name\": \"a.jpg\", \"labels\": [\"x\", \"z\"]}\n{\"file_name\": \"b.jpg\", \"labels\": []}\n{\"file_name\": \"c.jpg\", \"labels\": [\"x\"]}", "a.jpg": "", "b.jpg": ""})
	_, err := Open(dir, Options{})
	require.ErrorContains(t, err, `metadata.jsonl:3: "c.jpg" does not exist`)
	_, err = Open(dir, Options{Missing: "never"})
	require.ErrorContains(t, err, "choose from refuse, skip, keep")
	_, err = Open(dir, Options{Format: "xml"})
	require.ErrorContains(t, err, "choose from csv, cole, voc")
	d, err := Open(dir, Options{Missing: MissingSkip, NoValidation: true})
	require.NoError(t, err)
	require.Equal(t, []string{"a.jpg", "b.jpg"}, d.Images)
	require.Contains(t, fmt.Sprint(d.Info.Notes), "1 rows are left out because their photo is missing")
	d.Close()
	_, err = Open(dir, Options{Missing: MissingKeep, Classes: []string{"z", "y"}})
	require.ErrorContains(t, err, `"x" is none of the 2 classes of the caller`)
	d, err = Open(dir, Options{Missing: MissingKeep, Classes: []string{"z", "y"}, Unknown: UnknownIgnore, Empty: EmptyDrop, NoValidation: true})
	require.NoError(t, err)
	require.Equal(t, []string{"a.jpg"}, d.Images)
	require.Equal(t, []int8{1, 0}, d.Labels)
	require.Contains(t, fmt.Sprint(d.Info.Notes), "2 labels of 1 unknown classes are ignored")
	d.Close()
	d, err = Open(dir, Options{Missing: MissingKeep, Labels: LabelsObserved})
	require.NoError(t, err)
	require.Nil(t, d.Labels)
	require.Equal(t, []int8{1, 1, 0, 0, 1, 0}, d.Observed)
	d.Close()
}

// TestShards reads photos out of shards by row, with and without an index, and refuses an index of another file.
func TestShards(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(testroot.Testdata("data", "formats", "webdataset"))))
	read := func() (*Dataset, [][]byte) {
		d, err := Open(dir, Options{Empty: EmptyDrop})
		require.NoError(t, err)
		var all [][]byte
		for i := range d.N() {
			b, err := d.Source.(RawSource).ReadFile(i, nil)
			require.NoError(t, err)
			all = append(all, b)
			require.Equal(t, "\xff\xd8", string(b[:2]))
		}
		require.NoError(t, d.Close())
		return d, all
	}
	d, plain := read()
	require.Equal(t, 7, d.N())
	for _, s := range []string{"set-000000.tar", "set-000001.tar"} {
		_, n, err := WriteTarIndex(filepath.Join(dir, s))
		require.NoError(t, err)
		require.Equal(t, map[string]int{"set-000000.tar": 5, "set-000001.tar": 3}[s], n)
	}
	indexed, same := read()
	require.Equal(t, plain, same)
	require.Contains(t, fmt.Sprint(indexed.Info.Notes), "2 of 2 shards have an index")

	d, err := Open(dir, Options{})
	require.NoError(t, err)
	out := filepath.Join(t.TempDir(), "again")
	require.NoError(t, Write(d, out, WriteOptions{Format: "webdataset", ShardBytes: 4000}))
	back, err := Open(out, Options{})
	require.NoError(t, err)
	require.Equal(t, d.Images, back.Images)
	require.Equal(t, d.Labels, back.Labels)
	require.Equal(t, d.Observed, back.Observed)
	for i := range d.N() {
		a, err1 := d.Source.(RawSource).ReadFile(i, nil)
		b, err2 := back.Source.(RawSource).ReadFile(i, nil)
		require.NoError(t, err1)
		require.NoError(t, err2)
		require.Equal(t, a, b)
	}
	d.Close()
	back.Close()

	require.NoError(t, os.Rename(filepath.Join(dir, "set-000000.idx"), filepath.Join(dir, "set-000001.idx")))
	_, err = Open(dir, Options{})
	require.ErrorContains(t, err, "the index is of another file")
}

// TestColeRoundTrip: what Cole's arrays hold comes back, the papers' validation rows among it.
func TestColeRoundTrip(t *testing.T) {
	d, err := Open(testroot.Testdata("data", "formats", "cole"), Options{})
	require.NoError(t, err)
	require.Equal(t, 1, len(d.Rows(Val)))
	dir := filepath.Join(t.TempDir(), "cole")
	require.NoError(t, Write(d, dir, WriteOptions{Format: "cole"}))
	back, err := Open(dir, Options{})
	require.NoError(t, err)
	require.Equal(t, d.Fingerprint(), back.Fingerprint())
	require.Equal(t, d.Observed, back.Observed)
}
