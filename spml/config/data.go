package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/data/shapes"
)

// Shapes as Data.Path is the data set of drawn pictures that needs no files.
const Shapes = "shapes"

// Sizes of the parts of shapes.
const (
	shapesTrain = 2000
	shapesVal   = 500
	shapesTest  = 1000
)

// Data are the photos and their labels.
type Data struct {
	Path    string      `yaml:"data"`
	Options DataOptions `yaml:"data_options,omitempty"`
	// Seed draws the single positives, and the pictures of shapes; nil: Run.Seed.
	Seed      *uint32 `yaml:"data_seed"`
	ImageSize int     `yaml:"image_size" range:"0 4096"`
	// EXIF says what is done with the orientation of photos. The default is ignore with a Method.DataSet, which stands for
	// a paper's settings, else apply.
	EXIF      string `yaml:"exif"`
	MaxPixels int    `yaml:"max_pixels,omitempty" range:"0 4294967296"`
	Flip      *bool  `yaml:"flip"`
	ValLabels string `yaml:"val_labels"`
	// NoTest leaves the test part alone: it is neither scored nor written.
	NoTest bool  `yaml:"no_test,omitempty"`
	Cache  Cache `yaml:",inline"`
}

// Cache says where decoded images are kept.
type Cache struct {
	MB     int    `yaml:"cache_mb" range:"0 1073741824"`
	Kind   string `yaml:"cache,omitempty"`
	Dir    string `yaml:"cache_dir,omitempty"`
	FileMB int    `yaml:"cache_file_mb,omitempty" range:"0 1073741824"`
}

// DataOptions are the choices of a data set: those of files, of which Seed is Data's, and the numbers of drawn
// pictures.
// Its text is NAME=VALUE joined by commas, with the names of data.OptionNames and train, val, test.
type DataOptions struct {
	data.Options     `yaml:"-"`
	ClassesFile      string // with the class names, a line each, in place of Classes
	Train, Val, Test int    // pictures of shapes; 0 = 2000, 500, 1000
}

const shapesWant = "data options %.100q: shapes takes train=N, val=N and test=N, numbers of drawn " +
	"pictures, and groups=FILE"

// parts are the numbers of shapes' pictures by name.
func (o *DataOptions) parts() map[string]*int {
	return map[string]*int{"train": &o.Train, "val": &o.Val, "test": &o.Test}
}

// UnmarshalText reads the text form.
func (o *DataOptions) UnmarshalText(text []byte) error {
	*o = DataOptions{}
	if len(text) == 0 {
		return nil
	}
	if err := checkText("data_options", string(text), mostList); err != nil {
		return err
	}
	for part := range strings.SplitSeq(string(text), ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return wrong("data options %.100q: want NAME=VALUE, for instance missing=skip", part)
		}
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if n := o.parts()[name]; n != nil {
			var err error
			if *n, err = strconv.Atoi(value); err != nil || *n < 1 {
				return wrong(shapesWant, part)
			}
			continue
		}
		if name == "classes" { // read where the data set is opened
			o.ClassesFile = value
			continue
		}
		if err := o.Assign(name, value); err != nil {
			return wrong("%v", err)
		}
	}
	return nil
}

// pairs are the options of files that are set, in the order of data.OptionNames.
func (o DataOptions) pairs() (all []string) {
	values := map[string]string{
		"format": o.Format, "set": o.Set, "images": o.Images,
		"classes": o.ClassesFile, "groups": o.Groups,
		"labels": string(o.Labels),
		"difficult": string(
			o.Difficult,
		), "empty": string(o.Empty), "missing": string(o.Missing), "unknown": string(o.Unknown),
	}
	if o.NoValidation {
		values["no-validation"] = "true"
	}
	for _, n := range data.OptionNames {
		if v := values[n.Name]; v != "" {
			all = append(all, n.Name+"="+v)
		}
	}
	return all
}

// String is the text form.
func (o DataOptions) String() string {
	all := o.pairs()
	for _, name := range []string{"train", "val", "test"} {
		if n := *o.parts()[name]; n != 0 {
			all = append(all, fmt.Sprintf("%s=%d", name, n))
		}
	}
	return strings.Join(all, ",")
}

