package train

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
	Key string
	Doc string // one line for people
}

// Settings lists the keys in the order of Config.
func Settings() []Setting {
	t := reflect.TypeFor[Config]()
	out := make([]Setting, 0, t.NumField())
	for i := range t.NumField() {
		key, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		out = append(out, Setting{key, settingDocs[key]})
	}
	return out
}

var settingDocs = map[string]string{
	"data": "data set in any format of spml data formats, or \"shapes\" for the built-in pictures",
	"data_options": "choices of the data set, NAME=VALUE joined by commas: format, set, images, classes, labels, " +
		"difficult, empty, missing, unknown, no-validation, groups; for shapes train, val, test (numbers of drawn pictures)",
	"data_seed":       "seed of the observed labels (default: the seed)",
	"method":          "loss, for instance an, bce, em, gr, ll-r; all: spml loss list",
	"params":          "parameters of the loss, NAME=NUMBER",
	"preset":          "data set whose published parameters the loss takes: voc, coco, nus, cub (default voc)",
	"form":            "the loss as printed (paper) or as released (code), where they differ from the default",
	"log_eps":         "epsilon inside logarithms, as in the released code (0: exact)",
	"backbone":        "backbone (default mobilenet_v2; small_cnn for shapes); clip: the image tower of the CLIP in --weights",
	"weights":         "file with the backbone's weights, safetensors or .pth (torchvision or timm names)",
	"features":        "with --frozen: .npy files with one feature row per image, joined by commas; or \"data\" for those that the data set holds",
	"strong_features": "the same of a strongly augmented view, for plc",
	"strong_view": "while fine-tuning with plc, lac or ignore, what changes the second view: lac (default: flip, " +
		"Cutout, RandAugment, jitter, grey), lac-paper (no jitter, no grey), crop (flip and crop: colours stay) or ignore " +
		"(default of ignore: flip and three operations of torchvision's RandAugment)",
	"stage_one_lr":    "with lac: learning rate of the first stage (default: the second's)",
	"stage_one_delta": "with lac: δ of the first stage (default 0.6)",
	"pseudo_labels":   ".npy file with 1, 0 and -1 for each image and class, for vlpl and gpr",
	"clip":            "image-text model that makes pseudo-labels while training, file or folder, or builtin (default for shapes)",
	"clip_precision":  "arithmetic of that model: fp32, bf16, fp16 (default fp32)",
	"pseudo_options":  "settings of the labels it makes, NAME=VALUE joined by commas: tau, theta, delta, nu, top_k, grid, overlap, noise, noise_seed, relation, top_u, weight, template, text_features, preprocess",
	"text_features":   ".npy file [classes, width] with that model's embeddings of the classes, in place of prompts",
	"mode":            "fine-tune or frozen",
	"head": "linear, boostlu (linear at each position, positive ones raised), decoder (LAC's label-wise " +
		"decoder), ml-decoder or dualcoop (default linear; decoder for lac)",
	"context":       "with --method dualcoop: learned tokens of each prompt (default 16)",
	"class_context": "with --method dualcoop: contexts of each class its own",
	"boost":         "with --head boostlu: factor of positive positions (default 5)",
	"boost_eval":    "with --head boostlu: train without the factor, score with it",
	"decoder_dim":   "width of a decoder's tokens (default 256; the paper has 2048)",
	"queue_size":    "with lac: pairs of embeddings that are remembered (default 512; -1: none)",
	"stages":        "with lac: 2 = plc first, then lac from its best weights; 1 = end to end (default 2)",
	"stage_one":     "with lac: run directory of the first stage, for runs that share it (default: inside the run's own)",
	"init":          "run directory whose weights to start from, as far as they fit",
	"batch_norm": "while fine-tuning: live statistics, frozen ones, constant (gain and bias too, folded into the " +
		"convolutions), or auto (default)",
	"freeze_at":    "first stages of a ResNet that are not trained: 1 the stem, 2 the stem and layer1 (0: none)",
	"image_size":   "side of the square that images are resized to (default 224; 64 for shapes)",
	"flip":         "mirror training images at random (default when fine-tuning photos)",
	"epochs":       "epochs (default: 4 fine-tuning pretrained weights, 30 from scratch, 25 frozen, 10 shapes)",
	"batch_size":   "images per step (default by mode)",
	"lr":           "learning rate (default by mode)",
	"head_lr":      "learning rate of the classifier (default 10 x lr when fine-tuning pretrained weights, else lr)",
	"seed":         "seed of initialisation and order",
	"latent_dim":   "length of a class's latent in mime and smile (default 256)",
	"optimizer":    "adam, adamw, adamax or sgd (default adam)",
	"weight_decay": "weight decay",
	"momentum":     "momentum of sgd",
	"schedule": "learning rate over the run: constant, cosine, onecycle, linear, polynomial, step or exponential " +
		"(default constant)",
	"warmup_epochs": "epochs over which the learning rate rises at the start",
	"freeze_epochs": "first epochs that train the classifier alone",
	"clip_norm":     "largest norm of the gradient (0: any)",
	"ema":           "decay of a running average of the weights, which is then scored and saved (0: none)",
	"ema_best":      "score the weights beside their average and keep the better",
	"pct_start":     "share of the steps in which onecycle rises (default 0.3)",
	"power":         "exponent of --schedule polynomial, which falls by (1 - share of the run)^power (default 2)",
	"gamma":         "factor of --schedule exponential after each epoch (default 0.9), and of step (default 0.1)",
	"step_epochs":   "epochs between the falls of --schedule step (default a third of the run)",
	"micro_batch":   "images per forward pass, with the gradients of a batch added up (0: the batch)",
	"precision":     "fp32, bf16, or fp16 with a loss scale (default: bf16 on a CPU with AMX, else fp32)",
	"patience":      "stop after this many epochs in a row without a better validation mAP (0: never)",
	"max_drop":      "stop where validation mAP falls more points below the best (0: never)",
	"val_labels":    "labels that validation is scored against: full or single (the observed ones)",
	"no_test":       "leave the test part alone: it is neither scored nor written, as while settings are being chosen",
	"save_every":    "checkpoints beside those at the end of epochs: a time (10m) or steps (500); off: none",
	"keep_last":     "newest checkpoints that are kept (default 2)",
	"keep_best":     "checkpoints of the best epochs that are kept beside them",
	"max_steps":     "stop, resumable, after this many steps (0: none)",
	"run":           "run directory to write (default of train: runs/DATA-METHOD-DATE-TIME; empty: none)",
	"device": "where to compute: auto (a graphics card where there is one, else the CPU), cpu, cuda or cuda:N " +
		"(default auto)",
	"threads":  "threads per operation (0: all cores)",
	"cache_mb": "memory for decoded images in MB (default 4096)",
	"exif": "orientation of photos: apply, or ignore as the papers' loaders do (default: ignore with --preset " +
		"or --recipe, else apply)",
	"max_pixels": "photos of more pixels are left out as broken ones (default 67108864)",
	"cache": "where decoded images are kept: auto (memory, or a file where they do not fit and cache_dir is " +
		"given), memory, file or none",
	"cache_dir":     "folder for a file of decoded images, on a fast disk; the file is gone with the process",
	"cache_file_mb": "largest such file in MB (default: what the images need)",

	"grad_checkpointing": "compute again during backward instead of keeping: none, head (a decoder's layers), all (a ResNet's blocks too) (default none)",

	"class_names": "file with a text for each class, a line each, that stands for the classes in that model's " +
		"prompts; cub: CUB's 312 attributes in words",

	"expected_positives": "positives of an image that epr, role and gpr count on: published (default) or validation, " +
		"the mean of the validation rows' full labels",

	"deterministic": "fail where an operator could give other bits the next time (for cards: CPU runs give the same bits without it)",

	"optimizer_in_backward": "step each parameter as soon as its gradient is there: the same weights in less memory",
}

