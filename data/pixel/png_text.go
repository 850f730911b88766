package pixel

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"unicode/utf8"
)

// maxText is Pillow's limit of an unpacked text; it refuses a file with a longer one.
const maxText = 1 << 20

// Names of the texts that may hold an orientation.
const (
	textEXIF    = "exif"
	textProfile = "Raw profile type exif"
	textXMP     = "XML:com.adobe.xmp"
)

// pngTexts collects a PNG's chunks as Pillow does: of each name the last counts, chunks behind the pixels too.
type pngTexts struct {
	exif, profile, xmpText, xmp []byte
	hasEXIF, hasProfile         bool
	exifIsText                  bool // which Pillow cannot take for bytes
	bad                         bool
}

// pngMetadata reads a PNG's chunks up to its end, or to the second frame of an animation.
func pngMetadata(b []byte) metadata {
	var t pngTexts
	pixels, control := false, false
	frames := int64(0) // of an animation
	for i := len(pngSignature); len(b)-i >= 8; {
		n, kind := int64(binary.BigEndian.Uint32(b[i:])), string(b[i+4:i+8])
		if n > int64(len(b)-i-8) || kind == "IEND" {
			break
		}
		body := b[i+8 : i+8+int(n)]
		switch kind {
		case "IDAT":
			pixels = true
		case "acTL":
			if len(body) >= 8 && !pixels {
				frames = int64(binary.BigEndian.Uint32(body))
			}
		case "fcTL":
			if pixels && frames > 0 && (frames > 1 || !control) {
				return t.metadata()
			}
			control = true
		case "eXIf":
			t.exif, t.hasEXIF, t.exifIsText = append([]byte("Exif\x00\x00"), body...), true, false
		case "tEXt":
			name, value, _ := bytes.Cut(body, []byte{0})
			t.set(string(name), value, string(name) == textEXIF)
		case "zTXt":
			t.compressed(body)
		case "iTXt":
			t.international(body)
		}
		i += 12 + int(n)
	}
	return t.metadata()
}

// set keeps a text under its name; raw says that Pillow keeps its bytes.
func (t *pngTexts) set(name string, value []byte, raw bool) {
	switch name {
	case textEXIF:
		t.exif, t.hasEXIF, t.exifIsText = value, true, !raw
	case textProfile:
		t.profile, t.hasProfile = value, true
	case textXMP:
		t.xmpText = value
	}
}

func wantedText(name string) bool { return name == textEXIF || name == textProfile || name == textXMP }

func (t *pngTexts) compressed(body []byte) {
	name, value, _ := bytes.Cut(body, []byte{0})
	if !wantedText(string(name)) {
		return
	}
	if len(value) > 0 {
		if value[0] != 0 {
			t.bad = true
			return
		}
		value = value[1:]
	}
	text, err := inflated(value)
	if errors.Is(err, errLongText) {
		t.bad = true
	} else if err != nil {
		text = nil
	}
	t.set(string(name), text, false)
}

func (t *pngTexts) international(body []byte) {
	name, rest, ok := bytes.Cut(body, []byte{0})
	if !ok || len(rest) < 2 || !wantedText(string(name)) {
		return
	}
	packed, method := rest[0] != 0, rest[1]
	parts := bytes.SplitN(rest[2:], []byte{0}, 3)
	if len(parts) < 3 {
		return
	}
	value := parts[2]
	if packed {
		if method != 0 {
			return
		}
		var err error
		if value, err = inflated(value); err != nil {
			t.bad = t.bad || errors.Is(err, errLongText)
			return
		}
	}
	if string(name) == textXMP {
		t.xmp = value
	}
	if utf8.Valid(parts[0]) && utf8.Valid(parts[1]) && utf8.Valid(value) {
		t.set(string(name), value, false)
	}
}

func (t *pngTexts) metadata() metadata {
	m := metadata{exif: t.exif, hasEXIF: t.hasEXIF, bad: t.bad || t.hasEXIF && t.exifIsText, xmp: t.xmpText}
	if !t.hasEXIF && t.hasProfile {
		block, err := rawProfile(t.profile)
		m.exif, m.hasEXIF, m.bad = block, true, m.bad || err != nil
	}
	if len(m.xmp) == 0 {
		m.xmp = t.xmp
	}
	return m
}

// rawProfile reads ImageMagick's form: an empty line, the profile's name, its length, then lines of hexadecimal digits.
func rawProfile(text []byte) ([]byte, error) {
	lines := bytes.SplitN(text, []byte{'\n'}, 4)
	if len(lines) < 4 {
		return nil, nil
	}
	digits := bytes.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\n', '\v', '\f', '\r':
			return -1
		}
		return r
	}, lines[3])
	block := make([]byte, hex.DecodedLen(len(digits)))
	_, err := hex.Decode(block, digits)
	return block, err
}

var errLongText = errors.New("the text is too long")

// inflated unpacks a text. One that is cut short is kept as far as it goes, as Pillow does.
func inflated(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	z, err := zlib.NewReader(bytes.NewReader(b))
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer z.Close()
	text, err := io.ReadAll(io.LimitReader(z, maxText+1))
	switch {
	case len(text) > maxText:
		return nil, errLongText
	case errors.Is(err, io.ErrUnexpectedEOF):
		return text, nil
	}
	return text, err
}
