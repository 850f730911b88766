package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
)

// Longest texts of settings, in bytes.
const (
	mostText = 4096    // a path, a name
	mostList = 1 << 16 // several paths, options
)

// checkBounds refuses numbers and texts that no setting can have, before anything is computed from them. Bounds keep
// out
// what cannot be meant (a size whose square does not fit into a word); what a machine can hold is not their business.
// 0 stands for the default everywhere. Settings may have narrower bounds of their own.
func (c *Config) checkBounds() error {
	for _, f := range fields(reflect.ValueOf(c).Elem()) {
		var least, most float64
		if r := f.tag.Get("range"); r != "" {
			if _, err := fmt.Sscan(r, &least, &most); err != nil {
				return wrong("%s has the range %q: %v", f.key, r, err)
			}
		}
		switch x := f.value.Interface().(type) {
		case int:
			// Compared as integers: a float64 rounds the largest ones.
			if x < int(least) || x > int(most) {
				return wrong("%s is %d, want %.0f to %.0f", f.key, x, least, most)
			}
		case float64:
			if !(x >= least && x <= most) {
				return wrong("%s is %v, want %v to %v", f.key, x, least, most)
			}
		case string:
			if err := checkText(f.key, x, mostText); err != nil {
				return err
			}
		case fmt.Stringer:
			if err := checkText(f.key, x.String(), mostList); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Method.Params)) {
		if len(name) > 100 {
			return wrong("params: a parameter's name has %d characters", len(name))
		}
		if x := c.Method.Params[name]; math.IsNaN(x) || math.IsInf(x, 0) {
			return wrong("params: %s is %v, want a number", name, x)
		}
	}
	return nil
}

func checkText(key, text string, most int) error {
	if n := len(text); n > most {
		return wrong("%s has %d characters, want at most %d", key, n, most)
	}
	for i := range len(text) {
		if text[i] == 0 {
			return wrong("%s %.100q has a zero byte, which no name can have", key, text)
		}
	}
	return nil
}
