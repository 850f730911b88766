package pth

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/gospml/gospml/internal/atomicfile"
)

// NamedTensor is a tensor to be written: its bytes little-endian and row-major, in Data or, so that a tensor on a
// device is copied only when its turn comes, written by Stream.
type NamedTensor struct {
	Name   string
	Dtype  Dtype
	Shape  []int64
	Data   []byte                  // of the size that Dtype and Shape give
	Stream func(w io.Writer) error // used instead of Data if set; must write exactly that size
}

// Write writes a state dict (an OrderedDict of tensors in the given order, each with its own storage) as torch.save
// does. The file appears under path as a whole, replacing what was there, or not at all.
func Write(path string, tensors []NamedTensor) error {
	sizes, err := checkAll(tensors) // before any file is made
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return atomicfile.WriteFile(path, 0o664, func(w io.Writer) error { return encodeZip(w, tensors, sizes) })
}

// Encode writes the archive to w. Nothing is written if a tensor's description is wrong.
func Encode(w io.Writer, tensors []NamedTensor) error {
	sizes, err := checkAll(tensors)
	if err != nil {
		return err
	}
	return encodeZip(w, tensors, sizes)
}

func checkAll(tensors []NamedTensor) ([]int64, error) {
	sizes := make([]int64, len(tensors))
	names := make(map[string]bool, len(tensors))
	for i, t := range tensors {
		fail := func(format string, args ...any) ([]int64, error) {
			return nil, fmt.Errorf("tensor %q: %s", cut(t.Name), fmt.Sprintf(format, args...))
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
		sizes[i] = size
	}
	return sizes, nil
}

const (
	archiveName = "archive" // the folder of all entries, as torch.save names it for a stream
	alignment   = 64        // of the tensors' bytes, as torch.save's
)

func encodeZip(w io.Writer, tensors []NamedTensor, sizes []int64) error {
	z := &zipWriter{count: &countWriter{w: w}}
	z.zip = zip.NewWriter(z.count)
	small := func(name, content string) error {
		return z.entry(name, func(w io.Writer) error {
			_, err := io.WriteString(w, content)
			return err
		})
	}
	if err := small("data.pkl", string(pickleStateDict(tensors, sizes))); err != nil {
		return err
	}
	for _, e := range [][2]string{{".format_version", "1"}, {".storage_alignment", strconv.Itoa(alignment)}, {"byteorder", "little"}} {
		if err := small(e[0], e[1]); err != nil {
			return err
		}
	}
	for i, t := range tensors {
		if err := z.entry("data/"+strconv.Itoa(i), func(w io.Writer) error {
			if t.Stream == nil {
				_, err := w.Write(t.Data)
				return err
			}
			c := &counter{w: w, left: sizes[i]}
			if err := t.Stream(c); err != nil {
				return err
			}
			if c.left != 0 {
				return fmt.Errorf("pth: Stream wrote %d bytes too few", c.left)
			}
			return nil
		}); err != nil {
			return fmt.Errorf("tensor %q: %w", cut(t.Name), err)
		}
	}
	if err := small("version", "3\n"); err != nil {
		return err
	}
	return z.zip.Close()
}

type zipWriter struct {
	zip   *zip.Writer
	count *countWriter
	begun bool  // an entry has been written
	last  int64 // its size
}

// entry writes a stored entry whose bytes begin at a multiple of alignment, by an extra field that fills the gap.
func (z *zipWriter) entry(name string, write func(w io.Writer) error) error {
	if err := z.zip.Flush(); err != nil {
		return err
	}
	name = archiveName + "/" + name
	at := z.count.n + z.descriptor() + localSize + int64(len(name))
	gap := (alignment - (at+4)%alignment) % alignment
	extra := binary.LittleEndian.AppendUint16([]byte("FB"), uint16(gap)) // the id that torch.save uses
	for range gap {
		extra = append(extra, 'Z')
	}
	w, err := z.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Extra: extra})
	if err != nil {
		return err
	}
	z.begun = true
	before := z.count.n
	if err := write(w); err != nil {
		return err
	}
	if err := z.zip.Flush(); err != nil {
		return err
	}
	z.last = z.count.n - before
	return nil
}

