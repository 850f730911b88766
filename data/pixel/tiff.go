package pixel

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"golang.org/x/image/ccitt"
	"golang.org/x/image/tiff/lzw"
)

// TIFF tags that are read.
const (
	tiffWidth        = 256
	tiffHeight       = 257
	tiffBits         = 258
	tiffCompression  = 259
	tiffPhotometric  = 262
	tiffFillOrder    = 266
	tiffStripOffsets = 273
	tiffSamples      = 277
	tiffRowsPerStrip = 278
	tiffStripBytes   = 279
	tiffPlanar       = 284
	tiffT4           = 292
	tiffPredictor    = 317
	tiffColorMap     = 320
	tiffTileWidth    = 322
	tiffTileHeight   = 323
	tiffTileOffsets  = 324
	tiffTileBytes    = 325
	tiffExtra        = 338
	tiffSampleFormat = 339
	tiffJPEGTables   = 347
)

// Compressions.
const (
	tiffNone     = 1
	tiffG3       = 3
	tiffG4       = 4
	tiffLZW      = 5
	tiffJPEG     = 7
	tiffDeflate  = 8
	tiffPackBits = 32773
	tiffDeflate2 = 32946
)

// tiffFile is the first picture of a TIFF or BigTIFF file. golang.org/x/image/tiff knows fewer kinds and reads some
// otherwise than libtiff, so the directory is read here by the rules of Pillow's TiffImagePlugin, and its compressions
// come from kept packages.
type tiffFile struct {
	b       []byte
	order   binary.ByteOrder
	at      uint64 // of the directory
	big     bool   // BigTIFF
	tags    map[uint16]tiffValues
	w, h    int
	bits    int // of a sample
	samples int // of a pixel
	extra   tiffValues
	photo   uint64
	compr   uint64
	format  uint64 // of samples: 1 unsigned, 2 signed, 3 floating point
	planar  bool   // each sample in its own plane
	tables  []byte
	turned  []byte // a block whose bits are in the other order
}

// tiffValues are the numbers of a directory's entry, where they stand in the file: a few bytes of directory may name
// the whole file in each entry.
type tiffValues struct {
	data  []byte
	size  int // bytes of a number
	order binary.ByteOrder
}

func (v tiffValues) len() int {
	if v.size == 0 {
		return 0
	}
	return len(v.data) / v.size
}

func (v tiffValues) at(i int) uint64 {
	switch b := v.data[i*v.size:]; v.size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(v.order.Uint16(b))
	case 4:
		return uint64(v.order.Uint32(b))
	default:
		return v.order.Uint64(b)
	}
}

func isTIFF(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	switch string(b[:4]) {
	case "II*\x00", "MM\x00*", "II+\x00", "MM\x00+":
		return true
	}
	return false
}

func parseTIFF(b []byte) (*tiffFile, error) {
	f, err := openTIFF(b)
	if err != nil {
		return nil, err
	}
	return f, f.describe()
}

// openTIFF reads the header and the directory.
func openTIFF(b []byte) (*tiffFile, error) {
	short := damaged("TIFF: the file ends within its directory")
	if len(b) < 8 {
		return nil, short
	}
	f := &tiffFile{b: b, order: binary.LittleEndian, tags: map[uint16]tiffValues{}}
	if b[0] == 'M' {
		f.order = binary.BigEndian
	}
	big := b[2] == '+' || b[3] == '+'
	word := 4 // bytes of an offset
	if big {
		word = 8
	}
	number := func(at uint64) (uint64, bool) {
		if at > uint64(len(b)) || uint64(len(b))-at < uint64(word) {
			return 0, false
		}
		if big {
			return f.order.Uint64(b[at:]), true
		}
		return uint64(f.order.Uint32(b[at:])), true
	}
	start := uint64(4)
	if big {
		start = 8
	}
	at, ok := number(start)
	if !ok || at > uint64(len(b)) {
		return nil, short
	}
	f.at, f.big = at, big
	var entries uint64
	if big {
		entries, ok = number(at)
		at += 8
	} else if ok = uint64(len(b))-at >= 2; ok {
		entries = uint64(f.order.Uint16(b[at:]))
		at += 2
	}
	size := uint64(4 + 2*word)
	if !ok || entries > (uint64(len(b))-at)/size {
		return nil, short
	}
	for i := range entries {
		if !f.entry(b[at+i*size:], word) {
			return nil, short
		}
	}
	return f, nil
}

