package golden

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/torch"
)

// preprocessing is a file about photos: what decoding and each way of resizing make of them. The photos lie in the data root: $GOSPML_TESTDATA/data,
// or data/ beside the folder of the file.
var preprocessing = sectioned{
	name: "preprocessing",
	table: map[string]section{"files": {
		// The mode is Pillow's name for what is in the file; here everything is RGB. frames: the first one is decoded.
		inputs: []string{"file", "root", "mode", "frames", "clip224_orders_agree"}, run: preprocess,
		tolerance: func(_ Options, path string) Tolerance {
			switch {
			case strings.HasSuffix(path, "/sumsq"):
				return Tolerance{0, 1e-5}
			case strings.Contains(path, "first_row") || strings.Contains(path, "channel_mean"):
				return Tolerance{1e-5, 0}
			}
			return Tolerance{}
		},
	}},
	detect: func(top map[string]any) bool {
		l, ok := top["files"].([]any)
		if !ok || len(l) == 0 {
			return false
		}
		m, ok := l[0].(map[string]any)
		return ok && m["file"] != nil
	},
	tolerance: usual,
}

func init() {
	s := preprocessing.table["files"]
	s.cases = func(n node) []node {
		var cases []node
		for _, c := range n.list() {
			m := map[string]any{}
			for k, v := range c.object() {
				if k == "rgb" || strings.HasPrefix(k, "squash448_bilinear") || strings.HasPrefix(k, "clip224_rgb_first") || k == "rgb_after_exif_transpose" {
					v = withoutMode(v)
				}
				m[k] = v
			}
			// Resizing palette, 16-bit, CMYK and RGBA pictures before they become RGB is open_clip's order; here RGB comes first.
			if agree, ok := m["clip224_orders_agree"].(bool); ok && !agree {
				delete(m, "clip224_open_clip_order_crc32")
			}
			cases = append(cases, wrapped(c, m))
		}
		return cases
	}
	preprocessing.table["files"] = s
}

func withoutMode(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for k, x := range m {
		if k != "mode" {
			out[k] = x
		}
	}
	return out
}

// photo finds a file of the data root.
func photo(name string) ([]byte, error) {
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%q is no path below the data root", name)
	}
	root := os.Getenv("GOSPML_TESTDATA")
	if root == "" {
		root = filepath.Join("..", "shared")
	}
	b, err := os.ReadFile(filepath.Join(root, "data", filepath.FromSlash(name)))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: set GOSPML_TESTDATA to the folder that holds data/", err)
	}
	return b, err
}

// picture describes a picture as the files do.
func pictureOf(p *pixel.RGB) map[string]any {
	return map[string]any{"wh": []int{p.W, p.H}, "crc32": crc32.ChecksumIEEE(p.Pix), "first": numbersOf(p.Pix[:min(9, len(p.Pix))])}
}

func normalizedOf(p *pixel.RGB, mean, std [3]float32) (map[string]any, []float32, error) {
	x := make([]float32, len(p.Pix))
	if err := pixel.Normalize(x, p.Pix, p.W, p.H, mean, std, false); err != nil {
		return nil, nil, err
	}
	first, means, sumsq := planes(x, p.W)
	return map[string]any{"shape": []int{3, p.H, p.W}, "first_row_first4": first, "channel_mean": means, "sumsq": sumsq}, x, nil
}

func preprocess(n node, _ Options) (map[string]any, error) {
	b, err := photo(n.text("file", ""))
	if err != nil {
		return nil, err
	}
	o := pixel.Options{PillowGray16: true} // the files are Pillow's
	out := map[string]any{"exif_orientation": nil}
	info, err := pixel.Header(b, o)
	if err == nil {
		out["format"], out["wh"] = string(info.Format), []int{info.W, info.H}
	}
	turn := pixel.Orientation(b)
	if turn > 1 || n.has("exif_orientation") {
		out["exif_orientation"] = turn
	}
	p, decodeErr := pixel.Decode(b, o)
	if n.has("raises") {
		if decodeErr == nil {
			return nil, fmt.Errorf("%s is decoded, Pillow raises %s", n.text("file", ""), n.text("raises", ""))
		}
		out["raises"] = n.text("raises", "") // Python's name for the error
		return out, nil
	}
	if decodeErr != nil {
		return nil, decodeErr
	}
	out["rgb"] = pictureOf(p)
	resize := func(p *pixel.RGB, size int, f pixel.Filter) *pixel.RGB {
		q, e := pixel.Resize(p, size, size, f)
		if e != nil {
			n.fail("%v", e)
		}
		return q
	}
	squash := resize(p, 448, pixel.Bilinear)
	stats, x, err := normalizedOf(squash, pixel.ImageNetMean, pixel.ImageNetStd)
	if err != nil {
		return nil, err
	}
	described := pictureOf(squash)
	described["imagenet"] = stats
	out["squash448_bilinear"] = described
	out["squash224_bilinear_crc32"] = crc32.ChecksumIEEE(resize(p, 224, pixel.Bilinear).Pix)

	crop, err := pixel.Transform(p, pixel.ShortSide(p.W, p.H, 224, pixel.Bicubic))
	if err != nil {
		return nil, err
	}
	if stats, _, err = normalizedOf(crop, pixel.CLIPMean, pixel.CLIPStd); err != nil {
		return nil, err
	}
	described = pictureOf(crop)
	described["clip"] = stats
	out["clip224_rgb_first"] = described
	out["clip224_open_clip_order_crc32"] = crc32.ChecksumIEEE(crop.Pix)

	tensor := resize(p, 448, pixel.TorchvisionFloatBilinear)
	differing, most := 0, 0
	for i, v := range tensor.Pix {
		if d := int(v) - int(squash.Pix[i]); d != 0 {
			differing++
			most = max(most, d, -d)
		}
	}
	out["tensor_uint8_448_antialias_crc32"] = crc32.ChecksumIEEE(tensor.Pix)
	out["tensor_uint8_448_antialias_vs_pil"] = map[string]any{"max": most, "differing": differing}

	// VLPL's second resize, of the normalized tensor.
	t := torch.FromSlice(x, 1, 3, 448, 448)
	for name, y := range map[string]*torch.Tensor{
		"vlpl_448_to_336_antialias": t.UpsampleBilinear2dAA([]int{336, 336}, false), "vlpl_448_to_336_no_antialias": t.UpsampleBilinear2d([]int{336, 336}, false),
	} {
		first, means, sumsq := planes(torch.ToSlice[float32](y.Contiguous()), 336)
		out[name] = map[string]any{"first_row_first4": first, "channel_mean": means, "sumsq": sumsq}
	}
	if n.has("rgb_after_exif_transpose") {
		turned, err := pixel.Decode(b, pixel.Options{PillowGray16: true, ApplyEXIF: true})
		if err != nil {
			return nil, err
		}
		out["rgb_after_exif_transpose"] = pictureOf(turned)
		out["squash448_after_exif_transpose_crc32"] = crc32.ChecksumIEEE(resize(turned, 448, pixel.Bilinear).Pix)
	}
	return out, nil
}
