package train

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
	"github.com/gospml/gospml/spml/config"
)

// extremes are values of a setting's type that nobody should set, and some that are merely odd.
func extremes(t reflect.Type) []any {
	if _, ok := reflect.New(t).Interface().(encoding.TextUnmarshaler); ok {
		return texts(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		out := []any{reflect.Zero(t).Interface()}
		for _, v := range extremes(t.Elem()) {
			p := reflect.New(t.Elem())
			p.Elem().Set(reflect.ValueOf(v))
			out = append(out, p.Interface())
		}
		return out
	case reflect.Bool:
		return []any{true, false}
	case reflect.Int:
		return []any{0, 1, -1, -2, math.MaxInt64, math.MinInt64, math.MaxInt64 / 2, 1 << 62, 1 << 33, 1 << 32, 1 << 31, -1 << 31, 1_000_000_000}
	case reflect.Uint32:
		return []any{uint32(0), uint32(math.MaxUint32)}
	case reflect.Float64:
		return []any{0.0, 1.0, -1.0, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 1e30}
	case reflect.String:
		var out []any
		for _, s := range oddTexts {
			out = append(out, s)
		}
		return out
	case reflect.Map:
		return []any{map[string]float64(nil), map[string]float64{"": 1}, map[string]float64{"alpha": math.NaN()}, map[string]float64{"alpha": math.Inf(1)}, map[string]float64{"alpha": -math.MaxFloat64}, map[string]float64{strings.Repeat("k", 1<<20): 1}}
	}
	panic(fmt.Sprintf("a setting of type %v: say here what its extremes are", t))
}

var oddTexts = []string{
	"",
	" ",
	"\x00",
	"-1",
	"NaN",
	"9223372036854775807",
	",,,",
	"=",
	"a=b,=,",
	"train=9223372036854775807",
	"../..",
	"/",
	"\xff\xfe",
	strings.Repeat("x", 1<<20),
	strings.Repeat("a=1,", 1<<18),
}

// texts are the values that a type reads from odd texts; what it refuses is an error of the settings.
func texts(t reflect.Type) (out []any) {
	for _, s := range oddTexts {
		v := reflect.New(t)
		if err := v.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)); err == nil {
			out = append(out, v.Elem().Interface())
		} else if wrong := new(config.Error); !errors.As(err, &wrong) || len(err.Error()) > 2000 {
			panic(fmt.Sprintf("%v of %.20q: %.100v", t, s, err))
		}
	}
	return out
}

// leaf is a setting in the nested structs.
type leaf struct {
	key string
	at  []int // index of its field
	t   reflect.Type
}

func leaves(t reflect.Type, at ...int) (all []leaf) {
	for i := range t.NumField() {
		f, here := t.Field(i), append(slices.Clone(at), i)
		key, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if rest == "inline" {
			all = append(all, leaves(f.Type, here...)...)
		} else {
			all = append(all, leaf{key, here, f.Type})
		}
	}
	return all
}

// tiny are runs of each kind that take a moment.
func tiny(t *testing.T) map[string]config.Config {
	shapes := config.Config{
		Data: config.Data{
			Path:      "shapes",
			Options:   config.DataOptions{Train: 8, Val: 4, Test: 4},
			ImageSize: 32,
			Cache:     config.Cache{MB: 16},
		},
		Optim:    config.Optim{BatchSize: 4},
		Schedule: config.Schedule{Epochs: 1},
		Run:      config.Run{Threads: 1},
	}
	kinds := map[string]config.Config{}
	for _, method := range []string{"em", "role", "mime", "lac", "vlpl"} {
		c := shapes
		c.Method.ID = method
		if method == "lac" {
			c.Model.DecoderDim, c.Run.Dir = 32, filepath.Join(t.TempDir(), "lac")
		}
		kinds[method] = c
	}
	kinds["frozen"] = config.Config{
		Data:     config.Data{Path: testroot.Testdata("data", "formats", "arff", "dense.arff")},
		Method:   config.Method{ID: "an"},
		Model:    config.Model{Mode: config.Frozen, Features: config.Paths{config.OwnFeatures}},
		Optim:    config.Optim{BatchSize: 2},
		Schedule: config.Schedule{Epochs: 1},
	}
	return kinds
}

