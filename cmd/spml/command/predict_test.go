package command

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/exiftest"
	"github.com/gospml/gospml/internal/exiftest/upright"
)

// spmlIn is spml with a standard input.
func spmlIn(t *testing.T, stdin string, args ...string) (stdout string, err error) {
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "GOSPML_TEST_COMMAND=1")
	cmd.Stdin = strings.NewReader(stdin)
	b, err := cmd.Output()
	return string(b), err
}

// photoFolder holds a.png, b/c.png and d.png, each another picture, with e.jpg that is none and notes.txt.
func photoFolder(t *testing.T) (dir string, names []string) {
	dir = t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "b"), 0o755))
	for i, n := range []string{"a.png", filepath.Join("b", "c.png"), "d.png"} {
		m := image.NewRGBA(image.Rect(0, 0, 20, 20))
		for p := range m.Pix {
			m.Pix[p] = uint8(80*i + p*(i+1)%97)
		}
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m))
		names = append(names, filepath.Join(dir, n))
		require.NoError(t, os.WriteFile(names[i], b.Bytes(), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "e.jpg"), []byte("no photo"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("text"), 0o644))
	return dir, names
}

func TestPredictMany(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	code, _, stderr := spml(t, nil, "train", "--data", tinySet(t, 12), "--method", "an", "--backbone", "small_cnn", "--image-size", "32", "--epochs", "1", "--run", run)
	require.Zero(t, code, stderr)
	photos, names := photoFolder(t)
	broken := filepath.Join(photos, "e.jpg")
	out := filepath.Join(t.TempDir(), "out")
	type row struct {
		Image  string
		Labels []struct {
			Label       string
			Probability float64
			Present     bool
		}
	}
	decode := func(t *testing.T, text string) (rows []row) {
		dec := json.NewDecoder(strings.NewReader(text))
		for dec.More() {
			var x row
			require.NoError(t, dec.Decode(&x))
			rows = append(rows, x)
		}
		return rows
	}
	read := func(t *testing.T) string {
		b, err := os.ReadFile(out)
		require.NoError(t, err)
		return string(b)
	}

	code, _, stderr = spml(t, nil, "predict", run, photos, "--format", "parquet", "--out", out+".parquet", "--top", "3")
	require.Equal(t, exitData, code, stderr)
	table, err := parquet.ReadFile[parquetRow](out + ".parquet")
	require.NoError(t, err)
	code, text, _ := spml(t, nil, "predict", run, photos, "--format", "jsonl", "--top", "3")
	require.Equal(t, exitData, code)
	want := decode(t, text)
	require.Len(t, table, len(want))
	for i, x := range want {
		require.Equal(t, x.Image, table[i].Image)
		require.Len(t, table[i].Labels, len(x.Labels))
		for k, l := range x.Labels {
			require.Equal(t, parquetLabel{l.Label, l.Probability, l.Present}, table[i].Labels[k])
		}
	}
	code, _, stderr = spml(t, nil, "predict", run, photos, "--format", "parquet")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "wants --out")

	code, _, stderr = spml(t, nil, "predict", run, photos, "--format", "jsonl", "--out", out, "--jobs", "3")
	require.Equal(t, exitData, code)
	require.Contains(t, stderr, "1 of 4 photos could not be labelled")
	require.Contains(t, stderr, "e.jpg")
	whole := read(t)
	rows := decode(t, whole)
	require.Len(t, rows, 3)
	for i, n := range names {
		require.Equal(t, n, rows[i].Image)
		require.Len(t, rows[i].Labels, 10)
		alone, err := spmlIn(t, "", "predict", run, n, "--json")
		require.NoError(t, err)
		require.Equal(t, rows[i], decode(t, alone)[0], "as one photo by itself")
	}
	require.NotEqual(t, rows[0].Labels, rows[1].Labels)

	t.Run("resume", func(t *testing.T) {
		lines := strings.SplitAfter(whole, "\n")
		// A probability that no model gives shows that the first row is kept as it is, not computed again.
		marked := strings.Replace(lines[0], `"probability":0.`, `"probability":7.`, 1)
		require.NotEqual(t, lines[0], marked)
		require.NoError(t, os.WriteFile(out, []byte(marked+lines[1][:len(lines[1])/2]), 0o644))
		require.NoError(t, os.Remove(broken))
		code, _, stderr := spml(t, nil, "predict", run, photos, "--format", "jsonl", "--out", out, "--resume")
		require.Zero(t, code, stderr)
		require.Contains(t, stderr, "1 rows were there, 2 photos added")
		require.Equal(t, marked+lines[1]+lines[2], read(t))

		code, _, stderr = spml(t, nil, "predict", run, photos, "--format", "jsonl", "--out", out, "--resume", "--top", "3")
		require.Equal(t, exitData, code)
		require.Contains(t, stderr, "cannot be resumed")
		require.Equal(t, marked+lines[1]+lines[2], read(t), "a file that does not fit is left alone")
	})

	t.Run("list, input, csv", func(t *testing.T) {
		want := names[2] + "\r\n\n" + filepath.Join(photos, "b") + "\n" + names[0]
		list := filepath.Join(t.TempDir(), "list.txt")
		require.NoError(t, os.WriteFile(list, []byte(want), 0o644))
		code, stdout, stderr := spml(t, nil, "predict", run, "--list", list, "--format", "csv")
		require.Zero(t, code, stderr)
		table, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
		require.NoError(t, err)
		require.Len(t, table, 4)
		require.Equal(t, "filename", table[0][0])
		for i, k := range []int{2, 1, 0} {
			require.Equal(t, names[k], table[i+1][0])
			got := map[string]float64{}
			for c, v := range table[i+1][1:] {
				p, err := strconv.ParseFloat(v, 64)
				require.NoError(t, err)
				got[table[0][c+1]] = p
			}
			require.Len(t, got, 12)
			for _, l := range rows[k].Labels {
				require.InDelta(t, l.Probability, got[l.Label], 1e-6)
			}
		}
		piped, err := spmlIn(t, want, "predict", run, "-", "--format", "csv")
		require.NoError(t, err)
		require.Equal(t, stdout, piped)

		require.NoError(t, os.WriteFile(out, []byte(stdout[:len(stdout)-3]), 0o644))
		code, _, stderr = spml(t, nil, "predict", run, "--list", list, "--format", "csv", "--out", out, "--resume")
		require.Zero(t, code, stderr)
		require.Equal(t, stdout, read(t))
	})

	t.Run("threshold", func(t *testing.T) {
		middle := rows[0].Labels[4].Probability
		text, err := spmlIn(t, "", "predict", run, names[0], "--json", "--threshold", strconv.FormatFloat(middle, 'g', -1, 64))
		require.NoError(t, err)
		for i, l := range decode(t, text)[0].Labels {
			require.Equal(t, i < 4, l.Present, i)
		}
	})

	for want, args := range map[string][]string{
		"--resume wants --out": {photos, "--resume"},
		"none of text":         {photos, "--format", "xml"},
		"every label":          {photos, "--format", "csv", "--top", "3"},
		"one of the two":       {photos, "--json", "--format", "csv"},
		"want a probability":   {photos, "--threshold", "50"},
	} {
		code, _, stderr := spml(t, nil, append([]string{"predict", run}, args...)...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, want)
	}
	empty := t.TempDir()
	code, _, stderr = spml(t, nil, "predict", run, empty)
	require.NotZero(t, code)
	require.Contains(t, stderr, "holds no pictures")
	phone := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(phone, "IMG_1.HEIC"), []byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic"), 0o644))
	code, _, stderr = spml(t, nil, "predict", run, phone)
	require.NotZero(t, code)
	require.Contains(t, stderr, "holds no pictures but 1 of HEIC or AVIF, which are not read: convert them to JPEG")
	code, _, stderr = spml(t, nil, "predict", run, filepath.Join(phone, "IMG_1.HEIC"))
	require.NotZero(t, code)
	require.Contains(t, stderr, "looks like HEIC (iPhone), which is not read: convert it to JPEG, for instance with heif-convert")
	code, _, stderr = spml(t, nil, "predict", run, filepath.Join(empty, "none.jpg"), names[0])
	require.Equal(t, exitIO, code)
	require.Contains(t, stderr, "1 of 2 photos could not be labelled")
}

