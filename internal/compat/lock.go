package main

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// What a build needs of the wheels (third_party/native/libtorch.lock explains the fields).
var (
	wantFile = regexp.MustCompile(`^torch/lib/(libc10\.so|libgomp\.so\.1|libtorch_cpu\.so)$|^torch/version\.py$|^nvidia/[a-z0-9_]+/lib/(libcudart|libcupti)\.so\.[0-9]+$`)
	wantTree = regexp.MustCompile(`^torch/include/|^[^/]+\.dist-info/(licenses/|License\.txt$)`)
)

type keep struct {
	Files    map[string]int64 `json:"files"`
	Trees    []string         `json:"trees"`
	Unpacked int64            `json:"unpacked"`
}

type wheelRecord struct {
	Name    string          `json:"name"`
	Version string          `json:"version"`
	File    string          `json:"file"`
	SHA256  string          `json:"sha256"`
	Size    int64           `json:"size"`
	Keep    map[string]keep `json:"keep"`
}

// writeLock prints the lock of wheels that pip has downloaded: torch's first, then those of the CUDA run-time and profiling libraries.
func writeLock(w io.Writer, paths []string) error {
	if len(paths) == 0 {
		return errors.New("-lock needs the wheels' paths: `pip download --no-deps torch==VERSION nvidia-cuda-runtime==… nvidia-cuda-cupti==…`")
	}
	var wheels []wheelRecord
	for _, path := range paths {
		wh, err := readWheel(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		wheels = append(wheels, *wh)
	}
	if wheels[0].Name != "torch" {
		return fmt.Errorf("the first wheel is %s, want torch", wheels[0].Name)
	}
	b, err := json.MarshalIndent(map[string]any{
		"torch": wheels[0].Version, "dirs": map[string]string{"cpu": "libtorch-" + wheels[0].Version}, "wheels": wheels,
	}, "", " ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", b)
	return err
}

func readWheel(path string) (*wheelRecord, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(f, size)
	if err != nil {
		return nil, err
	}
	k := keep{Files: map[string]int64{}, Trees: []string{}}
	seen := map[string]bool{}
	for _, m := range z.File {
		if strings.HasSuffix(m.Name, "/") {
			continue
		}
		switch tree := wantTree.FindString(m.Name); {
		case wantFile.MatchString(m.Name), tree == m.Name && tree != "":
			k.Files[m.Name] = int64(m.UncompressedSize64)
		case tree != "":
			if !seen[tree] {
				seen[tree] = true
				k.Trees = append(k.Trees, tree)
			}
		default:
			continue
		}
		k.Unpacked += int64(m.UncompressedSize64)
	}
	if len(k.Files) == 0 {
		return nil, errors.New("it has nothing that a build needs")
	}
	parts := strings.Split(filepath.Base(path), "-")
	if len(parts) < 5 {
		return nil, errors.New("this is no wheel's name")
	}
	return &wheelRecord{
		Name: strings.ReplaceAll(parts[0], "_", "-"), Version: parts[1], File: filepath.Base(path),
		SHA256: hex.EncodeToString(h.Sum(nil)), Size: size, Keep: map[string]keep{"cpu": k},
	}, nil
}
