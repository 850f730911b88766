package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gospml/gospml/internal/atomicfile"
)

// Tensor is a tensor to be written: its bytes little-endian and row-major, in Data or, so that a tensor on a device is
// copied only when its turn comes, written by Stream.
type Tensor struct {
	Name   string
	Dtype  Dtype
	Shape  []int64
	Data   []byte                  // of the size that Dtype and Shape give
	Stream func(w io.Writer) error // used instead of Data if set; must write exactly that size
}

// Write writes a file with the tensors and metadata (which may be nil); see Encode. The file appears under path as a
// whole, replacing what was there, or not at all.
func Write(path string, tensors []Tensor, metadata map[string]string) error {
	plan, err := newPlan(tensors, metadata) // before any file is made
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return atomicfile.WriteFile(path, 0o664, plan.write)
}

// Encode writes the format to w: tensors in decreasing order of their dtype's alignment, then by name, whatever order
// they are given in; metadata by key. Nothing is written if a tensor's description is wrong.
func Encode(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	plan, err := newPlan(tensors, metadata)
	if err != nil {
		return err
	}
	return plan.write(w)
}

// plan is a checked file: its first bytes, then the tensors in order.
type plan struct {
	head    []byte
	tensors []Tensor
	sizes   []int64
}

func newPlan(tensors []Tensor, metadata map[string]string) (*plan, error) {
	p := &plan{tensors: slices.Clone(tensors)}
	slices.SortStableFunc(p.tensors, func(a, b Tensor) int {
		if ra, rb := a.Dtype.rank(), b.Dtype.rank(); ra != rb {
			return rb - ra
		}
		return strings.Compare(a.Name, b.Name)
	})
	if len(metadata) > MaxMetadata {
		return nil, fmt.Errorf("%d metadata entries, at most %d are allowed", len(metadata), MaxMetadata)
	}

	h := append(make([]byte, 8), '{')
	if metadata != nil {
		h = append(h, `"`+metadataKey+`":{`...)
		for i, k := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(k) || !utf8.ValidString(metadata[k]) {
				return nil, fmt.Errorf("metadata %s is not valid UTF-8", quote(k))
			}
			if i > 0 {
				h = append(h, ',')
			}
			h = appendString(h, k)
			h = append(h, ':')
			h = appendString(h, metadata[k])
		}
		h = append(h, '}')
	}
	names := make(map[string]bool, len(tensors))
	var offset int64
	for i, t := range p.tensors {
		size, err := checkTensor(t, names)
		if err != nil {
			return nil, err
		}
		end := offset + size
		if end < offset {
			return nil, errors.New("the tensors together overflow 64 bits")
		}
		if i > 0 || metadata != nil {
			h = append(h, ',')
		}
		h = appendString(h, t.Name)
		h = append(h, `:{"dtype":"`+string(t.Dtype)+`","shape":[`...)
		for j, d := range t.Shape {
			if j > 0 {
				h = append(h, ',')
			}
			h = strconv.AppendInt(h, d, 10)
		}
		h = append(h, `],"data_offsets":[`...)
		h = strconv.AppendInt(h, offset, 10)
		h = append(h, ',')
		h = strconv.AppendInt(h, end, 10)
		h = append(h, `]}`...)
		p.sizes = append(p.sizes, size)
		offset = end
	}
	h = append(h, '}')
	for len(h)%8 != 0 { // the data begins at a multiple of 8
		h = append(h, ' ')
	}
	if n := len(h) - 8; n > MaxHeader {
		return nil, fmt.Errorf("the header takes %d bytes, at most %d are allowed", n, MaxHeader)
	}
	binary.LittleEndian.PutUint64(h, uint64(len(h)-8))
	p.head = h
	return p, nil
}

// checkTensor returns the tensor's size and notes its name.
func checkTensor(t Tensor, names map[string]bool) (int64, error) {
	fail := func(format string, args ...any) (int64, error) {
		return 0, fmt.Errorf("tensor %s: %s", quote(t.Name), fmt.Sprintf(format, args...))
	}
	if t.Name == metadataKey {
		return fail("the name is taken by the metadata")
	}
	if !utf8.ValidString(t.Name) {
		return fail("the name is not valid UTF-8")
	}
	if names[t.Name] {
		return fail("two tensors have this name")
	}
	names[t.Name] = true
	size, err := t.Dtype.Size(t.Shape)
	if err != nil {
		return fail("%v", err)
	}
	if t.Stream == nil && int64(len(t.Data)) != size {
		return fail("shape %v in %s takes %d bytes, Data has %d", t.Shape, t.Dtype, size, len(t.Data))
	}
	return size, nil
}

func (p *plan) write(w io.Writer) error {
	if _, err := w.Write(p.head); err != nil {
		return err
	}
	for i, t := range p.tensors {
		if t.Stream == nil {
			if _, err := w.Write(t.Data); err != nil {
				return err
			}
			continue
		}
		c := &counter{w: w, left: p.sizes[i]}
		if err := t.Stream(c); err != nil {
			return fmt.Errorf("tensor %s: %w", quote(t.Name), err)
		}
		if c.left != 0 {
			return fmt.Errorf("tensor %s: Stream wrote %d bytes too few", quote(t.Name), c.left)
		}
	}
	return nil
}

// counter refuses what goes beyond the tensor's size, which would shift every tensor behind it.
type counter struct {
	w    io.Writer
	left int64
}

func (c *counter) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		return 0, fmt.Errorf("the stream writes more than the tensor's size (%d bytes too many)", int64(len(p))-c.left)
	}
	n, err := c.w.Write(p)
	c.left -= int64(n)
	return n, err
}

// appendString appends a JSON string, escaped as the reference implementation does (encoding/json escapes more).
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for {
		i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' })
		if i < 0 {
			return append(append(b, s...), '"')
		}
		b = append(b, s[:i]...)
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
		s = s[i+1:]
	}
}
