package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml/internal/atomicfile"
)

const (
	// IndexSuffix is how the name of a sharded model's index ends.
	IndexSuffix = ".safetensors.index.json"
	maxIndex    = 16 << 20 // bytes of an index: some 100,000 tensors
	maxShards   = 1024
)

// Sharded is a model in several safetensors files, found through the index that Hugging Face's libraries write beside
// them ("model.safetensors.index.json"). All shards are open. It is safe for use by many goroutines until Close.
type Sharded struct {
	path   string
	shards []*File
	home   map[string]*File
	names  []string // in the order of the shards and of their data
}

// OpenSharded opens an index and every shard that it names, which must lie in the same folder, and checks that they
// hold exactly the tensors that the index says.
func OpenSharded(index string) (*Sharded, error) {
	invalid := func(format string, args ...any) error {
		return &FormatError{Path: index, Reason: fmt.Sprintf(format, args...)}
	}
	st, err := os.Stat(index)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file (%s)", index, st.Mode())
	}
	if st.Size() > maxIndex {
		return nil, invalid("the index has %d bytes, at most %d are read", st.Size(), maxIndex)
	}
	text, err := os.ReadFile(index)
	if err != nil {
		return nil, err
	}
	weights, err := parseIndex(text)
	if err != nil {
		return nil, invalid("the index: %v", err)
	}
	s := &Sharded{path: index, home: make(map[string]*File, len(weights))}
	want := map[string]int{} // tensors by shard
	for name, shard := range weights {
		if shard != filepath.Base(shard) || strings.ContainsAny(shard, `/\`) || shard == "." || shard == ".." {
			return nil, invalid("the index puts tensor %s in %s, which is not a file's name", quote(name), quote(shard))
		}
		want[shard]++
	}
	if len(want) > maxShards {
		return nil, invalid("the index names %d shards, at most %d are opened", len(want), maxShards)
	}
	for _, shard := range slices.Sorted(maps.Keys(want)) {
		f, err := Open(filepath.Join(filepath.Dir(index), shard))
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("shard of %s: %w", index, err)
		}
		s.shards = append(s.shards, f)
		for _, name := range f.Names() {
			if weights[name] != shard {
				s.Close()
				return nil, invalid("shard %s holds tensor %s, which the index does not put there", quote(shard), quote(name))
			}
			s.home[name] = f
			s.names = append(s.names, name)
			want[shard]--
		}
		if want[shard] != 0 {
			defer s.Close()
			for _, name := range slices.Sorted(maps.Keys(weights)) {
				if weights[name] == shard && s.home[name] == nil {
					return nil, invalid("shard %s lacks tensor %s, which the index puts there", quote(shard), quote(name))
				}
			}
		}
	}
	return s, nil
}

// parseIndex returns the index's "weight_map", the shard of each tensor. Other keys ("metadata") are skipped.
func parseIndex(text []byte) (map[string]string, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	var weights map[string]string
	err := object(d, func(key string) error {
		if key != "weight_map" {
			var skip json.RawMessage
			return d.Decode(&skip)
		}
		if weights != nil {
			return errors.New("weight_map occurs twice")
		}
		weights = map[string]string{}
		return object(d, func(name string) error {
			if _, twice := weights[name]; twice {
				return fmt.Errorf("tensor %s occurs twice", quote(name))
			}
			t, err := d.Token()
			if err != nil {
				return err
			}
			shard, ok := t.(string)
			if !ok {
				return fmt.Errorf("the shard of tensor %s is no text", quote(name))
			}
			weights[name] = shard
			return nil
		})
	})
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, errors.New("it ends early: is it truncated?")
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows its closing }")
	}
	if len(weights) == 0 {
		return nil, errors.New("it has no weight_map with tensors")
	}
	return weights, nil
}

// object reads a JSON object and calls value for each key.
func object(d *json.Decoder, value func(key string) error) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("found %v where { is expected", t)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		if err := value(t.(string)); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// Close closes all shards.
func (s *Sharded) Close() error {
	var errs []error
	for _, f := range s.shards {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// Shards returns the open shards in the order of their names.
func (s *Sharded) Shards() []*File { return slices.Clone(s.shards) }

// Len returns the number of tensors.
func (s *Sharded) Len() int { return len(s.names) }

// Names returns the tensors' names in the order of the shards and of their data, the fastest order to read them in.
func (s *Sharded) Names() []string { return slices.Clone(s.names) }

// Metadata returns the "__metadata__" entries of all shards; the first shard's stand where several differ.
func (s *Sharded) Metadata() map[string]string {
	var m map[string]string
	for _, f := range s.shards {
		for k, v := range f.Metadata() {
			if m == nil {
				m = map[string]string{}
			}
			if _, ok := m[k]; !ok {
				m[k] = v
			}
		}
	}
	return m
}

// Info describes the tensor of that name; ok is false if there is none. Its Offset is within its shard.
func (s *Sharded) Info(name string) (info Info, ok bool) {
	f := s.home[name]
	if f == nil {
		return Info{}, false
	}
	return f.Info(name)
}

// ReadInto fills dst, whose length must be the tensor's size, with the tensor's bytes.
func (s *Sharded) ReadInto(name string, dst []byte) error {
	f, err := s.shard(name)
	if err != nil {
		return err
	}
	return f.ReadInto(name, dst)
}

// Bytes returns the tensor's bytes in a new slice.
func (s *Sharded) Bytes(name string) ([]byte, error) {
	f, err := s.shard(name)
	if err != nil {
		return nil, err
	}
	return f.Bytes(name)
}

func (s *Sharded) shard(name string) (*File, error) {
	if f := s.home[name]; f != nil {
		return f, nil
	}
	return nil, fmt.Errorf("%s has no tensor %s among its %d", s.path, quote(name), len(s.names))
}

// String names the index.
func (s *Sharded) String() string { return s.path }

// WriteSharded writes the tensors into files of at most maxShard bytes of data, in the given order, and an index, all
// into dir, with Hugging Face's names: <name>-00001-of-00003.safetensors, …, <name>.safetensors.index.json. A tensor
// larger than maxShard gets a shard of its own; what fits into one shard becomes <name>.safetensors without an index.
// Every file appears as a whole, the index last. It returns the path to open: the index or the single file.
func WriteSharded(dir, name string, tensors []Tensor, metadata map[string]string, maxShard int64) (string, error) {
	if maxShard <= 0 {
		return "", fmt.Errorf("writing %s: a shard of at most %d bytes holds nothing", filepath.Join(dir, name), maxShard)
	}
	if name == "" || name != filepath.Base(name) {
		return "", fmt.Errorf("writing into %s: %s is not a file's name", dir, quote(name))
	}
	if _, err := newPlan(tensors, metadata); err != nil {
		return "", fmt.Errorf("writing %s: %w", filepath.Join(dir, name), err)
	}
	var shards [][]Tensor
	var current []Tensor
	var size, total int64
	for _, t := range tensors {
		n, err := t.Dtype.Size(t.Shape)
		if err != nil {
			return "", err
		}
		total += n
		if n > maxShard {
			shards = append(shards, []Tensor{t})
			continue
		}
		if size+n > maxShard {
			shards = append(shards, current)
			current, size = nil, 0
		}
		current = append(current, t)
		size += n
	}
	if len(current) > 0 || len(shards) == 0 {
		shards = append(shards, current)
	}
	if len(shards) == 1 {
		path := filepath.Join(dir, name+".safetensors")
		return path, Write(path, shards[0], metadata)
	}
	weights := make(map[string]string, len(tensors))
	for i, ts := range shards {
		file := fmt.Sprintf("%s-%05d-of-%05d.safetensors", name, i+1, len(shards))
		for _, t := range ts {
			weights[t.Name] = file
		}
		if err := Write(filepath.Join(dir, file), ts, metadata); err != nil {
			return "", err
		}
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text) // keys sorted, as Hugging Face's are
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(map[string]any{"metadata": map[string]int64{"total_size": total}, "weight_map": weights}); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name+IndexSuffix)
	return path, atomicfile.WriteFile(path, 0o664, func(w io.Writer) error {
		_, err := w.Write(text.Bytes())
		return err
	})
}
