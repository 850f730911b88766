package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
	"github.com/gospml/gospml/torch/nn"
)

// The test program is the example where the launcher's variables are set.
func TestMain(m *testing.M) {
	if os.Getenv("RANK") == "" {
		os.Exit(m.Run())
	}
	main()
}

// train runs the example in processes of a group and gives the weights.
func train(t *testing.T, processes int) nn.StateDict {
	t.Helper()
	store, err := dist.NewTCPStore("127.0.0.1", 0, true, 0, time.Minute) // torchrun's part
	require.NoError(t, err)
	defer store.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	weights := filepath.Join(t.TempDir(), "weights.safetensors")
	self, err := os.Executable()
	require.NoError(t, err)
	outputs := make([]bytes.Buffer, processes)
	var running []*exec.Cmd
	for rank := range processes {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), fmt.Sprint("RANK=", rank), fmt.Sprint("WORLD_SIZE=", processes), fmt.Sprint("LOCAL_RANK=", rank),
			fmt.Sprint("LOCAL_WORLD_SIZE=", processes), "MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", store.Port()), "TORCHELASTIC_USE_AGENT_STORE=True",
			"TORCHELASTIC_RUN_ID=example", "OMP_NUM_THREADS=1", "WEIGHTS="+weights)
		cmd.Stdout, cmd.Stderr = &outputs[rank], &outputs[rank]
		require.NoError(t, cmd.Start())
		running = append(running, cmd)
	}
	for rank, cmd := range running {
		require.NoError(t, cmd.Wait(), "rank %d: %s", rank, &outputs[rank])
	}
	require.Contains(t, outputs[0].String(), fmt.Sprintf("%d processes, step 100: loss ", processes))
	sd, _, err := nn.LoadSafetensors(weights)
	require.NoError(t, err)
	return sd
}

// Two processes and one that sees the whole batch end with the same weights.
func TestTwoProcessesEqualOne(t *testing.T) {
	require.NoError(t, torch.Available())
	one, two := train(t, 1), train(t, 2)
	require.Len(t, two, 4)
	for key, want := range one {
		require.LessOrEqual(t, want.Sub(two[key]).Abs().Max().Item(), 1e-5, key)
	}
	torch.ManualSeed(1)
	start := nn.StateDictOf(nn.Sequential{nn.NewLinear(8, 32), nn.ReLU{}, nn.NewLinear(32, 1)})
	require.Greater(t, one["0.weight"].Sub(start["0.weight"]).Abs().Max().Item(), 0.1, "it has learnt")
}
