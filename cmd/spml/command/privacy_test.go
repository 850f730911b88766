package command

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/jpeg"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var embedded = regexp.MustCompile(`base64,([A-Za-z0-9+/=]+)`)

// What a photo says beside its pixels (where it was taken, by whom, with what) reaches no page, table, checkpoint,
// cache or log of a run.
func TestNothingOfEXIF(t *testing.T) {
	const marker = "GPS 48.8584 N 2.2945 E of a private garden"
	dir := drawnFolder(t, 24)
	pictures, err := filepath.Glob(filepath.Join(dir, "images", "*.png"))
	require.NoError(t, err)
	for _, p := range pictures {
		b, err := os.ReadFile(p)
		require.NoError(t, err)
		m, _, err := image.Decode(bytes.NewReader(b))
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, jpeg.Encode(&out, m, nil))
		b = out.Bytes()
		for _, kind := range []string{"\xff\xe1Exif\x00\x00", "\xff\xe1http://ns.adobe.com/xap/1.0/\x00", "\xff\xfe"} { // EXIF, XMP, a comment
			body := kind[2:] + marker
			b = append([]byte("\xff\xd8"+kind[:2]+string([]byte{byte((len(body) + 2) >> 8), byte(len(body) + 2)})+body), b[2:]...)
		}
		require.NoError(t, os.WriteFile(p, b, 0o644)) // a JPEG by its content
	}
	out := t.TempDir()
	at := func(name string) string { return filepath.Join(out, name) }
	tmp := []string{"TMPDIR=" + at("tmp")}
	require.NoError(t, os.Mkdir(at("tmp"), 0o755))
	for _, args := range [][]string{
		{"train", "--data", dir, "--method", "an", "--backbone", "small_cnn", "--image-size", "32", "--epochs", "1", "--progress", "plain", "--run", at("run")},
		{"predict", at("run"), filepath.Join(dir, "images"), "--html", at("bars.html")},
		{"predict", at("run"), filepath.Join(dir, "images"), "--format", "jsonl", "--out", at("labels.jsonl")},
		{"report", at("run"), "--out", at("report.html")},
		{"explain", filepath.Join(dir, "images"), "--run", at("run"), "--out", at("explained")},
		{"audit", "--run", at("run"), "--out", at("audit")},
		{"pseudo-label", "--method", "damp", "--grid", "2", "--data-set", "voc", "--clip", "builtin", "--data", dir,
			"--out", at("labels.npy"), "--html", at("sheet.html"), "--seed", "3"},
		{"data", "stat", dir, "--svg", at("stat.svg")},
		{"data", "check", dir},
	} {
		code, stdout, stderr := spml(t, tmp, args...)
		require.Zero(t, code, "%v: %s", args, stderr)
		require.NotContains(t, stdout+stderr, marker[:12], args[0])
	}
	pages := 0
	require.NoError(t, filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(b), marker[:12], path)
		for _, m := range embedded.FindAllSubmatch(b, -1) {
			pages++
			raw, err := base64.StdEncoding.DecodeString(string(m[1]))
			require.NoError(t, err, path)
			require.NotContains(t, string(raw), marker[:12], path)
			require.NotContains(t, string(raw), "Exif\x00", path)
		}
		return nil
	}))
	require.Greater(t, pages, 20, "pages with photos were looked at")
	// Copies of the files themselves have it, as docs/privacy.md says: the search finds what is there.
	code, _, stderr := spml(t, nil, "data", "convert", dir, at("copy"), "--to", "csv", "--photos", "copy")
	require.Zero(t, code, stderr)
	copied, err := filepath.Glob(at("copy/images/*"))
	require.NoError(t, err)
	require.NotEmpty(t, copied)
	b, err := os.ReadFile(copied[0])
	require.NoError(t, err)
	require.Contains(t, string(b), marker[:12])
	left, err := os.ReadDir(at("tmp"))
	require.NoError(t, err)
	require.Empty(t, left, "no decoded photo stays in the temporary folder")
}
