package train

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/spml/backbone"
	"github.com/gospml/gospml/spml/internal/fault"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
)

// Ways of training.
const (
	FineTune = "fine-tune" // backbone and head
	Frozen   = "frozen"    // a linear head on features that are computed once
)

// What batch normalisation does while a backbone is fine-tuned.
const (
	BatchNormAuto   = "auto"   // frozen where the weights have it folded in, else live
	BatchNormLive   = "live"   // batch statistics, as PyTorch's train()
	BatchNormFrozen = "frozen" // running statistics; gain and bias are trained
	// BatchNormConstant keeps gain and bias too (torchvision's FrozenBatchNorm2d) and folds them into the convolutions.
	BatchNormConstant = "constant"
)

// OwnFeatures as Config.Features are the features that the data set itself holds.
const OwnFeatures = "data"

// Config are the settings of a run. The zero value of a field means its default, which Resolve fills in.
type Config struct {
	Data string `yaml:"data"` // a data set in any format of data.Open, or "shapes"
	// DataOptions are the choices of data.Open by name (data.OptionNames), NAME=VALUE joined by commas:
	// missing=skip,images=photos; of shapes the pictures of each part: train=2000,val=500,test=1000
	DataOptions string  `yaml:"data_options,omitempty"`
	DataSeed    *uint32 `yaml:"data_seed"` // draw of the single positives, and the pictures of shapes; default Seed
	Method      string  `yaml:"method"`    // id of the loss
	// Params override the loss's parameters.
	Params map[string]float64 `yaml:"params,omitempty"`
	Preset string             `yaml:"preset"`         // data set whose defaults the parameters take: voc, coco, nus, cub
	Form   string             `yaml:"form,omitempty"` // paper or code: the loss as printed or as released, where they differ from the default
	LogEps float64            `yaml:"log_eps"`

	Backbone string `yaml:"backbone"`
	Weights  string `yaml:"weights,omitempty"` // safetensors with the backbone's weights; empty = from scratch
	// Features are "data" for the features that the data set itself holds (a table, an array), else .npy files with a row
	// of features for each image, for Frozen; several are joined by commas. A .txt file of the same name beside one, an
	// image name a line, says which rows they are; without it they are the data set's, in its order.
	Features string `yaml:"features,omitempty"`
	// StrongFeatures are the same of a strongly augmented view, for methods that compare two.
	StrongFeatures string `yaml:"strong_features,omitempty"`
	// StrongView is how such methods change the second view of a photo while fine-tuning; one of StrongViews.
	StrongView string `yaml:"strong_view,omitempty"`
	// PseudoLabels is an .npy file [N, C] with 1, 0 and -1 in the order of the data set, for methods whose pseudo-labels
	// come from elsewhere.
	PseudoLabels string `yaml:"pseudo_labels,omitempty"`
	// Clip is the image-text model that makes pseudo-labels for each batch instead: a file or folder, or "builtin".
	// PseudoOptions are settings of the labeller by name (vlm.OptionNames), NAME=VALUE joined by commas, over those of
	// Preset and Form.
	Clip          string `yaml:"clip,omitempty"`
	ClipPrecision string `yaml:"clip_precision,omitempty"` // fp32, bf16, fp16
	PseudoOptions string `yaml:"pseudo_options,omitempty"`
	// TextFeatures is an .npy file [C, E] with that model's embeddings of the classes, in place of prompts.
	TextFeatures string `yaml:"text_features,omitempty"`
	// ClassNames is what stands for the classes in that model's prompts: a file with a text for each, or "cub"
	// (vlm.ReadNames).
	ClassNames string `yaml:"class_names,omitempty"`
	// Expected says where the mean number of positives of an image comes from, for the methods that count on it (epr,
	// role, gpr) and unless Params give it: published, the papers' number for Preset, or validation, the mean of the
	// validation rows' full labels.
	Expected string `yaml:"expected_positives,omitempty"`
	Mode     string `yaml:"mode"`
	// Head is what looks at the backbone's feature map: linear (the mean of it), boostlu (linear at each position, with
	// positive ones raised before the mean), decoder (LAC's label-wise decoder) or ml-decoder.
	Head string `yaml:"head"`
	// Context is the length of dualcoop's learned contexts, 16 by default; ClassContext gives each class its own.
	Context      int  `yaml:"context,omitempty"`
	ClassContext bool `yaml:"class_context,omitempty"`
	// Boost is the factor of positive positions of class maps, of --head boostlu; 5 by default. With BoostEval it applies
	// when the model is used, not while it is trained.
	Boost      float64 `yaml:"boost,omitempty"`
	BoostEval  bool    `yaml:"boost_eval,omitempty"`
	DecoderDim int     `yaml:"decoder_dim,omitempty"` // width of a decoder's tokens; 256 by default, 2048 in the paper
	// of lac: pairs of embeddings that are remembered; 512 by default, -1 = none
	QueueSize int `yaml:"queue_size,omitempty"`
	// Stages 2 trains lac in two stages: plc first, whose best weights the second stage starts from. 2 is lac's default, 1
	// trains it end to end.
	Stages int `yaml:"stages,omitempty"`
	// StageOne is the run directory of the first of two stages, which several runs may share; by default stage1 inside the
	// run's own. What is done there is not done again.
	StageOne string `yaml:"stage_one,omitempty"`
	// StageOneDelta is the first stage's δ; 0 = plc's default. Params hold the second one's. StageOneLR is its learning
	// rate; 0 = LR.
	StageOneDelta float64 `yaml:"stage_one_delta,omitempty"`
	StageOneLR    float64 `yaml:"stage_one_lr,omitempty"`
	// Init is a run directory (or its model folder) whose weights the run starts from, as far as names and shapes fit.
	Init      string `yaml:"init,omitempty"`
	BatchNorm string `yaml:"batch_norm"`
	FreezeAt  int    `yaml:"freeze_at,omitempty"` // first stages of a ResNet that are not trained: 1 the stem, 2 the stem and layer1
	// GradCheckpointing trades time for memory: head computes a decoder's layers again during backward.
	GradCheckpointing string `yaml:"grad_checkpointing,omitempty"`
	// OptimizerInBackward steps each parameter as soon as its gradient is there, so that all gradients never lie in memory
	// at once (optim.InBackward).
	OptimizerInBackward bool `yaml:"optimizer_in_backward,omitempty"`
	// Deterministic makes operators fail that may give other bits the next time (torch.SetDeterministic,
	// torch.SetCuDNNDeterministic). It holds for the whole process and stays on. CPU runs give the same bits without it.
	Deterministic bool `yaml:"deterministic,omitempty"`
	ImageSize     int  `yaml:"image_size"`
	// EXIF says what is done with the orientation of photos: apply, or ignore as the papers' loaders do. The default is
	// ignore with a Preset, which stands for a paper's settings, else apply.
	EXIF      string `yaml:"exif"`
	MaxPixels int    `yaml:"max_pixels,omitempty"` // larger photos are left out as broken ones; 0 = pixel.DefaultMaxPixels
	Flip      *bool  `yaml:"flip"`                 // mirror training images with probability 0.5; default true for FineTune

	Epochs    int     `yaml:"epochs"`
	BatchSize int     `yaml:"batch_size"`
	LR        float64 `yaml:"lr"`      // of the backbone, and of the head unless HeadLR is set
	HeadLR    float64 `yaml:"head_lr"` // default: LR, or 10·LR for a pretrained backbone
	Seed      uint32  `yaml:"seed"`
	LatentDim int     `yaml:"latent_dim,omitempty"` // length of a class's latent, for the methods that have one

	Optimizer    string  `yaml:"optimizer"` // adam, adamw, adamax, sgd
	WeightDecay  float64 `yaml:"weight_decay,omitempty"`
	Momentum     float64 `yaml:"momentum,omitempty"`      // of sgd
	Schedule     string  `yaml:"schedule"`                // constant, cosine, onecycle, linear, polynomial, step, exponential: the learning rate over the run
	WarmupEpochs float64 `yaml:"warmup_epochs,omitempty"` // the learning rate rises linearly over this many epochs first
	FreezeEpochs int     `yaml:"freeze_epochs,omitempty"` // first epochs that train the head alone
	ClipNorm     float64 `yaml:"clip_norm,omitempty"`     // largest norm of the gradient; 0 = any
	EMA          float64 `yaml:"ema,omitempty"`           // decay of a running average of the weights, which is then scored and saved; 0 = none
	EMABest      bool    `yaml:"ema_best,omitempty"`      // score the weights beside their average, and keep whichever is better
	PctStart     float64 `yaml:"pct_start,omitempty"`     // share of the steps in which onecycle rises; 0.3 by default
	Power        float64 `yaml:"power,omitempty"`         // of polynomial; 2 by default
	Gamma        float64 `yaml:"gamma,omitempty"`         // factor of exponential, after each epoch (0.9 by default), and of step (0.1)
	StepEpochs   int     `yaml:"step_epochs,omitempty"`   // epochs between the steps of step; a third of the run by default
	MicroBatch   int     `yaml:"micro_batch,omitempty"`   // images per forward pass; 0 = the batch. The step stays that of the whole batch
	Precision    string  `yaml:"precision"`               // fp32, bf16, fp16; by default what the processor is made for (defaultPrecision)
	Patience     int     `yaml:"patience,omitempty"`      // stop after this many epochs in a row without a better validation mAP; 0 = never
	MaxDrop      float64 `yaml:"max_drop,omitempty"`      // stop where validation mAP falls more points below the best; 0 = never
	ValLabels    string  `yaml:"val_labels"`              // full or single: what validation is scored against
	NoTest       bool    `yaml:"no_test,omitempty"`       // leave the test part alone: it is neither scored nor written
	SaveEvery    string  `yaml:"save_every,omitempty"`    // checkpoints: a time (10m), or steps (500); every epoch ends with one too. "off" = none
	KeepLast     int     `yaml:"keep_last,omitempty"`     // newest checkpoints that are kept, 2 by default
	KeepBest     int     `yaml:"keep_best,omitempty"`     // checkpoints of the best epochs that are kept beside them
	MaxSteps     int     `yaml:"max_steps,omitempty"`     // budget: stop, resumable, after this many steps; 0 = none

	Run string `yaml:"run,omitempty"` // run directory; empty = nothing is written
	// Device is where the run computes: auto (a graphics card where there is one, else the CPU), cpu, cuda (with a
	// launcher the process's own card) or cuda:N.
	Device  string `yaml:"device,omitempty"`
	Threads int    `yaml:"threads"`  // intra-op threads; 0 = libtorch's choice
	CacheMB int    `yaml:"cache_mb"` // memory for decoded images
	// Where decoded images are kept: auto (memory where they fit into CacheMB, else a file in CacheDir if that is given),
	// memory, file or none.
	Cache       string `yaml:"cache,omitempty"`
	CacheDir    string `yaml:"cache_dir,omitempty"`     // folder for a cache file, on a fast disk
	CacheFileMB int    `yaml:"cache_file_mb,omitempty"` // largest cache file; 0 = what the images need
}

