package train

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/config"
)

// TestTensorBoard finds every epoch's test mAP in the event files, and a new file for each time the run was taken up.
func TestTensorBoard(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	c, err := config.FromSettings(map[string]any{
		"data": testroot.Shared(t, "data", "miml"), "features": testroot.Shared(t, "data", "features", "miml_mobilenetv2.npy"),
		"mode": config.Frozen, "method": "an", "epochs": int64(3), "run": dir, "max_steps": int64(70),
	})
	require.NoError(t, err)
	_, err = Run(t.Context(), c, RunOptions{})
	var stopped *StoppedError
	require.ErrorAs(t, err, &stopped)
	r, err := Resume(t.Context(), dir, func(c *config.Config) { c.Run.MaxSteps = 0 }, RunOptions{})
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "tensorboard", "*tfevents*"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	var all []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		all = append(all, b...)
	}
	require.Len(t, r.Epochs, 3)
	for _, e := range r.Epochs {
		value := binary.LittleEndian.AppendUint32([]byte("mAP/test\x15"), math.Float32bits(float32(e.TestMAP)))
		require.True(t, bytes.Contains(all, value), "epoch %d", e.Epoch)
	}
}
