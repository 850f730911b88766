package safetensors

import (
	"fmt"
	"math"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads the JSON of a header. It is stricter than encoding/json (field names match exactly, no text is repaired)
// and decodes strings in place, so that it allocates nothing. buf must be valid UTF-8.
type scanner struct {
	buf []byte
	pos int
}

func (s *scanner) errorf(format string, args ...any) error {
	return fmt.Errorf("header byte %d: %s", s.pos, fmt.Sprintf(format, args...))
}

// next skips white space and returns the byte at the position, 0 at the end.
func (s *scanner) next() byte {
	for ; s.pos < len(s.buf); s.pos++ {
		switch c := s.buf[s.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) expect(c byte) error {
	got := s.next()
	if s.pos == len(s.buf) {
		return s.errorf("the JSON ends where %q is expected", c)
	}
	if got != c {
		return s.errorf("found %q where %q is expected", got, c)
	}
	s.pos++
	return nil
}

// list reads open, items separated by commas, close; item is called at the start of each.
func (s *scanner) list(open, close byte, item func() error) error {
	if err := s.expect(open); err != nil {
		return err
	}
	if s.next() == close {
		s.pos++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch c := s.next(); {
		case c == close:
			s.pos++
			return nil
		case c == ',':
			s.pos++
		case s.pos == len(s.buf):
			return s.errorf("the JSON ends where ',' or %q is expected", close)
		default:
			return s.errorf("found %q where ',' or %q is expected", c, close)
		}
	}
}

// object reads {"key": value, …}; value is called with the position behind the colon.
func (s *scanner) object(value func(key []byte) error) error {
	return s.list('{', '}', func() error {
		key, err := s.str()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		return value(key)
	})
}

// str reads a string and returns its decoded bytes, which lie in buf at the place where the text was.
func (s *scanner) str() ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return nil, err
	}
	start, w := s.pos, s.pos
	for s.pos < len(s.buf) {
		c := s.buf[s.pos]
		switch {
		case c == '"':
			s.pos++
			return s.buf[start:w], nil
		case c < ' ':
			return nil, s.errorf("control character %#02x in a string", c)
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return nil, err
			}
			w += utf8.EncodeRune(s.buf[w:], r) // an escape is never shorter than its character
		default:
			s.buf[w] = c
			w++
			s.pos++
		}
	}
	return nil, s.errorf("a string does not end")
}

func (s *scanner) escape() (rune, error) {
	if s.pos+1 >= len(s.buf) {
		return 0, s.errorf("a string does not end")
	}
	c := s.buf[s.pos+1]
	switch c {
	case 'u':
		r, err := s.hex4()
		if err != nil || !utf16.IsSurrogate(r) {
			return r, err
		}
		if s.pos+1 < len(s.buf) && s.buf[s.pos] == '\\' && s.buf[s.pos+1] == 'u' {
			low, err := s.hex4()
			if err != nil {
				return 0, err
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				return r, nil
			}
		}
		return 0, s.errorf("half of a surrogate pair in a string")
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	default:
		return 0, s.errorf("unknown escape \\%c in a string", c)
	}
	s.pos += 2
	return rune(c), nil
}

// hex4 reads \u and its four digits at the position.
func (s *scanner) hex4() (rune, error) {
	if s.pos+6 > len(s.buf) {
		return 0, s.errorf("a string does not end")
	}
	var r rune
	for _, c := range s.buf[s.pos+2 : s.pos+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, s.errorf("\\u needs four hexadecimal digits")
		}
		r = r<<4 | rune(c)
	}
	s.pos += 6
	return r, nil
}

// integer reads a number without sign, fraction, exponent or leading zero that fits int64.
func (s *scanner) integer() (int64, error) {
	c := s.next()
	if c == '-' {
		return 0, s.errorf("a negative number")
	}
	if c < '0' || c > '9' {
		return 0, s.errorf("a whole number is expected")
	}
	start := s.pos
	var n int64
	for ; s.pos < len(s.buf); s.pos++ {
		d := int64(s.buf[s.pos]) - '0'
		if d < 0 || d > 9 {
			break
		}
		if n > (math.MaxInt64-d)/10 {
			return 0, s.errorf("a number beyond 63 bits")
		}
		n = n*10 + d
	}
	if c == '0' && s.pos > start+1 {
		return 0, s.errorf("a number with a leading zero")
	}
	if s.pos < len(s.buf) && (s.buf[s.pos] == '.' || s.buf[s.pos] == 'e' || s.buf[s.pos] == 'E') {
		return 0, s.errorf("a number with a fraction or exponent where a whole number is expected")
	}
	return n, nil
}

// null reads the word null if it is next.
func (s *scanner) null() bool {
	if s.next() == 'n' && s.pos+4 <= len(s.buf) && string(s.buf[s.pos:s.pos+4]) == "null" {
		s.pos += 4
		return true
	}
	return false
}