// Resolve returns the settings with every default filled in, or says which one is wrong.
func (c Config) Resolve() (Config, error) {
	fail := func(format string, a ...any) (Config, error) {
		return Config{}, &ConfigError{Msg: fmt.Sprintf(format, a...)}
	}
	if err := c.checkBounds(); err != nil {
		return Config{}, err
	}
	if c.Data == "" {
		return fail("no data set; give --data FOLDER (what can be read: spml data formats) or --data shapes")
	}
	if _, err := c.dataOptions(); err != nil {
		return Config{}, err
	}
	if err := c.resolveClip(); err != nil {
		return Config{}, err
	}
	if c.Method == "" {
		return fail("no method; give --method, one of %s", methodNames())
	}
	m, err := method.Lookup(c.Method)
	if err != nil {
		return fail("%v", strings.TrimPrefix(err.Error(), "loss: "))
	}
	e := m.Loss
	c.Method = e.ID
	if lacks := m.Lacks(); lacks != "" {
		return fail("%s needs %s, which the trainer does not provide; it trains %s", e.ID, lacks, methodNames())
	}
	if e.Needs&loss.StrongView != 0 && c.StrongFeatures == "" && c.Mode == Frozen {
		return fail("%s compares two views of an image; with --frozen give --strong-features FILE.npy, the features of strongly augmented images", e.ID)
	}
	if m.FeaturesOnly != "" && c.Mode != Frozen {
		return fail("%s %s; add --frozen", m.ID, m.FeaturesOnly)
	}
	if _, err := e.Resolve(c.Preset, c.Params); err != nil {
		return fail("%v", strings.TrimPrefix(err.Error(), "loss: "))
	}
	if c.EXIF == "" {
		c.EXIF = pixel.EXIFApply
		if c.Preset != "" {
			c.EXIF = pixel.EXIFIgnore
		}
	}
	if _, err := pixel.ParseEXIF(c.EXIF); err != nil {
		return fail("%v", err)
	}
	def(&c.Preset, "voc")
	shapes := c.Data == ShapesName
	if shapes && c.Backbone == "" && c.Weights == "" {
		c.Backbone = "small_cnn"
	}
	def(&c.Backbone, "mobilenet_v2")
	if !knownBackbone(c.Backbone) {
		return fail("no backbone is called %q; there are %s and %s", c.Backbone, strings.Join(backbone.Names(), ", "), BackboneClip)
	}
	def(&c.Mode, FineTune)
	pretrained := c.Weights != ""
	switch c.Mode {
	case FineTune:
		if c.Features != "" {
			return fail("features are for --frozen; fine-tuning reads the images")
		}
	case Frozen:
		if !pretrained && c.Features == "" {
			return fail("--frozen needs --weights FILE, --features FILE.npy with stored features, or --features data for those of the data set")
		}
	default:
		return fail("mode %q is none of %s, %s", c.Mode, FineTune, Frozen)
	}
	def(&c.BatchNorm, BatchNormAuto)
	if !slices.Contains([]string{BatchNormAuto, BatchNormLive, BatchNormFrozen, BatchNormConstant}, c.BatchNorm) {
		return fail("batch_norm %q is none of auto, live, frozen, constant", c.BatchNorm)
	}
	frozen := c.Mode == Frozen
	switch {
	case shapes && c.Backbone == "small_cnn":
		def(&c.ImageSize, 64)
		def(&c.Epochs, 10)
		def(&c.BatchSize, 64)
		def(&c.LR, 3e-3)
	case frozen:
		def(&c.ImageSize, 224)
		def(&c.Epochs, 25)
		def(&c.BatchSize, 16)
		def(&c.LR, 1e-3)
	case pretrained:
		def(&c.ImageSize, 224)
		def(&c.Epochs, 4)
		def(&c.BatchSize, 32)
		def(&c.LR, 1e-4)
		def(&c.HeadLR, 10*c.LR)
	default:
		def(&c.ImageSize, 224)
		def(&c.Epochs, 30)
		def(&c.BatchSize, 32)
		def(&c.LR, 1e-3)
	}
	def(&c.HeadLR, c.LR)
	if c.Flip == nil {
		c.Flip = new(bool)
		*c.Flip = !frozen && !shapes
	}
	if *c.Flip && frozen {
		return fail("images cannot be mirrored with --frozen: every image has one stored feature row")
	}
	if c.DataSeed == nil {
		s := c.Seed
		c.DataSeed = &s
	}
	def(&c.CacheMB, 4096)
	for _, n := range []struct {
		name string
		v    float64
	}{{"epochs", float64(c.Epochs)}, {"batch_size", float64(c.BatchSize)}, {"image_size", float64(c.ImageSize)}, {"lr", c.LR}, {"head_lr", c.HeadLR}} {
		if !(n.v > 0) {
			return fail("%s is %v, want more than 0", n.name, n.v)
		}
	}
	if err := c.checkBatch(); err != nil {
		return Config{}, err
	}
	if err := c.resolvePseudo(e); err != nil {
		return Config{}, err
	}
	if err := c.resolveHead(m); err != nil {
		return Config{}, err
	}
	if err := c.resolveTraining(e); err != nil {
		return Config{}, err
	}
	switch data.CacheKind(c.Cache) {
	case "", data.CacheAuto, data.CacheMemory, data.CacheNone:
	case data.CacheFile:
		if c.CacheDir == "" {
			return fail("cache file needs a folder: give --cache-dir")
		}
	default:
		return fail("cache %q is none of auto, memory, file, none", c.Cache)
	}
	if c.LogEps < 0 || c.LogEps >= 1 {
		return fail("log_eps is %v, want 0 (exact) or a small positive number", c.LogEps)
	}
	return c, nil
}

