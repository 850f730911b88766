package tokenizer

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Tokenizer encodes texts. Safe for many goroutines.
type Tokenizer struct {
	v        *vocabulary
	sot, eot string // literals of the special tokens

	mu    sync.RWMutex
	cache map[string][]int32
}

// The cache holds pieces of at most cachedPiece bytes, at most cachedPieces of them.
const (
	cachedPiece  = 64
	cachedPieces = 1 << 16
)

// Option changes how a tokenizer reads special literals.
type Option func(*Tokenizer)

// OpenCLIP takes <start_of_text> and <end_of_text> as the special tokens, as open_clip 2 and later do, and the literals of OpenAI as text.
func OpenCLIP(t *Tokenizer) { t.sot, t.eot = openSOT, openEOT }

func newTokenizer(v *vocabulary, opts []Option) *Tokenizer {
	t := &Tokenizer{v: v, sot: openAISOT, eot: openAIEOT, cache: map[string][]int32{}}
	for _, o := range opts {
		o(t)
	}
	return t
}

var standard = sync.OnceValue(func() *Tokenizer { return newTokenizer(openAI(), nil) })

// Default is OpenAI's tokenizer. All callers share one.
func Default() *Tokenizer { return standard() }

// New is OpenAI's vocabulary with options.
func New(opts ...Option) *Tokenizer { return newTokenizer(openAI(), opts) }

// VocabSize is the number of ids; the last two are SOT and EOT.
func (t *Tokenizer) VocabSize() int { return len(t.v.text) }

// SOT is the id that starts every sequence.
func (t *Tokenizer) SOT() int32 { return t.v.sot() }

// EOT is the id that ends every sequence.
func (t *Tokenizer) EOT() int32 { return t.v.eot() }

// Encode cleans a text and returns its ids between SOT and EOT, whatever their number.
func (t *Tokenizer) Encode(text string) []int32 {
	return append(t.append(append(make([]int32, 0, 32), t.v.sot()), text), t.v.eot())
}

// Batch holds the ids of texts.
type Batch struct {
	Len       int     // ids a text, padding included
	IDs       []int32 // [texts, Len], each row SOT … EOT and zeros
	Truncated []int   // texts that were longer: their last id is EOT
	Longest   int     // ids of the longest text, at most Len
}

// Row is the ids of one text, padding included.
func (b *Batch) Row(i int) []int32 { return b.IDs[i*b.Len : (i+1)*b.Len] }

// Batch encodes texts to rows of contextLength ids (77 for every released CLIP). A text that is longer keeps its first contextLength-1 ids and EOT.
// It panics where contextLength is less than 2.
func (t *Tokenizer) Batch(texts []string, contextLength int) *Batch {
	if contextLength < 2 {
		panic("tokenizer: a context of less than 2 has no room for the start and the end")
	}
	b := &Batch{Len: contextLength, IDs: make([]int32, len(texts)*contextLength)}
	buf := make([]int32, 0, contextLength+64)
	for i, text := range texts {
		buf = append(t.append(append(buf[:0], t.v.sot()), text), t.v.eot())
		if len(buf) > contextLength {
			buf = buf[:contextLength]
			buf[contextLength-1] = t.v.eot()
			b.Truncated = append(b.Truncated, i)
		}
		b.Longest = max(b.Longest, len(buf))
		copy(b.Row(i), buf)
	}
	return b
}

