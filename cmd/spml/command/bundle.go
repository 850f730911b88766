package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
)

func newBundle() *cobra.Command {
	var program, progress string
	var tune bool
	cmd := &cobra.Command{
		Use:   "bundle RUN OUT",
		Short: "Write one folder with program, libraries and model that runs anywhere",
		Long: `Writes a folder that holds this program, the part of libtorch and the other libraries that it opens, and the model of a run. It runs from any place
on Linux with glibc 2.34 or later (RHEL 9, Ubuntu 22.04) and the same processor architecture: no installation, no root, no Python. A Dockerfile is written beside them.

  spml bundle runs/em tagger               then, anywhere: tagger/spml predict tagger/model photo.jpg
  spml bundle runs/em tagger --calibrate   with a threshold for each class: the best F1 on the run's validation part
  spml bundle runs/em tagger --program ./service    a program of yours that links gospml instead of spml

The model is a folder as spml export writes it; the bundle is for the CPU.`,
		Args: exactly(2, "a run directory and a folder to write"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			run, out := args[0], args[1]
			own := program == ""
			if own {
				if program, err = os.Executable(); err != nil {
					return err
				}
			}
			// What is open is copied.
			if err := torch.Available(); err != nil {
				return err
			}
			photo, err := testPhoto()
			if err != nil {
				return err
			}
			if _, err := pixel.Decode(photo, pixel.Options{}); err != nil {
				return err
			}
			var o train.ExportOptions
			o.Form = train.ExportTimm
			if tune {
				if o.Thresholds, err = calibrate(cmd, run, progress); err != nil {
					return err
				}
			}
			b, err := native.WriteBundle(out, program)
			if err != nil {
				return err
			}
			name := filepath.Base(program)
			if err := finishBundle(run, out, name, own, o); err != nil {
				return errors.Join(err, os.RemoveAll(out)) // WriteBundle made it
			}
			unknown, err := native.FinishBundle(out, filepath.Join(out, name))
			if err != nil {
				return errors.Join(err, os.RemoveAll(out))
			}
			if len(unknown) > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: no licence text is known here for %s: add it to %s before you pass the folder on\n",
					strings.Join(unknown, ", "), filepath.Join(out, "licences"))
			}
			size, err := folderSize(out)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			plain.Fprintf(w, "%s: %.0f MB; needs Linux with glibc %s or newer\n", out, float64(size)/1e6, b.GLIBC)
			if !own {
				return nil
			}
			took, err := tryBundle(cmd.Context(), out, photo)
			if err != nil {
				return err
			}
			plain.Fprintf(w, "first prediction after %.2f s: %s predict %s photo.jpg\n", took.Seconds(), filepath.Join(out, name), filepath.Join(out, "model"))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&program, "program", "", "the program to bundle; this one where it is not given")
	f.BoolVar(&tune, "calibrate", false, "choose a threshold for each class on the run's validation part")
	f.StringVar(&progress, "progress", progressAuto, "auto, bar, plain, json or off")
	return cmd
}

// finishBundle adds the model and the Dockerfile.
func finishBundle(run, out, name string, own bool, o train.ExportOptions) error {
	if err := train.Export(run, filepath.Join(out, "model"), o); err != nil {
		return err
	}
	entry := `["/app/` + name + `"]`
	if own {
		entry = `["/app/` + name + `", "predict", "/app/model"]`
	}
	return os.WriteFile(filepath.Join(out, "Dockerfile"), []byte(`# docker build -t tagger . && docker run --rm -v "$PWD:/photos:ro" tagger /photos
FROM debian:stable-slim
COPY . /app
USER 65534
ENTRYPOINT `+entry+"\n"), 0o644)
}

// tryBundle labels a picture with the bundle in an environment that has nothing else of ours, and times it from the
// start of the program.
func tryBundle(ctx context.Context, dir string, photo []byte) (time.Duration, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	tmp, err := os.MkdirTemp("", "spml-bundle")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	path := filepath.Join(tmp, "photo.jpg")
	if err := os.WriteFile(path, photo, 0o600); err != nil {
		return 0, err
	}
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	var took time.Duration
	for range 2 { // the first time also reads the files from disk
		cmd := exec.CommandContext(ctx, filepath.Join(dir, filepath.Base(program)), "predict", filepath.Join(dir, "model"), path)
		cmd.Env = []string{"HOME=" + tmp, "GOSPML_CACHE=" + filepath.Join(tmp, "none")}
		cmd.Dir = tmp
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		start := time.Now()
		if err := cmd.Run(); err != nil {
			return 0, fmt.Errorf("%s is written but does not run here: %w: %s", dir, err, strings.TrimSpace(stderr.String()))
		}
		took = time.Since(start)
	}
	return took, nil
}

// folderSize is the sum of the sizes of a folder's files in bytes.
func folderSize(dir string) (int64, error) {
	var n int64
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