// entry reads one entry of the directory and says whether its values are in the file; a tag or type that nobody reads
// is left out.
func (f *tiffFile) entry(e []byte, word int) bool {
	tag, kind := f.order.Uint16(e), f.order.Uint16(e[2:])
	size := map[uint16]uint64{1: 1, 2: 1, 3: 2, 4: 4, 6: 1, 7: 1, 8: 2, 9: 4, 13: 4, 16: 8, 17: 8, 18: 8}[kind]
	count := uint64(f.order.Uint32(e[4:]))
	if word == 8 {
		count = f.order.Uint64(e[4:])
	}
	if size == 0 || count == 0 || !(tag >= tiffWidth && tag <= tiffJPEGTables) {
		return true
	}
	if count > uint64(len(f.b))/size {
		return false
	}
	data := e[4+word : 4+2*word]
	if count*size > uint64(word) {
		at := uint64(f.order.Uint32(data))
		if word == 8 {
			at = f.order.Uint64(data)
		}
		if at > uint64(len(f.b)) || uint64(len(f.b))-at < count*size {
			return false
		}
		data = f.b[at:]
	}
	if tag == tiffJPEGTables {
		f.tables = data[:count*size]
		return true
	}
	f.tags[tag] = tiffValues{data[:count*size], int(size), f.order}
	return true
}

func (f *tiffFile) first(tag uint16, otherwise uint64) uint64 {
	if v := f.tags[tag]; v.len() > 0 {
		return v.at(0)
	}
	return otherwise
}

// describe checks that the picture is of a kind that is read.
func (f *tiffFile) describe() error {
	w, h := f.first(tiffWidth, 0), f.first(tiffHeight, 0)
	if w == 0 || h == 0 || w > 1<<31 || h > 1<<31 {
		return damaged("TIFF: a picture of %d×%d", w, h)
	}
	f.w, f.h = int(w), int(h)
	f.photo, f.compr = f.first(tiffPhotometric, 0), f.first(tiffCompression, tiffNone)
	f.extra = f.tags[tiffExtra]
	f.format = f.first(tiffSampleFormat, 1)
	f.planar = f.first(tiffPlanar, 1) == 2
	samples := f.first(tiffSamples, 1)
	if samples < 1 || samples > 6 {
		return unsupported("TIFF: %d samples a pixel", samples)
	}
	f.samples = int(samples)
	depth := f.first(tiffBits, 1)
	for i := range min(f.tags[tiffBits].len(), f.samples) {
		if d := f.tags[tiffBits].at(i); d != depth {
			return unsupported("TIFF: samples of %d and %d bits", depth, d)
		}
	}
	f.bits = int(min(depth, 64))
	want := map[uint64]int{0: 1, 1: 1, 2: 3, 3: 1, 5: 4, 6: 3, 8: 3}[f.photo]
	known := want > 0 && f.samples >= want
	switch f.photo {
	case 0, 1:
		known = known && (f.samples == 1 || f.samples == 2 && f.bits == 8 && f.extra.len() == 1 && f.extra.at(0) != 1)
		switch {
		case f.bits == 1, f.bits == 2, f.bits == 4, f.bits == 8, f.bits == 16 && f.format <= 2:
		case f.bits == 32:
			known = known && f.format >= 1 && f.format <= 3
		default:
			known = false
		}
	case 2, 5:
		known = known && (f.bits == 8 || f.bits == 16) && f.format == 1
	case 3:
		known = known && (f.bits == 1 || f.bits == 2 || f.bits == 4 || f.bits == 8) && f.tags[tiffColorMap].len() >= 3<<f.bits
	case 6:
		known = known && f.compr == tiffJPEG && f.samples == 3 && f.bits == 8
	default:
		known = false
	}
	if !known {
		return unsupported("TIFF: photometric %d, %d samples of %d bits, sample format %d", f.photo, f.samples, f.bits, f.format)
	}
	switch f.compr {
	case tiffNone, tiffLZW, tiffDeflate, tiffDeflate2, tiffPackBits:
	case tiffG3:
		if f.bits != 1 || f.samples != 1 || f.first(tiffT4, 0)&1 != 0 {
			return unsupported("TIFF: two-dimensional CCITT group 3")
		}
	case tiffG4:
		if f.bits != 1 || f.samples != 1 {
			return unsupported("TIFF: CCITT of %d bits", f.bits)
		}
	case tiffJPEG:
		if f.bits != 8 || f.planar && f.samples > 1 || !(f.photo == 1 && f.samples == 1 || (f.photo == 2 || f.photo == 6) && f.samples == 3) {
			return unsupported("TIFF: JPEG of %d samples, photometric %d", f.samples, f.photo)
		}
	default:
		return unsupported("TIFF: compression %d", f.compr)
	}
	return nil
}

// orientation is applied by Pillow to every TIFF file.
func (f *tiffFile) orientation() int {
	d := readDirectory(f.b, f.at, f.order, f.big)
	if d.oriented {
		return validOrientation(d.orientation)
	}
	return xmpOrientation(d.xmp)
}

