package golden

import (
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"image"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/data/augment"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/goldenfill"
)

func init() {
	modelSections["resize.checked_against_pil"] = section{ignore: true}
	modelSections["resize.coefficients"] = section{inputs: []string{"in", "out", "filter"}, cases: parts(coefficientCase), run: resizeCoefficients, tolerance: exact}
	modelSections["resize.small"] = section{inputs: []string{"kind", "input_name", "input", "in_hw", "out_hw"}, run: resizeSmall, tolerance: exact}
	modelSections["resize.large"] = section{inputs: []string{"kind", "in_hw", "out_hw"}, run: resizeLarge, tolerance: exact}
	modelSections["resize.geometry"] = section{inputs: []string{"in_wh", "size"}, run: resizeGeometry, tolerance: exact}
	modelSections["resize.clip_preprocess"] = section{inputs: []string{"in_hw", "size"}, run: resizeCLIP,
		tolerance: func(_ Options, path string) Tolerance {
			if strings.Contains(path, "crc32") {
				return Tolerance{}
			}
			return Tolerance{1e-5, 0}
		}}
	// The arithmetic inside libjpeg-turbo, which jpeg.files shows from outside.
	for _, inside := range []string{"decoder", "upsample_h2v2", "upsample_h2v1", "ycc_to_rgb"} {
		modelSections["jpeg."+inside] = section{ignore: true}
	}
	modelSections["jpeg.files"] = section{inputs: []string{"name", "jpeg_base64"}, run: jpegFile, tolerance: exact}
	modelSections["randaugment"] = section{
		inputs: []string{"op", "meaning", "image", "name", "package"}, cases: randAugmentCases, run: randAugment,
		tolerance: func(_ Options, path string) Tolerance {
			if strings.HasPrefix(path, "/levels") { // printed with six digits
				return Tolerance{1e-6, 5e-6}
			}
			return Tolerance{}
		},
	}
	modelSections["lac.cutout_448"] = section{inputs: []string{"center_xy"}, run: func(n node, _ Options) (map[string]any, error) {
		xy := n.get("center_xy").wholes()
		r := augment.Cutout{Factor: 0.5}.Rectangle(448, 448, xy[0], xy[1])
		inside := r.Intersect(image.Rect(0, 0, 447, 447)) // Max is painted too
		return map[string]any{"rectangle_inclusive": []int{r.Min.X, r.Min.Y, r.Max.X, r.Max.Y}, "painted_pixels": (inside.Dx() + 1) * (inside.Dy() + 1)}, nil
	}}
}

var sizesName = regexp.MustCompile(`^(\w+)_(\d+)_to_(\d+)$`)

func coefficientCase(name string, v node) (node, bool) {
	m := sizesName.FindStringSubmatch(name)
	if m == nil {
		return v, true // fails in run
	}
	in, _ := strconv.Atoi(m[2])
	out, _ := strconv.Atoi(m[3])
	return wrapped(v, map[string]any{"filter": m[1], "in": float64(in), "out": float64(out), "taps": v.v}), true
}

func resizeCoefficients(n node, _ Options) (map[string]any, error) {
	f, err := pixel.ParseFilter(n.text("filter", ""))
	if err != nil {
		return nil, err
	}
	first, weights, err := pixel.Coefficients(n.get("in").whole(), n.get("out").whole(), f)
	if err != nil {
		return nil, err
	}
	var taps []any
	for i := range first {
		taps = append(taps, map[string]any{"first": int(first[i]), "fixed22": weights[i]})
	}
	return map[string]any{"taps": taps}, nil
}

func (n node) pair(name string) (a, b int) {
	v := n.get(name).wholes()
	if len(v) != 2 {
		n.fail("%s wants two numbers", name)
	}
	return v[0], v[1]
}

func resizeSmall(n node, _ Options) (map[string]any, error) {
	h, w := n.pair("in_hw")
	oh, ow := n.pair("out_hw")
	p := &pixel.RGB{W: w, H: h}
	if n.has("input") {
		for _, v := range n.get("input").wholes() {
			p.Pix = append(p.Pix, byte(v))
		}
	} else {
		p.Pix = goldenfill.Bytes(n.text("input_name", ""), 3*w*h)
	}
	q, err := resized(n, p, ow, oh)
	if err != nil {
		return nil, err
	}
	return map[string]any{"output": numbersOf(q.Pix)}, nil
}

