package command

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/journal"
	"github.com/gospml/gospml/internal/onewriter"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/vlm"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// extras are the tensors that are written on request.
var extras = []string{"patch_tokens", "pixel_values", "input_ids"}

type encodeFlags struct {
	pixels                             photoFlags
	load                               loadFlags
	model, texts, inputs, size, dtype  string
	preprocess, out, progress          string
	images, with                       []string
	patchTokens, pixelValues, inputIDs bool
	batch                              int
}

func newClipEncode() *cobra.Command {
	var o encodeFlags
	cmd := &cobra.Command{
		Use:   "encode --model MODEL [--images DIR|FILE,…] [--texts FILE] [--inputs FILE.safetensors] --out OUT.safetensors",
		Short: "Embeddings of pictures and texts",
		Long: `Writes embeddings as float32 tensors: image_features, text_features, both also as *_normalised, and logits_per_image where there are pictures and texts;
patch_tokens, pixel_values and input_ids with --with. Rows keep the order of the pictures (a folder's in the order of their
names) and texts; the names are in the file's metadata. An interrupted run goes on where it was when it is started again.

  spml clip encode --model ViT-B-16.pt --images photos --texts captions.json --out features.safetensors
  spml clip encode --model clip_tiny --inputs inputs.safetensors --with patch_tokens --out out.safetensors`,
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	o.load.add(cmd)
	o.load.addDevice(cmd)
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "", "folder or file of a CLIP (default: the small built-in one, which knows drawn shapes only)")
	f.StringSliceVar(&o.images, "images", nil, "folders and files; further arguments count too")
	f.StringVar(&o.texts, "texts", "", "file with a JSON array of strings, or a text a line")
	f.StringVar(&o.inputs, "inputs", "", "safetensors file with pixel_values and/or input_ids instead")
	f.StringVar(&o.size, "image-size", "", "N or HxW instead of the model's; position embeddings are resized")
	f.StringVar(&o.dtype, "dtype", "float32", "arithmetic: float32, bfloat16, float16")
	f.StringVar(&o.preprocess, "preprocess", "", "instead of the model's: "+strings.Join(clip.Variants(), ", "))
	f.StringSliceVar(&o.with, "with", nil, "also write "+strings.Join(extras, ", "))
	f.BoolVar(&o.patchTokens, "patch-tokens", false, "the same as --with patch_tokens")
	f.BoolVar(&o.pixelValues, "pixel-values", false, "the same as --with pixel_values")
	f.BoolVar(&o.inputIDs, "input-ids", false, "the same as --with input_ids")
	f.IntVar(&o.batch, "batch", 0, "pictures or texts at a time (0: 32)")
	o.pixels.add(f, pixel.EXIFApply, "")
	f.StringVar(&o.out, "out", "", "safetensors file to write")
	f.StringVar(&o.progress, "progress", progressAuto, "auto, bar, plain, json, off")
	return cmd
}

