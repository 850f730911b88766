package pixel

import (
	"bytes"
	"encoding/binary"
	"math"
)

// Tags that are read.
const (
	tagOrientation = 0x0112
	tagXMP         = 0x02bc
)

// Orientation returns the orientation of an image file: 1 (as stored) to 8; 1 where there is none or it makes no sense.
// It stands where Pillow's ImageOps.exif_transpose (version 13) looks for it: in EXIF (JPEG segments, PNG's eXIf, the
// texts "exif" and "Raw profile type exif" that ImageMagick writes, WebP's chunk, TIFF's own directory), else in XMP.
func Orientation(b []byte) int {
	f, err := Sniff(b)
	if err != nil {
		return 1
	}
	var m metadata
	switch f {
	case JPEG:
		m = jpegMetadata(b)
	case PNG:
		m = pngMetadata(b)
	case WebP:
		m = webpMetadata(b)
	case TIFF:
		if t, err := openTIFF(b); err == nil {
			return t.orientation()
		}
	}
	return m.orientation()
}

// metadata is what of a file may say its orientation.
type metadata struct {
	exif    []byte // a TIFF file, perhaps behind "Exif\0\0"
	hasEXIF bool
	bad     bool // Pillow raises: the picture stays as it is stored
	xmp     []byte
}

func (m *metadata) orientation() int {
	if m.bad {
		return 1
	}
	if m.hasEXIF {
		block := m.exif
		for range 2 {
			block = bytes.TrimPrefix(block, []byte("Exif\x00\x00"))
		}
		if len(block) > 0 {
			order, ok := tiffOrder(block)
			if !ok || len(block) < 8 {
				return 1
			}
			if d := readDirectory(block, uint64(order.Uint32(block[4:])), order, false); d.oriented {
				return validOrientation(d.orientation)
			}
		}
	}
	return xmpOrientation(m.xmp)
}

func validOrientation(v float64) int {
	if v >= 2 && v <= 8 && v == math.Trunc(v) {
		return int(v)
	}
	return 1
}

// xmpOrientation finds the first tiff:Orientation="N" or tiff:Orientation>N, a digit.
func xmpOrientation(xmp []byte) int {
	name := []byte("tiff:Orientation")
	for {
		at := bytes.Index(xmp, name)
		if at < 0 {
			return 1
		}
		xmp = xmp[at+len(name):]
		for _, before := range []string{`="`, `>`} {
			if rest, ok := bytes.CutPrefix(xmp, []byte(before)); ok && len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9' {
				return validOrientation(float64(rest[0] - '0'))
			}
		}
	}
}

// tiffOrder is the byte order of a TIFF header as Pillow accepts it, also with its number in the wrong order. BigTIFF,
// which EXIF cannot be, is refused in one order and taken for TIFF in the other.
func tiffOrder(b []byte) (binary.ByteOrder, bool) {
	if len(b) >= 4 {
		switch string(b[:4]) {
		case "II*\x00", "II\x00*":
			return binary.LittleEndian, true
		case "MM\x00*", "MM*\x00", "MM\x00+":
			return binary.BigEndian, true
		}
	}
	return nil, false
}

// directory is what of a TIFF directory says the orientation.
type directory struct {
	orientation float64
	oriented    bool // the tag is there, whatever it says
	xmp         []byte
}

// valueSizes are the bytes of one value of each type.
var valueSizes = map[uint16]uint64{1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8}