// Photos as phones write them have the labels of what Pillow's exif_transpose makes of them, to the last digit; --exif
// ignore takes them as they are stored.
func TestPredictOrientation(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	code, _, stderr := spml(t, nil, "train", "--data", tinySet(t, 12), "--method", "an", "--backbone", "small_cnn", "--image-size", "32", "--epochs", "1", "--run", run)
	require.Zero(t, code, stderr)
	written, shown := t.TempDir(), t.TempDir()
	for i, p := range exiftest.OfPhones(t) {
		name := fmt.Sprintf("%03d.photo", i) // the content says what it is
		require.NoError(t, os.WriteFile(filepath.Join(written, name+".png"), p.Data, 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(shown, name+".png"), upright.PNG(t, p), 0o644))
	}
	labels := func(folder string, more ...string) []string {
		code, out, stderr := spml(t, nil, append([]string{"predict", run, folder, "--format", "csv"}, more...)...)
		require.Zero(t, code, stderr)
		return strings.Split(strings.ReplaceAll(strings.TrimSpace(out), folder, ""), "\n")
	}
	want := labels(shown)
	require.Greater(t, len(want), 200)
	require.Equal(t, want, labels(written))
	require.Equal(t, want, labels(written, "--exif", "apply"))
	require.NotEqual(t, want, labels(written, "--exif", "ignore"))
}
