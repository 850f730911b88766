package tokenizer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

//go:embed merges.txt.gz
var openAIMerges []byte

// Size of OpenAI's vocabulary and the ids of its two special tokens.
const (
	VocabSize = 49408
	SOT       = 49406
	EOT       = 49407
)

// MaxMerges bounds what FromMerges and OpenFolder accept.
const MaxMerges = 1 << 20

// byteOrder lists the bytes in the order of the first 256 ids: the printable ones, then the others. byteRune is the character that stands
// for a byte in the vocabulary's text.
var byteOrder, byteRune = func() (order [256]byte, runes [256]rune) {
	n := 0
	direct := func(b int) bool { return b >= 33 && b <= 126 || b >= 161 && b <= 172 || b >= 174 }
	for b := range 256 {
		if direct(b) {
			order[n], runes[b] = byte(b), rune(b)
			n++
		}
	}
	next := rune(256)
	for b := range 256 {
		if !direct(b) {
			order[n], runes[b] = byte(b), next
			n++
			next++
		}
	}
	return order, runes
}()

const wordEnd = "</w>"

// vocabulary is a list of merges over symbols, which are numbered in the layout of OpenAI's vocabulary: 256 bytes, 256 bytes at the end of a
// word, one symbol a merge, the start and the end token.
type vocabulary struct {
	byteSymbol [256]int32
	ranks      map[uint64]int32 // a pair of symbols to its merge, whose symbol is 512+rank
	ids        []int32          // a symbol's id; nil where it is the symbol's number
	text       []string         // a symbol's text in the alphabet of byteRune
}

func pair(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

func (v *vocabulary) id(symbol int32) int32 {
	if v.ids == nil {
		return symbol
	}
	return v.ids[symbol]
}

func (v *vocabulary) sot() int32 { return v.id(int32(len(v.text) - 2)) }
func (v *vocabulary) eot() int32 { return v.id(int32(len(v.text) - 1)) }

// newVocabulary numbers the symbols. known, if not nil, gives the id of each symbol's text.
func newVocabulary(merges [][2]string, known map[string]int32, sot, eot string) (*vocabulary, error) {
	v := &vocabulary{ranks: make(map[uint64]int32, len(merges)), text: make([]string, 0, len(merges)+514)}
	numbers := make(map[string]int32, len(merges)+514)
	add := func(s string) error {
		if _, twice := numbers[s]; twice {
			return fmt.Errorf("the token %q comes out of two merges", s)
		}
		numbers[s] = int32(len(v.text))
		v.text = append(v.text, s)
		return nil
	}
	for _, end := range []string{"", wordEnd} {
		for i, b := range byteOrder {
			if end == "" {
				v.byteSymbol[b] = int32(i)
			}
			if err := add(string(byteRune[b]) + end); err != nil {
				return nil, err
			}
		}
	}
	for rank, m := range merges {
		a, okA := numbers[m[0]]
		b, okB := numbers[m[1]]
		if !okA || !okB { // also rules out that a later merge makes a part of an earlier one, which encode relies on
			return nil, fmt.Errorf("merge %d joins %q and %q, which are no tokens before it", rank, m[0], m[1])
		}
		v.ranks[pair(a, b)] = int32(rank)
		if err := add(m[0] + m[1]); err != nil {
			return nil, err
		}
	}
	for _, s := range []string{sot, eot} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	if known == nil {
		return v, nil
	}
	same := true
	v.ids = make([]int32, len(v.text))
	for i, s := range v.text {
		id, ok := known[s]
		if !ok {
			return nil, fmt.Errorf("the vocabulary has no id for %q", s)
		}
		v.ids[i] = id
		same = same && int(id) == i
	}
	if same {
		v.ids = nil
	}
	return v, nil
}

// readMerges reads a header line and then up to limit lines of two symbols; limit < 0 reads all.
func readMerges(r io.Reader, limit int) ([][2]string, error) {
	var merges [][2]string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<16)
	for n := 0; lines.Scan(); n++ {
		if n == 0 {
			continue // a comment in every release
		}
		line := lines.Text()
		if line == "" || len(merges) == limit {
			break
		}
		a, b, ok := strings.Cut(line, " ")
		if !ok || a == "" || b == "" || strings.Contains(b, " ") {
			return nil, fmt.Errorf("line %d: want two symbols, got %.40q", n+1, line)
		}
		if len(merges) == MaxMerges {
			return nil, fmt.Errorf("more than %d merges", MaxMerges)
		}
		merges = append(merges, [2]string{a, b})
	}
	return merges, lines.Err()
}

