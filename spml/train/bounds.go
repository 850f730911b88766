package train

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// bounds are the least and the largest value of each setting that is a number, by key; 0 stands for the default
// everywhere. They keep out what cannot be meant (a size whose square does not fit into a word); what a machine can
// hold is not their business. Settings may have narrower ones of their own.
var bounds = map[string][2]float64{
	"log_eps": {0, 1}, "context": {0, 76}, "boost": {0, 1e6}, "decoder_dim": {0, 8192}, "queue_size": {-1, 1 << 20},
	"stages":          {0, 2},
	"stage_one_delta": {0, 1}, "stage_one_lr": {0, 1e30}, "freeze_at": {0, 100}, "image_size": {0, 4096},
	"epochs": {0, 100_000}, "batch_size": {0, 1 << 20}, "lr": {0, 1e30}, "head_lr": {0, 1e30}, "latent_dim": {0, 4096},
	"weight_decay": {0, 1e6}, "momentum": {0, 1}, "warmup_epochs": {0, 100_000}, "freeze_epochs": {0, 100_000}, "clip_norm": {0, 1e12}, "ema": {0, 1},
	"pct_start": {0, 1}, "power": {0, 100}, "gamma": {0, 1}, "step_epochs": {0, 100_000}, "micro_batch": {0, 1 << 20},
	"patience": {0, 100_000}, "max_drop": {0, 1e6}, "keep_last": {0, 100_000}, "keep_best": {0, 100_000}, "max_steps": {0, 1e12},
	"threads": {0, 4096}, "cache_mb": {0, 1 << 30}, "cache_file_mb": {0, 1 << 30}, "max_pixels": {0, 1 << 32},
}

// Longest texts of settings, in bytes.
const (
	mostText = 4096    // a path, a name
	mostList = 1 << 16 // several paths, options
)

// lists are the settings whose text is a list.
var lists = []string{"features", "strong_features", "data_options", "pseudo_options"}

// mostPixels bounds a batch: its pictures as bytes take 3 GB.
const mostPixels = 1 << 30

// checkBounds refuses numbers and texts that no setting can have, before anything is computed from them.
func (c *Config) checkBounds() error {
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		switch f := v.Field(i); f.Kind() {
		case reflect.Int:
			// Compared as integers: a float64 rounds the largest ones.
			if b, x := bounds[key], f.Int(); x < int64(b[0]) || x > int64(b[1]) {
				return &ConfigError{Msg: fmt.Sprintf("%s is %d, want %.0f to %.0f", key, x, b[0], b[1])}
			}
		case reflect.Float64:
			if b, x := bounds[key], f.Float(); !(x >= b[0] && x <= b[1]) {
				return &ConfigError{Msg: fmt.Sprintf("%s is %v, want %v to %v", key, x, b[0], b[1])}
			}
		case reflect.String:
			most := mostText
			if slices.Contains(lists, key) {
				most = mostList
			}
			if n := f.Len(); n > most {
				return &ConfigError{Msg: fmt.Sprintf("%s has %d characters, want at most %d", key, n, most)}
			}
			if strings.ContainsRune(f.String(), 0) {
				return &ConfigError{Msg: fmt.Sprintf("%s %.100q has a zero byte, which no name can have", key, f.String())}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Params)) {
		if len(name) > 100 {
			return &ConfigError{Msg: fmt.Sprintf("params: a parameter's name has %d characters", len(name))}
		}
		if x := c.Params[name]; math.IsNaN(x) || math.IsInf(x, 0) {
			return &ConfigError{Msg: fmt.Sprintf("params: %s is %v, want a number", name, x)}
		}
	}
	return nil
}

// checkBatch refuses a batch of pictures that no memory holds.
func (c *Config) checkBatch() error {
	if c.Mode == FineTune && c.BatchSize > mostPixels/(c.ImageSize*c.ImageSize) {
		return &ConfigError{Msg: fmt.Sprintf("batch_size %d of image_size %d is more than %d pixels; make one of them smaller", c.BatchSize, c.ImageSize, mostPixels)}
	}
	return nil
}
