package pixel

import (
	"slices"
	"sync"
)

// Options are the limits and colour rules of decoding. The zero value is the default.
type Options struct {
	// MaxPixels is the largest accepted width × height; 0 means DefaultMaxPixels.
	MaxPixels int64
	// MaxScans is the largest accepted number of scans of a JPEG; 0 means DefaultMaxScans. A JPEG of the most pixels may
	// have 12, a smaller one more, up to the same number of pixels times scans.
	MaxScans int
	// MaxMemory is how many bytes the decoding of a file may take; 0 means 256 MB, or 400 times the file's size where that
	// is more.
	MaxMemory int64
	// PillowGray16 decodes 16-bit grey as Pillow does: min(v, 255), so nearly everything is white.
	PillowGray16 bool
	// ApplyEXIF turns and mirrors the picture as its EXIF orientation says (Pillow: ImageOps.exif_transpose).
	ApplyEXIF bool
	// Notices collects remarks about decisions that a reader may want to know; nil drops them.
	Notices *Notices
}

func (o Options) maxPixels() int64 {
	if o.MaxPixels > 0 {
		return min(o.MaxPixels, 1<<40) // more than any format can say, and no product with it overflows
	}
	return DefaultMaxPixels
}

func (o Options) maxScans() int64 {
	if o.MaxScans > 0 {
		return int64(o.MaxScans)
	}
	return DefaultMaxScans
}

// Notices keeps each distinct remark once. Safe for many goroutines; the zero value is ready.
type Notices struct {
	// Func, if set before first use, is called with each new remark.
	Func func(string)

	mu   sync.Mutex
	seen []string
}

// List returns the remarks so far.
func (n *Notices) List() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.seen)
}

func (n *Notices) add(text string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	known := slices.Contains(n.seen, text)
	if !known {
		n.seen = append(n.seen, text)
	}
	n.mu.Unlock()
	if !known && n.Func != nil {
		n.Func(text)
	}
}

const noticeGray16 = "16-bit grey images are decoded by their high byte; Pillow would clip them to white (PillowGray16 gives that)"