// Decode turns ids back into text: bytes as they are, a space after each word, special tokens as their literals. Unknown ids are left out.
func (t *Tokenizer) Decode(ids []int32) string {
	number := func(id int32) int32 { return id }
	if t.v.ids != nil {
		back := make(map[int32]int32, len(t.v.ids))
		for s, id := range t.v.ids {
			back[id] = int32(s)
		}
		number = func(id int32) int32 {
			if s, ok := back[id]; ok {
				return s
			}
			return -1
		}
	}
	bytes := make(map[rune]byte, 256)
	for b, r := range byteRune {
		bytes[r] = byte(b)
	}
	var b strings.Builder
	for _, id := range ids {
		s := number(id)
		if s < 0 || int(s) >= len(t.v.text) {
			continue
		}
		text := t.v.text[s]
		if int(s) >= len(t.v.text)-2 {
			b.WriteString(text)
			continue
		}
		text, end := strings.CutSuffix(text, wordEnd)
		for _, r := range text {
			b.WriteByte(bytes[r])
		}
		if end {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// append adds the ids of a text without SOT and EOT.
func (t *Tokenizer) append(dst []int32, text string) []int32 {
	var lower [256]byte
	buf, plain := lowerPlain(lower[:0], text)
	if !plain {
		buf = append(buf[:0], Clean(text)...)
	}
	for s := buf; len(s) > 0; {
		n, special := t.next(s)
		switch {
		case special != 0:
			dst = append(dst, special)
		case s[0] != ' ':
			dst = t.piece(dst, s[:n])
		}
		s = s[n:]
	}
	return dst
}

// lowerPlain writes text in lower case if it is plain: ASCII without control characters, ampersands and anything else that Clean would change
// beyond case and white space.
func lowerPlain(dst []byte, text string) (_ []byte, plain bool) {
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c == '\t' || c == '\n' || c == '\r' || c == '\f':
			c = ' '
		case c < ' ' || c >= 0x7f || c == '&':
			return dst, false
		}
		dst = append(dst, c)
	}
	return dst, true
}

// piece appends the ids of one piece, from the cache where it is there.
func (t *Tokenizer) piece(dst []int32, s []byte) []int32 {
	if len(s) > cachedPiece {
		return t.v.encode(dst, string(s))
	}
	t.mu.RLock()
	ids, ok := t.cache[string(s)]
	t.mu.RUnlock()
	if !ok {
		key := string(s)
		ids = t.v.encode(nil, key)
		t.mu.Lock()
		if len(t.cache) >= cachedPieces {
			clear(t.cache)
		}
		t.cache[key] = ids
		t.mu.Unlock()
	}
	return append(dst, ids...)
}

var contractions = []string{"s", "t", "re", "ve", "m", "ll", "d"}

// next is the length of the piece at the start of s, which is clean. For a special token it is its id too.
func (t *Tokenizer) next(s []byte) (n int, special int32) {
	if s[0] == '<' {
		if hasPrefix(s, t.sot) {
			return len(t.sot), t.v.sot()
		}
		if hasPrefix(s, t.eot) {
			return len(t.eot), t.v.eot()
		}
	}
	if s[0] == '\'' {
		for _, c := range contractions {
			if hasPrefix(s[1:], c) {
				return 1 + len(c), 0
			}
		}
		if hasPrefix(s[1:], "ſ") { // U+017F is an s to the original's case-blind expression
			return 1 + len("ſ"), 0
		}
	}
	c, size := class(s)
	n = size
	if c == space || c == number {
		return n, 0
	}
	for n < len(s) {
		d, size := class(s[n:])
		if d != c {
			break
		}
		n += size
	}
	return n, 0
}

func hasPrefix(s []byte, prefix string) bool {
	return len(s) >= len(prefix) && string(s[:len(prefix)]) == prefix
}

const (
	other = iota
	letter
	number
	space
)

// ascii holds the classes of the first 128 characters.
var ascii = func() (t [128]uint8) {
	for c := range rune(128) {
		t[c] = classOf(c)
	}
	return t
}()

func classOf(r rune) uint8 {
	switch {
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

func class(s []byte) (uint8, int) {
	if s[0] < utf8.RuneSelf {
		return ascii[s[0]], 1
	}
	r, n := utf8.DecodeRune(s)
	return classOf(r), n
}

// Token is the text of an id in the vocabulary's alphabet, where a character stands for a byte; empty for an unknown id.
func (t *Tokenizer) Token(id int32) string {
	for i, s := range t.v.text {
		if t.v.id(int32(i)) == id {
			return s
		}
	}
	return ""
}

// Merge gives the two symbols that the merge of this rank joins; it panics where there is no such rank.
func (t *Tokenizer) Merge(rank int) (a, b string) {
	for p, r := range t.v.ranks {
		if int(r) == rank {
			return t.v.text[p>>32], t.v.text[uint32(p)]
		}
	}
	panic("tokenizer: no merge has this rank")
}
