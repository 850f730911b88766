package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Record is what a run directory says of a run.
type Record struct {
	Dir         string
	Config      Config
	Environment Environment
	Result      *Result // nil where the run has not ended
}

// ReadRecord reads the settings, the environment and the result of a run directory.
func ReadRecord(dir string) (*Record, error) {
	c, err := ReadRun(dir)
	if err != nil {
		return nil, err
	}
	c.Run = dir
	r := &Record{Dir: dir, Config: c}
	read := func(name string, to any) error {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(b, to); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrData, path, err)
		}
		return nil
	}
	if err := read("env.json", &r.Environment); err != nil {
		return nil, err
	}
	var result Result
	switch err := read(resultFile, &result); {
	case err == nil:
		r.Result = &result
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return r, nil
}
