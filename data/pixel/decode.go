package pixel

import (
	"bytes"
	"errors"
	"image"
	"image/png"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
)

// Decode reads an image file's bytes into RGB.
func Decode(b []byte, o Options) (p *RGB, err error) {
	info, err := Header(b, o)
	if err != nil {
		return nil, err
	}
	defer guard(info.Format, &err)
	if p, err = decodeAs(info, b, o); err != nil {
		return nil, err
	}
	if o.ApplyEXIF {
		p = p.oriented(Orientation(b))
	}
	return p, nil
}

func decodeAs(info Info, b []byte, o Options) (*RGB, error) {
	switch info.Format {
	case JPEG:
		return decodeJPEG(info, b, o)
	case GIF:
		return decodeGIF(b, o)
	case WebP:
		return decodeWebP(b)
	case PNG:
		return decodePNG(info, b, o)
	case BMP:
		if err := bmpComplete(info, b); err != nil {
			return nil, err
		}
	}
	var m image.Image
	var err error
	if info.Format == BMP {
		m, err = bmp.Decode(bytes.NewReader(b))
	} else {
		m, err = tiff.Decode(bytes.NewReader(b))
	}
	if err != nil {
		return nil, goError(info.Format, err)
	}
	return toRGB(m, o)
}

// goError sorts the errors of Go's decoders: a feature that they lack, or damage.
func goError(f Format, err error) error {
	var p png.UnsupportedError
	var t tiff.UnsupportedError
	if errors.As(err, &p) || errors.As(err, &t) || errors.Is(err, bmp.ErrUnsupported) {
		return unsupported("%s: %w", f, err)
	}
	return damaged("%s: %w", f, err)
}

// bmpComplete refuses an uncompressed BMP that is shorter than its header says, before its pixels are allocated.
func bmpComplete(info Info, b []byte) error {
	if len(b) < 30 {
		return damaged("BMP: the file ends within its header")
	}
	offset := int64(uint32(b[10]) | uint32(b[11])<<8 | uint32(b[12])<<16 | uint32(b[13])<<24)
	bits := int64(b[28]) | int64(b[29])<<8
	need := (int64(info.W)*bits + 31) / 32 * 4 * int64(info.H)
	if have := int64(len(b)) - offset; have < need {
		return damaged("BMP: %d bytes of pixels are missing", need-max(have, 0))
	}
	return nil
}
