package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"unicode/utf8"
	"unsafe"
)

const (
	// MaxHeader is the longest header in bytes, as in the reference implementation.
	MaxHeader = 100_000_000
	// MaxRank is the largest number of dimensions, as in numpy and in libtorch's iterators.
	MaxRank = 64
	// MaxMetadata is the largest number of metadata entries.
	MaxMetadata = 4096

	metadataKey = "__metadata__"
)

// header is the checked content of a header. To stay within the memory that the header's text took, whatever it says,
// the text is rewritten in place: a tensor's text becomes a shorter binary record, and the room gained takes two sorted
// lists of record positions. Names and metadata are views into the buffer, which never changes afterwards.
//
// A record: length of the name (uvarint), name, dtype (1 byte), begin and end (8 bytes each), number of dimensions
// (1 byte), dimensions (uvarints). That is at most 22 bytes beside name and dimensions, and 4 in each list; the text
// has at least 49 beside the name, and a uvarint is never longer than the digits of its number.
type header struct {
	buf      []byte
	byOffset index // order of the data
	byName   index
	metadata map[string]string
}

// record is one tensor; name and dims are views into the buffer.
type record struct {
	name       string
	dtype      int
	begin, end int64
	rank       int
	dims       []byte // rank uvarints, then whatever follows
}

// index is a list of record positions, each a little-endian uint32.
type index []byte

func (ix index) len() int            { return len(ix) / 4 }
func (ix index) at(i int) uint32     { return binary.LittleEndian.Uint32(ix[4*i:]) }
func (ix index) set(i int, v uint32) { binary.LittleEndian.PutUint32(ix[4*i:], v) }

// sorter sorts an index.
type sorter struct {
	index
	less func(a, b uint32) bool
}

func (s sorter) Len() int           { return s.len() }
func (s sorter) Less(i, j int) bool { return s.less(s.at(i), s.at(j)) }
func (s sorter) Swap(i, j int)      { a, b := s.at(i), s.at(j); s.set(i, b); s.set(j, a) }

// sort skips the work where the order is right already, the usual case.
func (s sorter) sort() {
	if !sort.IsSorted(s) {
		sort.Sort(s)
	}
}

