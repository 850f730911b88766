package command

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gospml/gospml/internal/spelling"
	"github.com/gospml/gospml/spml/compare"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/recipe"
)

// envPrefix begins the names of environment variables that are settings: SPML_LR, SPML_BATCH_SIZE.
const envPrefix = "SPML_"

// SettingFlag is the annotation of flags that are settings, with the setting's key.
const SettingFlag = "setting"

// settingFlags are the flags of a command that trains: one for each setting, with --recipe and --config below them.
type settingFlags struct {
	fs             *pflag.FlagSet
	recipe, config string
	frozen, noFlip bool
	params         []string
	values         map[string]*textValue
}

// textValue keeps a flag's text; the setting's type reads it.
type textValue struct{ text, kind string }

func (v *textValue) Set(s string) error { v.text = s; return nil }
func (v *textValue) String() string     { return v.text }
func (v *textValue) Type() string       { return v.kind }

// addSettings gives a command the settings' flags but those left out.
func addSettings(fs *pflag.FlagSet, without ...string) *settingFlags {
	s := &settingFlags{fs: fs, values: map[string]*textValue{}}
	for _, x := range config.Settings() {
		if x.Key == "params" || slices.Contains(without, x.Key) {
			continue
		}
		v := &textValue{kind: x.Kind}
		s.values[x.Key] = v
		f := fs.VarPF(v, strings.ReplaceAll(x.Key, "_", "-"), "", x.Doc)
		if x.Kind == "bool" {
			f.NoOptDefVal = "true"
		}
		f.Annotations = map[string][]string{SettingFlag: {x.Key}}
	}
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName { // flags of earlier versions
		return pflag.NormalizedName(strings.ReplaceAll(config.Today(strings.ReplaceAll(name, "-", "_")), "_", "-"))
	})
	fs.StringArrayVar(&s.params, "param", nil, "parameter of the loss, NAME=NUMBER; repeatable")
	fs.StringVar(&s.recipe, "recipe", "", "a paper's settings, for instance em-voc-resnet50; all: spml recipe list")
	fs.StringVar(&s.config, "config", "", "YAML file with settings, for instance another run's run.yaml")
	fs.BoolVar(&s.frozen, "frozen", false, "train a linear head on frozen features (--mode frozen)")
	fs.BoolVar(&s.noFlip, "no-flip", false, "never mirror (--flip=false)")
	return s
}

// renamedFlag lets a flag be given by the name that it had in earlier versions.
func renamedFlag(old, now string) func(*pflag.FlagSet, string) pflag.NormalizedName {
	return func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == old {
			name = now
		}
		return pflag.NormalizedName(name)
	}
}

// layers are settings with the place that each came from; later ones win.
type layers struct {
	values map[string]any
	origin map[string]string // of a loss parameter: params.NAME
	recipe *recipe.Recipe    // nil: none
}

// formOf says whether the form that the settings have is meant for a method: a recipe's printed form is that of its own
// methods alone.
func (l *layers) formOf(method string) bool {
	return l.recipe == nil || !strings.HasPrefix(l.origin["form"], "recipe ") || l.recipe.SetsForm(method)
}

// forms takes the recipe's form out of the variants that it is not meant for.
func (l *layers) forms(variants []compare.Variant) {
	for _, v := range variants {
		method, ok := v.Set["method"].(string)
		if _, own := v.Set["form"]; ok && !own && !l.formOf(method) {
			v.Set["form"] = nil
		}
	}
}

func (l *layers) put(m map[string]any, origin func(key string) string) {
	for k, v := range m {
		if k != "params" {
			l.values[k], l.origin[k] = v, origin(k)
			continue
		}
		p, _ := v.(map[string]any)
		all, _ := l.values[k].(map[string]any)
		if all == nil {
			all = map[string]any{}
			l.values[k] = all
		}
		for name, x := range p {
			all[name], l.origin["params."+name] = x, origin(k)
		}
	}
}

