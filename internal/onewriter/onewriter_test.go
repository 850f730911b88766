package onewriter_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/onewriter"
)

// TestMain is the other process of TestTwoProcesses too.
func TestMain(m *testing.M) {
	path := os.Getenv("ONEWRITER_PATH")
	if path == "" {
		os.Exit(m.Run())
	}
	if _, err := onewriter.Take(path, "the folder"); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("held\n")
	select {}
}

func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "ONEWRITER_PATH="+path)
	out, err := other.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)

	host, _ := os.Hostname()
	_, err = onewriter.Take(path, "the folder")
	require.Equal(t, &onewriter.Busy{What: "the folder", Process: other.Process.Pid, Host: host}, err)

	require.NoError(t, other.Process.Kill())
	_ = other.Wait()
	l, err := onewriter.Take(path, "the folder")
	require.NoError(t, err, "a killed process holds nothing")
	require.True(t, l.Works())
	_, err = onewriter.Take(path, "the folder")
	require.ErrorContains(t, err, "the folder is being written by process", "this process is no exception")
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)
	var none *onewriter.Lock
	require.NoError(t, none.Close())
}

// TestNeverTwo: while holders remove the file and others open it, one at a time holds it.
func TestNeverTwo(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	var inside, took atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for took.Load() < 500 {
				l, err := onewriter.Take(path, "x")
				if err != nil {
					continue
				}
				if inside.Add(1) != 1 {
					t.Error("two hold the lock")
				}
				took.Add(1)
				inside.Add(-1)
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