// descriptor is the size of what the zip writer puts behind the last entry before the next one.
func (z *zipWriter) descriptor() int64 {
	switch {
	case !z.begun:
		return 0
	case z.last >= 1<<32-1:
		return 24
	}
	return 16
}

type countWriter struct {
	w io.Writer
	n int64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// counter refuses what goes beyond a tensor's size.
type counter struct {
	w    io.Writer
	left int64
}

var errTooMuch = errors.New("pth: Stream writes more than the tensor's size")

func (c *counter) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		return 0, errTooMuch
	}
	n, err := c.w.Write(p)
	c.left -= int64(n)
	return n, err
}

// pickleStateDict is the pickle of OrderedDict([(name, tensor), …]) in protocol 2.
func pickleStateDict(tensors []NamedTensor, sizes []int64) []byte {
	p := &pickler{b: []byte{0x80, 2}, memo: map[string]uint32{}}
	p.orderedDict()
	p.b = append(p.b, '(')
	for i, t := range tensors {
		p.str(t.Name)
		storage := dtypes[t.Dtype].storage
		version, class, numel := "_rebuild_tensor_v2", "torch\n"+storage, sizes[i]/t.Dtype.ItemSize()
		if storage == "" { // a dtype without a storage class of its own
			version, class, numel = "_rebuild_tensor_v3", "torch.storage\nUntypedStorage", sizes[i]
		}
		p.global("torch._utils\n" + version)
		p.b = append(p.b, '(', '(')
		p.str("storage")
		p.global(class)
		p.str(strconv.Itoa(i))
		p.str("cpu")
		p.int(numel)
		p.b = append(p.b, 't', 'Q')
		p.int(0)
		p.ints(t.Shape)
		p.ints(rowMajor(t.Shape))
		p.b = append(p.b, 0x89)
		p.orderedDict()
		if storage == "" {
			p.global("torch\n" + string(t.Dtype))
		}
		p.b = append(p.b, 't', 'R')
	}
	p.b = append(p.b, 'u', '.')
	return p.b
}

func rowMajor(shape []int64) []int64 {
	stride := make([]int64, len(shape))
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		stride[i] = n
		n *= max(shape[i], 1)
	}
	return stride
}

type pickler struct {
	b    []byte
	memo map[string]uint32
}

// known writes a reference to what was written before.
func (p *pickler) known(key string) bool {
	i, ok := p.memo[key]
	if ok {
		p.b = binary.LittleEndian.AppendUint32(append(p.b, 'j'), i)
	}
	return ok
}

func (p *pickler) remember(key string) {
	i := uint32(len(p.memo))
	p.memo[key] = i
	p.b = binary.LittleEndian.AppendUint32(append(p.b, 'r'), i)
}

func (p *pickler) global(name string) {
	if p.known("c" + name) {
		return
	}
	p.b = append(append(append(p.b, 'c'), name...), '\n')
	p.remember("c" + name)
}

func (p *pickler) str(s string) {
	if p.known("X" + s) {
		return
	}
	p.b = append(binary.LittleEndian.AppendUint32(append(p.b, 'X'), uint32(len(s))), s...)
	p.remember("X" + s)
}

func (p *pickler) orderedDict() {
	p.global("collections\nOrderedDict")
	p.b = append(p.b, ')', 'R')
}

func (p *pickler) ints(ns []int64) {
	p.b = append(p.b, '(')
	for _, n := range ns {
		p.int(n)
	}
	p.b = append(p.b, 't')
}

func (p *pickler) int(n int64) {
	switch {
	case n < 1<<8:
		p.b = append(p.b, 'K', byte(n))
	case n < 1<<31:
		p.b = binary.LittleEndian.AppendUint32(append(p.b, 'J'), uint32(n))
	default:
		p.b = binary.LittleEndian.AppendUint64(append(p.b, 0x8a, 8), uint64(n))
	}
}