func tiffSize(b []byte) (w, h int, err error) {
	f, err := parseTIFF(b)
	if err != nil {
		return 0, 0, err
	}
	if o := f.orientation(); o >= 5 && o <= 8 {
		return f.h, f.w, nil
	}
	return f.w, f.h, nil
}

func decodeTIFF(b []byte, o Options) (*RGB, error) {
	f, err := parseTIFF(b)
	if err != nil {
		return nil, err
	}
	l, err := f.layout()
	if err != nil {
		return nil, err
	}
	var p *RGB
	if f.compr == tiffJPEG {
		p, err = f.fromJPEG(l, o)
	} else {
		p, err = f.fromPlanes(l, o)
	}
	if err != nil {
		return nil, err
	}
	return p.oriented(f.orientation()), nil
}

// tiffLayout is how the picture is cut into strips or tiles.
type tiffLayout struct {
	offsets, sizes tiffValues
	w, h           int // of a block; strips are as wide as the picture
	across, down   int
	tiles          bool
	planes         int
}

func (f *tiffFile) layout() (tiffLayout, error) {
	l := tiffLayout{offsets: f.tags[tiffStripOffsets], sizes: f.tags[tiffStripBytes], w: f.w, h: f.h, planes: 1}
	if f.planar {
		l.planes = f.samples
	}
	rows := f.first(tiffRowsPerStrip, uint64(f.h))
	if l.offsets.len() == 0 {
		l.tiles, l.offsets, l.sizes = true, f.tags[tiffTileOffsets], f.tags[tiffTileBytes]
		width := f.first(tiffTileWidth, 0)
		rows = f.first(tiffTileHeight, 0)
		if width < 1 || rows < 1 || width > 1<<16 || rows > 1<<16 || width*uint64(f.bits)%8 != 0 {
			return l, damaged("TIFF: tiles of %d×%d", width, rows)
		}
		l.w = int(width)
	}
	if rows == 0 {
		return l, damaged("TIFF: strips without rows")
	}
	if l.tiles {
		l.h = int(rows)
	} else {
		l.h = int(min(rows, uint64(f.h)))
	}
	l.across, l.down = (f.w+l.w-1)/l.w, (f.h+l.h-1)/l.h
	need := int64(l.across) * int64(l.down) * int64(l.planes)
	if int64(l.offsets.len()) < need {
		return l, damaged("TIFF: %d strips or tiles, %d are needed", l.offsets.len(), need)
	}
	if most := tiffBlocks + int64(f.w)*int64(f.h)/256; need > most { // each costs microseconds, however small
		return l, fmt.Errorf("%w: a TIFF of %d×%d pixels in %d strips or tiles; at most %d are decoded", ErrTooLarge, f.w, f.h, need, most)
	}
	return l, nil
}

// tiffBlocks is how many strips or tiles a small file may have.
const tiffBlocks = 1 << 16

// memory is what decoding takes: the planes, a block and the picture.
func (f *tiffFile) memory(l tiffLayout) int64 {
	pixels, block := int64(f.w)*int64(f.h), int64(l.w)*int64(l.h)
	if f.compr == tiffJPEG { // whose streams are checked one by one
		return 6 * pixels
	}
	samples := int64(f.samples * f.bits)
	return 3*pixels + (pixels*samples+block*samples/int64(l.planes))/8
}

// block returns the stored bytes of a block; uncompressed ones may lack their size.
func (f *tiffFile) block(l tiffLayout, i int, plain int) ([]byte, error) {
	at := l.offsets.at(i)
	if at > uint64(len(f.b)) {
		return nil, damaged("TIFF: strip or tile %d lies behind the end of the file", i)
	}
	rest := f.b[at:]
	if f.compr == tiffNone {
		if len(rest) < plain {
			return nil, damaged("TIFF: strip or tile %d lacks %d bytes", i, plain-len(rest))
		}
		return rest[:plain], nil
	}
	if i < l.sizes.len() && l.sizes.at(i) <= uint64(len(rest)) {
		rest = rest[:l.sizes.at(i)]
	}
	return rest, nil
}

