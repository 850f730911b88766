package pixel

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// The budget of a picture by default. It lets through what cameras and editors write and refuses small files that cost
// much.
const (
	// DefaultMaxPixels is 64 megapixels, 8192 × 8192: the largest sensors of phones and most cameras.
	DefaultMaxPixels = 64 << 20
	// DefaultMaxScans is for the scans of a JPEG: encoders write 3 to 20.
	DefaultMaxScans = 64
	// freeMemory is what the decoding of any file may take, and memoryPerByte what it may take for each byte of its file,
	// if that is more: a photo of 64 megapixels in ten scans has at least 1.4 MB and takes 380 MB. See
	// [Options.MaxMemory].
	freeMemory    = 256_000_000
	memoryPerByte = 400
	// scansOfLargest is how many scans a JPEG of the most pixels may have. Smaller ones may have more, up to the same
	// work: libjpeg goes through all pixels in each, in about 1.5 ns.
	scansOfLargest = 12
)

// checkMemory compares what decoding takes with the limit, before anything is allocated.
func checkMemory(f Format, need int64, file int, o Options) error {
	limit := o.MaxMemory
	if limit <= 0 {
		limit = max(freeMemory, memoryPerByte*int64(file))
	}
	if need > limit {
		return fmt.Errorf("%w: this %s of %d bytes takes %d MB to decode, more than the limit of %d MB", ErrTooLarge, f, file, need/1e6, limit/1e6)
	}
	return nil
}

// checkBudget compares the work and memory that a file asks for with its limits. It decodes nothing.
func checkBudget(info Info, b []byte, o Options) error {
	pixels := int64(info.W) * int64(info.H)
	need := 3 * pixels
	switch info.Format {
	case JPEG:
		return checkJPEG(b, o)
	case PNG:
		if err := pngPlausible(info, b); err != nil {
			return err
		}
		f := pngPicture{depth: b[24], color: b[25]}
		need = max(need, pixels*int64(f.bitsPerPixel())/8) // which are not kept, but decompressed
	case BMP:
		need += pixels // of run lengths
	case WebP:
		f, err := parseWebP(b)
		if err != nil {
			return err
		}
		if need, err = f.memory(); err != nil {
			return err
		}
	case TIFF: // the directory says more
		f, err := parseTIFF(b)
		if err != nil {
			return err
		}
		l, err := f.layout()
		if err != nil {
			return err
		}
		need = f.memory(l)
		if f.orientation() > 1 {
			need += 3 * pixels
		}
	}
	if o.ApplyEXIF && info.Format != TIFF && Orientation(b) > 1 {
		need += 3 * pixels
	}
	return checkMemory(info.Format, need, len(b), o)
}

// jpegFrame is what the markers of a JPEG say about work and memory.
type jpegFrame struct {
	w, h       int64
	components int
	samples    int64 // kept for each 16 × 16 … block, of all components: what several scans need
	scans      int64
	several    bool // progressive, or components in scans of their own: libjpeg then keeps all coefficients
	arithmetic bool // arithmetic coding, which costs ten times as much and goes on after the end of its data
}

// walkJPEG goes from marker to marker as libjpeg does. It stops at the first scan where that is the only one that is
// decoded.
func walkJPEG(b []byte) (f jpegFrame) {
	progressive := false
	for i := 2; ; {
		at := bytes.IndexByte(b[min(i, len(b)):], 0xff)
		if at < 0 {
			return f
		}
		for i += at; i < len(b) && b[i] == 0xff; i++ {
		}
		if i >= len(b) {
			return f
		}
		marker := b[i]
		i++
		if marker < 0xc0 || marker >= 0xd0 && marker <= 0xd8 { // stuffing, restarts and what has no length
			continue
		}
		if marker == 0xd9 || len(b)-i < 2 {
			return f
		}
		n := int(binary.BigEndian.Uint16(b[i:]))
		if n < 2 || n > len(b)-i {
			return f
		}
		body := b[i+2 : i+n]
		i += n
		switch {
		case marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc && f.components == 0 && len(body) >= 6:
			progressive, f.arithmetic = marker&3 == 2, marker > 0xc8
			f.frame(body)
		case marker == 0xda && len(body) >= 1:
			f.scans++
			if f.scans == 1 && !progressive && int(body[0]) == f.components {
				return f
			}
			f.several = true
		}
	}
}

// frame reads the sizes of a frame header.
func (f *jpegFrame) frame(body []byte) {
	f.h, f.w = int64(binary.BigEndian.Uint16(body[1:])), int64(binary.BigEndian.Uint16(body[3:]))
	f.components = int(body[5])
	hmax, vmax, all := int64(1), int64(1), int64(0)
	for k := range min(f.components, (len(body)-6)/3) {
		h, v := int64(body[7+3*k]>>4), int64(body[7+3*k]&15)
		hmax, vmax, all = max(hmax, h), max(vmax, v), all+h*v
	}
	across, down := (f.w+8*hmax-1)/(8*hmax), (f.h+8*vmax-1)/(8*vmax)
	f.samples = across * down * 64 * all
}

// checkJPEG holds the scans of a JPEG and the memory of its coefficients against the limits.
func checkJPEG(b []byte, o Options) error {
	f := walkJPEG(b)
	pixels := f.w * f.h
	work := scansOfLargest * max(o.maxPixels(), DefaultMaxPixels)
	if f.arithmetic {
		work /= 4 * scansOfLargest // 16 megapixels of one scan
	}
	most := min(o.maxScans(), work/max(pixels, 1))
	if f.arithmetic && pixels > work {
		return fmt.Errorf("%w: an arithmetic-coded JPEG of %d×%d pixels; at most %d are decoded", ErrTooLarge, f.w, f.h, work)
	}
	if f.scans > 1 && f.scans > most {
		return fmt.Errorf("%w: a JPEG of %d×%d pixels in %d scans; at most %d are decoded at this size", ErrTooLarge, f.w, f.h, f.scans, most)
	}
	need := 3 * pixels
	if f.components == 4 {
		need += 4 * pixels
	}
	if f.several {
		need += 2 * f.samples
	}
	if o.ApplyEXIF && Orientation(b) > 1 {
		need += 3 * pixels
	}
	return checkMemory(JPEG, need, len(b), o)
}
