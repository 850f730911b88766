package data

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// folder writes a data set: files by name, and an empty image for each name below images/.
func folder(t *testing.T, files map[string]string, images ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range images {
		files["images/"+name] = ""
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

const threeRows = "filename,cat,dog\na.jpg,1,0\nb.jpg,0,1\nc.jpg,1,1\n"

func TestOpenCSV(t *testing.T) {
	dir := folder(t, map[string]string{
		"labels.csv":     threeRows,
		"split.csv":      "filename,split\nc.jpg,test\na.jpg,train\nb.jpg,val\n",
		"observed_7.csv": "filename,cat,dog\nb.jpg,-1,1\nc.jpg,0,1\na.jpg,1,0\n",
	}, "a.jpg", "b.jpg", "c.jpg")
	d, err := OpenCSV(dir, CSVOptions{Seed: 7})
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.Validate())
	require.Equal(t, filepath.Base(dir), d.Name)
	require.Equal(t, []string{"cat", "dog"}, d.Classes)
	require.Equal(t, []string{"a.jpg", "b.jpg", "c.jpg"}, d.Images)
	require.Equal(t, []int8{1, 0, 0, 1, 1, 1}, d.Labels)
	require.Equal(t, []int8{1, 0, -1, 1, 0, 1}, d.Observed, "rows follow labels.csv, whatever the order of the other files")
	require.Equal(t, []Split{Train, Val, Test}, d.Split)
	require.Equal(t, Info{Labels: "labels.csv", Split: "split.csv", Observed: "observed_7.csv"}, d.Info)

	d, err = OpenCSV(dir, CSVOptions{Seed: 8})
	require.NoError(t, err)
	defer d.Close()
	require.Contains(t, d.Info.Observed, "drawn over all rows in file order with seed 8")
	for i := range d.N() {
		sum := 0
		for c, o := range d.ObservedRow(i) {
			sum += int(o)
			require.LessOrEqual(t, o, d.LabelRow(i)[c])
		}
		require.Equal(t, 1, sum)
	}
}

// TestMIML opens the real set: its observed files were written by numpy, and our own draws must give the same.
func TestMIML(t *testing.T) {
	dir := testroot.Shared(t, "data", "miml")
	d, err := OpenCSV(dir, CSVOptions{Seed: 1200})
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.Validate())
	require.Equal(t, 1600, d.N())
	require.Equal(t, []string{"desert", "mountains", "sea", "sunset", "trees"}, d.Classes)
	require.Len(t, d.Rows(Train), 1000)
	require.Len(t, d.Rows(Val), 200)
	require.Len(t, d.Rows(Test), 400)
	for _, seed := range []uint32{1200, 1, 2, 3, 4} {
		file, err := OpenCSV(dir, CSVOptions{Seed: seed})
		require.NoError(t, err)
		require.Regexp(t, `^observed_\d+\.csv$`, file.Info.Observed)
		drawn, err := file.WithSinglePositives(seed)
		require.NoError(t, err)
		require.Equal(t, file.Observed, drawn.Observed, "seed %d", seed)
		require.Equal(t, d.Fingerprint(), file.Fingerprint())
		require.Equal(t, seed == 1200, d.ObservedFingerprint() == file.ObservedFingerprint())
		require.NoError(t, file.Close())
	}
}

func TestOddCSVIsRead(t *testing.T) {
	for name, text := range map[string]string{
		"byte order mark":   "\xef\xbb\xbf" + threeRows,
		"CRLF":              strings.ReplaceAll(threeRows, "\n", "\r\n"),
		"no last newline":   strings.TrimSuffix(threeRows, "\n"),
		"blank lines":       strings.ReplaceAll(threeRows, "\n", "\n\n"),
		"quotes":            "\"filename\",\"cat\",dog\n\"a.jpg\",\"1\",0\nb.jpg,0,\"1\"\nc.jpg,1,1\n",
		"spaces":            "filename, cat ,dog\na.jpg, 1,0 \nb.jpg,0,1\nc.jpg,1,1\n",
		"unneeded path":     "filename,cat,dog\n./a.jpg,1,0\nb.jpg,0,1\nc.jpg,1,1\n",
		"BOM and CRLF":      "\xef\xbb\xbf" + strings.ReplaceAll(threeRows, "\n", "\r\n"),
		"BOM before quotes": "\xef\xbb\xbf\"filename\",cat,dog\na.jpg,1,0\nb.jpg,0,1\nc.jpg,1,1\n",
	} {
		tab, err := readTable(strings.NewReader(text), "labels.csv", fullLabel, "0 or 1")
		require.NoError(t, err, name)
		require.Equal(t, []string{"cat", "dog"}, tab.columns, name)
		require.Equal(t, []string{"a.jpg", "b.jpg", "c.jpg"}, tab.names, name)
		require.Equal(t, []int8{1, 0, 0, 1, 1, 1}, tab.cells, name)
	}
	tab, err := readTable(strings.NewReader("filename,\"a, b\"\n\"x, \"\"y\"\".jpg\",1\n"), "labels.csv", fullLabel, "0 or 1")
	require.NoError(t, err)
	require.Equal(t, []string{"a, b"}, tab.columns)
	require.Equal(t, []string{`x, "y".jpg`}, tab.names)
}

func TestOddCSVIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "labels.csv: the file is empty",
		"filename,cat\n":                         "has a header but no rows",
		"name,cat\na.jpg,1\n":                    `labels.csv:1: the first column is "name", it must be filename`,
		"filename;cat\na.jpg;1\n":                "separate the columns by commas",
		"filename\tcat\na.jpg\t1\n":              "separate the columns by commas",
		"filename\na.jpg\n":                      "needs filename and 1 to",
		"filename,cat,\na.jpg,1,0\n":             "column 3 has no name",
		"filename,cat,dog,cat\na.jpg,1,0,0\n":    `columns 2 and 4 are both named "cat"`,
		"filename,c\x01t\na.jpg,1\n":             "control characters",
		"filename,cat\na.jpg,1,0\n":              "labels.csv:2: the row has 3 columns, the header 2",
		"filename,cat\na.jpg\n":                  "the row has 1 columns, the header 2",
		"filename,cat\na.jpg,1\nb.jpg,2\n":       `labels.csv:3: "b.jpg", column "cat": the value is "2", it must be 0 or 1`,
		"filename,cat\na.jpg,\n":                 `the value is ""`,
		"filename,cat\na.jpg,-1\n":               `the value is "-1"`,
		"filename,cat\na.jpg,1.0\n":              `the value is "1.0"`,
		"filename,cat\na.jpg,1\n\nb,0\n./b,1\n":  `labels.csv:5: "b" has a row already, in line 4`,
		"filename,cat\n\"a.jpg,1\n":              "labels.csv:",
		"filename,cat\na\"b.jpg,1\n":             "labels.csv:2: column",
		"filename,cat\n\xe4.jpg,1\n":             "is not UTF-8",
		"filename,c\xe4t\na.jpg,1\n":             "not UTF-8",
		"\xff\xfef\x00i\x00":                     "UTF-16",
		"filename,cat\r\ra.jpg,1\r":              "",
		"filename,cat\n../a.jpg,1\n":             `labels.csv:2: file name "../a.jpg" leads out`,
		"filename,cat\nx/../../a.jpg,1\n":        "leads out",
		"filename,cat\nx/../a.jpg,1\n":           "leads out",
		"filename,cat\n..,1\n":                   "leads out",
		"filename,cat\n/etc/passwd,1\n":          "is absolute",
		"filename,cat\nC:/x.jpg,1\n":             "is absolute",
		"filename,cat\nc:x.jpg,1\n":              "is absolute",
		"filename,cat\n..\\x.jpg,1\n":            "back-slash",
		"filename,cat\nx\\y.jpg,1\n":             "back-slash",
		"filename,cat\nx\x00.jpg,1\n":            "NUL",
		"filename,cat\n,1\n":                     "the file name is empty",
		"filename,cat\n.,1\n":                    "names a folder",
		"filename,cat\nx/,1\n":                   "names a folder",
		"filename,cat\n" + longName + ".jpg,1\n": "the file name has 10004 bytes",
	} {
		_, err := readTable(strings.NewReader(text), "labels.csv", fullLabel, "0 or 1")
		var fe *FormatError
		require.ErrorAs(t, err, &fe, "%q", text)
		require.ErrorContains(t, err, want, "%q", text)
	}
}

var longName = strings.Repeat("x", 10000)

