// Package weights fetches published weights by name: resnet50.imagenet1k_v1, openai/ViT-B-16. The registry is read out
// of the packages that publish them (collect.py); nothing is fetched that a caller did not name.
package weights

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/gospml/gospml/internal/spelling"
)

// Entry is one published file.
type Entry struct {
	Name    string `json:"name"`
	Network string `json:"network"` // the backbone that takes it, or clip
	URL     string `json:"url"`
	// SHA256 is what the publisher says of the file's hash, in hexadecimal: all 64 digits, the first eight, or none.
	SHA256    string  `json:"sha256"`
	Megabytes float64 `json:"megabytes,omitempty"` // of 2^20 bytes; 0 where the package does not say
	Licence   string  `json:"licence"`
	Source    string  `json:"source"` // package, version and file in it that the entry was read from
}

// File is the name of the entry's file.
func (e Entry) File() string { return path.Base(e.URL) }

// Hash says how far the publisher's hash goes, in words.
func (e Entry) Hash() string {
	switch len(e.SHA256) {
	case 64:
		return "all of SHA-256"
	case 0:
		return "none published"
	}
	return fmt.Sprintf("first %d digits of SHA-256", len(e.SHA256))
}

//go:embed registry.json
var registry []byte

var entries = sync.OnceValue(func() []Entry {
	var all []Entry
	if err := json.Unmarshal(registry, &all); err != nil {
		panic(err) // embedded: a test reads it
	}
	return all
})

// List is every entry, by name.
func List() []Entry { return slices.Clone(entries()) }

// UnknownError is the error for a name that the registry does not have.
type UnknownError struct{ Name, Nearest string }

func (e *UnknownError) Error() string {
	s := fmt.Sprintf("no published weights are called %q", e.Name)
	if e.Nearest != "" {
		s += fmt.Sprintf("; did you mean %q?", e.Nearest)
	}
	return s + " (spml weights list)"
}

// Lookup finds an entry by name; the case of letters does not matter.
func Lookup(name string) (Entry, error) {
	var names []string
	for _, e := range entries() {
		if strings.EqualFold(e.Name, name) {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return Entry{}, &UnknownError{Name: name, Nearest: spelling.Nearest(name, names)}
}
