package train

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/spml/config"
)

// Where decoded images are kept changes no number; what cannot be is said before anything runs.
func TestCacheSettings(t *testing.T) {
	dir := folder(t, 60)
	run := func(set func(*config.Config)) (*Result, []string) {
		c := small(dir, "an")
		set(&c)
		var notes []string
		res, err := Run(
			context.Background(),
			c,
			RunOptions{Events: Events{Note: func(s string) { notes = append(notes, s) }}},
		)
		require.NoError(t, err)
		return res, notes
	}
	want, notes := run(func(*config.Config) {})
	require.NotContains(t, notes, "decoded images are kept")
	fast := t.TempDir()
	for name, set := range map[string]func(*config.Config){
		"none":   func(c *config.Config) { c.Data.Cache.Kind = "none" },
		"memory": func(c *config.Config) { c.Data.Cache.Kind = "memory" },
		"file":   func(c *config.Config) { c.Data.Cache.Kind, c.Data.Cache.Dir = "file", fast },
		"file, too small": func(c *config.Config) {
			c.Data.Cache.Kind, c.Data.Cache.Dir, c.Data.Cache.FileMB = "file", fast, 1
		},
		"auto with a folder": func(c *config.Config) { c.Data.Cache.Dir = fast },
	} {
		got, notes := run(set)
		require.Equal(t, want.Epochs[0].Loss, got.Epochs[0].Loss, name)
		require.Equal(t, want.Epochs[1].Loss, got.Epochs[1].Loss, name)
		require.Equal(t, want.Epochs[1].ValMAP, got.Epochs[1].ValMAP, name)
		switch name {
		case "file":
			require.Contains(t, notes, "decoded images are kept in a file in "+fast+" for 60 of 60 images")
		case "auto with a folder":
			require.Contains(t, notes, "decoded images are kept in memory for 60 of 60 images")
		}
	}
	left, err := os.ReadDir(fast)
	require.NoError(t, err)
	require.Empty(t, left)

	for want, set := range map[string]func(*config.Config){
		"give --cache-dir":            func(c *config.Config) { c.Data.Cache.Kind = "file" },
		"none of auto, memory":        func(c *config.Config) { c.Data.Cache.Kind = "disk" },
		"cache_file_mb is -1, want 0": func(c *config.Config) { c.Data.Cache.FileMB = -1 },
	} {
		c := small(dir, "an")
		set(&c)
		_, err := Run(context.Background(), c, RunOptions{})
		require.ErrorContains(t, err, want)
	}
}
