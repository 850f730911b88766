// Package parity compares this module's pixels with Pillow's, file by file: decoded, squashed to 448 × 448 (bilinear)
// and as CLIP's 224 × 224 crop (bicubic). It runs Pillow in a Python of the caller's.
package parity

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml/data/pixel"
)

//go:embed parity.py
var script string

// ErrNoPillow: no Python with Pillow could be run.
var ErrNoPillow = errors.New("parity: no Python with Pillow")

// extensions of files that are looked at; the content decides what they are.
var extensions = []string{".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".apng"}

// Pictures lists the picture files below a folder, in the order of their paths, or the file itself.
func Pictures(root string) (paths []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && (path == root || slices.Contains(extensions, strings.ToLower(filepath.Ext(path)))) {
			paths = append(paths, path)
		}
		return err
	})
	return paths, err
}

// Difference is a file about which the two do not agree.
type Difference struct {
	Path, What string
}

// Result counts files.
type Result struct {
	Pillow string // its version
	// Compared files are read by both, Refused ones by neither.
	Compared, Refused int
	// Differing are read by both with other pixels, or by Pillow only.
	Differing []Difference
	// HereOnly are read here and refused by Pillow.
	HereOnly []Difference
}

type answer struct {
	Error                   string
	Format                  string
	Size                    [2]int
	RGB, Squash448, CLIP224 uint32
}

// Run compares the files. python is a Python with Pillow.
func Run(ctx context.Context, python string, paths []string, progress func(done int)) (*Result, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	python, err := exec.LookPath(python)
	if err == nil {
		python, err = filepath.Abs(python)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPillow, err)
	}
	cmd := exec.CommandContext(ctx, python, "-c", script)
	cmd.Dir = string(filepath.Separator) // Python would take modules from the working folder
	var problem strings.Builder
	cmd.Stderr = &problem
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPillow, err)
	}
	defer cmd.Wait() //nolint:errcheck // its answers have been read
	defer in.Close()
	answers := json.NewDecoder(bufio.NewReader(out))
	var hello struct{ Pillow string }
	if err := answers.Decode(&hello); err != nil {
		stop()
		cmd.Wait() //nolint:errcheck // the text says it
		return nil, fmt.Errorf("%w: %s says %s", ErrNoPillow, python, lastLine(problem.String()))
	}
	r := &Result{Pillow: hello.Pillow}
	questions := json.NewEncoder(in)
	// Python is a file ahead, so both work at once.
	ask := func(path string) error {
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		return questions.Encode(path)
	}
	if len(paths) > 0 {
		if err := ask(paths[0]); err != nil {
			return nil, err
		}
	}
	for i, path := range paths {
		if i+1 < len(paths) {
			if err := ask(paths[i+1]); err != nil {
				return nil, fmt.Errorf("parity: Python ended at %s: %s", path, lastLine(problem.String()))
			}
		}
		here, err := look(path)
		var there answer
		if e := answers.Decode(&there); e != nil {
			return nil, fmt.Errorf("parity: Python ended at %s: %w", path, e)
		}
		r.add(path, here, err, there)
		if progress != nil {
			progress(i + 1)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return r, nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func (r *Result) add(path string, here answer, err error, there answer) {
	switch {
	case err != nil && there.Error != "":
		r.Refused++
	case err != nil:
		r.Differing = append(r.Differing, Difference{path, "Pillow reads it, here: " + err.Error()})
	case there.Error != "":
		r.HereOnly = append(r.HereOnly, Difference{path, there.Error})
	default:
		r.Compared++
		if here != there {
			r.Differing = append(r.Differing, Difference{path, difference(here, there)})
		}
	}
}

func difference(a, b answer) string {
	var what []string
	for name, differs := range map[string]bool{
		"format": a.Format != b.Format, "size": a.Size != b.Size, "decoded pixels": a.RGB != b.RGB, "448 squash": a.Squash448 != b.Squash448, "224 crop": a.CLIP224 != b.CLIP224,
	} {
		if differs {
			what = append(what, name)
		}
	}
	slices.Sort(what)
	return strings.Join(what, ", ")
}

// look is what parity.py does.
func look(path string) (a answer, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return a, err
	}
	o := pixel.Options{PillowGray16: true}
	info, err := pixel.Header(b, o)
	if err != nil {
		return a, err
	}
	p, err := pixel.Decode(b, o)
	if err != nil {
		return a, err
	}
	squash, err := pixel.Resize(p, 448, 448, pixel.Bilinear)
	if err != nil {
		return a, err
	}
	clip, err := pixel.Transform(p, pixel.ShortSide(p.W, p.H, 224, pixel.Bicubic))
	if err != nil {
		return a, err
	}
	crc := func(p *pixel.RGB) uint32 { return crc32.ChecksumIEEE(p.Pix) }
	return answer{Format: string(info.Format), Size: [2]int{p.W, p.H}, RGB: crc(p), Squash448: crc(squash), CLIP224: crc(clip)}, nil
}
