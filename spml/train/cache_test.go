package train

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where decoded images are kept changes no number; what cannot be is said before anything runs.
func TestCacheSettings(t *testing.T) {
	dir := folder(t, 60)
	run := func(set func(*Config)) (*Result, []string) {
		c := small(dir, "an")
		set(&c)
		var notes []string
		res, err := Run(context.Background(), c, Events{Note: func(s string) { notes = append(notes, s) }})
		require.NoError(t, err)
		return res, notes
	}
	want, notes := run(func(*Config) {})
	require.NotContains(t, notes, "decoded images are kept")
	fast := t.TempDir()
	for name, set := range map[string]func(*Config){
		"none":               func(c *Config) { c.Cache = "none" },
		"memory":             func(c *Config) { c.Cache = "memory" },
		"file":               func(c *Config) { c.Cache, c.CacheDir = "file", fast },
		"file, too small":    func(c *Config) { c.Cache, c.CacheDir, c.CacheFileMB = "file", fast, 1 },
		"auto with a folder": func(c *Config) { c.CacheDir = fast },
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

	for want, set := range map[string]func(*Config){
		"give --cache-dir":            func(c *Config) { c.Cache = "file" },
		"none of auto, memory":        func(c *Config) { c.Cache = "disk" },
		"cache_file_mb is -1, want 0": func(c *Config) { c.CacheFileMB = -1 },
	} {
		c := small(dir, "an")
		set(&c)
		_, err := Run(context.Background(), c, Events{})
		require.ErrorContains(t, err, want)
	}
}
