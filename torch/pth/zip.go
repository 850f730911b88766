package pth

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
)

// record is an entry of a zip archive. Only stored entries are read.
type record struct {
	name   string
	method uint16
	flags  uint16
	size   int64 // in the archive
	full   int64 // expanded
	header int64 // offset of the local header
	data   int64 // offset of the first byte
}

const (
	endSize     = 22
	end64Size   = 56
	locator     = 20
	dirSize     = 46
	localSize   = 30
	recordBytes = 128 // what a record is charged with beside its name: an entry takes at least 76 bytes of the file
)

// readZip reads the directory of an archive, all of it within budget, and checks that the entries lie one after
// the other.
func readZip(r io.ReaderAt, size int64, budget *budget) (map[string]*record, []*record, error) {
	end, err := findEnd(r, size)
	if err != nil {
		return nil, nil, err
	}
	if end.dirLen > size || end.dirAt < 0 || end.dirAt > size-end.dirLen || end.dirAt+end.dirLen > end.at {
		return nil, nil, fmt.Errorf("the archive's directory (%d bytes at %d) does not lie before its end: is it truncated?", end.dirLen, end.dirAt)
	}
	if end.count > end.dirLen/dirSize {
		return nil, nil, fmt.Errorf("the archive's directory says %d entries in %d bytes", end.count, end.dirLen)
	}
	if err := budget.charge(end.dirLen + end.count*recordBytes); err != nil {
		return nil, nil, err
	}
	dir := make([]byte, end.dirLen)
	if err := readFull(r, dir, end.dirAt); err != nil {
		return nil, nil, err
	}
	records := make([]record, 0, end.count)
	for range end.count {
		var e record
		n, err := parseEntry(dir, &e)
		if err != nil {
			return nil, nil, err
		}
		dir = dir[n:]
		records = append(records, e)
	}
	if len(dir) != 0 {
		return nil, nil, fmt.Errorf("%d bytes follow the last entry of the archive's directory", len(dir))
	}
	byName := make(map[string]*record, len(records))
	order := make([]*record, len(records))
	for i := range records {
		e := &records[i]
		if byName[e.name] != nil {
			return nil, nil, fmt.Errorf("entry %q occurs twice", cut(e.name))
		}
		byName[e.name] = e
		order[i] = e
		if err := e.local(r, end.dirAt); err != nil {
			return nil, nil, fmt.Errorf("entry %q: %w", cut(e.name), err)
		}
	}
	spans := slices.Clone(order)
	slices.SortFunc(spans, func(a, b *record) int { return int(min(max(a.header-b.header, -1), 1)) })
	for i := 1; i < len(spans); i++ {
		if a, b := spans[i-1], spans[i]; a.data+a.size > b.header {
			return nil, nil, fmt.Errorf("entries %q and %q overlap", cut(a.name), cut(b.name))
		}
	}
	return byName, order, nil
}

type zipEnd struct{ at, dirAt, dirLen, count int64 }

// findEnd finds the end record, which is the last of the file but for a comment, and its 64-bit form.
func findEnd(r io.ReaderAt, size int64) (zipEnd, error) {
	var e zipEnd
	if size < endSize {
		return e, fmt.Errorf("%d bytes are too few for a zip archive: is it truncated?", size)
	}
	tail := make([]byte, min(size, endSize+1<<16))
	if err := readFull(r, tail, size-int64(len(tail))); err != nil {
		return e, err
	}
	at := -1
	for i := len(tail) - endSize; i >= 0; i-- {
		if string(tail[i:i+4]) == "PK\x05\x06" && int(binary.LittleEndian.Uint16(tail[i+20:])) == len(tail)-i-endSize {
			at = i
			break
		}
	}
	if at < 0 {
		return e, fmt.Errorf("it begins as a zip archive whose end is not there: is it truncated?")
	}
	b := tail[at:]
	u16, u32 := binary.LittleEndian.Uint16, binary.LittleEndian.Uint32
	if u16(b[4:]) != 0 && u16(b[4:]) != 0xffff || u16(b[6:]) != 0 && u16(b[6:]) != 0xffff {
		return e, fmt.Errorf("the archive is one of several parts")
	}
	e = zipEnd{size - int64(len(tail)) + int64(at), int64(u32(b[16:])), int64(u32(b[12:])), int64(u16(b[10:]))}
	if e.count != 0xffff && e.dirLen != 0xffffffff && e.dirAt != 0xffffffff && u16(b[8:]) != u16(b[10:]) {
		return e, fmt.Errorf("the archive's end says %d and %d entries", u16(b[8:]), u16(b[10:]))
	}
	if at < locator || string(tail[at-locator:at-locator+4]) != "PK\x06\x07" {
		return e, nil
	}
	where := binary.LittleEndian.Uint64(tail[at-locator+8:])
	if where > uint64(e.at-locator) || int64(where) > e.at-locator-end64Size {
		return e, fmt.Errorf("the archive's 64-bit end lies at %d of %d bytes", where, size)
	}
	var b64 [end64Size]byte
	if err := readFull(r, b64[:], int64(where)); err != nil {
		return e, err
	}
	if string(b64[:4]) != "PK\x06\x06" {
		return e, fmt.Errorf("the archive's 64-bit end is not at %d, where it says", where)
	}
	u64 := func(at int) int64 { return int64(binary.LittleEndian.Uint64(b64[at:])) }
	e = zipEnd{int64(where), u64(48), u64(40), u64(32)}
	if e.dirAt < 0 || e.dirLen < 0 || e.count < 0 {
		return e, fmt.Errorf("the archive's 64-bit end holds numbers beyond 63 bits")
	}
	return e, nil
}

