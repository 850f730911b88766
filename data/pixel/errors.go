package pixel

import (
	"errors"
	"fmt"
)

var (
	// ErrPicture: the bytes are no picture that can be used, for one of the three reasons below; errors.Is finds it in
	// each.
	ErrPicture = errors.New("unusable image")
	// ErrDamaged: the bytes are not a whole, valid image.
	ErrDamaged error = pictureError("damaged image")
	// ErrTooLarge: more pixels, scans or memory than [Options] allow.
	ErrTooLarge error = pictureError("image too large")
	// ErrUnknownFormat: no image format that is known, or a kind of it that is not decoded.
	ErrUnknownFormat error = pictureError("unsupported image format")
	// ErrLibrary: the native image library cannot be used. Also wraps native.ErrNotFound where it is absent.
	ErrLibrary = errors.New("image library unavailable")
)

// pictureError is a reason why bytes are no picture.
type pictureError string

func (e pictureError) Error() string { return string(e) }

func (e pictureError) Is(target error) bool { return target == ErrPicture }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnknownFormat, fmt.Errorf(format, args...))
}

// checkSize compares a header's size with the limit.
func checkSize(f Format, w, h int, o Options) error {
	if w < 1 || h < 1 {
		return damaged("the %s header says %d×%d pixels", f, w, h)
	}
	if limit := o.maxPixels(); int64(w) > limit/int64(h) {
		return fmt.Errorf("%w: %d×%d pixels are more than the limit of %d", ErrTooLarge, w, h, limit)
	}
	return nil
}

// guard turns a panic of an image decoder into an error.
func guard(f Format, err *error) {
	if r := recover(); r != nil {
		*err = damaged("the %s decoder failed: %v", f, r)
	}
}