// Pixels are the options that the run's photos are decoded with.
func (c Config) Pixels() pixel.Options {
	return pixel.Options{ApplyEXIF: c.EXIF == pixel.EXIFApply, MaxPixels: int64(c.MaxPixels)}
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// ConfigError says which setting is wrong.
type ConfigError = fault.Setting

// absolute makes the paths independent of the working folder, for run.yaml.
func (c Config) absolute() (Config, error) {
	for _, p := range []*string{&c.Data, &c.Weights, &c.Features, &c.StrongFeatures, &c.PseudoLabels, &c.Clip,
		&c.TextFeatures, &c.ClassNames, &c.Init, &c.StageOne, &c.Run, &c.CacheDir} {
		if *p == "" || p == &c.ClassNames && *p == "cub" || (p == &c.Clip || p == &c.Weights) && *p == BuiltinClip ||
			p == &c.Data && *p == ShapesName || p == &c.Features && *p == OwnFeatures {
			continue
		}
		parts := []string{*p}
		if p == &c.Features || p == &c.StrongFeatures {
			parts = strings.Split(*p, ",")
		}
		for i, name := range parts {
			a, err := filepath.Abs(name)
			if err != nil {
				return c, err
			}
			parts[i] = a
		}
		*p = strings.Join(parts, ",")
	}
	var err error
	if c.PseudoOptions, err = absoluteOptions(c.PseudoOptions); err != nil {
		return c, err
	}
	var options []string
	for part := range strings.SplitSeq(c.DataOptions, ",") {
		name, value, _ := strings.Cut(part, "=")
		if (name == "images" || name == "classes" || name == "groups") && value != "" {
			a, err := filepath.Abs(value)
			if err != nil {
				return c, err
			}
			part = name + "=" + a
		}
		options = append(options, part)
	}
	c.DataOptions = strings.Join(options, ",")
	return c, nil
}
