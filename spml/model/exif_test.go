package model

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/exiftest"
	"github.com/gospml/gospml/internal/exiftest/upright"
)

// A photo has the labels of the picture that a viewer shows, to the bit, where the model was trained so or the caller
// says so; a model folder of before has no record and ignores the orientation.
func TestTaggerOrientation(t *testing.T) {
	ctx := context.Background()
	dir := saved(t, HeadSpec{})
	mc, err := ReadConfig(dir)
	require.NoError(t, err)
	require.Empty(t, mc.PretrainedCfg.EXIF)
	open := func(recorded, asked string) *Tagger {
		config := filepath.Join(dir, ConfigFile)
		b, err := os.ReadFile(config)
		require.NoError(t, err)
		text := strings.ReplaceAll(strings.ReplaceAll(string(b), `"exif": "apply",`, ""), `"exif": "ignore",`, "")
		if recorded != "" {
			text = strings.Replace(text, `"pretrained_cfg": {`, `"pretrained_cfg": {"exif": "`+recorded+`",`, 1)
		}
		require.NoError(t, os.WriteFile(config, []byte(text), 0o644))
		tg, err := OpenTagger(dir, TaggerOptions{Workers: 1, Device: "cpu", EXIF: asked})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, tg.Close()) })
		return tg
	}
	old, applied, ignored, asked, refused := open("", ""), open("apply", ""), open("ignore", ""), open("ignore", "apply"), open("apply", "ignore")
	require.True(t, applied.Pixels().ApplyEXIF)
	turned := 0
	for _, p := range exiftest.OfPhones(t) {
		want, err := old.Probabilities(ctx, upright.PNG(t, p))
		require.NoError(t, err)
		stored, err := old.Probabilities(ctx, p.Data)
		require.NoError(t, err)
		for _, tg := range []*Tagger{applied, asked} {
			got, err := tg.Probabilities(ctx, p.Data)
			require.NoError(t, err)
			require.Equal(t, want, got, p.Name)
		}
		for _, tg := range []*Tagger{ignored, refused} {
			got, err := tg.Probabilities(ctx, p.Data)
			require.NoError(t, err)
			require.Equal(t, stored, got, p.Name)
		}
		if want[0] != stored[0] {
			turned++
		}
	}
	require.Greater(t, turned, 150, "the network sees the difference")
	_, err = OpenTagger(dir, TaggerOptions{EXIF: "turn"})
	require.ErrorContains(t, err, `exif "turn": apply or ignore`)
}

// A photo beyond the tagger's budget is refused by name, a pipe and a device are no photos.
func TestTaggerRefuses(t *testing.T) {
	ctx := context.Background()
	dir := saved(t, HeadSpec{})
	tg, err := OpenTagger(dir, TaggerOptions{Workers: 1, Device: "cpu", MaxPixels: 40*24 - 1})
	require.NoError(t, err)
	defer tg.Close()
	_, err = tg.Tag(ctx, photo(t, 1))
	require.ErrorIs(t, err, pixel.ErrTooLarge)
	require.ErrorContains(t, err, "40×24 pixels are more than the limit of 959")

	pipe := filepath.Join(t.TempDir(), "pipe.jpg")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for _, path := range []string{pipe, "/dev/zero", dir} {
		_, err := tg.TagFile(ctx, path)
		require.ErrorContains(t, err, path)
		require.Regexp(t, "no regular file|a folder, not a file", err.Error())
	}
}