const (
	openAISOT, openAIEOT = "<|startoftext|>", "<|endoftext|>"
	openSOT, openEOT     = "<start_of_text>", "<end_of_text>"
)

var openAI = sync.OnceValue(func() *vocabulary {
	z, err := gzip.NewReader(bytes.NewReader(openAIMerges))
	if err != nil {
		panic(err) // the embedded file; a test reads it
	}
	merges, err := readMerges(z, VocabSize-514)
	if err != nil {
		panic(err)
	}
	v, err := newVocabulary(merges, nil, openAISOT, openAIEOT)
	if err != nil {
		panic(err)
	}
	return v
})

// FromMerges makes a tokenizer from a list of merges as in bpe_simple_vocab_16e6.txt or merges.txt: a header line, then two
// symbols a line. Of OpenAI's full list the first 48,894 count, which is what limit is for; limit < 0 reads all.
func FromMerges(r io.Reader, limit int, opts ...Option) (*Tokenizer, error) {
	merges, err := readMerges(r, limit)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: merges: %w", err)
	}
	v, err := newVocabulary(merges, nil, openAISOT, openAIEOT)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: merges: %w", err)
	}
	return newTokenizer(v, opts), nil
}

// OpenFolder reads the vocabulary of a Hugging Face folder: vocab.json with merges.txt, or tokenizer.json. Only vocabulary and merges are
// taken; the clean-up is always this package's. A folder with neither gives an error that is fs.ErrNotExist.
func OpenFolder(dir string, opts ...Option) (*Tokenizer, error) {
	v, err := openFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return newTokenizer(v, opts), nil
}

func openFolder(dir string) (*vocabulary, error) {
	path := filepath.Join(dir, "vocab.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return openTokenizerJSON(filepath.Join(dir, "tokenizer.json"))
	}
	if err != nil {
		return nil, err
	}
	var ids map[string]int32
	if err := json.Unmarshal(b, &ids); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	path = filepath.Join(dir, "merges.txt")
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	merges, err := readMerges(f, -1)
	if err == nil {
		var v *vocabulary
		if v, err = newVocabulary(merges, ids, openAISOT, openAIEOT); err == nil {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

func openTokenizerJSON(path string) (*vocabulary, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Model struct {
			Type      string            `json:"type"`
			Vocab     map[string]int32  `json:"vocab"`
			Merges    []json.RawMessage `json:"merges"`
			EndOfWord *string           `json:"end_of_word_suffix"`
		} `json:"model"`
		Added []struct {
			ID      int32  `json:"id"`
			Content string `json:"content"`
		} `json:"added_tokens"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m := file.Model
	if m.Type != "BPE" || m.EndOfWord == nil || *m.EndOfWord != wordEnd {
		return nil, fmt.Errorf("%s: a %q model is not CLIP's byte-pair encoding with the suffix </w>", path, m.Type)
	}
	if len(m.Merges) > MaxMerges {
		return nil, fmt.Errorf("%s: more than %d merges", path, MaxMerges)
	}
	merges := make([][2]string, len(m.Merges))
	for i, raw := range m.Merges { // "a b", or ["a", "b"] in newer files
		var s string
		if json.Unmarshal(raw, &s) == nil {
			var ok bool
			if merges[i][0], merges[i][1], ok = strings.Cut(s, " "); !ok {
				return nil, fmt.Errorf("%s: merge %d is no pair", path, i)
			}
		} else if err := json.Unmarshal(raw, &merges[i]); err != nil {
			return nil, fmt.Errorf("%s: merge %d is no pair: %w", path, i, err)
		}
	}
	ids := make(map[string]int32, len(m.Vocab))
	for s, id := range m.Vocab {
		ids[s] = id
	}
	for _, t := range file.Added {
		ids[t.Content] = t.ID
	}
	v, err := newVocabulary(merges, ids, openAISOT, openAIEOT)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil
}
