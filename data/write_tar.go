package data

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/npy"
)

func urlEscape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "%2F", "/") }

// npyStrings makes a list of fixed-width strings, at least one character wide.
func npyStrings(s []string) (*npy.Array, error) {
	width := 1
	for _, x := range s {
		width = max(width, utf8.RuneCountInString(x))
	}
	data := make([]byte, 4*width*len(s))
	for i, x := range s {
		at := 4 * width * i
		for _, r := range x {
			data[at], data[at+1], data[at+2] = byte(r), byte(r>>8), byte(r>>16)
			at += 4
		}
	}
	return &npy.Array{Dtype: fmt.Sprintf("<U%d", width), Shape: []int64{int64(len(s))}, Data: data}, nil
}

// drawnVal returns the places among n train rows that the papers take for validation.
func drawnVal(n int) []int {
	_, val, err := random.Split(n, ValFraction, random.SplitSeed)
	if err != nil {
		return nil
	}
	return val
}

// writeWebDataset writes shards of about ShardBytes with <key>.<ext> and <key>.json, and their indexes.
func writeWebDataset(d *Dataset, w *output) error {
	raw, ok := d.Source.(RawSource)
	if !ok {
		return fmt.Errorf("data: %s has no photos, which shards hold", d.Name)
	}
	keys := map[string]string{}
	for _, n := range d.Images {
		key, ext := splitTarName(n)
		if !imageNames[ext] {
			return formatError(d.Name, 0, "%q: a name in a shard must end with its only dot and one of .jpg, .jpeg, .png, .webp, .gif, .bmp, .tif, .tiff", n)
		}
		if other, twice := keys[key]; twice {
			return formatError(d.Name, 0, "%q and %q have one key, which shards cannot hold", other, n)
		}
		keys[key] = n
	}
	if err := w.lines("classes.txt", d.Classes); err != nil {
		return err
	}
	var buf []byte
	for shard, at := 0, 0; at < d.N(); shard++ {
		name := fmt.Sprintf("shard-%06d.tar", shard)
		err := w.file(name, func(b *bufio.Writer) error {
			t := tar.NewWriter(b)
			size := int64(0)
			add := func(name string, content []byte) error {
				size += int64(len(content)) + 1024
				h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644, Format: tar.FormatUnknown}
				if err := t.WriteHeader(h); err != nil {
					return err
				}
				_, err := t.Write(content)
				return err
			}
			for ; at < d.N() && (size == 0 || size < w.o.ShardBytes); at++ {
				var err error
				if buf, err = raw.ReadFile(at, buf); err != nil {
					return fmt.Errorf("data: %s: %w", d.Images[at], err)
				}
				line, err := json.Marshal(d.jsonLine(at, false))
				if err != nil {
					return err
				}
				key, _ := splitTarName(d.Images[at])
				if err := errors.Join(add(d.Images[at], buf), add(key+".json", line)); err != nil {
					return err
				}
			}
			return t.Close()
		})
		if err != nil {
			return err
		}
		if _, _, err := WriteTarIndex(filepath.Join(w.dir, name)); err != nil {
			var fe *FormatError
			if !errors.As(err, &fe) {
				return err
			} // a name that an index cannot hold: the shard is read without
		}
	}
	return nil
}