// parseEntry reads an entry of the directory and returns its length.
func parseEntry(dir []byte, e *record) (int, error) {
	if len(dir) < dirSize || string(dir[:4]) != "PK\x01\x02" {
		return 0, fmt.Errorf("the archive's directory is damaged")
	}
	u16, u32 := binary.LittleEndian.Uint16, binary.LittleEndian.Uint32
	nameLen, extraLen, commentLen := int(u16(dir[28:])), int(u16(dir[30:])), int(u16(dir[32:]))
	total := dirSize + nameLen + extraLen + commentLen
	if total > len(dir) {
		return 0, fmt.Errorf("the archive's directory is damaged")
	}
	*e = record{
		name:   string(dir[dirSize : dirSize+nameLen]),
		flags:  u16(dir[8:]),
		method: u16(dir[10:]),
		size:   int64(u32(dir[20:])),
		full:   int64(u32(dir[24:])),
		header: int64(u32(dir[42:])),
	}
	extra := dir[dirSize+nameLen : dirSize+nameLen+extraLen]
	for len(extra) >= 4 {
		id, n := u16(extra), int(u16(extra[2:]))
		if n > len(extra)-4 {
			return 0, fmt.Errorf("entry %q: its extra field is damaged", cut(e.name))
		}
		if id == 1 { // 64-bit sizes stand in this order, each only where the 32-bit one is full
			field := extra[4 : 4+n]
			for _, v := range []*int64{&e.full, &e.size, &e.header} {
				if *v != 0xffffffff {
					continue
				}
				if len(field) < 8 {
					return 0, fmt.Errorf("entry %q: its 64-bit sizes are missing", cut(e.name))
				}
				if *v = int64(binary.LittleEndian.Uint64(field)); *v < 0 {
					return 0, fmt.Errorf("entry %q: a size beyond 63 bits", cut(e.name))
				}
				field = field[8:]
			}
		}
		extra = extra[4+n:]
	}
	return total, nil
}

// local finds the entry's data behind its local header, before the directory.
func (e *record) local(r io.ReaderAt, limit int64) error {
	if e.header > limit-localSize {
		return fmt.Errorf("it lies beyond the archive's data: is it truncated?")
	}
	var b [localSize]byte
	if err := readFull(r, b[:], e.header); err != nil {
		return err
	}
	if string(b[:4]) != "PK\x03\x04" {
		return fmt.Errorf("there is no local header at %d", e.header)
	}
	if m := binary.LittleEndian.Uint16(b[8:]); m != e.method {
		return fmt.Errorf("the directory says compression method %d, its local header %d", e.method, m)
	}
	nameLen := int64(binary.LittleEndian.Uint16(b[26:]))
	e.data = e.header + localSize + nameLen + int64(binary.LittleEndian.Uint16(b[28:]))
	if e.data > limit || e.size > limit-e.data {
		return fmt.Errorf("its %d bytes reach beyond the archive's data: is it truncated?", e.size)
	}
	if nameLen != int64(len(e.name)) {
		return fmt.Errorf("its local header has another name")
	}
	name := make([]byte, min(nameLen, 4096))
	if err := readFull(r, name, e.header+localSize); err != nil {
		return err
	}
	if !strings.HasPrefix(e.name, string(name)) {
		return fmt.Errorf("its local header has another name")
	}
	return nil
}

// stored refuses what cannot be read in place.
func (e *record) stored() error {
	switch {
	case e.flags&1 != 0:
		return fmt.Errorf("entry %q is encrypted", cut(e.name))
	case e.method != 0:
		return fmt.Errorf("entry %q is compressed (method %d, expands from %d bytes to %d): torch.save stores, so save it again",
			cut(e.name), e.method, e.size, e.full)
	case e.size != e.full:
		return fmt.Errorf("entry %q is stored, yet its two sizes differ (%d and %d)", cut(e.name), e.size, e.full)
	}
	return nil
}

func readFull(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return fmt.Errorf("it ended at byte %d while it was read: was it cut short meanwhile?", off+int64(n))
	}
	return &systemError{err}
}

// systemError is what went wrong outside the format.
type systemError struct{ error }

func (e *systemError) Unwrap() error { return e.error }
