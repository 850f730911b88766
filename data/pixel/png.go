package pixel

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
)

const pngSignature = "\x89PNG\r\n\x1a\n"

// decodePNG decodes through the standard library. Pillow stops reading once it has all pixels, so files with a wrong
// checksum over the pixels or without their last chunk are decoded from a mended copy.
func decodePNG(info Info, b []byte, o Options) (*RGB, error) {
	depth, color := b[24], b[25] // Header has read this far
	if err := pngPlausible(info, b, depth, color); err != nil {
		return nil, err
	}
	m, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		if mended := pngMended(b); mended != nil {
			if again, e := png.Decode(bytes.NewReader(mended)); e == nil {
				m, err = again, nil
			}
		}
	}
	if err != nil {
		return nil, goError(PNG, err)
	}
	// 16-bit grey with a transparent level comes as NRGBA64; the level itself is still grey.
	if n, ok := m.(*image.NRGBA64); ok && color == 0 {
		p := newRGB(info.W, info.H)
		f := gray16(8, o)
		for y := range p.H {
			f(n.Pix[y*n.Stride:], p.Pix[y*p.W*3:(y+1)*p.W*3])
		}
		return p, nil
	}
	return toRGB(m, o)
}

func pngSize(b []byte) (w, h int, err error) {
	const at = len(pngSignature)
	if len(b) < at+16 || string(b[at+4:at+8]) != "IHDR" {
		return 0, 0, damaged("PNG: the file does not begin with a header")
	}
	return int(binary.BigEndian.Uint32(b[at+8:])), int(binary.BigEndian.Uint32(b[at+12:])), nil
}

// pngPlausible refuses a file too short for its size, before the pixels are allocated: deflate packs at most 1032 to 1.
func pngPlausible(info Info, b []byte, depth, color byte) error {
	channels := map[byte]int64{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
	raw := (int64(info.W)*int64(depth)*channels + 7) / 8 * int64(info.H)
	if raw/1032 > int64(len(b)) {
		return damaged("PNG: %d bytes cannot hold %d×%d pixels", len(b), info.W, info.H)
	}
	return nil
}

// pngMended returns the file's chunks before the pixels as they are, the pixels with their checksums computed anew, and an
// end; nil where there are no pixels or a chunk is cut off.
func pngMended(b []byte) []byte {
	out := append(make([]byte, 0, len(b)+12), pngSignature...)
	pixels := false
	for rest := b[len(pngSignature):]; len(rest) >= 8; {
		n := int64(binary.BigEndian.Uint32(rest)) + 8
		if n > int64(len(rest)) {
			return nil
		}
		whole := rest[:min(n+4, int64(len(rest)))] // with its checksum, if that is there
		chunk := whole[:n]
		rest = rest[len(whole):]
		switch kind := string(chunk[4:8]); {
		case kind == "IDAT":
			pixels = true
			out = append(out, chunk...)
			out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(chunk[4:]))
		case kind == "IEND":
			rest = nil
		case !pixels:
			out = append(out, whole...)
		}
	}
	if !pixels {
		return nil
	}
	const end = "\x00\x00\x00\x00IEND\xae\x42\x60\x82"
	return append(out, end...)
}
