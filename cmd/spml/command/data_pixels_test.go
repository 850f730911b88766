package command

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
)

func execute(args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	c := newRoot()
	c.SetOut(&out)
	c.SetErr(&errs)
	c.SetArgs(args)
	err = c.Execute()
	return out.String(), errs.String(), err
}

func TestDataPixels(t *testing.T) {
	dir := t.TempDir()
	path, other, gray := filepath.Join(dir, "a.jpg"), filepath.Join(dir, "out.npy"), filepath.Join(dir, "gray.png")
	m := image.NewNRGBA(image.Rect(0, 0, 3, 2)) // a PNG behind the name of a JPEG
	m.SetNRGBA(0, 0, color.NRGBA{1, 2, 3, 0})
	g := image.NewGray16(image.Rect(0, 0, 1, 1))
	g.SetGray16(0, 0, color.Gray16{0x1234})
	for name, im := range map[string]image.Image{path: m, gray: g} {
		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, im))
		require.NoError(t, os.WriteFile(name, b.Bytes(), 0o600))
	}
	want := append([]byte{1, 2, 3}, make([]byte, 15)...)
	sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(want)), 10)
	out, _, err := execute("data", "pixels", path, "--crc")
	require.NoError(t, err)
	require.Equal(t, sum+"\n", out)
	out, _, err = execute("data", "pixels", path)
	require.NoError(t, err)
	require.Equal(t, path+": PNG 3×2; result 3×2, CRC-32 "+sum+", first pixel [1 2 3]\n", out)
	_, _, err = execute("data", "pixels", path, "--out", other)
	require.NoError(t, err)
	a, err := npy.Read(other)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 3, 3}, a.Shape)
	require.Equal(t, want, a.Data)

	out, said, err := execute("data", "pixels", gray, path, "--crc")
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(out, "\n"))
	require.Contains(t, out, strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte{0x12, 0x12, 0x12})), 10)+"  "+gray)
	require.Contains(t, said, "16-bit grey")
	out, said, err = execute("data", "pixels", gray, "--crc", "--pixels", "pillow")
	require.NoError(t, err)
	require.Equal(t, strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte{255, 255, 255})), 10)+"\n", out)
	require.Empty(t, said)

	for text, want := range map[string]string{
		"--resize=squash:0": "squash:N", "--resize=squash": "squash:N", "--resize=clip:3x4": "squash:N", "--resize=zoom:3": "squash:N", "--resize=squash:4:lanczos": "unknown filter",
		"--pixels=wrong": "right or pillow", "--exif=turn": "apply or ignore", "--max-pixels=5": "3×2 pixels are more than the limit of 5",
	} {
		_, _, err := execute("data", "pixels", path, text)
		require.ErrorContains(t, err, want, text)
	}
	_, _, err = execute("data", "pixels", path, gray, "--out", other)
	require.ErrorContains(t, err, "--out takes one picture")
	_, _, err = execute("data", "pixels", filepath.Join(dir, "none.jpg"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Checksums from golden_preprocess.json: Pillow's and torchvision's.
func TestDataPixelsResize(t *testing.T) {
	photo := testroot.Shared(t, "data", "VOCdevkit", "VOC2012", "JPEGImages", "2007_000549.jpg")
	for resize, want := range map[string]uint32{
		"none": 1015317546, "squash:448": 1435149810, "squash:448x448:bilinear": 1435149810, "squash:224": 571114214, "clip:224": 497823351,
		"squash:448:torchvision-float-bilinear": 2188886554,
	} {
		out, _, err := execute("data", "pixels", photo, "--resize", resize, "--json")
		require.NoError(t, err)
		var r pixelsResult
		require.NoError(t, json.Unmarshal([]byte(out), &r))
		require.Equal(t, want, r.CRC32, resize)
		require.Equal(t, [2]int{375, 500}, r.WH)
	}
	out, _, err := execute("data", "pixels", photo, "--resize", "short:150", "--json")
	require.NoError(t, err)
	require.Contains(t, out, `"result_wh":[150,200]`)
	turned := testroot.Shared(t, "data", "awkward", "exif", "Landscape_6.jpg")
	out, _, err = execute("data", "pixels", turned, "--exif", "apply")
	require.NoError(t, err)
	require.Contains(t, out, "EXIF orientation 6 (applied)")
}

func TestBenchParity(t *testing.T) {
	_, _, err := execute("bench", "parity", t.TempDir(), "--python", filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "no Python with Pillow")
	_, _, err = execute("bench", "parity", filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
	_, _, err = execute("bench", "nonsuch")
	require.EqualError(t, err, `spml bench has no command "nonsuch"`)
}
