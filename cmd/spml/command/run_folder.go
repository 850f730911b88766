package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gospml/gospml/spml/config"
)

// runsFolder holds the run directories of runs that were given none.
const runsFolder = "runs"

// newRunFolder makes a run directory that nobody has yet: runs/DATA-METHOD-DATE-TIME.
func newRunFolder(c config.Config, now time.Time) (string, error) {
	name := plainName(
		filepath.Base(filepath.Clean(c.Data.Path)),
	) + "-" + plainName(
		c.Method.ID,
	) + now.Format(
		"-2006-01-02-150405",
	)
	if err := os.MkdirAll(runsFolder, 0o755); err != nil {
		return "", fmt.Errorf("a run directory cannot be made here (name one by --run DIR, or keep nothing by --run=): %w", err)
	}
	for n := 1; ; n++ {
		dir := filepath.Join(runsFolder, name)
		if n > 1 {
			dir += fmt.Sprintf("-%d", n)
		}
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("a run directory cannot be made here (name one by --run DIR, or keep nothing by --run=): %w", err)
		}
	}
}

// plainName keeps of a name what needs no quotes in a shell.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' {
			return r
		}
		return '-'
	}, name)
	if name = strings.Trim(name[:min(len(name), 60)], "-."); name == "" {
		return "data"
	}
	return name
}

// dropEmpty removes a folder that newRunFolder made and nothing was written into.
func dropEmpty(dir string) {
	if os.Remove(dir) == nil {
		_ = os.Remove(runsFolder) // stays where it holds others
	}
}
