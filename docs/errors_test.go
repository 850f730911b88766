package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

// blameProgram meets errors of each kind as programs do, and asks the page's function about them.
const blameProgram = `package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/third_party/native"
)

func main() {
	dir, ctx := os.Args[1], context.Background()
	drawn := image.NewGray(image.Rect(0, 0, 40, 40))
	for i := range drawn.Pix {
		drawn.Pix[i] = byte(i * i)
	}
	var b bytes.Buffer
	check(png.Encode(&b, drawn))
	picture := b.Bytes()
	check(os.MkdirAll(filepath.Join(dir, "set", "images"), 0o755))
	labels, split := "filename,cat,dog\n", "filename,split\n"
	for i := range 8 {
		name := fmt.Sprintf("%d.png", i)
		check(os.WriteFile(filepath.Join(dir, "set", "images", name), picture, 0o644))
		labels += fmt.Sprintf("%s,%d,%d\n", name, i%2, 1-i%2)
		split += name + "," + []string{"train", "train", "val", "test"}[i%4] + "\n"
	}
	check(os.WriteFile(filepath.Join(dir, "set", "labels.csv"), []byte(labels), 0o644))
	check(os.WriteFile(filepath.Join(dir, "set", "split.csv"), []byte(split), 0o644))
	c := config.Config{
		Data:     config.Data{Path: filepath.Join(dir, "set"), ImageSize: 32},
		Method:   config.Method{ID: "an"},
		Model:    config.Model{Backbone: "small_cnn"},
		Schedule: config.Schedule{Epochs: 1},
		Run:      config.Run{Dir: filepath.Join(dir, "run")},
	}
	_, err := train.Run(ctx, c, train.RunOptions{})
	check(err)
	tagger, err := model.OpenTagger(c.Run.Dir, model.TaggerOptions{Workers: 1})
	check(err)
	defer tagger.Close()

	say := func(what string, err error) { fmt.Printf("%s: %s\n", what, blame(err)) }
	_, err = tagger.Tag(ctx, picture[:len(picture)/2])
	say("damaged", err)
	_, err = tagger.Tag(ctx, []byte("no picture"))
	say("no picture", err)
	_, err = pixel.Decode(picture, pixel.Options{MaxPixels: 10})
	say("too large", err)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_, err = tagger.Tag(gone, picture)
	say("cancelled", err)
	_, err = tagger.TagFile(ctx, filepath.Join(dir, "none.png"))
	say("no file", err)
	_, err = train.Run(ctx, c, train.RunOptions{})
	say("same run", err)
	c.Run.Dir, c.Method.ID = "", "nonsense"
	_, err = train.Run(ctx, c, train.RunOptions{})
	say("setting", err)
	check(os.WriteFile(filepath.Join(dir, "set", "images", "3.png"), picture[:60], 0o644))
	d, err := data.Open(filepath.Join(dir, "set"), data.Options{})
	check(err)
	check(data.CheckPhotos(ctx, d, data.CheckOptions{}, func(p data.Photo) error {
		if p.Err != nil {
			say("photo of a set", p.Err)
			say("broken", data.Broken{Row: p.Row, Name: p.Name, Err: p.Err})
		}
		return nil
	}))
	clipModel, err := clip.OpenBuiltin(clip.Options{})
	check(err)
	_, err = clipModel.EncodePaths(ctx, []string{filepath.Join(dir, "set", "images", "3.png")})
	say("photo of a CLIP", err)
	check(os.WriteFile(filepath.Join(dir, "set", "labels.csv"), []byte("filename,cat\nx.png,2,3\n"), 0o644))
	_, err = data.Open(filepath.Join(dir, "set"), data.Options{})
	say("table", err)
	check(os.Setenv("GOSPML_LIB", dir))
	_, err = native.FindLib("gospml_none")
	say("library", err)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

`

// The page's function tells every kind of error apart, whichever call it comes from.
func TestBlame(t *testing.T) {
	page, err := os.ReadFile("services.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)\n```go\n(// blame.*?)\n```\n").FindSubmatch(page)
	require.NotNil(t, block)
	dir, err := os.MkdirTemp(testroot.Module(), "blame-") // within the module, whose packages it imports
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), append([]byte(blameProgram), block[1]...), 0o600))
	cmd := exec.Command("go", "run", "./"+filepath.Base(dir), t.TempDir())
	cmd.Dir = testroot.Module()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, `damaged: the photo
no picture: the photo
too large: the photo
cancelled: the caller, who has gone
no file: the caller: a file is not there
same run: the caller: the run folder holds a run
setting: a setting
photo of a set: the photo
broken: the photo 3.png of a data set
photo of a CLIP: the photo
table: the data set's file labels.csv
library: the machine: something is not installed
`, string(out))
}
