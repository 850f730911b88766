package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/npy"
)

// draw writes n drawn pictures as a CSV data set, with features for linear heads.
func draw(dir string, n int) error {
	if err := os.MkdirAll(filepath.Join(dir, "images"), 0o755); err != nil {
		return err
	}
	var labels, split strings.Builder
	fmt.Fprintf(&labels, "filename,%s\n", strings.Join(shapes.Classes[:], ","))
	fmt.Fprintln(&split, "filename,split")
	features := make([]float32, n*16)
	rgb := make([]byte, shapes.PictureBytes)
	for i := range n {
		y := shapes.Draw(9, uint64(i), rgb)
		m := image.NewRGBA(image.Rect(0, 0, shapes.Size, shapes.Size))
		for p := range shapes.Size * shapes.Size {
			copy(m.Pix[4*p:], rgb[3*p:3*p+3])
			m.Pix[4*p+3] = 255
		}
		var b bytes.Buffer
		if err := png.Encode(&b, m); err != nil {
			return err
		}
		name := fmt.Sprintf("%03d.png", i)
		if err := os.WriteFile(filepath.Join(dir, "images", name), b.Bytes(), 0o644); err != nil {
			return err
		}
		labels.WriteString(name)
		for c, v := range y {
			fmt.Fprintf(&labels, ",%d", v)
			features[i*16+c] = float32(v) + float32(i%7)/7
		}
		labels.WriteByte('\n')
		fmt.Fprintf(&split, "%s,%s\n", name, []string{"train", "train", "train", "val", "test"}[i%5])
	}
	a, err := npy.New([]int64{int64(n), 16}, features)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(labels.String()), 0o644),
		os.WriteFile(filepath.Join(dir, "split.csv"), []byte(split.String()), 0o644), npy.Write(filepath.Join(dir, "features.npy"), a))
}

// writer is a command that writes and can be started again after it was killed.
type writer struct {
	name   string
	args   func(data, out string) []string // the first start and each one after
	result func(path string) bool          // files that must be the same to the bit
}

func weights(path string) bool {
	return strings.HasSuffix(path, filepath.Join("model", "model.safetensors"))
}

func every(string) bool { return true }

func training(extra ...string) func(data, out string) []string {
	return func(data, out string) []string {
		args := []string{"train", "--resume", "--threads", "1", "--progress", "off", "--run", filepath.Join(out, "run")}
		for _, a := range extra {
			args = append(args, strings.ReplaceAll(a, "DATA", data))
		}
		return args
	}
}

var writers = []writer{
	{"frozen", training("--data", "DATA", "--frozen", "--features", "DATA/features.npy", "--method", "role", "--batch-size", "2", "--epochs", "12", "--save-every", "3"), weights},
	{"fine-tune", training("--data", "DATA", "--method", "em", "--backbone", "small_cnn", "--image-size", "32", "--batch-size", "4", "--epochs", "4", "--save-every", "2"), weights},
	{"LAC", training("--data", "DATA", "--method", "lac", "--backbone", "small_cnn", "--image-size", "32", "--decoder-dim", "64", "--batch-size", "8", "--epochs", "1", "--save-every", "1"), weights},
	{"compare", func(data, out string) []string {
		return []string{"compare", "--data", data, "--frozen", "--features", filepath.Join(data, "features.npy"), "--methods", "an,em", "--seeds", "2", "--epochs", "4", "--batch-size", "4", "--threads", "1", "--jobs", "1", "--run", filepath.Join(out, "cmp")}
	}, weights},
	{"pseudo-label", func(data, out string) []string {
		return []string{"pseudo-label", "--method", "vlpl", "--clip", "builtin", "--data", data, "--theta", "0.2", "--seed", "3", "--batch-size", "4", "--progress", "off", "--out", filepath.Join(out, "labels.npy")}
	}, func(path string) bool { return strings.HasSuffix(path, "labels.npy") }},
	{"convert", func(data, out string) []string {
		return []string{"data", "convert", data, filepath.Join(out, "set"), "--to", "csv", "--photos", "copy"}
	}, every},
	{"clip encode", func(data, out string) []string {
		return []string{"clip", "encode", "--images", filepath.Join(data, "images"), "--batch", "4", "--progress", "off", "--out", filepath.Join(out, "x.safetensors")}
	}, func(path string) bool { return strings.HasSuffix(path, ".safetensors") }},
}

// spml is the command in a process of its own.
func spml(env []string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(self(), args...)
	cmd.Env = append(append(os.Environ(), mode+"=spml"), env...)
	said := &bytes.Buffer{}
	cmd.Stderr = said
	return cmd, said
}

func self() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

// sums are the hashes of the files below dir that keep chooses.
func sums(dir string, keep func(string) bool) (map[string]string, error) {
	all := map[string]string{}
	return all, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !keep(path) {
			return err
		}
		b, err := os.ReadFile(path)
		sum := sha256.Sum256(b)
		rel, _ := filepath.Rel(dir, path)
		all[rel] = hex.EncodeToString(sum[:])
		return err
	})
}

// undisturbed runs a writer once and gives what it leaves, and how long it took.
func (j *job) undisturbed(w writer) (map[string]string, time.Duration, error) {
	out := filepath.Join(j.dir, w.name+" whole")
	if err := os.Mkdir(out, 0o755); err != nil {
		return nil, 0, err
	}
	cmd, said := spml(nil, w.args(j.data, out)...)
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return nil, 0, fmt.Errorf("%s: %v: %s", w.name, err, said)
	}
	took := time.Since(start)
	want, err := sums(out, w.result)
	if err == nil && len(want) == 0 {
		err = fmt.Errorf("%s leaves no file to compare", w.name)
	}
	return want, took, errors.Join(err, os.RemoveAll(out))
}

