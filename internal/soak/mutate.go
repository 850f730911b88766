package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/torch/pth"
	"github.com/gospml/gospml/torch/safetensors"
)

// Limits of a child that reads changed files.
const (
	mutateMemory = 1500 << 20 // bytes at its peak
	mutateSlow   = 20 * time.Second
)

// mutate reads files with changed bytes in processes whose memory and time are limited.
func mutate(j *job) error {
	roots := []string{testroot.Testdata("npy"), testroot.Testdata("pth"), testroot.Testdata("safetensors"), testroot.Testdata("data", "formats"), j.data}
	if root, ok := testroot.Root(); ok {
		roots = append(roots, filepath.Join(root, "data", "awkward"))
	}
	files, worst, slowest := 0, int64(0), 0.0
	for n := 0; n == 0 || !j.over(); n++ {
		seconds := min(20, max(3, time.Until(j.end).Seconds()))
		cmd := exec.Command(self(), append([]string{strconv.FormatUint(j.random.Uint64(), 10), fmt.Sprint(seconds), j.dir}, roots...)...)
		cmd.Env = append(os.Environ(), mode+"=mutate")
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		worst = max(worst, peak)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		last := lines[len(lines)-1]
		var read int
		var slow float64
		if _, no := fmt.Sscanf(last, "done %d %g", &read, &slow); err != nil || no != nil {
			j.lose("reading a changed file ended the process (%v): %s\n%s", err, last, tail(errs.String(), 2000))
			continue
		}
		files, slowest = files+read, max(slowest, slow)
		if peak > mutateMemory {
			j.lose("a changed file took %d MB: %s", peak>>20, last)
		}
	}
	j.did("%d changed files read, at most %.1f s each, %d MB at the peak", files, slowest, worst>>20)
	return nil
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// mutateChild reads changed files for some seconds. It says which file it is at, so that the parent knows the one that
// ended it.
func mutateChild() int {
	seed, _ := strconv.ParseUint(os.Args[1], 10, 64)
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	debug.SetMemoryLimit(mutateMemory * 2 / 3)
	var files, sets []string
	for _, root := range os.Args[4:] {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if st, err := d.Info(); err == nil && d.Type().IsRegular() && st.Size() > 0 && st.Size() < 4<<20 {
				files = append(files, path)
			}
			return nil
		})
		if strings.HasSuffix(root, "formats") {
			entries, _ := os.ReadDir(root)
			for _, e := range entries {
				if e.IsDir() {
					sets = append(sets, filepath.Join(root, e.Name()))
				}
			}
		} else if _, err := os.Stat(filepath.Join(root, "labels.csv")); err == nil {
			sets = append(sets, root)
		}
	}
	random := rand.New(rand.NewPCG(seed, 1))
	n, slowest := 0, time.Duration(0)
	for time.Now().Before(end) {
		start := time.Now()
		if n%20 == 19 && len(sets) > 0 {
			set := sets[random.IntN(len(sets))]
			fmt.Println("set", set)
			mutatedSet(random, set, filepath.Join(os.Args[3], "set"))
		} else {
			path := files[random.IntN(len(files))]
			b, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			b = mutated(random, b)
			fmt.Println("file", path, len(b))
			_ = os.WriteFile(filepath.Join(os.Args[3], "file"), b, 0o600) // what a finding needs
			readAny(path, b)
		}
		n++
		if took := time.Since(start); took > slowest {
			slowest = took
			if took > mutateSlow {
				fmt.Fprintln(os.Stderr, "it took", took)
				return 1
			}
		}
	}
	fmt.Println("done", n, slowest.Seconds())
	return 0
}

// mutated changes, cuts, doubles or inserts bytes.
func mutated(r *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + r.IntN(8) {
		if len(b) == 0 {
			return b
		}
		at := r.IntN(len(b))
		if r.IntN(2) == 0 {
			at = r.IntN(min(len(b), 512)) // heads matter most
		}
		switch r.IntN(6) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = []byte{0, 1, 0x7f, 0x80, 0xff, '9', '"', '{', '\n'}[r.IntN(9)]
		case 2:
			b = b[:at]
		case 3:
			k := min(len(b)-at, 1+r.IntN(64))
			b = append(b[:at:at], append(bytes.Clone(b[at:at+k]), b[at:]...)...)
		case 4:
			for i := at; i < min(len(b), at+8); i++ {
				b[i] = 0xff
			}
		case 5:
			k := r.IntN(len(b))
			b[at], b[k] = b[k], b[at]
		}
	}
	return b
}

// readAny gives a file to the reader of its kind, and half of the files to another one as well; errors are what is
// wanted.
func readAny(path string, b []byte) {
	r, size := bytes.NewReader(b), int64(len(b))
	switch filepath.Ext(path) {
	case ".npy":
		_, _ = npy.Decode(r, size)
	case ".npz":
		if z, err := npy.ParseNPZ(r, size, 0); err == nil {
			for _, name := range z.Names() {
				_, _ = z.Read(name)
			}
		}
	case ".pth", ".pt", ".bin":
		_, _ = pth.Parse(r, size)
	case ".safetensors":
		_, _ = safetensors.Parse(r, size)
	default:
		_, _ = pixel.Decode(b, pixel.Options{ApplyEXIF: true})
	}
}

// mutatedSet copies a data set with a change in one of its texts and opens it.
func mutatedSet(r *rand.Rand, from, to string) {
	_ = os.RemoveAll(to)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return
	}
	var texts []string
	_ = filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(path) != ".png" && filepath.Ext(path) != ".jpg" {
			texts = append(texts, path)
		}
		return nil
	})
	if len(texts) == 0 {
		return
	}
	path := texts[r.IntN(len(texts))]
	b, err := os.ReadFile(path)
	if err != nil || os.WriteFile(path, mutated(r, b), 0o600) != nil {
		return
	}
	d, err := data.Open(to, data.Options{})
	if err != nil {
		return
	}
	defer d.Close()
	if d.Source != nil {
		_ = data.CheckPhotos(context.Background(), d, data.CheckOptions{Jobs: 1}, func(data.Photo) error { return nil })
	}
}
