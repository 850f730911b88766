package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
)

func TestEverySettingHasADocumentation(t *testing.T) {
	all := Settings()
	for _, s := range all {
		require.NotEmpty(t, s.Doc, s.Key)
	}
}

func TestGuesses(t *testing.T) {
	for key, want := range map[string]string{
		"epoch": "epochs", "bacth_size": "batch_size", "learning": "",
		"lr_head": "", "max-steps": "max_steps", "sede": "seed",
	} {
		err := CheckKey(key)
		require.ErrorContains(t, err, key)
		if want != "" {
			require.ErrorContains(t, err, "did you mean \""+want+"\"?")
		}
	}
}

func TestSettingsRoundTrip(t *testing.T) {
	m := map[string]any{}
	for key, text := range map[string]string{
		"data": "shapes", "lr": "1e-4", "seed": "7", "flip": "true", "params": "alpha=0.1,beta=2", "epochs": "3",
		"data_seed": "9",
	} {
		v, err := Parse(key, text)
		require.NoError(t, err)
		m[key] = v
	}
	c, err := FromSettings(m)
	require.NoError(t, err)
	require.True(t, *c.Data.Flip)
	require.Equal(t, uint32(9), *c.Data.Seed)
	require.Equal(t, 1e-4, c.Optim.LR)
	require.Equal(t, map[string]float64{"alpha": 0.1, "beta": 2}, c.Method.Params)
	for _, x := range []struct{ key, text string }{
		{"lr", "much"}, {"epochs", "1.5"}, {"seed", "-1"}, {"flip", "perhaps"}, {"params", "a"}, {"lrr", "1"},
	} {
		_, err := Parse(x.key, x.text)
		require.Error(t, err, x.key)
	}
}

// TestHostileSettings: a file of settings is refused by one short sentence before it takes much memory, whatever it
// holds.
func TestHostileSettings(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big.yaml")
	f, err := os.Create(big)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(300<<20))
	require.NoError(t, f.Close())
	files := map[string]string{big: "more than 262144 bytes", "/dev/zero": "more than 262144 bytes"}
	add := func(name, text, want string) {
		p := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
		files[p] = want
	}
	laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		laughs += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	add("laughs.yaml", laughs, "excessive aliasing")
	add("deep.yaml", "params: "+strings.Repeat("[", 1<<17)+strings.Repeat("]", 1<<16), "max depth")
	add("indent.yaml", strings.Repeat("- ", 1<<17), "max depth")
	add("key.yaml", "? "+strings.Repeat("k", 1<<18-20)+"\n: 1\n", "there is no setting")
	add("twice.yaml", strings.Repeat("? "+strings.Repeat("k", 1<<16)+"\n: 1\n", 2), "already defined")
	add("value.yaml", "epochs: "+strings.Repeat("k", 1<<17)+"\n", "into int")
	add("keys.yaml", strings.Repeat("? ", 1<<17), "")
	add("rows.yaml", "params: ["+strings.Repeat("1,", 1<<17-100)+"]\n", "into map")
	for path, want := range files {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Load(path)
		runtime.ReadMemStats(&after)
		require.ErrorContains(t, err, want, path)
		require.Less(t, len(err.Error()), 2000, path)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512<<20), path)
	}
}

// TestDefaultPrecision: bfloat16 where the processor has a unit for it, and only for networks.
func TestDefaultPrecision(t *testing.T) {
	defer func(f func() bool) { compute.MatrixUnit = f }(compute.MatrixUnit)
	for _, amx := range []bool{false, true} {
		compute.MatrixUnit = func() bool { return amx }
		tuned, err := Config{Data: Data{Path: "x"}, Method: Method{ID: "an"}}.Resolve()
		require.NoError(t, err)
		head, err := Config{
			Data:   Data{Path: "x"},
			Method: Method{ID: "an"},
			Model:  Model{Mode: Frozen, Features: Paths{"f.npy"}},
		}.Resolve()
		require.NoError(t, err)
		set, err := Config{
			Data:   Data{Path: "x"},
			Method: Method{ID: "an"},
			Run:    Run{Precision: FP16},
		}.Resolve()
		require.NoError(t, err)
		require.Equal(t, map[bool]string{false: FP32, true: BF16}[amx], tuned.Run.Precision)
		require.Equal(
			t,
			map[bool]string{false: "fp32 (CPU without AMX)", true: "bf16 (CPU with AMX)"}[amx],
			tuned.PrecisionNote(torch.DeviceCPU),
		)
		require.Equal(t, FP32, head.Run.Precision)
		require.Equal(t, "fp32", head.PrecisionNote(torch.DeviceCPU))
		require.Equal(t, FP16, set.Run.Precision)
		require.Contains(t, set.PrecisionNote(torch.DeviceCPU), "this CPU's default is "+tuned.Run.Precision)
	}
}

