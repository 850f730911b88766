package tokenizer

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Clean is what the original does to a text before tokenizing it: ftfy.fix_text, HTML unescaped twice, white space at both ends removed and runs of it
// made one space, lower case with Unicode's full rules (İ, final Σ). Bytes that are no UTF-8 become U+FFFD.
func Clean(text string) string {
	s := fix(strings.ToValidUTF8(text, "\uFFFD"))
	s = unescape(unescape(s))
	return lower(strings.Join(strings.Fields(s), " "))
}

// lower is Python's str.lower.
func lower(s string) string {
	if !strings.ContainsAny(s, "İΣ") {
		return strings.ToLower(s)
	}
	runes := []rune(s)
	var b strings.Builder
	for i, r := range runes {
		switch {
		case r == 'İ':
			b.WriteString("i\u0307")
		case r == 'Σ' && finalSigma(runes, i):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// finalSigma: a cased letter before, none after, case-ignorable characters not counted (Unicode, SpecialCasing, Final_Sigma).
func finalSigma(s []rune, i int) bool {
	k := i - 1
	for k >= 0 && caseIgnorable(s[k]) {
		k--
	}
	if k < 0 || !cased(s[k]) {
		return false
	}
	k = i + 1
	for k < len(s) && caseIgnorable(s[k]) {
		k++
	}
	return k == len(s) || !cased(s[k])
}

func cased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Uppercase, unicode.Other_Lowercase)
}

// caseIgnorable follows Unicode's definition of Case_Ignorable: marks, format characters, modifiers and the mid-word punctuation of UAX #29.
func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:·\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A", r)
}

// fix is ftfy.fix_text with its default settings, a line at a time.
func fix(text string) string {
	var b strings.Builder
	entities := true
	for len(text) > 0 {
		n := strings.IndexByte(text, '\n') + 1
		if n == 0 {
			n = len(text)
		}
		line := text[:n]
		text = text[n:]
		if strings.ContainsRune(line, '<') {
			entities = false // and for the lines after it
		}
		b.WriteString(fixLine(line, entities))
	}
	return b.String()
}

func fixLine(s string, entities bool) string {
	for {
		before := s
		if entities {
			s = fixEntities(s)
		}
		s = fixEncoding(s)
		s = fixCharacters(s)
		s = escapes.ReplaceAllString(s, "")
		s = strings.Map(dropControls, s)
		s = norm.NFC.String(s)
		if s == before {
			return s
		}
	}
}

var (
	escapes  = regexp.MustCompile("\x1b\\[[\\d;]*[a-zA-Z]")
	entityRE = regexp.MustCompile(`&#?[0-9A-Za-z]{1,24};`)
)

// fixEntities decodes entities that end in a semicolon, those whose name was changed to upper case included.
func fixEntities(s string) string {
	if !strings.Contains(s, "&") {
		return s
	}
	return entityRE.ReplaceAllStringFunc(s, func(e string) string {
		if strings.HasPrefix(e, "&#") {
			if u := reference(e[1:]); !strings.Contains(u, ";") {
				return u
			}
			return e
		}
		if u, ok := entity(e); ok {
			return u
		}
		if up := strings.ToUpper(e); up == e && unescape(e) == e {
			if u, ok := entity(strings.ToLower(e)); ok {
				return strings.ToUpper(u)
			}
		}
		return e
	})
}

// entity decodes a name that is known as a whole, "&name;".
func entity(e string) (string, bool) {
	if e == "&semi;" {
		return ";", true
	}
	u := html.UnescapeString(e)
	return u, u != e && !strings.HasSuffix(u, ";")
}

var charref = regexp.MustCompile(`&(#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)`)

// unescape is Python's html.unescape: HTML5's named entities, also the old ones without semicolon, decimal and hexadecimal references.
func unescape(s string) string {
	if !strings.Contains(s, "&") {
		return s
	}
	return charref.ReplaceAllStringFunc(s, func(e string) string {
		if e[1] == '#' {
			return reference(e[1:])
		}
		return html.UnescapeString(e)
	})
}

// windows1252 are the characters that HTML5 gives for the references 128 to 159.
var windows1252 = []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ")

// reference decodes "#123;" or "#x7b;", with or without semicolon.
func reference(s string) string {
	digits, base, allowed := strings.TrimSuffix(s[1:], ";"), 10, "0123456789"
	if digits[0] == 'x' || digits[0] == 'X' {
		digits, base, allowed = digits[1:], 16, "0123456789abcdefABCDEF"
	}
	n, err := strconv.ParseUint(digits, base, 32)
	switch {
	case err != nil && strings.Trim(digits, allowed) != "", digits == "":
		return "&" + s // letters: ftfy's expression is wider than HTML's
	case err != nil, n > unicode.MaxRune, n >= 0xD800 && n < 0xE000, n == 0:
		return "\uFFFD"
	case n == '\r':
		return "\r"
	case n >= 0x80 && n < 0xA0:
		return string(windows1252[n-0x80])
	case n < 9, n == 0xB, n >= 0xE && n < 0x20, n == 0x7f, n >= 0xFDD0 && n < 0xFDF0, n&0xFFFE == 0xFFFE:
		return ""
	}
	return string(rune(n))
}

var ligatures = map[rune]string{
	'Ĳ': "IJ", 'ĳ': "ij", 'ŉ': "ʼn", 'Ǳ': "DZ", 'ǲ': "Dz", 'ǳ': "dz", 'Ǆ': "DŽ", 'ǅ': "Dž", 'ǆ': "dž", 'Ǉ': "LJ", 'ǈ': "Lj", 'ǉ': "lj",
	'Ǌ': "NJ", 'ǋ': "Nj", 'ǌ': "nj", 'ﬀ': "ff", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬃ': "ffi", 'ﬄ': "ffl", 'ﬅ': "ſt", 'ﬆ': "st",
}

// fixCharacters replaces single characters: C1 controls by what Windows-1252 has in their place, ligatures, half and full width, curly quotes, line ends.
func fixCharacters(s string) string {
	changed := func(r rune) bool {
		return r == '\r' || r >= 0x80 && r < 0xA0 || ligatures[r] != "" || r >= 0xFF01 && r <= 0xFFEF || r == 0x3000 ||
			r == 0x2BC || r >= 0x2018 && r <= 0x201F || r == 0x2028 || r == 0x2029
	}
	if strings.IndexFunc(s, changed) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if r >= 0x80 && r < 0xA0 {
			r = windows1252[r-0x80]
		}
		switch {
		case ligatures[r] != "":
			b.WriteString(ligatures[r])
		case r == 0x3000:
			b.WriteByte(' ')
		case r >= 0xFF01 && r <= 0xFFEF:
			b.WriteString(norm.NFKC.String(string(r)))
		default:
			b.WriteRune(r)
		}
	}
	s = quotes.Replace(b.String())
	return strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n", "\u0085", "\n").Replace(s)
}

var quotes = strings.NewReplacer("\u02bc", "'", "\u2018", "'", "\u2019", "'", "\u201a", "'", "\u201b", "'", "\u201c", `"`, "\u201d", `"`, "\u201e", `"`, "\u201f", `"`)

// dropControls leaves out characters that nobody means to write.
func dropControls(r rune) rune {
	switch {
	case r < 9, r == 0xB, r >= 0xE && r < 0x20, r == 0x7f, r >= 0x206A && r <= 0x206F, r == 0xFEFF, r >= 0xFFF9 && r <= 0xFFFC:
		return -1
	case r == utf8.RuneError:
		return utf8.RuneError
	}
	return r
}
