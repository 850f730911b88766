package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/internal/testroot"
)

func run(args ...string) (string, error) {
	var out bytes.Buffer
	c := newRoot(&out, &out)
	c.SetArgs(args)
	err := c.Execute()
	return out.String(), err
}

func TestCheck(t *testing.T) {
	losses, pseudo := testroot.Testdata("loss", "golden_losses.json"), testroot.Testdata("loss", "golden_pseudo.json")
	out, err := run("check", losses, testroot.Testdata("loss", "trajectories", "GPR.json"))
	require.NoError(t, err)
	require.Contains(t, out, "gpr                        54 passed    0 failed")
	out, err = run("check", pseudo)
	require.NoError(t, err)
	require.Contains(t, out, "gcn                         2 passed    0 failed")
	strange := filepath.Join(t.TempDir(), "strange.json")
	require.NoError(t, os.WriteFile(strange, []byte(`{"vlpl": {"cases": []}, "strange": [1]}`), 0o600))
	out, err = run("check", strange)
	require.ErrorIs(t, err, errFailed, "a section that is not known")
	require.Contains(t, out, "unknown section")
	_, err = run("check", "--dtype", "bfloat16", losses)
	require.ErrorContains(t, err, "for bfloat16 use eval")
	_, err = run("check", "--dtype", "int8", losses)
	require.ErrorContains(t, err, "none of float64, float32, bfloat16")
	_, err = run("check", "--impl", "fast", losses)
	require.ErrorContains(t, err, "none of composed, fused")
	_, err = run("check", "--device", "tpu", losses)
	require.ErrorContains(t, err, "none of cpu, cuda")
	_, err = run("check", filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestGPUGolden runs every case of a loss on the card, in both forms; without one that is an error and not the CPU.
func TestGPUGolden(t *testing.T) {
	losses, trajectory := testroot.Testdata("loss", "golden_losses.json"), testroot.Testdata("loss", "trajectories", "GPR.json")
	if cuda.Available() != nil {
		_, err := run("check", "--device", "cuda", losses)
		require.ErrorIs(t, err, cuda.ErrNoDevice)
		t.Skip("there is no card")
	}
	for _, impl := range []string{"composed", "fused"} {
		for _, dtype := range []string{"float64", "float32"} {
			out, err := run("check", "--device", "cuda", "--impl", impl, "--dtype", dtype, losses)
			require.NoError(t, err, out)
		}
	}
	_, err := run("check", "--device", "cuda", trajectory)
	require.ErrorContains(t, err, "on the CPU only")
}

func TestEvalAndTrace(t *testing.T) {
	out, err := run("eval", "--dtype", "bfloat16", "--impl", "fused", testroot.Testdata("loss", "golden_losses.json"))
	require.NoError(t, err)
	lines := bytes.Split(bytes.TrimSpace([]byte(out)), []byte("\n"))
	require.Len(t, lines, 433)
	for _, l := range lines {
		var v struct {
			ID      string         `json:"id"`
			Outputs map[string]any `json:"outputs"`
		}
		require.NoError(t, json.Unmarshal(l, &v))
		require.NotEmpty(t, v.ID)
		require.NotEmpty(t, v.Outputs)
	}
	out, err = run("trace", testroot.Testdata("loss", "trajectories", "LL-Cp.json"))
	require.NoError(t, err)
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Len(t, v["loss_per_step"], 18)
	_, err = run("trace", testroot.Testdata("loss", "golden_losses.json"))
	require.ErrorContains(t, err, "is no training run")
}