// Texts of typed settings come back as they were read, in the order of the documentation, and what cannot be read is
// refused by a sentence.
func TestTexts(t *testing.T) {
	for text, want := range map[string]DataOptions{
		"":                                     {},
		"missing=skip":                         {Options: data.Options{Missing: data.MissingSkip}},
		" images = photos, set=2012":           {Options: data.Options{Images: "photos", Set: "2012"}},
		"no-validation=true,classes=names.txt": {Options: data.Options{NoValidation: true}, ClassesFile: "names.txt"},
		"test=7,train=30":                      {Train: 30, Test: 7},
	} {
		got, again := DataOptions{}, DataOptions{}
		require.NoError(t, got.UnmarshalText([]byte(text)))
		require.Equal(t, want, got)
		require.NoError(t, again.UnmarshalText([]byte(got.String())))
		require.Equal(t, want, again)
	}
	require.Equal(t, "set=2012,images=photos", DataOptions{Options: data.Options{Images: "photos", Set: "2012"}}.String())
	require.Equal(t, "train=30,test=7", DataOptions{Test: 7, Train: 30}.String())
	for text, want := range map[string]SaveEvery{
		"": {}, "off": {Off: true}, "epoch": {Epoch: true},
		"500": {Steps: 500}, "10m": {Time: 10 * time.Minute}, "1h": {Time: time.Hour},
		"1h30m": {Time: 90 * time.Minute}, "1m5s": {Time: 65 * time.Second}, "1ns": {Time: 1},
	} {
		var got SaveEvery
		require.NoError(t, got.UnmarshalText([]byte(text)))
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
	}
	var o Options
	require.NoError(t, o.UnmarshalText([]byte("grid=2; tau=0.05, theta=0.2")))
	require.Equal(t, Options{"grid": "2", "tau": "0.05", "theta": "0.2"}, o)
	require.Equal(t, "grid=2,tau=0.05,theta=0.2", o.String())
	var p Paths
	require.NoError(t, p.UnmarshalText([]byte("a.npy,b.npy")))
	require.Equal(t, Paths{"a.npy", "b.npy"}, p)
	for _, bad := range []struct {
		to   interface{ UnmarshalText([]byte) error }
		text string
		want string
	}{
		{new(DataOptions), "train", "want NAME=VALUE"}, {new(DataOptions), "train=x", "shapes takes train=N"},
		{new(DataOptions), "pictures=3", "is no option of data sets"},
		{new(SaveEvery), "often", "a time (10m) or a number of steps (500)"},
		{new(SaveEvery), "-1", "a time (10m)"}, {new(Options), "grid", "want NAME=VALUE"},
	} {
		var wrong *Error
		err := bad.to.UnmarshalText([]byte(bad.text))
		require.ErrorAs(t, err, &wrong)
		require.ErrorContains(t, err, bad.want)
	}
}

// Files are flat, whatever the structs: a configuration goes through YAML and JSON and comes back, and so do the keys
// that earlier versions wrote.
func TestFiles(t *testing.T) {
	given, err := FromSettings(map[string]any{
		"data": "shapes", "data_options": "train=8,val=4,test=4", "method": "gpr",
		"preset": "coco", "form": "code", "clip": "builtin", "pseudo_options": "tau=0.05;grid=2",
		"save_every": "500", "cache": "none", "threads": 3,
	})
	require.NoError(t, err)
	given, err = given.Resolve()
	require.NoError(t, err)
	require.Equal(t, "coco", given.Method.DataSet)
	require.Equal(t, 8, given.Data.Options.Train)
	require.Equal(t, "none", given.Data.Cache.Kind)
	require.Equal(t, SaveEvery{Steps: 500}, given.Run.SaveEvery)
	b, err := given.YAML()
	require.NoError(t, err)
	require.Contains(t, string(b), "data_set: coco\n")
	require.NotContains(t, string(b), "features", "what is empty is left out")
	path := filepath.Join(t.TempDir(), "run.yaml")
	for _, text := range []string{string(b), strings.Replace(string(b), "data_set:", "preset:", 1)} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		again, err := Load(path)
		require.NoError(t, err)
		require.Equal(t, given, again)
	}
	require.NoError(t, os.WriteFile(path, append(b, "preset: voc\n"...), 0o644))
	_, err = Load(path)
	require.ErrorContains(t, err, "preset and data_set are one setting")
	j, err := json.Marshal(given)
	require.NoError(t, err)
	var of Config
	require.NoError(t, json.Unmarshal(j, &of))
	require.Equal(t, given, of)
	require.Empty(t, Differences(given, of))
	of.Data.Options.Train, of.Run.Seed = 9, 3
	require.Equal(
		t,
		"data_options was train=8,val=4,test=4, is train=9,val=4,test=4; seed was 0, is 3",
		Differences(given, of),
	)
}

// Each setting is one field with the tags that help, reference and files come from.
func TestTags(t *testing.T) {
	keys := map[string]bool{}
	for _, f := range fields(reflect.ValueOf(Config{})) {
		require.False(t, keys[f.key], "%s is there twice", f.key)
		keys[f.key] = true
		require.NotEmpty(t, docs[f.key], f.key)
		if k := f.value.Kind(); k == reflect.Int || k == reflect.Float64 {
			require.NotEmpty(t, f.tag.Get("range"), f.key)
		}
	}
	require.Len(t, docs, len(keys), "what is no setting has no line")
	for old, now := range renamed {
		require.False(t, keys[old], old)
		require.True(t, keys[now], now)
	}
	// YAML's own view of the structs has the same keys.
	b, err := yaml.Marshal(Config{})
	require.NoError(t, err)
	var flat map[string]any
	require.NoError(t, yaml.Unmarshal(b, &flat))
	for key := range flat {
		require.True(t, keys[key], key)
	}
}