// TestExtremeSettings puts values nobody should set into each setting. Whatever it is, the settings are refused by
// name, or the run fails with an error, or it is fine: never a panic, never memory without end.
func TestExtremeSettings(t *testing.T) {
	for kind, base := range tiny(t) {
		for _, f := range leaves(reflect.TypeFor[config.Config]()) {
			key := f.key
			if key == "run" || key == "deterministic" { // a folder, and a mode of the whole process
				continue
			}
			for _, v := range extremes(f.t) {
				c := base
				c.Method.Params = maps.Clone(base.Method.Params)
				reflect.ValueOf(&c).Elem().FieldByIndex(f.at).Set(reflect.ValueOf(v))
				what := fmt.Sprintf("%s: %s = %.60s", kind, key, fmt.Sprintf("%#v", v))
				begun := time.Now()
				_, err := c.Resolve()
				if err != nil {
					var wrong *config.Error
					require.ErrorAs(t, err, &wrong, what)
					require.Less(t, len(err.Error()), 2000, what)
					assert.True(t, namesSetting(err, key), "%s: the error does not name the setting: %v", what, err)
					_, err = Run(context.Background(), c, RunOptions{})
					require.ErrorAs(t, err, &wrong, what)
					continue
				}
				if f.t.Kind() == reflect.Bool || reflect.DeepEqual(c, base) ||
					kind != "em" && kind != "frozen" && !slices.Contains(ofKind[kind], key) {
					continue // nothing new to run
				}
				_, err = Estimate(context.Background(), c, Events{})
				var fault *PanicError
				require.NotErrorAs(t, err, &fault, what)
				require.Less(t, time.Since(begun), time.Minute, what)
			}
		}
	}
}

// ofKind are the settings that are tried in runs of a kind, beside those that every kind has.
var ofKind = map[string][]string{
	"role": {"params", "lr"}, "mime": {"latent_dim", "params"}, "lac": {"decoder_dim", "queue_size", "stages", "stage_one", "stage_one_lr", "stage_one_delta", "strong_view", "grad_checkpointing", "head"},
	"vlpl": {"clip", "clip_precision", "pseudo_labels", "pseudo_options", "text_features", "data_set", "form"},
}

// namesSetting says whether an error names a setting, as a key or as a flag.
func namesSetting(err error, key string) bool {
	for _, name := range append([]string{key, strings.ReplaceAll(key, "_", "-"), strings.ReplaceAll(key, "_", " ")}, also[key]...) {
		if strings.Contains(err.Error(), name) {
			return true
		}
	}
	return false
}

// also are other names of a setting: a flag that sets it, or what it was set to.
var also = map[string][]string{
	"mode":           {"--frozen"},
	"params":         {"alpha", "parameter"},
	"clip":           {"--clip"},
	"backbone":       {"no backbone"},
	"method":         {"no loss"},
	"data_options":   {"option of data sets"},
	"pseudo_options": {"pseudo-labels: no option"},
	"flip":           {"mirrored"},
	"data_set":       {"data set"},
}

// TestPanicsOfCallbacksAreErrors: a caller's function that panics on a goroutine of the run gives an error with the
// stack in a field.
func TestPanicsOfCallbacksAreErrors(t *testing.T) {
	c := tiny(t)["em"]
	for name, ev := range map[string]Events{
		"note":  {Note: func(string) { panic("a fault in Note") }},
		"step":  {Step: func(Step) { panic("a fault in Step") }},
		"epoch": {Epoch: func(EpochRecord) { panic("a fault in Epoch") }},
	} {
		_, err := Run(context.Background(), c, RunOptions{Events: ev})
		var fault *PanicError
		require.ErrorAs(t, err, &fault, name)
		require.Contains(t, err.Error(), "internal error, please report it: a fault in")
		require.NotContains(t, err.Error(), "goroutine")
		require.Contains(t, string(fault.Stack), "extremes_test.go")
	}
	_, err := Run(context.Background(), c, RunOptions{})
	require.NoError(t, err, "the next run is whole")
}

// TestEveryNumberHasBounds: a setting that is added needs bounds.
func TestEveryNumberHasBounds(t *testing.T) {
	for _, f := range leaves(reflect.TypeFor[config.Config]()) {
		for _, v := range extremes(f.t) {
			switch x := v.(type) {
			case float64:
				if !math.IsNaN(x) && !math.IsInf(x, 0) {
					continue
				}
			case int:
				if x != math.MaxInt64 && x != math.MinInt64 {
					continue
				}
			default:
				continue
			}
			c := config.Config{Data: config.Data{Path: "shapes"}, Method: config.Method{ID: "em"}}
			reflect.ValueOf(&c).Elem().FieldByIndex(f.at).Set(reflect.ValueOf(v))
			_, err := c.Resolve()
			require.ErrorContains(t, err, f.key, "%v", v)
		}
	}
}
