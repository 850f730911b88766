package torch

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gospml/gospml/torch/internal/abi"
)

// The defaults of torch.set_printoptions.
const (
	printPrecision = 4
	printThreshold = 1000 // more elements are summarised
	printEdgeItems = 3    // shown at each end of a summarised dimension
	printLineWidth = 80
	printPrefix    = "tensor("
)

// String prints the tensor as Python's repr does, with its default print options: at most 1,000 elements in full, of
// larger tensors three at each end of each dimension. It never panics: a tensor that cannot be read says why.
func (t *Tensor) String() string {
	if t == nil {
		return "tensor(<nil>)"
	}
	var s string
	err := Try(func() { s = t.print() })
	if err == nil {
		return s
	}
	switch {
	case t.h.Load() == 0:
		return "tensor(<freed>)"
	case t.scope != 0 && !scopeAlive(t.scope):
		return "tensor(<its scope ended>)"
	}
	return fmt.Sprintf("tensor(<%v>)", err)
}

func (t *Tensor) print() string {
	d := t.describe("print")
	if d.Data == 0 && d.Numel > 0 && deviceOf(d.Device).Type == DeviceCPU {
		if spelt := t.spelt(); spelt != nil {
			defer spelt.Free()
			return spelt.print()
		}
	}
	p := printer{
		dtype: DType(d.DType),
		shape: make([]int, d.NDim),
	}
	for i := range p.shape {
		p.shape[i] = int(d.Sizes[i])
	}
	var suffixes []string
	device := deviceOf(d.Device)
	if device.Type != DeviceCPU {
		suffixes = append(suffixes, "device='"+device.String()+"'")
	}
	var body string
	switch unreadable := device.Type == DeviceMeta || d.Numel > 0 && d.Data == 0; {
	case unreadable || d.Numel == 0:
		body = "[]"
		if unreadable {
			body = "..."
		}
		if unreadable || len(p.shape) != 1 {
			suffixes = append(suffixes, "size="+tuple(p.shape))
		}
		if p.dtype != Float32 {
			suffixes = append(suffixes, "dtype=torch."+p.dtype.String())
		}
	default:
		if p.dtype != Float32 && p.dtype != Int64 && p.dtype != Bool && p.dtype != Complex64 {
			suffixes = append(suffixes, "dtype=torch."+p.dtype.String())
		}
		p.load(t)
		body = p.format(0, p.shape, len(printPrefix))
	}
	fn := "Invalid" // a view that was changed in place where autograd did not look has none that could be asked for
	_ = Try(func() { fn = t.GradFn() })
	switch {
	case fn != "":
		suffixes = append(suffixes, "grad_fn=<"+fn+">")
	case d.Flags&abi.FlagRequiresGrad != 0:
		suffixes = append(suffixes, "requires_grad=True")
	}
	return withSuffixes(printPrefix+body, suffixes)
}

// spelt is a copy of autograd's symbolic zeros that has elements; nil where a copy has none either, as of a sparse tensor.
func (t *Tensor) spelt() *Tensor {
	c := t.Clone()
	if d := c.describe("print"); d.Data == 0 {
		c.Free()
		return nil
	}
	return c
}

// tuple is Python's spelling of a shape.
func tuple(shape []int) string {
	s := strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", ", "), "[]")
	if len(shape) == 1 {
		s += ","
	}
	return "(" + s + ")"
}

func withSuffixes(s string, suffixes []string) string {
	var b strings.Builder
	b.WriteString(s)
	line := len(s) - strings.LastIndexByte(s, '\n') + 1
	for _, x := range suffixes {
		if line+len(x)+2 > printLineWidth {
			b.WriteString(",\n" + strings.Repeat(" ", len(printPrefix)) + x)
			line = len(printPrefix) + len(x)
		} else {
			b.WriteString(", " + x)
			line += len(x) + 2
		}
	}
	b.WriteByte(')')
	return b.String()
}

// printer holds the elements to be shown, row-major, and how to write them.
type printer struct {
	dtype      DType
	shape      []int
	summarised bool
	element    func(i int) string
	width      int // of an element
}