// MarshalText is String, for files.
func (o DataOptions) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// check refuses options that the data set does not have.
func (d *Data) check() error {
	o := &d.Options
	if d.Path == "" {
		return wrong("no data set; give --data FOLDER (what can be read: spml data formats) or --data shapes")
	}
	if d.Path == Shapes {
		for _, option := range o.pairs() {
			if !strings.HasPrefix(option, "groups=") {
				return wrong(shapesWant, option)
			}
		}
		for name, n := range o.parts() {
			if *n < 0 {
				return wrong(shapesWant, fmt.Sprintf("%s=%d", name, *n))
			}
		}
		return nil
	}
	_, err := o.Files()
	return err
}

// Files are the choices of data.Open.
func (o DataOptions) Files() (data.Options, error) {
	files := o.Options
	for _, name := range []string{"train", "val", "test"} {
		if *o.parts()[name] != 0 {
			return files, wrong("%v", files.Assign(name, ""))
		}
	}
	if o.ClassesFile != "" {
		if err := files.Assign("classes", o.ClassesFile); err != nil {
			return files, wrong("%v", err)
		}
	}
	if err := files.Assign("set", files.Set); err != nil { // checks the rules, whoever wrote them
		return files, wrong("%v", err)
	}
	return files, nil
}

// Open opens the data set of resolved settings: drawn shapes, or files of any format that data.Open reads. The classes
// of files are looked for by name where they are given. The caller closes it.
func (d Data) Open(classes ...string) (*data.Dataset, error) {
	var seed uint32
	if d.Seed != nil {
		seed = *d.Seed
	}
	if d.Path == Shapes {
		n := [3]int{d.Options.Train, d.Options.Val, d.Options.Test}
		for i, usual := range []int{shapesTrain, shapesVal, shapesTest} {
			def(&n[i], usual)
		}
		ds, err := shapes.New(uint64(seed), n[0], n[1], n[2])
		if err != nil {
			return nil, err
		}
		if d.Options.Groups != "" {
			if ds.Groups, err = data.ReadGroups(d.Options.Groups, ds.Images); err != nil {
				return nil, err
			}
		}
		return ds.WithSinglePositives(seed)
	}
	o, err := d.Options.Files()
	if err != nil {
		return nil, err
	}
	o.Seed = seed
	if classes != nil {
		o.Classes = classes
	}
	return data.Open(d.Path, o)
}

// Pixels are the options that photos are decoded with.
func (d Data) Pixels() pixel.Options {
	return pixel.Options{ApplyEXIF: d.EXIF == pixel.EXIFApply, MaxPixels: int64(d.MaxPixels)}
}

func (d *Data) resolveEXIF(papers bool) error {
	if d.EXIF == "" {
		d.EXIF = pixel.EXIFApply
		if papers {
			d.EXIF = pixel.EXIFIgnore
		}
	}
	if _, err := pixel.ParseEXIF(d.EXIF); err != nil {
		return wrong("%v", err)
	}
	return nil
}

func (d *Data) resolve(c *Config) error {
	frozen := c.Model.Mode == Frozen
	if d.Flip == nil {
		d.Flip = new(bool)
		*d.Flip = !frozen && d.Path != Shapes
	}
	if *d.Flip && frozen {
		return wrong("images cannot be mirrored with --frozen: every image has one stored feature row")
	}
	if d.Seed == nil {
		s := c.Run.Seed
		d.Seed = &s
	}
	def(&d.Cache.MB, 4096)
	def(&d.ValLabels, "full")
	return oneOf("val_labels", d.ValLabels, "full", "single")
}

func (c *Cache) check() error {
	switch data.CacheKind(c.Kind) {
	case "", data.CacheAuto, data.CacheMemory, data.CacheNone:
	case data.CacheFile:
		if c.Dir == "" {
			return wrong("cache file needs a folder: give --cache-dir")
		}
	default:
		return wrong("cache %q is none of auto, memory, file, none", c.Kind)
	}
	return nil
}

// oneOf refuses a value that is none of a setting's.
func oneOf(name, v string, of ...string) error {
	if !slices.Contains(of, v) {
		return wrong("%s %q is none of %s", name, v, strings.Join(of, ", "))
	}
	return nil
}
