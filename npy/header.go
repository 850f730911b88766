package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxHeader is numpy's own limit for the header's text.
const maxHeader = 10_000

const magic = "\x93NUMPY"

// header is the checked beginning of a file.
type header struct {
	dtype   dtype
	fortran bool
	shape   []int64
	length  int64 // bytes before the data
}

// readHeader reads and checks a header. Errors that are not the reader's are reasons for a FormatError.
func readHeader(r io.Reader) (h header, err error) {
	var start [12]byte
	if _, err := io.ReadFull(r, start[:8]); err != nil {
		return h, ended(err, "within the first 8 bytes")
	}
	if string(start[:6]) != magic {
		return h, reason("it does not begin with \\x93NUMPY")
	}
	major, minor := start[6], start[7]
	lengthSize := 4
	switch {
	case minor != 0 || major < 1 || major > 3:
		return h, reason("version %d.%d is not supported (1.0, 2.0 and 3.0 are)", major, minor)
	case major == 1:
		lengthSize = 2
	}
	if _, err := io.ReadFull(r, start[8:8+lengthSize]); err != nil {
		return h, ended(err, "within the header's length")
	}
	length := binary.LittleEndian.Uint32(start[8:]) // two bytes of zero follow a short one
	if length > maxHeader {
		return h, reason("the header's length says %d bytes, at most %d are allowed", length, maxHeader)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return h, ended(err, "within the header")
	}
	h.length = int64(8+lengthSize) + int64(length)
	p := &literal{text: string(text), python2: major < 3}
	if err := p.header(&h); err != nil {
		return h, reason("header: %v", err)
	}
	return h, nil
}

// literal reads the header's text, a Python dict literal with three known keys.
type literal struct {
	text    string
	pos     int
	python2 bool // whole numbers may end in L
}

func (p *literal) header(h *header) error {
	var descr string
	seen := map[string]bool{}
	if err := p.expect('{'); err != nil {
		return err
	}
	for p.next() != '}' {
		key, err := p.str()
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("key %q occurs twice", key)
		}
		seen[key] = true
		if err := p.expect(':'); err != nil {
			return err
		}
		switch key {
		case "descr":
			if p.next() == '[' || p.next() == '(' {
				return errors.New("structured dtypes are not supported: save each field as an array")
			}
			descr, err = p.str()
		case "fortran_order":
			h.fortran, err = p.boolean()
		case "shape":
			h.shape, err = p.tuple()
		default:
			return fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if p.next() != '}' {
			if err := p.expect(','); err != nil {
				return err
			}
		}
	}
	p.pos++
	if p.next(); p.pos < len(p.text) {
		return fmt.Errorf("text behind the closing }: %q", cut(p.text[p.pos:]))
	}
	if len(seen) != 3 {
		return errors.New("descr, fortran_order or shape is missing")
	}
	var err error
	h.dtype, err = parseDtype(descr)
	return err
}

// next skips white space and returns the byte at the position, 0 at the end.
func (p *literal) next() byte {
	for ; p.pos < len(p.text); p.pos++ {
		if c := p.text[p.pos]; !strings.ContainsRune(" \t\r\n", rune(c)) {
			return c
		}
	}
	return 0
}

func (p *literal) expect(c byte) error {
	if p.next() != c || p.pos == len(p.text) {
		return fmt.Errorf("%q is expected at %q", c, cut(p.text[p.pos:]))
	}
	p.pos++
	return nil
}

// str reads a string in single or double quotes; escapes do not occur in what is known here.
func (p *literal) str() (string, error) {
	quote := p.next()
	if quote != '\'' && quote != '"' {
		return "", fmt.Errorf("a string is expected at %q", cut(p.text[p.pos:]))
	}
	rest := p.text[p.pos+1:]
	end := strings.IndexByte(rest, quote)
	if end < 0 || strings.ContainsAny(rest[:end], "\\\n") {
		return "", fmt.Errorf("a string without escapes is expected at %q", cut(p.text[p.pos:]))
	}
	p.pos += end + 2
	return rest[:end], nil
}

func (p *literal) boolean() (bool, error) {
	p.next()
	for word, value := range map[string]bool{"True": true, "False": false} {
		if strings.HasPrefix(p.text[p.pos:], word) {
			p.pos += len(word)
			return value, nil
		}
	}
	return false, fmt.Errorf("expected True or False at %q", cut(p.text[p.pos:]))
}

// tuple reads (), (3,), (3, 2), (3, 2,).
func (p *literal) tuple() ([]int64, error) {
	if err := p.expect('('); err != nil {
		return nil, err
	}
	shape := []int64{}
	comma := true
	for p.next() != ')' {
		if !comma {
			return nil, fmt.Errorf("',' or ')' is expected at %q", cut(p.text[p.pos:]))
		}
		if len(shape) == MaxRank {
			return nil, fmt.Errorf("more than %d dimensions", MaxRank)
		}
		n, err := p.integer()
		if err != nil {
			return nil, err
		}
		shape = append(shape, n)
		if comma = p.next() == ','; comma {
			p.pos++
		}
	}
	if len(shape) == 1 && !comma {
		return nil, errors.New("a number in parentheses is not a tuple")
	}
	p.pos++
	return shape, nil
}

func (p *literal) integer() (int64, error) {
	p.next()
	start := p.pos
	for p.pos < len(p.text) && '0' <= p.text[p.pos] && p.text[p.pos] <= '9' {
		p.pos++
	}
	digits := p.text[start:p.pos]
	if digits == "" {
		return 0, fmt.Errorf("a whole number, not negative, is expected at %q", cut(p.text[start:]))
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(digits) > 1 && digits[0] == '0' {
		return 0, fmt.Errorf("%q is not a number of at most 63 bits", cut(digits))
	}
	if p.python2 && p.pos < len(p.text) && p.text[p.pos] == 'L' {
		p.pos++
	}
	return n, nil
}

// cut shortens text from the file for an error.
func cut(s string) string {
	if len(s) > 60 {
		return s[:60]
	}
	return s
}