func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// parseHeader checks a header and takes over its buffer. dataSize is the number of bytes that follow it in the file.
func parseHeader(buf []byte, dataSize int64) (*header, error) {
	if len(buf) == 0 || buf[0] != '{' {
		return nil, errors.New("the header does not begin with {")
	}
	if !utf8.Valid(buf) {
		return nil, errors.New("the header is not valid UTF-8")
	}
	h := &header{buf: buf}
	s := &scanner{buf: buf}
	out := buf[:0]             // what the text becomes; it ends before the scanner's position at all times
	n, hasMetadata := 0, false // tensors and "__metadata__" (perhaps null) so far
	gap, gapEnd := 0, 0        // out holds records up to gap, then metadata up to gapEnd, then records
	err := s.object(func(key []byte) (err error) {
		if string(key) == metadataKey {
			if hasMetadata {
				return s.errorf("%s occurs twice", metadataKey)
			}
			hasMetadata, gap = true, len(out)
			out, err = h.parseMetadata(s, out)
			gapEnd = len(out)
			return err
		}
		n++
		out, err = parseTensor(s, key, out, dataSize)
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.next(); s.pos < len(buf) {
		return nil, s.errorf("found %q behind the header's closing }", buf[s.pos])
	}

	lists := buf[len(out):]
	h.byOffset, h.byName = index(lists[:4*n]), index(lists[4*n:8*n])
	pos := 0
	for i := range n {
		if pos == gap {
			pos = gapEnd
		}
		h.byOffset.set(i, uint32(pos))
		h.byName.set(i, uint32(pos))
		pos = h.skip(uint32(pos))
	}
	if err := h.sortNames(); err != nil {
		return nil, err
	}
	if err := h.sortOffsets(dataSize); err != nil {
		return nil, err
	}
	return h, nil
}

// parseMetadata reads the metadata object or null and appends its decoded text to out.
func (h *header) parseMetadata(s *scanner, out []byte) ([]byte, error) {
	if s.null() {
		return out, nil
	}
	h.metadata = map[string]string{}
	keep := func(b []byte) string {
		start := len(out)
		out = append(out, b...)
		return view(out[start:])
	}
	err := s.object(func(key []byte) error {
		k := keep(key)
		if _, twice := h.metadata[k]; twice {
			return s.errorf("metadata key %s occurs twice", quote(k))
		}
		if len(h.metadata) == MaxMetadata {
			return s.errorf("more than %d metadata entries", MaxMetadata)
		}
		value, err := s.str()
		if err != nil {
			return fmt.Errorf("metadata %s must be a string: %w", quote(k), err)
		}
		h.metadata[k] = keep(value)
		return nil
	})
	return out, err
}

// parseTensor reads {"dtype": …, "shape": …, "data_offsets": …}, checks them and appends the tensor's record to out.
func parseTensor(s *scanner, name, out []byte, dataSize int64) ([]byte, error) {
	var (
		dtype          = -1
		dims, offsets  [MaxRank]int64
		rank, noffsets = -1, -1
	)
	// integers reads a list into to and returns its length; was is what earlier calls for the same field returned.
	integers := func(to *[MaxRank]int64, was int) (n int, err error) {
		if was >= 0 {
			return 0, s.errorf("a field occurs twice")
		}
		err = s.list('[', ']', func() (err error) {
			if n == MaxRank {
				return s.errorf("more than %d dimensions", MaxRank)
			}
			to[n], err = s.integer()
			n++
			return err
		})
		return n, err
	}
	err := s.object(func(key []byte) (err error) {
		switch string(key) {
		case "dtype":
			if dtype >= 0 {
				return s.errorf("a field occurs twice")
			}
			text, err := s.str()
			if err != nil {
				return err
			}
			if dtype = Dtype(text).rank(); dtype < 0 {
				return s.errorf("unknown dtype %s (known: %s)", quote(text), known())
			}
		case "shape":
			rank, err = integers(&dims, rank)
		case "data_offsets":
			noffsets, err = integers(&offsets, noffsets)
		default:
			return s.errorf("unknown field %s", quote(key))
		}
		return err
	})
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("tensor %s: %w", quote(name), err) }
	if err != nil {
		return fail(err)
	}
	if dtype < 0 || rank < 0 || noffsets < 0 {
		return fail(errors.New("dtype, shape or data_offsets is missing"))
	}
	if noffsets != 2 {
		return fail(fmt.Errorf("data_offsets holds %d numbers, not 2", noffsets))
	}
	shape, begin, end := dims[:rank], offsets[0], offsets[1]
	want, err := size(dtype, shape)
	if err != nil {
		return fail(err)
	}
	if begin > end {
		return fail(fmt.Errorf("data_offsets [%d, %d] run backwards", begin, end))
	}
	if end-begin != want {
		return fail(fmt.Errorf("shape %v in %s takes %d bytes, data_offsets [%d, %d] hold %d",
			slices.Clone(shape), dtypes[dtype].name, want, begin, end, end-begin))
	}
	if end > dataSize {
		return fail(fmt.Errorf("its data ends at byte %d of the data, the file has only %d: is it truncated?", end, dataSize))
	}

	// The name may lie less than its length's uvarint ahead: move it first.
	var prefix [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(prefix[:], uint64(len(name)))
	start := len(out)
	out = out[:start+k+len(name)]
	copy(out[start+k:], name)
	copy(out[start:], prefix[:k])
	out = append(out, byte(dtype))
	out = binary.LittleEndian.AppendUint64(out, uint64(begin))
	out = binary.LittleEndian.AppendUint64(out, uint64(end))
	out = append(out, byte(rank))
	for _, d := range shape {
		out = binary.AppendUvarint(out, uint64(d))
	}
	return out, nil
}

// name returns the name in the record at pos and the position behind it.
func (h *header) name(pos uint32) (string, int) {
	n, k := binary.Uvarint(h.buf[pos:])
	start := int(pos) + k
	end := start + int(n)
	return view(h.buf[start:end]), end
}

func (h *header) record(pos uint32) record {
	name, end := h.name(pos)
	b := h.buf[end:]
	return record{
		name:  name,
		dtype: int(b[0]),
		begin: int64(binary.LittleEndian.Uint64(b[1:])),
		end:   int64(binary.LittleEndian.Uint64(b[9:])),
		rank:  int(b[17]),
		dims:  b[18:],
	}
}

// skip returns the position behind the record at pos.
func (h *header) skip(pos uint32) int {
	_, end := h.name(pos)
	rank := h.buf[end+17]
	end += 18
	for range rank {
		_, k := binary.Uvarint(h.buf[end:])
		end += k
	}
	return end
}

// shape decodes the dimensions.
func (r record) shape() []int64 {
	shape, b := make([]int64, r.rank), r.dims
	for i := range shape {
		d, k := binary.Uvarint(b)
		shape[i], b = int64(d), b[k:]
	}
	return shape
}

// find returns the record of a tensor.
func (h *header) find(name string) (record, bool) {
	i := sort.Search(h.byName.len(), func(i int) bool {
		at, _ := h.name(h.byName.at(i))
		return at >= name
	})
	if i < h.byName.len() {
		if r := h.record(h.byName.at(i)); r.name == name {
			return r, true
		}
	}
	return record{}, false
}

// sortNames fills the order by name and refuses a name that occurs twice.
func (h *header) sortNames() error {
	sorter{h.byName, func(a, b uint32) bool {
		x, _ := h.name(a)
		y, _ := h.name(b)
		return x < y
	}}.sort()
	last := ""
	for i := range h.byName.len() {
		name, _ := h.name(h.byName.at(i))
		if i > 0 && name == last {
			return fmt.Errorf("tensor %s occurs twice", quote(name))
		}
		last = name
	}
	return nil
}

// sortOffsets fills the order of the data and refuses holes, overlaps and bytes behind the last tensor.
func (h *header) sortOffsets(dataSize int64) error {
	sorter{h.byOffset, func(a, b uint32) bool {
		x, y := h.record(a), h.record(b)
		if x.begin != y.begin {
			return x.begin < y.begin
		}
		if x.end != y.end { // an empty tensor lies before the one that begins at the same byte
			return x.end < y.end
		}
		return a < b
	}}.sort()
	var at int64
	for i := range h.byOffset.len() {
		r := h.record(h.byOffset.at(i))
		if r.begin < at {
			return fmt.Errorf("tensor %s begins at byte %d of the data, inside the tensor before it, which ends at %d", quote(r.name), r.begin, at)
		}
		if r.begin > at {
			return fmt.Errorf("bytes %d to %d of the data, before tensor %s, belong to no tensor", at, r.begin, quote(r.name))
		}
		at = r.end
	}
	if at != dataSize {
		return fmt.Errorf("the last tensor ends at byte %d of the data, the file goes on to %d", at, dataSize)
	}
	return nil
}

// quote shows text from the file in an error, cut to a readable length.
func quote[T ~string | ~[]byte](text T) string {
	if len(text) > 200 {
		return fmt.Sprintf("%q…", text[:200])
	}
	return fmt.Sprintf("%q", text)
}
