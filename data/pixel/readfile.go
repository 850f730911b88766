package pixel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// MaxFileBytes is the largest image file that is read, 256 MiB.
const MaxFileBytes = 256 << 20

// ReadFile returns the bytes of an image file. Only regular files are read (a pipe would wait for its writer, a device
// may never end), up to [MaxFileBytes].
func ReadFile(path string) ([]byte, error) {
	// O_NONBLOCK: opening a pipe must not wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := RegularSize(f)
	if err == nil && n > MaxFileBytes {
		err = fmt.Errorf("%d bytes are more than the %d allowed for an image file", n, MaxFileBytes)
	}
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	read, err := io.ReadFull(f, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // it shrank meanwhile: the decoder will say what is missing
	}
	return b[:read], err
}

// RegularSize is the size of an open regular file; folders, pipes and devices are errors.
func RegularSize(f *os.File) (int64, error) {
	st, err := f.Stat()
	switch {
	case err != nil:
		return 0, err
	case st.IsDir():
		return 0, errors.New("this is a folder, not a file")
	case !st.Mode().IsRegular():
		return 0, fmt.Errorf("this is no regular file (%v)", st.Mode().Type())
	}
	return st.Size(), nil
}

// What is done with the orientation of a photo, as settings name it.
const (
	EXIFApply  = "apply"
	EXIFIgnore = "ignore"
)

// ParseEXIF returns Options.ApplyEXIF of a setting: apply, or ignore and "".
func ParseEXIF(setting string) (apply bool, err error) {
	switch setting {
	case EXIFApply:
		return true, nil
	case EXIFIgnore, "":
		return false, nil
	}
	return false, fmt.Errorf("exif %.40q: apply or ignore", setting)
}