// defaultSeed is the papers'.
const defaultSeed = 1200

// layers puts the settings together: flags over the environment over --config over --recipe over defaults.
func (s *settingFlags) layers(environ []string) (*layers, error) {
	l := &layers{values: map[string]any{}, origin: map[string]string{}}
	l.put(map[string]any{"seed": defaultSeed}, func(string) string { return "default" })
	if s.recipe != "" {
		r, err := recipe.Get(s.recipe)
		if err != nil {
			return nil, err
		}
		l.recipe = r
		l.put(r.Settings(), func(k string) string { return "recipe " + r.Name + ": " + r.Values[k].Source() })
	}
	if s.config != "" {
		m, err := config.LoadSettings(s.config)
		if err != nil {
			return nil, err
		}
		delete(m, "run")
		l.put(m, func(string) string { return "file " + s.config })
	}
	env, err := fromEnvironment(environ)
	if err != nil {
		return nil, err
	}
	l.put(env, func(k string) string { return "environment " + envPrefix + strings.ToUpper(k) })
	given := map[string]any{}
	for key, v := range s.values {
		if s.fs.Changed(strings.ReplaceAll(key, "_", "-")) {
			if given[key], err = config.Parse(key, v.text); err != nil {
				return nil, usageError{fmt.Errorf("--%s: %w", strings.ReplaceAll(key, "_", "-"), err)}
			}
		}
	}
	for _, p := range s.params {
		v, err := config.Parse("params", p)
		if err != nil {
			return nil, usageError{fmt.Errorf("--param %q: want NAME=NUMBER, for instance alpha=0.1", p)}
		}
		if given["params"] == nil {
			given["params"] = map[string]any{}
		}
		maps.Copy(given["params"].(map[string]any), v.(map[string]any))
	}
	if s.frozen {
		given["mode"] = config.Frozen
	}
	if s.noFlip {
		if given["flip"] == true {
			return nil, usageError{fmt.Errorf("--flip and --no-flip contradict each other")}
		}
		given["flip"] = false
	}
	l.put(given, func(k string) string { return "flag --" + strings.ReplaceAll(k, "_", "-") })
	if method, ok := l.values["method"].(string); ok && !l.formOf(method) {
		delete(l.values, "form")
		delete(l.origin, "form")
	}
	if strings.HasPrefix(l.origin["seed"], "flag") && !strings.HasPrefix(l.origin["data_seed"], "flag") { // another seed draws other labels too
		delete(l.values, "data_seed")
		delete(l.origin, "data_seed")
	}
	return l, nil
}

func fromEnvironment(environ []string) (map[string]any, error) {
	m := map[string]any{}
	for _, e := range environ {
		name, text, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, envPrefix) || text == "" {
			continue
		}
		key := config.Today(strings.ToLower(strings.TrimPrefix(name, envPrefix)))
		if err := config.CheckKey(key); err != nil {
			return nil, &config.Error{Msg: fmt.Sprintf("environment variable %s: %v", name, err)}
		}
		v, err := config.Parse(key, text)
		if err != nil {
			return nil, &config.Error{Msg: fmt.Sprintf("environment variable %s: %v", name, err)}
		}
		m[key] = v
	}
	return m, nil
}

// configuration is what the layers come to.
func (s *settingFlags) configuration() (config.Config, *layers, error) {
	l, err := s.layers(os.Environ())
	if err != nil {
		return config.Config{}, nil, err
	}
	c, err := config.FromSettings(l.values)
	return c, l, err
}

// guessFlag adds a guess to the error of an unknown flag.
func guessFlag(cmd *cobra.Command, err error) error {
	const unknown = "unknown flag: --"
	i := strings.Index(err.Error(), unknown)
	if i < 0 {
		return err
	}
	name := err.Error()[i+len(unknown):]
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if g := spelling.Nearest(name, names); g != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, g)
	}
	return err
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