// fromPlanes decompresses all blocks into one buffer for each plane, then converts rows.
func (f *tiffFile) fromPlanes(l tiffLayout, o Options) (*RGB, error) {
	perPixel := f.samples // samples of a pixel in one plane
	if f.planar {
		perPixel = 1
	}
	row := (f.w*f.bits*perPixel + 7) / 8
	blockRow := (l.w*f.bits*perPixel + 7) / 8
	if f.compr != tiffG3 && f.compr != tiffG4 && int64(row)*int64(f.h)*int64(l.planes)/4096 > int64(len(f.b)) {
		return nil, damaged("TIFF: %d bytes cannot hold %d×%d pixels", len(f.b), f.w, f.h)
	}
	planes := make([][]byte, l.planes)
	buf := make([]byte, min(blockRow*l.h, 1<<31))
	for p := range planes {
		plane := make([]byte, row*f.h)
		for y := range l.down {
			rows := min(l.h, f.h-y*l.h)
			stored := rows
			if l.tiles {
				stored = l.h
			}
			for x := range l.across {
				i := (p*l.down+y)*l.across + x
				n := blockRow * stored
				raw, err := f.block(l, i, n)
				if err != nil {
					return nil, err
				}
				out := buf[:n]
				if err := f.expand(out, raw, l.w, stored); err != nil {
					return nil, damaged("TIFF: strip or tile %d: %w", i, err)
				}
				f.predict(out, blockRow, l.w, perPixel)
				from := x * blockRow
				width := min(blockRow, row-from)
				for r := range rows {
					copy(plane[(y*l.h+r)*row+from:][:width], out[r*blockRow:])
				}
			}
		}
		planes[p] = plane
	}
	return f.convert(planes, row, o), nil
}

// tiffSpare is how much longer than its pixels and again as long a compressed block may be: tables, empty runs.
const tiffSpare = 1 << 16

// expand undoes the compression of a block of that many pixels.
func (f *tiffFile) expand(out, raw []byte, w, h int) error {
	if f.first(tiffFillOrder, 1) == 2 {
		n := min(len(raw), 2*len(out)+tiffSpare) // all blocks may name the whole file
		turned := slices.Grow(f.turned[:0], n)[:n]
		f.turned = turned
		for i := range turned {
			turned[i] = bits.Reverse8(raw[i])
		}
		raw = turned
	}
	var r io.Reader
	switch f.compr {
	case tiffNone:
		copy(out, raw)
		return nil
	case tiffPackBits:
		return unpackBits(out, raw)
	case tiffLZW:
		c := lzw.NewReader(bytes.NewReader(raw), lzw.MSB, 8)
		defer c.Close()
		r = c
	case tiffG3:
		r = ccitt.NewReader(bytes.NewReader(raw), ccitt.MSB, ccitt.Group3, w, h, &ccitt.Options{Invert: true})
	case tiffG4:
		r = ccitt.NewReader(bytes.NewReader(raw), ccitt.MSB, ccitt.Group4, w, h, &ccitt.Options{Invert: true})
	default:
		z, err := zlib.NewReader(bytes.NewReader(raw))
		if err != nil {
			return err
		}
		defer z.Close()
		r = z
	}
	_, err := io.ReadFull(r, out)
	return err
}

var errPackBits = errors.New("packed bytes end early")

func unpackBits(out, raw []byte) error {
	for at := 0; at < len(out); {
		if len(raw) < 2 {
			return errPackBits
		}
		n := int(int8(raw[0]))
		switch {
		case n >= 0:
			if len(raw) < n+2 {
				return errPackBits
			}
			at += copy(out[at:], raw[1:n+2])
			raw = raw[n+2:]
		case n == -128:
			raw = raw[1:]
		default:
			for range min(1-n, len(out)-at) {
				out[at] = raw[1]
				at++
			}
			raw = raw[2:]
		}
	}
	return nil
}

// predict undoes the differences between neighbours, which only these compressions have.
func (f *tiffFile) predict(b []byte, row, w, perPixel int) {
	predictor := f.first(tiffPredictor, 1)
	if predictor < 2 || f.compr != tiffLZW && f.compr != tiffDeflate && f.compr != tiffDeflate2 {
		return
	}
	for ; len(b) >= row; b = b[row:] {
		line := b[:row]
		switch {
		case predictor == 3: // bytes of floating-point numbers, most significant first, in planes
			for i := perPixel; i < row; i++ {
				line[i] += line[i-perPixel]
			}
			n, size := w*perPixel, f.bits/8
			whole := bytes.Clone(line)
			for i := range n {
				for k := range size {
					to := k
					if f.order == binary.ByteOrder(binary.LittleEndian) {
						to = size - 1 - k
					}
					line[i*size+to] = whole[k*n+i]
				}
			}
		case f.bits == 8:
			for i := perPixel; i < row; i++ {
				line[i] += line[i-perPixel]
			}
		case f.bits == 16:
			for i := perPixel; i < w*perPixel; i++ {
				f.order.PutUint16(line[2*i:], f.order.Uint16(line[2*i:])+f.order.Uint16(line[2*(i-perPixel):]))
			}
		case f.bits == 32:
			for i := perPixel; i < w*perPixel; i++ {
				f.order.PutUint32(line[4*i:], f.order.Uint32(line[4*i:])+f.order.Uint32(line[4*(i-perPixel):]))
			}
		}
	}
}