func resized(n node, p *pixel.RGB, w, h int) (*pixel.RGB, error) {
	f, err := pixel.ParseFilter(n.text("kind", ""))
	if err != nil {
		return nil, err
	}
	return pixel.Resize(p, w, h, f)
}

// numbersOf keeps bytes from becoming base64.
func numbersOf(b []byte) []int {
	out := make([]int, len(b))
	for i, v := range b {
		out[i] = int(v)
	}
	return out
}

// waves is the picture that the large cases begin with.
func waves(w, h int) *pixel.RGB {
	p := &pixel.RGB{W: w, H: h}
	wave := func(v int) byte { return byte(min(v%511, 510-v%511)) }
	for y := range h {
		for x := range w {
			p.Pix = append(p.Pix, wave(7*x+3*y), wave(x*x/97+5*y), wave(2*x+y*y/61))
		}
	}
	return p
}

func resizeLarge(n node, _ Options) (map[string]any, error) {
	h, w := n.pair("in_hw")
	oh, ow := n.pair("out_hw")
	p := waves(w, h)
	q, err := resized(n, p, ow, oh)
	if err != nil {
		return nil, err
	}
	sum := 0
	for _, v := range q.Pix {
		sum += int(v)
	}
	return map[string]any{"in_crc32": crc32.ChecksumIEEE(p.Pix), "out_crc32": crc32.ChecksumIEEE(q.Pix), "out_first_12": numbersOf(q.Pix[:min(12, len(q.Pix))]), "out_sum": sum}, nil
}

func resizeGeometry(n node, _ Options) (map[string]any, error) {
	w, h := n.pair("in_wh")
	size := n.get("size").whole()
	g := pixel.ShortSide(w, h, size, pixel.Bicubic)
	return map[string]any{
		"resized_wh": []int{g.W, g.H}, "crop_left_top_round_half_even": []int{g.Window.Min.X, g.Window.Min.Y},
		"crop_left_top_floor": []int{int(math.Floor(float64(g.W-size) / 2)), int(math.Floor(float64(g.H-size) / 2))},
	}, nil
}

func resizeCLIP(n node, _ Options) (map[string]any, error) {
	h, w := n.pair("in_hw")
	size := n.get("size").whole()
	p, err := pixel.Transform(waves(w, h), pixel.ShortSide(w, h, size, pixel.Bicubic))
	if err != nil {
		return nil, err
	}
	x := make([]float32, len(p.Pix))
	if err := pixel.Normalize(x, p.Pix, size, size, pixel.CLIPMean, pixel.CLIPStd, false); err != nil {
		return nil, err
	}
	var row [][]float32
	for i := range min(4, size) {
		row = append(row, []float32{x[i], x[size*size+i], x[2*size*size+i]})
	}
	_, means, _ := planes(x, size)
	return map[string]any{"uint8_crc32": crc32.ChecksumIEEE(p.Pix), "row0_first4_rgb": row, "channel_mean": means}, nil
}

// planes describes float32 [3, size, size]: first four values of the first row, mean of each channel, sum of squares.
func planes(x []float32, width int) (first [][]float32, means []float64, sumsq float64) {
	plane := len(x) / 3
	for c := range 3 {
		sum := 0.0
		for _, v := range x[c*plane : (c+1)*plane] {
			sum += float64(v)
			sumsq += float64(v) * float64(v)
		}
		means = append(means, sum/float64(plane))
		first = append(first, x[c*plane:c*plane+min(4, width)])
	}
	return first, means, sumsq
}

func jpegFile(n node, _ Options) (map[string]any, error) {
	b, err := base64.StdEncoding.DecodeString(n.text("jpeg_base64", ""))
	if err != nil {
		return nil, err
	}
	p, err := pixel.Decode(b, pixel.Options{})
	if err != nil {
		return nil, err
	}
	return map[string]any{"wh": []int{p.W, p.H}, "rgb_crc32": crc32.ChecksumIEEE(p.Pix), "rgb": numbersOf(p.Pix)}, nil
}