func TestOpenCSVErrors(t *testing.T) {
	type files = map[string]string
	for name, c := range map[string]struct {
		files files
		want  string
	}{
		"no labels":             {files{"notes.txt": ""}, "has no labels.csv"},
		"missing image":         {files{"labels.csv": "filename,cat\na.jpg,1\nmissing.jpg,0\ngone.jpg,1\n"}, `labels.csv:3: "missing.jpg" does not exist in images/: put the file there or delete its row; 1 more files are missing`},
		"no images folder":      {files{"labels.csv": "filename,cat\nq.jpg,1\n"}, "does not exist"},
		"unknown file in split": {files{"labels.csv": threeRows, "split.csv": "filename,split\na.jpg,train\nz.jpg,val\n"}, `split.csv:3: "z.jpg" is no row of labels.csv`},
		"file without split":    {files{"labels.csv": threeRows, "split.csv": "filename,split\na.jpg,train\nc.jpg,val\n"}, `split.csv: "b.jpg" (labels.csv:3) has no row`},
		"unknown part":          {files{"labels.csv": threeRows, "split.csv": "filename,split\na.jpg,training\n"}, `split.csv:2: "a.jpg", column "split": the value is "training", it must be train, val or test`},
		"twice in split":        {files{"labels.csv": threeRows, "split.csv": "filename,split\na.jpg,train\na.jpg,val\n"}, `split.csv:3: "a.jpg" has a row already, in line 2`},
		"split header":          {files{"labels.csv": threeRows, "split.csv": "filename,part\na.jpg,train\nb.jpg,val\nc.jpg,test\n"}, "the header must be filename,split"},
		"no train rows":         {files{"labels.csv": threeRows, "split.csv": "filename,split\na.jpg,test\nb.jpg,val\nc.jpg,test\n"}, "no row is a train row"},
		"observed columns":      {files{"labels.csv": threeRows, "observed_0.csv": "filename,dog,cat\na.jpg,0,1\nb.jpg,1,0\nc.jpg,0,1\n"}, "observed_0.csv:1: column 2 differs from labels.csv"},
		"observed row missing":  {files{"labels.csv": threeRows, "observed_0.csv": "filename,cat,dog\na.jpg,1,0\nb.jpg,0,1\n"}, `observed_0.csv: "c.jpg" (labels.csv:4) has no row`},
		"observed value":        {files{"labels.csv": threeRows, "observed_0.csv": "filename,cat,dog\na.jpg,3,0\n"}, "it must be -1, 0 or 1"},
		"contradiction":         {files{"labels.csv": threeRows, "observed_0.csv": "filename,cat,dog\nb.jpg,0,1\na.jpg,0,1\nc.jpg,1,0\n"}, `observed_0.csv:3: "a.jpg", column "dog": the value 1 contradicts labels.csv:2`},
	} {
		images := []string{"a.jpg", "b.jpg", "c.jpg"}
		if name == "no images folder" {
			images = images[:1]
		}
		_, err := OpenCSV(folder(t, c.files, images...), CSVOptions{})
		var fe *FormatError
		require.ErrorAs(t, err, &fe, name)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := OpenCSV(filepath.Join(t.TempDir(), "absent"), CSVOptions{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSplitIsDrawn(t *testing.T) {
	var labels, split strings.Builder
	labels.WriteString("filename,cat\n")
	split.WriteString("filename,split\n")
	var images []string
	for i := range 100 {
		name := string(rune('a'+i/10)) + string(rune('0'+i%10)) + ".jpg"
		images = append(images, name)
		labels.WriteString(name + ",1\n")
		part := "train"
		if i%10 == 0 {
			part = "test"
		}
		split.WriteString(name + "," + part + "\n")
	}
	count := func(files map[string]string, opt CSVOptions) ([3]int, *Dataset) {
		d, err := OpenCSV(folder(t, files, images...), opt)
		require.NoError(t, err)
		t.Cleanup(func() { d.Close() })
		return [3]int{len(d.Rows(Train)), len(d.Rows(Val)), len(d.Rows(Test))}, d
	}
	n, d := count(map[string]string{"labels.csv": labels.String()}, CSVOptions{})
	require.Equal(t, [3]int{64, 16, 20}, n)
	require.Contains(t, d.Info.Split, "no split.csv: 20 % of the rows drawn as test with seed 1200; 20 % of its train rows drawn as val")
	n, _ = count(map[string]string{"labels.csv": labels.String()}, CSVOptions{NoValidation: true})
	require.Equal(t, [3]int{80, 0, 20}, n)
	n, d = count(map[string]string{"labels.csv": labels.String(), "split.csv": split.String()}, CSVOptions{})
	require.Equal(t, [3]int{72, 18, 10}, n)
	require.Equal(t, "split.csv; 20 % of its train rows drawn as val with seed 1200", d.Info.Split)
	// The rule of the papers over the train rows.
	n, _ = count(map[string]string{"labels.csv": labels.String(), "split.csv": split.String()}, CSVOptions{NoValidation: true})
	require.Equal(t, [3]int{90, 0, 10}, n)
	// Observed labels alone: a fifth to choose the epoch by them, and no test part, which could not be scored.
	n, d = count(map[string]string{"observed.csv": labels.String()}, CSVOptions{})
	require.Equal(t, [3]int{80, 20, 0}, n)
	require.Contains(t, d.Info.Split, "drawn as val with seed 1200, for scores against observed labels")
	n, _ = count(map[string]string{"observed.csv": labels.String()}, CSVOptions{NoValidation: true})
	require.Equal(t, [3]int{100, 0, 0}, n)
	n, d = count(map[string]string{"observed.csv": labels.String()}, CSVOptions{})
	require.Equal(t, [3]int{80, 20, 0}, n)
	require.Nil(t, d.Labels)
	require.NotNil(t, d.Observed)
	require.NoError(t, d.Validate())
	_, err := d.WithSinglePositives(1)
	require.ErrorContains(t, err, "no full labels")
}

// TestPaths puts every way out of the images folder into a data set.
func TestPaths(t *testing.T) {
	outside := folder(t, map[string]string{"secret.jpg": "secret"})
	links := map[string]string{
		"link.jpg":    filepath.Join(outside, "secret.jpg"),
		"up.jpg":      "../../" + filepath.Base(outside) + "/secret.jpg",
		"sub":         outside,
		"absolute":    "/etc",
		"dangling":    "nowhere.jpg",
		"loop":        "loop",
		"inside2.jpg": "inside.jpg",
	}
	for name, wantOK := range map[string]bool{
		"link.jpg": false, "up.jpg": false, "sub/secret.jpg": false, "absolute/passwd": false, "dangling": false, "loop": false,
		"inside.jpg": true, "inside2.jpg": true,
	} {
		dir := folder(t, map[string]string{"labels.csv": "filename,cat\n" + name + ",1\n"}, "inside.jpg")
		for l, to := range links {
			require.NoError(t, os.Symlink(to, filepath.Join(dir, "images", l)))
		}
		d, err := OpenCSV(dir, CSVOptions{NoValidation: true})
		if wantOK {
			require.NoError(t, err, name)
			require.NoError(t, d.Close())
			continue
		}
		require.ErrorContains(t, err, "labels.csv:2: ", name)
	}

	// A link to the folder itself, or to labels.csv, leads out too.
	dir := folder(t, map[string]string{"labels.csv": "filename,cat\nsecret.jpg,1\n"})
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "images")))
	_, err := OpenCSV(dir, CSVOptions{NoValidation: true})
	require.ErrorContains(t, err, "images/ is a link")
	d, err := OpenCSV(dir, CSVOptions{NoValidation: true, Images: outside})
	require.NoError(t, err)
	require.NoError(t, d.Close())

	dir = t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret.jpg"), filepath.Join(dir, "labels.csv")))
	_, err = OpenCSV(dir, CSVOptions{})
	require.ErrorContains(t, err, "cannot read labels.csv")
	require.NoError(t, os.Remove(filepath.Join(dir, "labels.csv")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "labels.csv"), 0o644))
	_, err = OpenCSV(dir, CSVOptions{})
	require.ErrorContains(t, err, "no regular file")
}