// load copies the elements that will be shown to the host: all, or the ends of the long dimensions of a large tensor.
func (p *printer) load(t *Tensor) {
	made := []*Tensor{t.Detach()}
	defer func() {
		for _, m := range made {
			m.Free()
		}
	}()
	last := func() *Tensor { return made[len(made)-1] }
	numel := 1
	for _, n := range p.shape {
		numel *= n
	}
	if p.summarised = numel > printThreshold; p.summarised {
		for dim, n := range p.shape {
			if n <= 2*printEdgeItems {
				continue
			}
			ends := make([]int64, 0, 2*printEdgeItems)
			for i := range printEdgeItems {
				ends = append(ends, int64(i))
			}
			for i := range printEdgeItems {
				ends = append(ends, int64(n-printEdgeItems+i))
			}
			idx := FromSlice(ends)
			cut := last().IndexSelect(dim, idx)
			idx.Free()
			made = append(made, cut)
		}
	}
	x := last()
	switch {
	case p.dtype == Bool:
		v := ToSlice[bool](x)
		p.set(len(v), func(i int) string {
			if v[i] {
				return "True"
			}
			return "False"
		})
	case p.dtype == Complex64:
		plain := Call("aten::resolve_conj", x)[0].(*Tensor)
		parts := Call("aten::view_as_real", plain)[0].(*Tensor)
		made = append(made, plain, parts)
		v := ToSlice[float64](parts)
		re, im := make([]float64, len(v)/2), make([]float64, len(v)/2)
		for i := range re {
			re[i], im[i] = v[2*i], v[2*i+1]
		}
		fr, fi := newFloatFormat(re), newFloatFormat(im)
		p.element = func(i int) string {
			s := strings.TrimLeft(fi.format(im[i])+"j", " ")
			if s[0] != '+' && s[0] != '-' {
				s = "+" + s
			}
			return fr.format(re[i]) + s
		}
		p.width = fr.width + fi.width + 1
	case p.dtype.IsFloat():
		v := ToSlice[float64](x)
		f := newFloatFormat(v)
		p.element, p.width = func(i int) string { return f.format(v[i]) }, f.width
	default:
		v := ToSlice[int64](x)
		p.set(len(v), func(i int) string { return strconv.FormatInt(v[i], 10) })
	}
}

// set makes all elements as wide as the widest.
func (p *printer) set(n int, text func(i int) string) {
	for i := range n {
		p.width = max(p.width, len(text(i)))
	}
	p.element = func(i int) string { return pad(text(i), p.width) }
}

func pad(s string, width int) string {
	if len(s) >= width {
		return s
	}
	return strings.Repeat(" ", width-len(s)) + s
}

// kept is how many elements of a dimension load kept.
func (p *printer) kept(n int) (int, bool) {
	if p.summarised && n > 2*printEdgeItems {
		return 2 * printEdgeItems, true
	}
	return n, false
}

// format prints the part with these remaining dimensions whose first kept element is the first-th.
func (p *printer) format(first int, shape []int, indent int) string {
	if len(shape) == 0 {
		return p.element(first)
	}
	n, cut := p.kept(shape[0])
	var parts []string
	if len(shape) == 1 {
		for i := range n {
			parts = append(parts, p.element(first+i))
		}
		if cut {
			parts = slices.Insert(parts, printEdgeItems, " ...")
		}
		perLine := max(1, (printLineWidth-indent)/(p.width+2))
		var lines []string
		for line := range slices.Chunk(parts, perLine) {
			lines = append(lines, strings.Join(line, ", "))
		}
		return "[" + strings.Join(lines, ",\n"+strings.Repeat(" ", indent+1)) + "]"
	}
	step := 1
	for _, m := range shape[1:] {
		k, _ := p.kept(m)
		step *= k
	}
	for i := range n {
		parts = append(parts, p.format(first+i*step, shape[1:], indent+1))
	}
	if cut {
		parts = slices.Insert(parts, printEdgeItems, "...")
	}
	return "[" + strings.Join(parts, ","+strings.Repeat("\n", len(shape)-1)+strings.Repeat(" ", indent+1)) + "]"
}

// floatFormat is how all floating point elements of a tensor are written: as integers with a point, with four decimals,
// or in scientific notation.
type floatFormat struct {
	whole, scientific bool
	width             int
}

func newFloatFormat(values []float64) floatFormat {
	f := floatFormat{whole: true, width: 1}
	low, high := math.Inf(1), 0.0
	counts := func(v float64) bool { return v != 0 && !math.IsInf(v, 0) && !math.IsNaN(v) }
	for _, v := range values {
		if counts(v) {
			low, high = min(low, math.Abs(v)), max(high, math.Abs(v))
			f.whole = f.whole && v == math.Ceil(v)
		}
	}
	if high == 0 {
		return f
	}
	f.scientific = high/low > 1000 || high > 1e8 || low < 1e-4
	for _, v := range values {
		if counts(v) {
			f.width = max(f.width, len(f.text(v)))
		}
	}
	return f
}

func (f *floatFormat) text(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'f', 0, 64), "+"))
	case f.scientific:
		return strconv.FormatFloat(v, 'e', printPrecision, 64)
	case f.whole:
		return strconv.FormatFloat(v, 'f', 0, 64) + "."
	}
	return strconv.FormatFloat(v, 'f', printPrecision, 64)
}

func (f *floatFormat) format(v float64) string { return pad(f.text(v), f.width) }