var drawnImage = regexp.MustCompile(`^det_image_u8\('([^']+)',\s*(\d+),\s*(\d+)\)`)

// drawn makes the picture that a text like "det_image_u8('img:aug',24,32)" (height, width) describes.
func drawn(text string) (*pixel.RGB, error) {
	m := drawnImage.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("want det_image_u8('name',height,width), got %q", text)
	}
	h, _ := strconv.Atoi(m[2])
	w, _ := strconv.Atoi(m[3])
	return &pixel.RGB{W: w, H: h, Pix: goldenfill.Bytes(m[1], 3*w*h)}, nil
}

// randAugmentCases takes the section apart: the policy, each operation's table, each picture.
func randAugmentCases(n node) (cases []node) {
	policy := map[string]any{}
	for _, name := range keys(n.object()) {
		v := n.get(name)
		switch name {
		case "ops":
			cases = append(cases, v.list()...)
		case "results", "geometric_from_pil":
			for _, k := range keys(v.object()) {
				r := v.get(k)
				m := map[string]any{"image": n.get("test_image").v, "name": k}
				for field, x := range r.object() {
					m[field] = x
				}
				cases = append(cases, wrapped(r, m))
			}
		case "image_crc32":
			cases = append(cases, wrapped(v, map[string]any{"image": n.get("test_image").v, "name": "image", "crc32": v.v}))
		case "test_image", "own_vs_pil_max_abs_difference":
		default:
			policy[name] = v.v
		}
	}
	return append(cases, node{n.at + "/policy", policy})
}

func randAugment(n node, _ Options) (map[string]any, error) {
	switch {
	case n.has("op"):
		o, err := augment.FindOperation(n.text("op", ""))
		if err != nil {
			return nil, err
		}
		sign := "none"
		if o.Signed {
			sign = "+-"
		} else if o.Name == "Rotate" {
			sign = "always +"
		}
		return map[string]any{"levels_0_to_9": o.Levels[:], "sign": sign}, nil
	case n.has("image"):
		p, err := drawn(n.text("image", ""))
		if err != nil {
			return nil, err
		}
		if err := augmented(n.text("name", ""), p); err != nil {
			return nil, err
		}
		var row [][]int
		for x := range min(4, p.W) {
			row = append(row, numbersOf(p.Pix[3*x:3*x+3]))
		}
		return map[string]any{"crc32": crc32.ChecksumIEEE(p.Pix), "row0_first4": row}, nil
	}
	pairs := 9 * len(augment.Operations)
	return map[string]any{"levels_used": []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, "probability_per_slot": 0.5, "slots": 2, "policies": pairs * pairs}, nil
}

// augmented applies what a name like solarize_128, shearx_+0.15 or translatex_+5of9 says.
func augmented(name string, p *pixel.RGB) error {
	kind, arg, _ := strings.Cut(name, "_")
	level, isLevel := strings.CutSuffix(arg, "of9")
	v, err := strconv.ParseFloat(level, 64)
	if arg != "" && err != nil {
		return fmt.Errorf("operation %q: %w", name, err)
	}
	i := slices.IndexFunc(augment.Operations, func(o augment.Operation) bool { return strings.EqualFold(o.Name, kind) })
	switch {
	case kind == "image":
	case kind == "grey" || kind == "gray":
		augment.Gray(p)
	case kind == "hue":
		augment.Hue(p, v)
	case kind == "flip":
		augment.Flip(p)
	case i < 0 || strings.EqualFold(kind, "cutout"):
		return fmt.Errorf("operation %q is not known", name)
	default:
		o := augment.Operations[i]
		switch {
		case isLevel:
			v = math.Copysign(o.Levels[int(math.Abs(v))], v)
		case slices.Contains([]string{"Brightness", "Color", "Contrast", "Sharpness"}, o.Name):
			v-- // the names say the factor
		}
		o.Apply(p, v, nil)
	}
	return nil
}
