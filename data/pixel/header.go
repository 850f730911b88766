package pixel

import (
	"bytes"
	"encoding/binary"
	"image/png"
)

// Format is an image file format, in Pillow's spelling.
type Format string

// The formats that are read.
const (
	JPEG Format = "JPEG"
	PNG  Format = "PNG"
	GIF  Format = "GIF"
	BMP  Format = "BMP"
	TIFF Format = "TIFF"
	WebP Format = "WEBP"
)

// Info is what a file's header says.
type Info struct {
	Format Format
	W, H   int // as stored; EXIF orientations 5 to 8 swap them when applied (in TIFF files always)
}

// Shown is the size of the picture that a file of this header decodes to.
func (i Info) Shown(b []byte, o Options) (w, h int) {
	if o.ApplyEXIF && i.Format != TIFF && Orientation(b) > 4 {
		return i.H, i.W
	}
	return i.W, i.H
}

// Sniff tells the format from a file's first bytes.
func Sniff(b []byte) (Format, error) {
	has := func(prefix string) bool { return len(b) >= len(prefix) && string(b[:len(prefix)]) == prefix }
	switch {
	case has("\xff\xd8\xff"):
		return JPEG, nil
	case has("\x89PNG\r\n\x1a\n"):
		return PNG, nil
	case has("GIF87a"), has("GIF89a"):
		return GIF, nil
	case has("BM"):
		return BMP, nil
	case isTIFF(b):
		return TIFF, nil
	case has("RIFF") && len(b) >= 12 && string(b[8:12]) == "WEBP":
		return WebP, nil
	case len(b) == 0:
		return "", damaged("the file is empty")
	}
	if name, with := phoneFormat(b); name != "" {
		return "", unsupported("it looks like %s, which is not read: convert it to JPEG, for instance with %s", name, with)
	}
	return "", unsupported("the file begins with % x, which is none of JPEG, PNG, GIF, BMP, TIFF, WebP", b[:min(len(b), 8)])
}

// phoneFormat names a format of ISO/IEC 23008-12 by the brands of the file's first box, and a program that converts it.
func phoneFormat(b []byte) (name, with string) {
	if len(b) < 12 || string(b[4:8]) != "ftyp" {
		return "", ""
	}
	end := min(len(b), int(binary.BigEndian.Uint32(b)), 8+4*64)
	const heic, avif = "HEIC (iPhone)", "AVIF"
	names := map[string]string{"heic": heic, "heix": heic, "heim": heic, "heis": heic, "hevc": heic, "hevx": heic, "hevm": heic, "hevs": heic, "avif": avif, "avis": avif}
	major := string(b[8:12])
	name = names[major]
	if major == "mif1" || major == "msf1" { // any image of the family: the brands that follow say which
		for i := 16; i+4 <= end && name == ""; i += 4 {
			name = names[string(b[i:i+4])]
		}
		if name == "" {
			name = heic
		}
	}
	return name, map[string]string{heic: "heif-convert IN OUT.jpg or ImageMagick", avif: "avifdec IN OUT.jpg or ImageMagick"}[name]
}

// Header reads a file's format and size and compares them, and what decoding would take, with the limits. It decodes
// nothing.
func Header(b []byte, o Options) (info Info, err error) {
	f, err := Sniff(b)
	if err != nil {
		return Info{}, err
	}
	defer guard(f, &err)
	w, h, err := headerSize(f, b)
	if err != nil {
		return Info{}, err
	}
	if err := checkSize(f, w, h, o); err != nil {
		return Info{}, err
	}
	if f == PNG { // the standard library checks the rest of the header, but its limit on the size is another one
		if _, err := png.DecodeConfig(bytes.NewReader(b)); err != nil {
			return Info{}, goError(f, err)
		}
	}
	info = Info{Format: f, W: w, H: h}
	if err := checkBudget(info, b, o); err != nil {
		return Info{}, err
	}
	return info, nil
}

func headerSize(f Format, b []byte) (w, h int, err error) {
	switch f {
	case JPEG:
		return jpegSize(b)
	case GIF:
		return gifSize(b)
	case WebP:
		return webpSize(b)
	case PNG:
		return pngSize(b)
	case BMP:
		return bmpSize(b)
	case TIFF:
		return tiffSize(b)
	}
	return 0, 0, unsupported("%s", f)
}
