package data

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxJSONElement bounds one value that is decoded at once. Everything above it is read token by token.
const maxJSONElement = 64 << 20

// jsonStream reads a JSON file without holding it.
type jsonStream struct {
	name string
	dec  *json.Decoder
	in   *jsonReader
}

// jsonReader fails where one value grows beyond its limit.
type jsonReader struct {
	r     io.Reader
	n     int64
	limit func() error
}

func (j *jsonReader) Read(p []byte) (int, error) {
	if err := j.limit(); err != nil {
		return 0, err
	}
	n, err := j.r.Read(p)
	j.n += int64(n)
	return n, err
}

func newJSONStream(r io.Reader, name string) (*jsonStream, error) {
	s := &jsonStream{name: name, in: &jsonReader{}}
	in := bufio.NewReaderSize(r, 1<<16)
	start, err := in.Peek(3)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if string(start) == string(bom) {
		in.Discard(3)
	} else if len(start) > 1 && (start[0] == 0xff && start[1] == 0xfe || start[0] == 0xfe && start[1] == 0xff) {
		return nil, formatError(name, 1, "the file is UTF-16: save it as UTF-8")
	}
	s.in.r = in
	s.dec = json.NewDecoder(s.in)
	s.in.limit = func() error {
		if s.in.n-s.dec.InputOffset() > maxJSONElement {
			return fmt.Errorf("one value has more than %d bytes", maxJSONElement)
		}
		return nil
	}
	return s, nil
}

// fail names file and byte of an error.
func (s *jsonStream) fail(err error) error {
	var fe *FormatError
	if err == nil || errors.As(err, &fe) {
		return err
	}
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends too early: is it complete?")
	}
	return formatError(s.name, 0, "near byte %d: %v", s.dec.InputOffset(), err)
}

func (s *jsonStream) token() (json.Token, error) {
	t, err := s.dec.Token()
	return t, s.fail(err)
}

func (s *jsonStream) expect(d json.Delim, what string) error {
	t, err := s.token()
	if err != nil {
		return err
	}
	if t != d {
		return formatError(s.name, 0, "near byte %d: %s must begin with %q", s.dec.InputOffset(), what, d.String())
	}
	return nil
}

// object calls f with each key of the object that comes next; f reads the value.
func (s *jsonStream) object(what string, f func(key string) error) error {
	if err := s.expect('{', what); err != nil {
		return err
	}
	for s.dec.More() {
		t, err := s.token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return formatError(s.name, 0, "near byte %d: a key is expected", s.dec.InputOffset())
		}
		if err := f(key); err != nil {
			return err
		}
	}
	_, err := s.token()
	return err
}

// array calls f for each element of the array that comes next; f reads it.
func (s *jsonStream) array(what string, f func(i int) error) error {
	if err := s.expect('[', what); err != nil {
		return err
	}
	for i := 0; s.dec.More(); i++ {
		if err := f(i); err != nil {
			return err
		}
	}
	_, err := s.token()
	return err
}

// decode reads the next value into v.
func (s *jsonStream) decode(what string, v any) error {
	if err := s.dec.Decode(v); err != nil {
		return s.fail(fmt.Errorf("%s: %w", what, err))
	}
	return nil
}

// skip reads over the next value.
func (s *jsonStream) skip() error {
	depth := 0
	for {
		t, err := s.token()
		if err != nil {
			return err
		}
		if d, ok := t.(json.Delim); ok {
			if d == '{' || d == '[' {
				depth++
			} else {
				depth--
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

// end refuses anything after the value.
func (s *jsonStream) end() error {
	if t, err := s.dec.Token(); err != io.EOF {
		if err != nil {
			return s.fail(err)
		}
		return formatError(s.name, 0, "near byte %d: %v follows the end of the JSON value", s.dec.InputOffset(), t)
	}
	return nil
}
