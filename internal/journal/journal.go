// Package journal keeps what a long pass has done so far in a file that a kill at any moment leaves readable.
package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// Journal is a file with a line of text, which says of what run it is, and frames: a length, a CRC-32, that many bytes.
// A frame that is cut off or damaged, and all after it, count as not written. One goroutine at a time uses it.
type Journal struct {
	f    *os.File
	head int64
	done int
}

// ErrOther is the error of a journal that is of another run.
var ErrOther = errors.New("it is of another run")

// maxFrame bounds what a damaged length can ask for.
const maxFrame = 1 << 30

// Open goes on with the journal of this head, a line of text, or begins one. other says that there was one of another
// run, which is gone.
func Open(path, head string) (j *Journal, other bool, err error) {
	line := []byte(head + "\n")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o664)
	if err != nil {
		return nil, false, err
	}
	j = &Journal{f: f, head: int64(len(line))}
	fail := func(err error) (*Journal, bool, error) { return nil, false, errors.Join(err, f.Close()) }
	old := make([]byte, len(line))
	n, err := io.ReadFull(f, old)
	if ended(err) != nil {
		return fail(err)
	}
	end := j.head
	if bytes.Equal(old[:n], line) {
		if end, err = j.each(func([]byte) error { return nil }); err != nil {
			return fail(err)
		}
	} else {
		other = n > 0
		if err := f.Truncate(0); err != nil {
			return fail(err)
		}
		if _, err := f.WriteAt(line, 0); err != nil {
			return fail(err)
		}
	}
	if err := f.Truncate(end); err != nil {
		return fail(err)
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return fail(err)
	}
	return j, other, nil
}

// Read opens the journal of this head for reading; ErrOther where it is of another run, fs.ErrNotExist where there is
// none.
func Read(path, head string) (*Journal, error) {
	line := []byte(head + "\n")
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	j := &Journal{f: f, head: int64(len(line))}
	old := make([]byte, len(line))
	n, err := io.ReadFull(f, old)
	if ended(err) != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !bytes.Equal(old[:n], line) {
		return nil, errors.Join(ErrOther, f.Close())
	}
	if _, err := j.each(func([]byte) error { return nil }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// Frames is the number of whole frames.
func (j *Journal) Frames() int { return j.done }

// Each calls f with the bytes of every whole frame, valid during the call.
func (j *Journal) Each(f func(frame []byte) error) error {
	_, err := j.each(f)
	return err
}

// each counts the frames and gives the place after the last one.
func (j *Journal) each(f func(frame []byte) error) (end int64, err error) {
	if _, err := j.f.Seek(j.head, io.SeekStart); err != nil {
		return 0, err
	}
	r, end := bufio.NewReaderSize(j.f, 1<<16), j.head
	var buf []byte
	for j.done = 0; ; j.done++ {
		var h [8]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return end, ended(err)
		}
		n := binary.LittleEndian.Uint32(h[:])
		if n > maxFrame {
			return end, nil
		}
		if cap(buf) < int(n) {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		if _, err := io.ReadFull(r, buf); err != nil {
			return end, ended(err)
		}
		if crc32.ChecksumIEEE(buf) != binary.LittleEndian.Uint32(h[4:]) {
			return end, nil
		}
		if err := f(buf); err != nil {
			return end, err
		}
		end += 8 + int64(n)
	}
}

// ended is nil for the end of a file, wherever it lies.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// Add writes a frame after those that are there.
func (j *Journal) Add(frame []byte) error {
	if len(frame) > maxFrame {
		return fmt.Errorf("%s: a batch of %d bytes; make it smaller", j.f.Name(), len(frame))
	}
	if _, err := j.f.Seek(0, io.SeekEnd); err != nil { // Each has read
		return err
	}
	b := make([]byte, 8, 8+len(frame))
	binary.LittleEndian.PutUint32(b, uint32(len(frame)))
	binary.LittleEndian.PutUint32(b[4:], crc32.ChecksumIEEE(frame))
	if _, err := j.f.Write(append(b, frame...)); err != nil {
		return err
	}
	j.done++
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return j.f.Close() }
