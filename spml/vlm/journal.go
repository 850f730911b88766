package vlm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// journal is a file with a line of JSON and a frame a batch: its length and CRC-32, then the pseudo-labels [b, C] and a
// line of JSON a photo. A frame that is cut off or damaged, and all after it, count as not written.
type journal struct {
	f    *os.File
	head int64
	done int // frames
}

type journalHead struct {
	Fingerprint string `json:"gospml_pseudo_labels"`
}

// maxFrame bounds what a damaged length can ask for.
const maxFrame = 1 << 30

// openJournal goes on with a journal of the same fingerprint, or begins. other says that there was one of another run.
func openJournal(path, fingerprint string) (j *journal, other bool, err error) {
	head, err := json.Marshal(journalHead{fingerprint})
	if err != nil {
		return nil, false, err
	}
	head = append(head, '\n')
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o664)
	if err != nil {
		return nil, false, err
	}
	j = &journal{f: f, head: int64(len(head))}
	fail := func(err error) (*journal, bool, error) { return nil, false, errors.Join(err, f.Close()) }
	old := make([]byte, len(head))
	n, err := io.ReadFull(f, old)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fail(err)
	}
	end := j.head
	if n == len(head) && bytes.Equal(old, head) {
		err := j.each(func([]byte) error { return nil }, func(at int64) { j.done++; end = at })
		if err != nil {
			return fail(err)
		}
	} else {
		other = n > 0
		if err := f.Truncate(0); err != nil {
			return fail(err)
		}
		if _, err := f.WriteAt(head, 0); err != nil {
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

// readJournal opens a journal of this fingerprint for reading; others are errors, and fs.ErrNotExist where there is
// none.
func readJournal(path, fingerprint string) (*journal, error) {
	head, err := json.Marshal(journalHead{fingerprint})
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	j := &journal{f: f, head: int64(len(head)) + 1}
	old := make([]byte, len(head))
	if _, err := io.ReadFull(f, old); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.Join(err, f.Close())
	}
	if !bytes.Equal(old, head) {
		return nil, errors.Join(fmt.Errorf("%w: %s is of another run (model, settings or data differ); delete it, or start that run again", ErrSettings, path), f.Close())
	}
	if err := j.each(func([]byte) error { return nil }, func(int64) { j.done++ }); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// each calls frame with every whole frame's payload, valid during the call, and past with the place after it.
func (j *journal) each(frame func([]byte) error, past func(at int64)) error {
	if _, err := j.f.Seek(j.head, io.SeekStart); err != nil {
		return err
	}
	r, at := bufio.NewReaderSize(j.f, 1<<16), j.head
	var buf []byte
	for {
		var h [8]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return ended(err)
		}
		n := binary.LittleEndian.Uint32(h[:])
		if n > maxFrame {
			return nil
		}
		if cap(buf) < int(n) {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		if _, err := io.ReadFull(r, buf); err != nil {
			return ended(err)
		}
		if crc32.ChecksumIEEE(buf) != binary.LittleEndian.Uint32(h[4:]) {
			return nil
		}
		if err := frame(buf); err != nil {
			return err
		}
		at += 8 + int64(n)
		past(at)
	}
}

func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

func (j *journal) add(payload []byte) error {
	if len(payload) > maxFrame {
		return fmt.Errorf("%s: a batch of %d bytes; make it smaller", j.f.Name(), len(payload))
	}
	b := make([]byte, 8, 8+len(payload))
	binary.LittleEndian.PutUint32(b, uint32(len(payload)))
	binary.LittleEndian.PutUint32(b[4:], crc32.ChecksumIEEE(payload))
	_, err := j.f.Write(append(b, payload...))
	j.done++
	return err
}

func (j *journal) close() error { return j.f.Close() }
