package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options are the choices of [Open]. The zero value is usable.
type Options struct {
	Format string // name of one of [Formats]; "": found by content
	Set    string // which one, where a folder holds several sets: the part of the names before _train, _val; for VOCdevkit the year's folder
	Seed   uint32 // draws the observed labels where none are given

	Images  string   // folder of the photos; "": where the format keeps them
	Classes []string // class names in column order; nil: the files' own. Labels of other classes: see Unknown

	Labels    LabelRule     // whether lists of positives are complete
	Difficult DifficultRule // VOC: what an object marked difficult is
	Empty     EmptyRule     // images without any label
	Missing   MissingRule   // photos that do not exist
	Unknown   UnknownRule   // labels that are not in Classes

	NoValidation bool // draw no validation rows where the files name none

	Groups string // CSV file with the columns filename and group: which images share labels
}

// LabelRule says how a list of an image's positive labels is read where the format leaves it open.
type LabelRule string

// "" is by format and content; [Info] says what was chosen.
const (
	LabelsFull     LabelRule = "full"     // complete: what is not named is absent
	LabelsObserved LabelRule = "observed" // what training may see: what is not named is unknown
)

// DifficultRule says what a VOC object marked difficult makes of its class where no other object of it is in the image.
type DifficultRule string

// "" is DifficultNegative, the rule of the SPML papers.
const (
	DifficultNegative DifficultRule = "negative"
	DifficultPositive DifficultRule = "positive"
	DifficultUnknown  DifficultRule = "unknown" // the row's full labels are then incomplete: only observed ones are given
)

// EmptyRule says what becomes of images without a positive label.
type EmptyRule string

// "" is EmptyDrop for the official VOC and COCO files, as in the papers, else EmptyKeep.
const (
	EmptyKeep EmptyRule = "keep"
	EmptyDrop EmptyRule = "drop"
)

// MissingRule says what becomes of rows whose photo does not exist.
type MissingRule string

// "" is MissingRefuse.
const (
	MissingRefuse MissingRule = "refuse" // an error that names the first
	MissingSkip   MissingRule = "skip"   // leave the rows out, after labels and split were drawn
	MissingKeep   MissingRule = "keep"   // keep the rows; reading them fails
)

// UnknownRule says what becomes of labels outside of Options.Classes or of the format's own class list.
type UnknownRule string

// "" is UnknownRefuse.
const (
	UnknownRefuse UnknownRule = "refuse"
	UnknownIgnore UnknownRule = "ignore"
)

func (o *Options) check() error {
	for _, c := range []struct {
		what, given string
		allowed     []string
	}{
		{"labels", string(o.Labels), []string{"", string(LabelsFull), string(LabelsObserved)}},
		{"difficult", string(o.Difficult), []string{"", string(DifficultNegative), string(DifficultPositive), string(DifficultUnknown)}},
		{"empty", string(o.Empty), []string{"", string(EmptyKeep), string(EmptyDrop)}},
		{"missing", string(o.Missing), []string{"", string(MissingRefuse), string(MissingSkip), string(MissingKeep)}},
		{"unknown", string(o.Unknown), []string{"", string(UnknownRefuse), string(UnknownIgnore)}},
	} {
		if !slices.Contains(c.allowed, c.given) {
			return fmt.Errorf("data: option %s: %q is no choice; choose from %s", c.what, c.given, strings.Join(c.allowed[1:], ", "))
		}
	}
	return nil
}

// OptionNames are the options that [Options.Assign] knows, each with what it takes.
var OptionNames = []struct{ Name, Takes string }{
	{"format", "name of a format; default: found by content"},
	{"set", "which set of a folder that holds several"},
	{"images", "folder of the photos"},
	{"classes", "file with a class name a line"},
	{"labels", "full or observed: what a list of positives is"},
	{"difficult", "negative, positive or unknown: VOC's difficult objects"},
	{"empty", "keep or drop: images without a label"},
	{"missing", "refuse, skip or keep: rows whose photo does not exist"},
	{"unknown", "refuse or ignore: labels outside of the classes"},
	{"no-validation", "true: draw no validation rows"},
	{"groups", "CSV file with the columns filename and group: which photos share labels"},
}

// Assign sets an option by its name in [OptionNames], for command lines and settings files.
func (o *Options) Assign(name, value string) error {
	switch name {
	case "format":
		if value != "" {
			if _, err := lookupFormat(value); err != nil {
				return err
			}
		}
		o.Format = value
	case "set":
		o.Set = value
	case "images":
		o.Images = value
	case "classes":
		f, err := os.Open(value)
		if err != nil {
			return fmt.Errorf("data: cannot read the classes: %w", err)
		}
		defer f.Close()
		o.Classes = []string{}
		return eachLine(f, value, func(_ int, text string) error {
			o.Classes = append(o.Classes, strings.TrimSpace(text))
			return nil
		})
	case "labels":
		o.Labels = LabelRule(value)
	case "difficult":
		o.Difficult = DifficultRule(value)
	case "empty":
		o.Empty = EmptyRule(value)
	case "missing":
		o.Missing = MissingRule(value)
	case "unknown":
		o.Unknown = UnknownRule(value)
	case "groups":
		o.Groups = value
	case "no-validation":
		o.NoValidation = value == "true" || value == "1" || value == ""
	default:
		var names []string
		for _, n := range OptionNames {
			names = append(names, n.Name)
		}
		return fmt.Errorf("data: %q is no option of data sets; there are %s", name, strings.Join(names, ", "))
	}
	return o.check()
}

