package data

import (
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/atomicfile"
)

// killedWrite is set in a child that ends itself by SIGKILL: "7 SET OUT" at the seventh photo or call of the file
// system.
const killedWrite = "GOSPML_TEST_KILLED_WRITE"

// dying is a source during whose reading the process is killed.
type dying struct {
	RawSource
	step func()
}

func (s dying) ReadFile(row int, buf []byte) ([]byte, error) {
	s.step()
	return s.RawSource.ReadFile(row, buf)
}

func photoSet(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "images"), 0o755))
	csv := "filename,a,b\n"
	for i := range n {
		f, err := os.Create(filepath.Join(dir, "images", fmt.Sprintf("%d.png", i)))
		require.NoError(t, err)
		require.NoError(t, png.Encode(f, image.NewGray(image.Rect(0, 0, 4+i, 4))))
		require.NoError(t, f.Close())
		csv += fmt.Sprintf("%d.png,%d,1\n", i, i%2)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "labels.csv"), []byte(csv), 0o644))
	return dir
}

func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			all[rel+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		all[rel] = string(b)
		return err
	}))
	return all
}

// TestWriteAfterKill kills a conversion at every photo and every call of the file system: until its end the folder is
// no data set, and the next one of the same command ends with the files of an undisturbed one. Another one's files are
// never removed.
func TestWriteAfterKill(t *testing.T) {
	o := WriteOptions{Format: "csv", Photos: PhotosCopy, Lossy: true}
	open := func(set string) *Dataset {
		d, err := Open(set, Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
	if args := strings.Split(os.Getenv(killedWrite), "|"); len(args) == 3 {
		var at, calls int
		_, err := fmt.Sscan(args[0], &at)
		require.NoError(t, err)
		step := func() {
			if calls++; calls > at {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		d := open(args[1])
		d.Source = dying{d.Source.(RawSource), step}
		defer atomicfile.Inject(func(atomicfile.Operation, string) error { step(); return nil })()
		require.NoError(t, Write(d, args[2], o))
		return
	}
	set := photoSet(t, 3)
	d := open(set)
	whole := filepath.Join(t.TempDir(), "whole")
	require.NoError(t, Write(d, whole, o))
	want := everything(t, whole)
	require.Contains(t, want, "images/2.png")
	ended, others, unfinished := false, 0, 0
	for at := 0; !ended; at++ {
		require.Less(t, at, 100)
		out := filepath.Join(t.TempDir(), "out")
		kill := func() (ended bool) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestWriteAfterKill$")
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d|%s|%s", killedWrite, at, set, out))
			said, err := cmd.CombinedOutput()
			if err != nil {
				require.ErrorContains(t, err, "killed", "%s", said)
			}
			return err == nil
		}
		if ended = kill(); ended {
			require.Equal(t, want, everything(t, out))
			require.ErrorContains(t, Write(d, out, o), "is not empty")
			break
		}
		_, err := Open(out, Options{})
		require.Error(t, err, "killed at call %d", at)
		if strings.Contains(err.Error(), "has not ended") {
			unfinished++
		}
		if at%2 == 0 && kill() { // a second time, at the same place: there was less to do
			require.Equal(t, want, everything(t, out))
			continue
		}
		another := filepath.Join(out, "mine.txt")
		require.NoError(t, os.WriteFile(another, []byte("mine"), 0o644))
		before := everything(t, out)
		require.ErrorContains(t, Write(d, out, o), "is not empty", "killed at call %d", at)
		delete(before, lockFile)
		require.Equal(t, before, everything(t, out))
		require.NoError(t, os.Remove(another))
		if at%2 == 0 {
			require.NoError(t, Write(d, out, o), "killed at call %d", at)
			require.Equal(t, want, everything(t, out), "killed at call %d", at)
			continue
		}
		err = Write(d, out, WriteOptions{Format: "jsonl", Lossy: true}) // another command
		if err != nil {
			others++
			require.ErrorContains(t, err, "holds another conversion", "killed at call %d", at)
			require.Equal(t, want, everything(t, out))
		} else {
			require.FileExists(t, filepath.Join(out, "metadata.jsonl"))
			require.NoFileExists(t, filepath.Join(out, "labels.csv"))
		}
	}
	require.NotZero(t, others, "killed while it was moved")
	require.NotZero(t, unfinished)
}

// TestFailedWriteLeavesNothing: a photo that is missing, a full disk.
func TestFailedWriteLeavesNothing(t *testing.T) {
	set := photoSet(t, 3)
	d, err := Open(set, Options{})
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, os.Rename(filepath.Join(set, "images", "1.png"), filepath.Join(set, "1.png")))
	out := filepath.Join(t.TempDir(), "out")
	o := WriteOptions{Format: "csv", Photos: PhotosCopy, Lossy: true}
	require.ErrorContains(t, Write(d, out, o), "1.png")
	require.Empty(t, everything(t, out))
	require.NoError(t, os.Rename(filepath.Join(set, "1.png"), filepath.Join(set, "images", "1.png")))
	require.NoError(t, Write(d, out, o))
}
