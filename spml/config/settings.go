package config

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gospml/gospml/internal/spelling"
)

// Setting is a key of Config as files, flags and the environment name it.
type Setting struct {
	Key  string
	Doc  string // one line for people
	Kind string // of value: int, number, bool, string, or map, which is NAME=NUMBER
}

// Settings lists the keys in the order of Config.
func Settings() []Setting {
	var out []Setting
	for _, f := range fields(reflect.ValueOf(Config{})) {
		out = append(out, Setting{f.key, docs[f.key], f.kind()})
	}
	return out
}

// field is a setting of a configuration.
type field struct {
	key   string
	tag   reflect.StructTag
	value reflect.Value
}

// fields are the settings of a struct and of those inside it.
func fields(v reflect.Value) (all []field) {
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		key, rest, _ := strings.Cut(tag.Get("yaml"), ",")
		if rest == "inline" {
			all = append(all, fields(v.Field(i))...)
		} else {
			all = append(all, field{key, tag, v.Field(i)})
		}
	}
	return all
}

func (f field) kind() string {
	t := f.value.Type()
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Uint32:
		return "int"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "bool"
	case reflect.Map:
		if t.Elem().Kind() == reflect.Float64 {
			return "map"
		}
	}
	return "string"
}

// renamed are the keys of earlier versions.
var renamed = map[string]string{"preset": "data_set"}

// Today is the key that a setting has now: earlier versions had others, which files, flags and the environment may
// still
// use.
func Today(key string) string {
	if now := renamed[key]; now != "" {
		return now
	}
	return key
}

// Load reads settings from YAML. A key that does not exist is an error with a guess.
func Load(path string) (Config, error) {
	m, err := LoadSettings(path)
	if err != nil {
		return Config{}, err
	}
	c, err := FromSettings(m)
	if err != nil {
		return Config{}, wrong("%s: %v", path, err)
	}
	return c, nil
}

// maxSettings bytes are read of a file of settings, which has a few thousand: YAML takes up to a thousand times its
// size in memory.
const maxSettings = 1 << 18

// LoadSettings reads the settings that a YAML file gives, and only those, by today's keys. The file has at most 256 KB.
func LoadSettings(path string) (map[string]any, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSettings+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxSettings {
		return nil, wrong(
			"%s has more than %d bytes, which no file of settings needs: name the right file",
			path,
			maxSettings,
		)
	}
	var m map[string]any
	if err := yaml.Unmarshal(b, &m); err != nil {
		return nil, wrong("%s: %v", path, err)
	}
	if m, err = today(m); err != nil {
		return nil, wrong("%s: %v", path, err)
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		err := CheckKey(k)
		if err == nil {
			err = notZero(k, m[k] == 0 || m[k] == 0.0)
		}
		if err != nil {
			return nil, wrong("%s: %v", path, err)
		}
	}
	return m, nil
}

// today gives settings the keys of today.
func today(m map[string]any) (map[string]any, error) {
	for old, now := range renamed {
		v, ok := m[old]
		if !ok {
			continue
		}
		if _, both := m[now]; both {
			return nil, wrong("%s and %s are one setting; give it once", old, now)
		}
		m = maps.Clone(m)
		delete(m, old)
		m[now] = v
	}
	return m, nil
}

// notZero refuses a 0 that somebody wrote for a setting whose 0 would be taken for the default.
func notZero(key string, zero bool) error {
	if zero && slices.Contains([]string{"epochs", "batch_size", "image_size", "lr"}, key) {
		return wrong("%s is 0, want more than 0; leave it out for the default", key)
	}
	return nil
}

// CheckKey refuses a key that no setting has, with a guess what was meant.
func CheckKey(key string) error {
	var keys []string
	for _, s := range Settings() {
		if s.Key == key {
			return nil
		}
		keys = append(keys, s.Key)
	}
	guess := ""
	if g := spelling.Nearest(key, keys); g != "" {
		guess = fmt.Sprintf("; did you mean %q?", g)
	}
	return wrong("there is no setting %q%s", key, guess)
}

// FromSettings makes a configuration of keys and values.
func FromSettings(m map[string]any) (Config, error) {
	m, err := today(m)
	if err != nil {
		return Config{}, err
	}
	for k := range m {
		if err := CheckKey(k); err != nil {
			return Config{}, err
		}
	}
	b, err := yaml.Marshal(m)
	if err != nil {
		return Config{}, wrong("%v", err)
	}
	var c Config
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && len(m) > 0 {
		return Config{}, wrong("%v", err)
	}
	return c, nil
}

// Parse reads the text of a setting as flags and the environment give it.
func Parse(key, text string) (any, error) {
	key = Today(key)
	bad := func(want string) error { return wrong("%s is %q, want %s", key, text, want) }
	for _, s := range Settings() {
		if s.Key != key {
			continue
		}
		switch s.Kind {
		case "map":
			p := map[string]any{}
			for _, one := range strings.Split(text, ",") {
				name, value, ok := strings.Cut(one, "=")
				x, err := strconv.ParseFloat(value, 64)
				if !ok || err != nil {
					return nil, bad("NAME=NUMBER, for instance alpha=0.1")
				}
				p[strings.TrimSpace(name)] = x
			}
			return p, nil
		case "bool":
			if x, err := strconv.ParseBool(text); err == nil {
				return x, nil
			}
			return nil, bad("true or false")
		case "int":
			unsigned := key == "seed" || key == "data_seed"
			if x, err := strconv.ParseInt(text, 10, 64); err == nil && (!unsigned || x >= 0 && x < 1<<32) {
				return x, notZero(key, x == 0)
			}
			return nil, bad("a whole number")
		case "number":
			if x, err := strconv.ParseFloat(text, 64); err == nil {
				return x, notZero(key, x == 0)
			}
			return nil, bad("a number")
		}
		return text, nil
	}
	return nil, CheckKey(key)
}

// AsSettings are all settings of a configuration by key, as files have them.
func (c Config) AsSettings() map[string]any {
	out := map[string]any{}
	for _, f := range fields(reflect.ValueOf(c)) {
		out[f.key] = f.show()
	}
	return out
}

// show is a value as people write it.
func (f field) show() any {
	if s, ok := f.value.Interface().(fmt.Stringer); ok {
		return s.String()
	}
	if f.value.Kind() == reflect.Pointer && !f.value.IsNil() {
		return f.value.Elem().Interface()
	}
	return f.value.Interface()
}

// Differences names the settings in which two configurations differ, "" for none.
func Differences(a, b Config) string {
	var out []string
	was, is := fields(reflect.ValueOf(a.AsGiven())), fields(reflect.ValueOf(b.AsGiven()))
	for i, x := range was {
		y := is[i]
		if k := x.value.Kind(); (k == reflect.Map || k == reflect.Slice) && x.value.Len() == 0 && y.value.Len() == 0 {
			continue
		}
		if !reflect.DeepEqual(x.value.Interface(), y.value.Interface()) {
			out = append(out, fmt.Sprintf("%s was %v, is %v", x.key, x.show(), y.show()))
		}
	}
	return strings.Join(out, "; ")
}

// YAML is the file form of a configuration.
func (c Config) YAML() ([]byte, error) { return yaml.Marshal(c) }
