package data

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gospml/gospml/internal/atomicfile"
)

// A conversion is written into stageFolder of its folder and moved out of it when it is whole, so that a killed one is
// never read as a smaller data set and the next one knows what it may remove.
const (
	stageFolder = ".spml-converting"
	stageSet    = "set"         // in stageFolder: what is written
	stageMoving = "moving.json" // in stageFolder: there once all is written
	lockFile    = ".lock"       // in the folder while it is written
)

// moving is what stageMoving holds.
type moving struct {
	Conversion string   // conversionKey's
	Entries    []string // of stageSet
}

// conversionKey tells conversions apart that write different files.
func conversionKey(d *Dataset, o WriteOptions) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %s %q %d %s", d.Fingerprint(), d.ObservedFingerprint(), d.Name, o.Format, o.ShardBytes, o.Photos)
	return hex.EncodeToString(h.Sum(nil))
}

// prepare makes room in dir for a conversion, of which a killed one may have left a part. done: the killed one was this
// one and had only to be moved.
func prepare(dir, key string) (done bool, err error) {
	stage := filepath.Join(dir, stageFolder)
	var m moving
	b, err := os.ReadFile(filepath.Join(stage, stageMoving))
	if err == nil {
		if err = json.Unmarshal(b, &m); err != nil {
			return false, fmt.Errorf("data: %s: %w; remove the folder %s", filepath.Join(stage, stageMoving), err, stage)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("data: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("data: %w", err)
	}
	for _, e := range entries {
		if n := e.Name(); n != lockFile && n != stageFolder && !slices.Contains(m.Entries, n) {
			return false, fmt.Errorf("data: %s is not empty: choose a new folder", dir)
		}
	}
	if m.Conversion == "" {
		if err := os.RemoveAll(stage); err != nil {
			return false, fmt.Errorf("data: %w", err)
		}
		return false, nil
	}
	if err := moveOut(dir, m); err != nil {
		return false, err
	}
	if m.Conversion != key {
		return false, fmt.Errorf("data: %s is not empty: it holds another conversion; choose a new folder", dir)
	}
	return true, nil
}

// publish moves what was written out of the stage.
func publish(dir, key string) error {
	stage := filepath.Join(dir, stageFolder)
	entries, err := os.ReadDir(filepath.Join(stage, stageSet))
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	m := moving{Conversion: key}
	for _, e := range entries {
		m.Entries = append(m.Entries, e.Name())
	}
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if err := atomicfile.WriteBytes(filepath.Join(stage, stageMoving), 0o644, b); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return moveOut(dir, m)
}

// moveOut moves the entries of a whole stage that still lie there, and removes it. What lies in dir under the name of
// one is not replaced.
func moveOut(dir string, m moving) error {
	stage := filepath.Join(dir, stageFolder)
	for _, n := range m.Entries {
		from, to := filepath.Join(stage, stageSet, n), filepath.Join(dir, n)
		if filepath.Base(n) != n || n == ".." {
			return fmt.Errorf("data: %s names %q, which is no entry of a folder; remove the folder %s", stageMoving, n, stage)
		}
		if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			continue // a killed conversion had moved it
		}
		if _, err := os.Lstat(to); err == nil {
			return fmt.Errorf("data: %s is not empty: choose a new folder", dir)
		}
		if err := atomicfile.Rename(from, to); err != nil {
			return fmt.Errorf("data: %w", err)
		}
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	// Before stageMoving: without it the entries would be taken for somebody else's.
	if err := errors.Join(os.RemoveAll(filepath.Join(stage, stageSet)), os.RemoveAll(stage)); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}