func FuzzLabelsCSV(f *testing.F) {
	f.Add([]byte(threeRows))
	f.Add([]byte("\xef\xbb\xbffilename,\"a,b\"\r\n\"x \"\"y\"\".jpg\", -1\r\n\r\nz,0\r\n"))
	f.Add([]byte("filename,cat\n../x,1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := readTable(strings.NewReader(string(b)), "labels.csv", observedLabel, "-1, 0 or 1")
		if err != nil {
			var fe *FormatError
			require.ErrorAs(t, err, &fe)
			return
		}
		require.Len(t, tab.cells, len(tab.names)*len(tab.columns))
		require.Len(t, tab.lines, len(tab.names))
		require.Len(t, tab.rowOf, len(tab.names))
		for i, name := range tab.names {
			require.True(t, filepath.IsLocal(name), "%q", name)
			require.Equal(t, i, tab.rowOf[name])
		}
		// A table that was read can be written and read again.
		var out strings.Builder
		quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
		out.WriteString("filename")
		for _, c := range tab.columns {
			out.WriteString("," + quote(c))
		}
		out.WriteString("\n")
		for i, name := range tab.names {
			out.WriteString(quote(name))
			for _, v := range tab.cells[i*len(tab.columns) : (i+1)*len(tab.columns)] {
				out.WriteString("," + map[int8]string{-1: "-1", 0: "0", 1: "1"}[v])
			}
			out.WriteString("\n")
		}
		again, err := readTable(strings.NewReader(out.String()), "labels.csv", observedLabel, "-1, 0 or 1")
		require.NoError(t, err)
		require.Equal(t, tab.names, again.names)
		require.Equal(t, tab.columns, again.columns)
		require.Equal(t, tab.cells, again.cells)
	})
}