// compare says what differs from an undisturbed run.
func compare(w writer, out string, want map[string]string) error {
	got, err := sums(out, w.result)
	if err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("%d of %d files are the same", same(got, want), len(want))
	}
	return err
}

func same(a, b map[string]string) (n int) {
	for k, v := range a {
		if b[k] == v {
			n++
		}
	}
	return n
}

// killAndResume ends each writer by SIGKILL at random moments, again and again, and compares its end.
func killAndResume(j *job) error {
	want, length := map[string]map[string]string{}, map[string]time.Duration{}
	kills, ends, most := map[string]int{}, 0, map[string]int{}
	for round := 0; ; round++ {
		for _, w := range writers {
			if round > 0 && j.over() {
				total := 0
				for _, name := range slices.Sorted(maps.Keys(kills)) {
					total += kills[name]
					j.did("%s %d", name, kills[name])
				}
				j.did("%d kills in all, %d ends to the bit, at most %d kills in one run", total, ends, slices.Max(slices.Collect(maps.Values(most))))
				return nil
			}
			if want[w.name] == nil {
				var err error
				if want[w.name], length[w.name], err = j.undisturbed(w); err != nil {
					return err
				}
			}
			out := filepath.Join(j.dir, w.name)
			if err := os.Mkdir(out, 0o755); err != nil {
				return err
			}
			n, err := j.disturbed(w, out, want[w.name], length[w.name])
			if err != nil {
				return err
			}
			kills[w.name] += n
			most[w.name] = max(most[w.name], n)
			if err := compare(w, out, want[w.name]); err != nil {
				j.lose("%s: other files than an undisturbed run after %d kills: %v", w.name, n, err)
			}
			ends++
			if err := os.RemoveAll(out); err != nil {
				return err
			}
		}
	}
}

// disturbed runs a writer that is killed at random until it ends by itself; after eight kills it is left alone.
func (j *job) disturbed(w writer, out string, want map[string]string, length time.Duration) (kills int, err error) {
	for {
		cmd, said := spml(nil, w.args(j.data, out)...)
		if err := cmd.Start(); err != nil {
			return kills, err
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		wait := 10 * time.Minute
		if kills < 8 && (kills == 0 || !j.over()) {
			wait = time.Duration(j.random.Float64() * 1.1 * float64(length))
		}
		select {
		case err := <-ended:
			if err != nil && kills > 0 && strings.Contains(said.String(), "is not empty: choose a new folder") && compare(w, out, want) == nil {
				return kills, nil // the last one was killed after its end, at which nothing was left to do
			}
			if err != nil {
				j.lose("%s after %d kills: %v: %s", w.name, kills, err, strings.TrimSpace(said.String()))
			}
			return kills, nil
		case <-time.After(wait):
			_ = cmd.Process.Signal(syscall.SIGKILL)
			<-ended
			kills++
			if kills > 8 {
				j.lose("%s does not end after %v", w.name, wait)
				return kills, nil
			}
		}
	}
}

// diskVariable breaks the disk of a child: "7 ENOSPC" fails each call of the file system from the eighth on.
const diskVariable = "GOSPML_SOAK_DISK"

func breakDisk() {
	from, name, ok := strings.Cut(os.Getenv(diskVariable), " ")
	if !ok {
		return
	}
	at, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		panic(err)
	}
	errno := map[string]syscall.Errno{"ENOSPC": syscall.ENOSPC, "EIO": syscall.EIO}[name]
	var calls atomic.Int64
	atomicfile.Inject(func(atomicfile.Operation, string) error {
		if calls.Add(1) > at {
			return errno
		}
		return nil
	})
}

// fullDisk lets the disk of each writer fill up or break at random: it ends with an error that says so, and goes on to
// the same bits.
func fullDisk(j *job) error {
	broken, whole := 0, 0
	for round := 0; ; round++ {
		for _, w := range writers[:5] { // those that write through internal/atomicfile
			if round > 0 && j.over() || round == 0 && j.over() && broken > 0 {
				j.did("%d disks filled or broken, %d too late to matter", broken, whole)
				return nil
			}
			want, _, err := j.undisturbed(w)
			if err != nil {
				return err
			}
			out := filepath.Join(j.dir, w.name)
			if err := os.Mkdir(out, 0o755); err != nil {
				return err
			}
			disk := fmt.Sprintf("%d %s", j.random.IntN(60), []string{"ENOSPC", "EIO"}[j.random.IntN(2)])
			cmd, said := spml([]string{diskVariable + "=" + disk}, w.args(j.data, out)...)
			err = cmd.Run()
			var exit *exec.ExitError
			switch {
			case err == nil:
				whole++
			case errors.As(err, &exit) && exit.ExitCode() == 74:
				broken++
				cmd, said := spml(nil, w.args(j.data, out)...)
				if err := cmd.Run(); err != nil {
					j.lose("%s cannot go on after %s: %v: %s", w.name, disk, err, said)
				}
			default:
				j.lose("%s on a disk with %s ends with %v, want exit code 74: %s", w.name, disk, err, said)
			}
			if err := compare(w, out, want); err != nil {
				j.lose("%s: other files than an undisturbed run after %s: %v", w.name, disk, err)
			}
			if err := os.RemoveAll(out); err != nil {
				return err
			}
		}
	}
}
