package pixel

import (
	"errors"
	"image/png"
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
	if o.ApplyEXIF && info.Format != TIFF { // whose orientation is always applied
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
		return decodePNG(b, o)
	case BMP:
		return decodeBMP(b)
	case TIFF:
		return decodeTIFF(b, o)
	}
	return nil, unsupported("%s", info.Format)
}

// goError sorts the errors of Go's decoders: a feature that they lack, or damage.
func goError(f Format, err error) error {
	var p png.UnsupportedError
	if errors.As(err, &p) {
		return unsupported("%s: %w", f, err)
	}
	return damaged("%s: %w", f, err)
}