// Format is a way in which data sets are stored.
type Format struct {
	Name  string // as in Options.Format
	Title string
	Holds string // the files, in a line
	// sniff returns how sure it is that the tree is of this format: 0 not at all, else the more the larger.
	sniff func(t *tree) int
	open  func(t *tree, o Options) (*Dataset, error)
	write *writer // nil where the format is only read
}

// Writes reports whether [Write] can write the format.
func (f Format) Writes() bool { return f.write != nil }

// formats is the registry, in the order in which equal certainty is decided: ours, then those that RegisterFormat
// added.
func formats() []Format {
	ours := builtinFormats()
	added.RLock()
	defer added.RUnlock()
	return append(ours, added.formats...)
}

func builtinFormats() []Format {
	return []Format{
		csvFormat(), coleFormat(), vocFormat(), cocoFormat(), cubFormat(), cubTSVFormat(), nusFormat(), spmlFormat(), jsonlFormat(), labelStudioFormat(),
		fiftyOneFormat(), webDatasetFormat(), arffFormat(), featuresFormat(), yoloFormat(), boxListFormat(), folderFormat(),
	}
}

// Formats lists what [Open] reads.
func Formats() []Format { return formats() }

func lookupFormat(name string) (Format, error) {
	var names []string
	for _, f := range formats() {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("data: %q is no format of data sets; choose from %s", name, strings.Join(names, ", "))
}

// Detect returns the formats that the files at path may be of, the surest first.
func Detect(path string) ([]Format, error) {
	t, _, err := openAt(path, Options{})
	if err != nil {
		return nil, err
	}
	defer t.close()
	return t.detect(), nil
}

func (t *tree) detect() []Format {
	type found struct {
		Format
		sure int
	}
	var all []found
	for _, f := range formats() {
		if n := f.sniff(t); n > 0 {
			all = append(all, found{f, n})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return b.sure - a.sure })
	out := make([]Format, len(all))
	for i, f := range all {
		out[i] = f.Format
	}
	return out
}

// openAt opens the tree. A path that does not exist may be a folder and the name of one of its sets: labels/voc for
// labels/voc_train.txt.
func openAt(path string, o Options) (*tree, Options, error) {
	t, err := openTree(path)
	if err == nil || o.Set != "" || !os.IsNotExist(unwrapAll(err)) {
		return t, o, err
	}
	parent, set := filepath.Split(filepath.Clean(path))
	if parent == "" {
		parent = "."
	}
	p, perr := openTree(parent)
	if perr != nil {
		return nil, o, err
	}
	for _, suffix := range []string{"_*.txt", "_*.npy", "-*.arff", "_*.tsv", "-*.tar"} {
		if len(p.files(".", escapePattern(set)+suffix)) > 0 {
			p.name, o.Set = set, set
			return p, o, nil
		}
	}
	p.close()
	return nil, o, err
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || u.Unwrap() == nil {
			return err
		}
		if os.IsNotExist(err) {
			return err
		}
		err = u.Unwrap()
	}
}

// escapePattern makes a name safe inside a pattern of [path.Match].
func escapePattern(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}

// Open opens a data set of any of the [Formats]: a folder, a file, or a folder and the name of a set in it. What was
// understood is in [Dataset.Info].
//
// Where nothing else is given, what is absent is made as the papers do:
//   - Observed labels: one positive of each row, drawn with the seed over the rows of train and val in order, and afresh over those of test
//     (Cole et al. draw so; a CSV folder draws over all rows, see [OpenCSV]).
//   - Validation rows: 20 % of the train rows with [random.SplitSeed], where their full labels are known. Where the files name no parts at all, 20 % of all rows become test before.
//
// Wrong files give a [*FormatError] that names file and line. Names that leave the data set's folder (.., absolute,
// NUL, links) are refused in every format. Photos are not decoded here. The caller closes the Dataset.
func Open(path string, o Options) (*Dataset, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	t, o, err := openAt(path, o)
	if err != nil {
		return nil, err
	}
	defer func() { t.close() }()
	if t.has(stageFolder + "/" + stageSet) {
		return nil, formatError(t.name, 0, "%s holds a conversion that has not ended: run it again, which ends it, or choose another data set", t.dir)
	}
	var f Format
	if o.Format != "" {
		if f, err = lookupFormat(o.Format); err != nil {
			return nil, err
		}
	} else {
		found := t.detect()
		if len(found) == 0 {
			return nil, formatError(t.name, 0, "%s is no data set that is known here. Known are: %s", path, knownFormats())
		}
		f = found[0]
	}
	d, err := f.open(t, o)
	if err != nil {
		return nil, err
	}
	d.Info.Format = f.Name
	if o.Groups != "" {
		if d.Groups, err = ReadGroups(o.Groups, d.Images); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return d, nil
}

func knownFormats() string {
	var b strings.Builder
	for _, f := range formats() {
		fmt.Fprintf(&b, "\n  %-14s %s: %s", f.Name, f.Title, f.Holds)
	}
	return b.String()
}