// LoadConfig reads settings from YAML. A key that does not exist is an error with a guess.
func LoadConfig(path string) (Config, error) {
	m, err := LoadSettings(path)
	if err != nil {
		return Config{}, err
	}
	c, err := FromSettings(m)
	if err != nil {
		return Config{}, &ConfigError{Msg: fmt.Sprintf("%s: %v", path, err)}
	}
	return c, nil
}

// maxSettings bytes are read of a file of settings, which has a few thousand: YAML takes up to a thousand times its
// size in memory.
const maxSettings = 1 << 18

// LoadSettings reads the settings that a YAML file gives, and only those. The file has at most 256 KB.
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
		return nil, &ConfigError{Msg: fmt.Sprintf("%s has more than %d bytes, which no file of settings needs: name the right file", path, maxSettings)}
	}
	var m map[string]any
	if err := yaml.Unmarshal(b, &m); err != nil {
		return nil, &ConfigError{Msg: fmt.Sprintf("%s: %v", path, err)}
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		err := CheckKey(k)
		if err == nil {
			err = notZero(k, m[k] == 0 || m[k] == 0.0)
		}
		if err != nil {
			return nil, &ConfigError{Msg: fmt.Sprintf("%s: %v", path, err)}
		}
	}
	return m, nil
}

// notZero refuses a 0 that somebody wrote for a setting whose 0 would be taken for the default.
func notZero(key string, zero bool) error {
	if zero && slices.Contains([]string{"epochs", "batch_size", "image_size", "lr"}, key) {
		return &ConfigError{Msg: key + " is 0, want more than 0; leave it out for the default"}
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
	return &ConfigError{Msg: fmt.Sprintf("there is no setting %q%s", key, guess)}
}

// FromSettings makes a configuration of keys and values.
func FromSettings(m map[string]any) (Config, error) {
	for k := range m {
		if err := CheckKey(k); err != nil {
			return Config{}, err
		}
	}
	b, err := yaml.Marshal(m)
	if err != nil {
		return Config{}, &ConfigError{Msg: err.Error()}
	}
	var c Config
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && len(m) > 0 {
		return Config{}, &ConfigError{Msg: err.Error()}
	}
	return c, nil
}

// ParseSetting reads the text of a setting as flags and the environment give it.
func ParseSetting(key, text string) (any, error) {
	bad := func(want string) error { return &ConfigError{Msg: fmt.Sprintf("%s is %q, want %s", key, text, want)} }
	if key == "params" {
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
	}
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		if k, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); k != key {
			continue
		}
		f := t.Field(i).Type
		if f.Kind() == reflect.Pointer {
			f = f.Elem()
		}
		switch f.Kind() {
		case reflect.Bool:
			if x, err := strconv.ParseBool(text); err == nil {
				return x, nil
			}
			return nil, bad("true or false")
		case reflect.Int, reflect.Uint32:
			if x, err := strconv.ParseInt(text, 10, 64); err == nil && (f.Kind() == reflect.Int || x >= 0 && x < 1<<32) {
				return x, notZero(key, x == 0)
			}
			return nil, bad("a whole number")
		case reflect.Float64:
			if x, err := strconv.ParseFloat(text, 64); err == nil {
				return x, notZero(key, x == 0)
			}
			return nil, bad("a number")
		}
		return text, nil
	}
	return nil, CheckKey(key)
}

// AsSettings are all settings of a configuration by key.
func (c Config) AsSettings() map[string]any {
	out := map[string]any{}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		out[key] = show(v.Field(i).Interface())
	}
	return out
}