// openClip opens a model and says what it was taken for.
func openClip(cmd *cobra.Command, path string, load loadFlags, dtype, size string, batch int, p *clip.Preprocess) (*clip.Model, error) {
	l, err := load.options()
	if err != nil {
		return nil, err
	}
	o := clip.Options{Load: l, Batch: batch, Preprocess: p, Pixels: load.pixels}
	if o.DType, err = parseDType(dtype); err != nil {
		return nil, err
	}
	if o.ImageSize, err = parseSize(size); err != nil {
		return nil, err
	}
	if o.Device, err = chooseDevice(cmd, load.device); err != nil {
		return nil, err
	}
	var m *clip.Model
	if path == "" {
		m, err = clip.OpenBuiltin(o)
	} else {
		m, err = clip.Open(path, o)
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprint(plain.Writer{W: cmd.ErrOrStderr()}, m.Loaded())
	return m, nil
}

// named puts a file's name into the error about one picture of a batch.
func named(err error, paths []string) error {
	var p *clip.PictureError
	if errors.As(err, &p) && p.Index < len(paths) {
		return fmt.Errorf("%s: %w", paths[p.Index], p.Err)
	}
	return err
}

func (o *encodeFlags) wants(name string) bool { return slices.Contains(o.with, name) }

func (o *encodeFlags) run(cmd *cobra.Command, args []string) error {
	o.images = append(o.images, args...)
	for i, on := range []bool{o.patchTokens, o.pixelValues, o.inputIDs} {
		if on {
			o.with = append(o.with, extras[i])
		}
	}
	for _, w := range o.with {
		if !slices.Contains(extras, w) {
			return usageError{fmt.Errorf("--with %q is none of %s", w, strings.Join(extras, ", "))}
		}
	}
	switch {
	case o.pixels.check() != nil:
		return o.pixels.check()
	case o.out == "":
		return usageError{errors.New("where to? --out FILE.safetensors")}
	case len(o.images) == 0 && o.texts == "" && o.inputs == "":
		return usageError{errors.New("what? --images, --texts or --inputs")}
	case o.batch < 0:
		return usageError{fmt.Errorf("--batch %d: want 1 or more, or 0 for 32", o.batch)}
	case o.inputs != "" && (len(o.images) > 0 || o.texts != ""):
		return usageError{errors.New("--inputs holds the pictures and texts; it does not go with --images or --texts")}
	}
	if _, err := os.Stat(filepath.Dir(o.out)); err != nil { // before hours of work
		return fmt.Errorf("--out %s: the folder is missing: %w", o.out, err)
	}
	var variant *clip.Preprocess
	if o.preprocess != "" {
		p, err := clip.NamedPreprocess(o.preprocess)
		if err != nil {
			return usageError{err}
		}
		variant = &p
	}
	paths, err := pictures(o.images)
	if err != nil {
		return err
	}
	texts, err := readTexts(o.texts)
	if err != nil {
		return err
	}
	if o.load.pixels, err = o.pixels.options(); err != nil {
		return err
	}
	m, err := openClip(cmd, o.model, o.load, o.dtype, o.size, o.batch, variant)
	if err != nil {
		return err
	}
	defer m.Close()
	out, metadata := nn.StateDict{}, map[string]string{"format": "pt"}
	if o.inputs != "" {
		err = o.encodeInputs(cmd, m, out)
	} else {
		if len(paths) > 0 {
			if err = o.encodePictures(cmd, m, paths, out); err == nil {
				err = putJSON(metadata, "images", paths)
			}
		}
		if err == nil && o.texts != "" {
			if err = o.encodeTexts(cmd, m, texts, out); err == nil {
				err = putJSON(metadata, "texts", texts)
			}
		}
	}
	if err != nil {
		return err
	}
	if err := finish(m, out); err != nil {
		return err
	}
	if err := nn.SaveSafetensors(o.out, out, metadata); err != nil {
		return err
	}
	if err := os.Remove(o.out + partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err = plain.Fprintf(cmd.OutOrStdout(), "wrote %s: %s\n", o.out, strings.Join(out.Keys(), ", "))
	return err
}

func putJSON(m map[string]string, key string, v any) error {
	b, err := json.Marshal(v)
	m[key] = string(b)
	return err
}

// finish adds the normalised features and the logits.
func finish(m *clip.Model, out nn.StateDict) error {
	return torch.Try(func() {
		for _, what := range []string{"image", "text"} {
			if x := out[what+"_features"]; x != nil {
				out[what+"_features_normalised"] = clip.Normalize(x)
			}
		}
		if x, t := out["image_features_normalised"], out["text_features_normalised"]; x != nil && t != nil {
			out["logits_per_image"] = m.Logits(x, t)
		}
	})
}

func (o *encodeFlags) encodeTexts(cmd *cobra.Command, m *clip.Model, texts []string, out nn.StateDict) error {
	ids, cut, err := m.Tokenize(texts)
	if err != nil {
		return err
	}
	if len(cut) > 0 {
		plain.Fprintf(cmd.ErrOrStderr(), "spml: %d of %d texts were longer than the model's context and were cut, text %d first\n", len(cut), len(texts), cut[0]+1)
	}
	if o.wants("input_ids") {
		out["input_ids"] = ids
	}
	out["text_features"], err = m.EncodeIDs(cmd.Context(), ids)
	return err
}

func (o *encodeFlags) encodeInputs(cmd *cobra.Command, m *clip.Model, out nn.StateDict) error {
	in, _, err := nn.LoadSafetensors(o.inputs)
	if err != nil {
		return err
	}
	x, ids := in["pixel_values"], in["input_ids"]
	if x == nil && ids == nil {
		return usageError{fmt.Errorf("%s holds neither pixel_values nor input_ids; it has %s", o.inputs, strings.Join(in.Keys(), ", "))}
	}
	if ids != nil {
		if o.wants("input_ids") {
			out["input_ids"] = ids
		}
		if out["text_features"], err = m.EncodeIDs(cmd.Context(), ids); err != nil {
			return fmt.Errorf("%s: input_ids: %w", o.inputs, err)
		}
	}
	if x == nil {
		return nil
	}
	err = torch.Try(func() {
		if s := x.Shape(); len(s) != 4 || s[1] != 3 || !x.DType().IsFloat() {
			err = fmt.Errorf("%v of %v are no pictures [n, 3, H, W]", s, x.DType())
		}
	})
	if err == nil {
		err = o.encodePixels(cmd, m, x, out)
	}
	if err != nil {
		return fmt.Errorf("%s: pixel_values: %w", o.inputs, err)
	}
	return nil
}

// encodePixels adds what is asked for of prepared pictures.
func (o *encodeFlags) encodePixels(cmd *cobra.Command, m *clip.Model, x *torch.Tensor, out nn.StateDict) (err error) {
	if o.wants("pixel_values") {
		out["pixel_values"] = x
	}
	if !o.wants("patch_tokens") {
		out["image_features"], err = m.EncodeImage(cmd.Context(), x)
		return err
	}
	d, err := m.Details(cmd.Context(), x, clip.Want{Tokens: true})
	out["image_features"], out["patch_tokens"] = d.Embeddings, d.Tokens
	return err
}

const (
	partial    = ".partial" // beside the result while it is made
	encodePart = 256        // pictures between two writes
)

// encodePictures encodes files in parts. Features of finished parts lie in OUT.partial, so that a second run need not
// compute them again.
func (o *encodeFlags) encodePictures(cmd *cobra.Command, m *clip.Model, paths []string, out nn.StateDict) error {
	if o.wants("patch_tokens") || o.wants("pixel_values") { // all of it in memory, in one go
		var x *torch.Tensor
		files := make([][]byte, len(paths))
		for i, p := range paths {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			files[i] = b
		}
		x, err := m.Prepare(cmd.Context(), files)
		if err != nil {
			return named(err, paths)
		}
		return o.encodePixels(cmd, m, x, out)
	}
	width := m.Config().EmbedDim
	print, err := o.fingerprint(m, paths)
	if err != nil {
		return err
	}
	writer, err := onewriter.Take(o.out+partial+".lock", o.out)
	if err != nil {
		return err
	}
	defer writer.Close()
	if !writer.Works() {
		fmt.Fprintf(cmd.ErrOrStderr(), "spml: %s lies on a file system without locks: nothing keeps a second run from writing it\n", o.out)
	}
	j, _, err := journal.Open(o.out+partial, fmt.Sprintf(`{"gospml_encode_frames":%q,"width":%d}`, print, width))
	if err != nil {
		return err
	}
	defer j.Close()
	var rows []float32
	if err := j.Each(func(b []byte) error { rows = append(rows, floats(b)...); return nil }); err != nil {
		return err
	}
	if n := len(rows) / width; n > 0 {
		plain.Fprintf(cmd.ErrOrStderr(), "spml: going on after %d of %d pictures, from %s\n", n, len(paths), o.out+partial)
	}
	r, err := newReporter(cmd.ErrOrStderr(), o.progress)
	if err != nil {
		return err
	}
	start, begun := time.Now(), len(rows)/width
	for from := begun; from < len(paths); from += encodePart {
		part := paths[from:min(len(paths), from+encodePart)]
		x, err := m.EncodePaths(cmd.Context(), part)
		if err != nil {
			return named(err, part)
		}
		var made []float32
		if err := torch.Try(func() { made = torch.ToSlice[float32](x); x.Free() }); err != nil {
			return err
		}
		if err := j.Add(floatBytes(made)); err != nil {
			return err
		}
		rows = append(rows, made...)
		done := from + len(part)
		r.encoded(done, len(paths), float64(done-begun)/time.Since(start).Seconds())
	}
	r.clear()
	return torch.Try(func() { out["image_features"] = torch.FromSlice(rows, len(paths), width) })
}

// fingerprint changes with everything that the features depend on.
func (o *encodeFlags) fingerprint(m *clip.Model, paths []string) (string, error) {
	h := sha256.New()
	l := m.Loaded()
	fmt.Fprintln(h, m.Config(), o.dtype, m.Device(), o.size, o.preprocess, l.Weights, l.Stored, o.pixels)
	dir := l.Path
	if st, err := os.Stat(dir); err == nil && !st.IsDir() {
		dir = filepath.Dir(dir)
	}
	files := slices.Clone(paths)
	if o.model != "" {
		for _, w := range l.Weights {
			files = append(files, filepath.Join(dir, w))
		}
	}
	for _, p := range files {
		st, err := os.Stat(p)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(h, p, st.Size(), st.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// floats are the numbers of a frame of the journal, floatBytes the frame of numbers.
func floats(b []byte) []float32 {
	rows := make([]float32, len(b)/4)
	for i := range rows {
		rows[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return rows
}

func floatBytes(rows []float32) []byte {
	b := make([]byte, 0, 4*len(rows))
	for _, v := range rows {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

var pictureEndings = []string{".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp"}

// pictures lists files as they are given, and the picture files below folders by name.
func pictures(args []string) ([]string, error) {
	var out []string
	for _, a := range args {
		st, err := os.Stat(a)
		if err != nil {
			return nil, err
		}
		if !st.IsDir() {
			out = append(out, a)
			continue
		}
		n := len(out)
		err = filepath.WalkDir(a, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && slices.Contains(pictureEndings, strings.ToLower(filepath.Ext(path))) {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(out) == n {
			return nil, usageError{fmt.Errorf("there are no pictures (%s) in %s", strings.Join(pictureEndings, " "), a)}
		}
	}
	return out, nil
}

// readTexts reads a JSON array of strings, or a text a line; "" is none.
func readTexts(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	return vlm.ReadTexts(path)
}