// readDirectory reads a directory by the rules of Pillow's ImageFileDirectory_v2.load: an entry of an unknown type, or
// of more data than the file has bytes, is passed over, one whose data lie behind the end is the last.
func readDirectory(b []byte, at uint64, order binary.ByteOrder, big bool) (d directory) {
	size, word, head := uint64(12), uint64(4), uint64(2)
	if big {
		size, word, head = 20, 8, 8
	}
	if at > uint64(len(b)) || uint64(len(b))-at < head {
		return d
	}
	entries := b[at+head:]
	n := uint64(order.Uint16(b[at:]))
	if big {
		n = order.Uint64(b[at:])
	}
	total := uint64(0)
	for ; n > 0 && uint64(len(entries)) >= size; n, entries = n-1, entries[size:] {
		tag, kind, count := order.Uint16(entries), order.Uint16(entries[2:]), uint64(order.Uint32(entries[4:]))
		if big {
			count = order.Uint64(entries[4:])
		}
		if tag == tagOrientation && d.oriented || tag == tagXMP && d.xmp != nil {
			continue // the first counts
		}
		unit, known := valueSizes[kind]
		if !known || count == 0 {
			continue
		}
		count = min(count, 1<<40) // no sum of them overflows
		data := entries[4+word : size]
		if need := count * unit; need > word {
			if total += need; total > uint64(len(b)) {
				continue
			}
			from := uint64(order.Uint32(data))
			if big {
				from = order.Uint64(data)
			}
			if from > uint64(len(b)) || uint64(len(b))-from < need {
				return d
			}
			data = b[from:][:need]
		} else {
			data = data[:need]
		}
		switch tag {
		case tagOrientation:
			d.oriented, d.orientation = true, number(data, kind, order)
		case tagXMP:
			if kind == 1 || kind == 7 {
				d.xmp = data
			}
		}
	}
	return d
}

// number is the first value of an entry, 0 where it is no number: bytes and texts are none to Pillow.
func number(b []byte, kind uint16, order binary.ByteOrder) float64 {
	switch kind {
	case 3:
		return float64(order.Uint16(b))
	case 4, 13:
		return float64(order.Uint32(b))
	case 5:
		return float64(order.Uint32(b)) / float64(order.Uint32(b[4:]))
	case 6:
		return float64(int8(b[0]))
	case 8:
		return float64(int16(order.Uint16(b)))
	case 9:
		return float64(int32(order.Uint32(b)))
	case 10:
		return float64(int32(order.Uint32(b))) / float64(int32(order.Uint32(b[4:])))
	case 11:
		return float64(math.Float32frombits(order.Uint32(b)))
	case 12:
		return math.Float64frombits(order.Uint64(b))
	case 16:
		return float64(order.Uint64(b))
	}
	return 0
}

const xmpSegment = "http://ns.adobe.com/xap/1.0/\x00"

// jpegMetadata reads the segments before the image data: EXIF may be cut into several, of XMP the last counts.
func jpegMetadata(b []byte) (m metadata) {
	for i := 2; i+4 <= len(b); {
		if b[i] != 0xff || b[i+1] == 0xff {
			i++
			continue
		}
		marker := b[i+1]
		if marker < 0xc0 || marker == 0xc8 || marker >= 0xd0 && marker <= 0xd9 || marker >= 0xf0 && marker <= 0xfd {
			i += 2
			continue
		}
		end := i + 2 + int(binary.BigEndian.Uint16(b[i+2:]))
		if marker == 0xda || end < i+4 || end > len(b) {
			return m
		}
		if body := b[i+4 : end]; marker == 0xe1 {
			switch {
			case bytes.HasPrefix(body, []byte("Exif\x00\x00")) && m.hasEXIF:
				m.exif = append(m.exif[:len(m.exif):len(m.exif)], body[6:]...)
			case bytes.HasPrefix(body, []byte("Exif\x00\x00")):
				m.exif, m.hasEXIF = body, true
			case bytes.HasPrefix(body, []byte(xmpSegment)):
				m.xmp = body[len(xmpSegment):]
			}
		}
		i = end
	}
	return m
}

// webpMetadata reads the chunks that the file's header announces.
func webpMetadata(b []byte) (m metadata) {
	header := riffChunk(b, "VP8X")
	if len(header) < 10 {
		return m
	}
	const xmp, exif = 4, 8
	if header[0]&exif != 0 {
		m.exif = riffChunk(b, "EXIF")
		m.hasEXIF = len(m.exif) > 0
	}
	if header[0]&xmp != 0 {
		m.xmp = riffChunk(b, "XMP ")
	}
	return m
}
