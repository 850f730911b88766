package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLayers: flags over environment over file over recipe over default, each named.
func TestLayers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.yaml")
	require.NoError(t, os.WriteFile(file, []byte("lr: 0.5\nbatch_size: 3\nepochs: 4\nparams: {alpha: 0.3}\n"), 0o644))
	env := []string{"SPML_LR=0.25", "SPML_BATCH_SIZE=5"}
	args := []string{"config", "show", "--data", "x", "--recipe", "em-cub-resnet50", "--config", file, "--lr", "0.125", "--param", "log=1", "--json"}
	code, out, stderr := spml(t, env, append(args[:len(args)-3:len(args)-3], "--json")...)
	require.Zero(t, code, stderr)
	var got map[string]struct {
		Value  any
		Origin string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	for key, want := range map[string]struct {
		value  any
		origin string
	}{
		"lr": {0.125, "flag --lr"}, "batch_size": {5.0, "environment SPML_BATCH_SIZE"}, "epochs": {4.0, "file " + file},
		"patience": {1.0, "recipe em-cub-resnet50"}, "keep_last": {2.0, "default"}, "seed": {0.0, "recipe em-cub"}, "method": {"em", "recipe"},
	} {
		require.Equal(t, want.value, got[key].Value, key)
		require.Contains(t, got[key].Origin, want.origin, key)
	}
	code, out, _ = spml(t, env, "config", "show", "--data", "x", "--method", "em", "--config", file, "--origin")
	require.Zero(t, code)
	require.Regexp(t, `params.alpha:\s+0.3\s+# file`, out)
	require.Regexp(t, `seed:\s+1200\s+# default`, out)

	for _, c := range []struct {
		env  []string
		args []string
		want string
	}{
		{[]string{"SPML_LERNING_RATE=1"}, []string{"config", "show"}, "SPML_LERNING_RATE"},
		{[]string{"SPML_LR=fast"}, []string{"config", "show"}, `environment variable SPML_LR: lr is "fast", want a number`},
		{nil, []string{"train", "--epocs", "3"}, "did you mean --epochs?"},
		{nil, []string{"train", "--epochs", "many"}, "want a whole number"},
		{nil, []string{"train", "--recipe", "em-voc"}, "em-voc-resnet50"},
		{nil, []string{"train", "--flip", "--no-flip"}, "contradict"},
		{nil, []string{"train", "--resume"}, "--resume wants --run"},
		{nil, []string{"train", "--data", "x", "--method", "an", "--optimizer", "lion"}, `optimizer "lion" is none of adam`},
	} {
		code, _, stderr := spml(t, c.env, c.args...)
		require.Equal(t, exitUsage, code, c.args)
		require.Contains(t, stderr, c.want)
	}
}

func TestRecipeCommand(t *testing.T) {
	code, out, _ := spml(t, nil, "recipe", "list")
	require.Zero(t, code)
	require.Contains(t, out, "gr-cub-resnet50-code")
	code, out, _ = spml(t, nil, "recipe", "show", "gr-cub-resnet50")
	require.Zero(t, code)
	require.Regexp(t, `max_drop\s+2\s+code, train.py: stops where the best is more than 2 mAP above`, out)
	require.Contains(t, out, "deviation:")
	code, out, _ = spml(t, nil, "recipe", "diff", "gr-cub-resnet50", "gr-voc-resnet50")
	require.Zero(t, code)
	require.Regexp(t, `lr\s+5e-05\s+1e-05`, out)
}

// TestSignals: SIGTERM and SIGUSR1 end a run with a checkpoint and exit code 75, SIGINT with 130; --resume goes on to
// the end, and the first steps can be verified.
func TestSignals(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	run := filepath.Join(t.TempDir(), "run")
	args := []string{"train", "--data", "shapes", "--method", "an", "--epochs", "1", "--batch-size", "32", "--run", run, "--resume", "--threads", "1", "--progress", "plain"}
	for _, s := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGTERM, exitResume}, {syscall.SIGUSR1, exitResume}, {syscall.SIGINT, exitInt}} {
		cmd := exec.Command(exe, args...)
		cmd.Env = append(os.Environ(), "GOSPML_TEST_COMMAND=1")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		wait := time.Now()
		for !exists(filepath.Join(run, "run.yaml")) && time.Since(wait) < 30*time.Second {
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(600 * time.Millisecond)
		sent := time.Now()
		require.NoError(t, cmd.Process.Signal(s.signal))
		err := cmd.Wait()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, stderr.String())
		require.Equal(t, s.code, exit.ExitCode(), stderr.String())
		require.Less(t, time.Since(sent), 25*time.Second)
		require.Contains(t, stderr.String(), "stopped ")
	}
	code, out, stderr := spml(t, nil, args...)
	require.Zero(t, code, stderr)
	require.Contains(t, out, "best epoch 1")
	code, out, stderr = spml(t, nil, "verify", run)
	require.Zero(t, code, stderr)
	require.Contains(t, out, "20 steps replayed, weights equal to the bit")
	code, _, stderr = spml(t, nil, "train", "--data", "shapes", "--run", run, "--resume", "--lr", "1")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "lr was 0.003, is 1")
}

func TestPlan(t *testing.T) {
	dir := t.TempDir()
	code, out, stderr := spml(t, nil, "plan", "--data", "shapes", "--method", "em", "--run", filepath.Join(dir, "run"))
	require.Zero(t, code, stderr)
	require.Regexp(t, `steps\s+320 in 10 epochs, 2000 images in each`, out)
	require.Contains(t, out, "nothing was written")
	require.False(t, exists(filepath.Join(dir, "run")))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
