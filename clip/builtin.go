package clip

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"

	"github.com/gospml/gospml/torch/safetensors"
)

// builtin.safetensors.gz is model.safetensors of `OMP_NUM_THREADS=1 spml clip pretrain --steps 900 --dtype float16 --out DIR`, compressed with gzip -9n.
//
//go:embed builtin.safetensors.gz
var builtin []byte

// BuiltinNote says what the built-in model is.
const BuiltinNote = "the built-in model is tiny: it was trained in minutes on drawn pictures and knows circle, square, triangle, star, ring, red, green, blue, yellow, striped, dotted and checkered things in them, and nothing of photos"

// Builtin loads the CLIP that is part of this module: a small ModifiedResNet for 64×64 pixels, trained on drawn shapes (package clip/pretrain). It is there so that everything that needs a
// CLIP runs without a file; Loaded.Notes says what it is.
func Builtin() (*CLIP, *Loaded, error) {
	const path = "built-in"
	z, err := gzip.NewReader(bytes.NewReader(builtin))
	if err != nil {
		return nil, nil, fmt.Errorf("clip: built-in model: %w", err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return nil, nil, fmt.Errorf("clip: built-in model: %w", err)
	}
	file, err := safetensors.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, fmt.Errorf("clip: built-in model: %w", err)
	}
	f := &found{path: path, configs: map[string]string{}, weights: &weights{tensors: map[string]stored{}}, notes: []string{BuiltinNote}}
	if err := f.weights.addFile(path, file); err != nil {
		return nil, nil, err
	}
	return f.load(LoadOptions{})
}

// OpenBuiltin is Open of the built-in model.
func OpenBuiltin(o Options) (*Model, error) {
	c, l, err := Builtin()
	if err != nil {
		return nil, err
	}
	return newModel(c, l, o)
}
