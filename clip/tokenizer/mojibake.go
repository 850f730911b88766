package tokenizer

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// The repair of mojibake: UTF-8 that was decoded as a single-byte encoding ("Ã©" for "é"). The heuristic and its character classes are those of ftfy 6.3.1
// (Robyn Speer, Apache-2.0, https://github.com/rspeer/python-ftfy), because the ids must be those that its user gets.

// codePage is a single-byte encoding of upper characters.
type codePage struct {
	name   string
	sloppy bool // unassigned bytes are Latin-1's characters, and byte 1A stands for U+FFFD
	bytes  map[rune]byte
}

// codePages in the order in which they are tried.
var codePages = sync.OnceValue(func() []*codePage {
	page := func(name string, m *charmap.Charmap, sloppy bool) *codePage {
		p := &codePage{name: name, sloppy: sloppy, bytes: map[rune]byte{}}
		for b := 0x80; b < 0x100; b++ {
			r := m.DecodeByte(byte(b))
			if r == utf8.RuneError {
				r = rune(b)
			}
			p.bytes[r] = byte(b)
		}
		if sloppy {
			p.bytes[utf8.RuneError] = 0x1A
		}
		return p
	}
	return []*codePage{
		page("latin-1", charmap.ISO8859_1, false), page("windows-1252", charmap.Windows1252, true), page("windows-1251", charmap.Windows1251, true),
		page("windows-1250", charmap.Windows1250, true), page("windows-1253", charmap.Windows1253, true), page("windows-1254", charmap.Windows1254, true),
		page("windows-1257", charmap.Windows1257, true), page("iso-8859-2", charmap.ISO8859_2, false), page("macroman", charmap.Macintosh, false),
		page("cp437", charmap.CodePage437, false),
	}
})

// encode gives the bytes that decode to s, as characters below 256 so that regular expressions work on them.
func (p *codePage) encode(s string) (string, bool) {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 && !(p.sloppy && r == 0x1A) {
			b.WriteRune(r)
			continue
		}
		c, ok := p.bytes[r]
		if !ok {
			return "", false
		}
		b.WriteRune(rune(c))
	}
	return b.String(), true
}

const (
	common          = `\x{a0}\x{ad}·´–—―…’`
	c1              = `\x{80}-\x{9f}`
	bad             = `¦¤¨¬¯¸ƒˆˇ˘˛˜†‡‰⌐◊\x{fffd}ªº`
	law             = `¶§`
	currency        = `¢£¥₧€`
	openPunct       = `¡«¿©΄΅‘‚“„•‹\x{f8ff}`
	closePunct      = `®»˝”›™`
	numeric         = `²³¹±¼½¾×µ÷⁄∂∆∏∑√∞∩∫≈≠≡≤≥№`
	kaomoji         = `Ò-ÖÙ-Üò-öø-üŐŌŪŲ°`
	upperAccented   = `À-ÑØÜÝĂĀĄĆČĎĐĘĚĒĖĞĢİĪĶĹĽŁĻŃŇŅŒŘŚŞŠŢŤŮŰŸŹŻŽҐ`
	lowerAccented   = `ßà-ñăąāćčďđęěēėğģįīķĺľłļœŕśşšťüźżžґﬁﬂ`
	upperCommon     = `ÞΑ-ΩΆΈΉΊΌΎΏΪΫЁ-Я`
	lowerCommon     = `α-ωάέήίΰа-џ`
	box             = `│┌┐┘├┤┬┼═-╬▀▄█▌▐░▒▓`
	pySpace, pyWord = `[\s\x1c-\x1f\x{85}\p{Z}]`, `[\pL\pN_]`

	firstOf2 = `ĂÂÄĀÅÃÆĆČÇĎĐÉĚÊËĖÈĒĘÐĞĢÍÎÏİÌĪĶĹĻŁŃŇŅÑÓÔÖŐÒŌØÕŘŚŠŞŢÞÚÛÜŰÙŪŲŮÝŹŽŻß×ΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫάέήίВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯ`
	firstOf3 = `áăâäàāąåãæćčçďéěêëėèēęęģíîïìīįķĺļŕźΰαβγδεζηθικλμνξοабвгдежзийклмноп`
	firstOf4 = `đðğóšπσру`
	strictly = `\x{80}-¿ĄÆĽŁØŖŚŠŞŤŸŹŽŻŒąæƒľłøŗśšşťźžżœˆˇ˘˛˜˝΄΅ΆΈΉΊΌΎΏЁЂЃЄЅІЇЈЉЊЋЌЎЏёђѓєѕіїјљњћќўџҐґ†‡‰‹›€№™`
	follows  = strictly + ` –—―‘’‚“”„•…`
)

func class2(parts ...string) string { return "[" + strings.Join(parts, "") + "]" }

// badRE finds neighbours that hardly occur but in mojibake.
var badRE = sync.OnceValue(func() *regexp.Regexp {
	marks := class2(bad, lowerAccented, upperAccented, box, openPunct, closePunct, currency, numeric, law)
	notBad := class2(lowerAccented, upperAccented, box, openPunct, closePunct, currency, numeric, law)
	arabic := `[ØÙ]` + class2(common, currency, bad, numeric, openPunct, `ŸŠ®°µ»`)
	return regexp.MustCompile(strings.Join([]string{
		class2(c1),
		marks + class2(bad),
		`[a-zA-Z]` + class2(lowerCommon, upperCommon) + class2(bad),
		class2(bad) + notBad,
		class2(lowerAccented, lowerCommon, box, closePunct, currency, numeric) + class2(upperAccented),
		class2(box, closePunct, currency, numeric) + class2(lowerAccented),
		class2(lowerAccented, box, closePunct) + class2(currency),
		pySpace + class2(upperAccented) + class2(currency),
		class2(upperAccented, box) + class2(numeric, law),
		class2(lowerAccented, upperAccented, box, currency, closePunct) + class2(openPunct) + class2(numeric),
		class2(lowerAccented, upperAccented, currency, numeric, box, law) + class2(closePunct) + class2(openPunct),
		class2(currency, numeric, box) + class2(openPunct),
		`[a-z]` + class2(upperAccented) + class2(openPunct, currency),
		class2(box) + class2(kaomoji),
		class2(lowerAccented, upperAccented, currency, numeric, openPunct, closePunct, law) + class2(box),
		class2(box) + class2(closePunct),
		class2(lowerAccented, upperAccented) + class2(openPunct, closePunct) + pyWord,
		`[Œœ][^A-Za-z]`,
		class2(upperAccented) + `°`,
		`[ÂÃÎÐ]` + class2(`€œŠš¢£Ÿž\x{a0}\x{ad}®©°·»`, openPunct, closePunct, `–—´`),
		`×[²³]`,
		arabic + arabic,
		`à[²µ¹¼½¾]`,
		`√[±∂†≠®™´≤≥¥µø]`,
		`≈[°¢]`,
		`‚Ä[ìîïòôúùû†°¢π]`,
		`‚[âó][àä°ê]`,
		`вЂ`,
		`[ВГРС]` + class2(c1, bad, openPunct, closePunct, currency, `°µ`) + `[ВГРС]`,
		`ГўВЂВ.[A-Za-z ]`,
		`Ã[\x{a0}¡]`,
		`[a-z]` + pySpace + `?[ÃÂ] `,
		`^[ÃÂ] `,
		class2(`a-z.,?!`, closePunct) + `Â` + class2(` `, openPunct, closePunct),
		`β€[™\x{a0}Ά\x{ad}®°]`,
		`[ΒΓΞΟ]` + class2(c1, bad, openPunct, closePunct, currency, `°`) + `[ΒΓΞΟ]`,
		`ā€`,
	}, "|"))
})

// Patterns over bytes written as characters below 256.
var (
	altered = regexp.MustCompile(`[\x{c2}\x{c3}\x{c5}\x{ce}\x{d0}\x{d9}] |[\x{e2}\x{e3}] [\x{80}-\x{84}\x{86}-\x{9f}\x{a1}-\x{bf}]` +
		`|[\x{e0}-\x{e3}][\x{80}-\x{84}\x{86}-\x{9f}\x{a1}-\x{bf}] |\x{f0} [\x{80}-\x{bf}][\x{80}-\x{bf}]` +
		`|\x{f0}[\x{80}-\x{bf}] [\x{80}-\x{bf}]|\x{f0}[\x{80}-\x{bf}][\x{80}-\x{bf}] `)
	lossy = regexp.MustCompile(`[\x{c2}-\x{df}]\x1a|[\x{c2}-\x{c3}][?]` +
		`|\x{ed}[\x{a0}-\x{af}][\x1a?]\x{ed}[\x{b0}-\x{bf}][\x1a?\x{80}-\x{bf}]|\x{ed}[\x{a0}-\x{af}][\x1a?\x{80}-\x{bf}]\x{ed}[\x{b0}-\x{bf}][\x1a?]` +
		`|[\x{e0}-\x{ef}][\x1a?][\x1a\x{80}-\x{bf}]|[\x{e0}-\x{ef}][\x1a\x{80}-\x{bf}][\x1a?]` +
		`|[\x{f0}-\x{f4}][\x1a?][\x1a\x{80}-\x{bf}][\x1a\x{80}-\x{bf}]|[\x{f0}-\x{f4}][\x1a\x{80}-\x{bf}][\x1a?][\x1a\x{80}-\x{bf}]` +
		`|[\x{f0}-\x{f4}][\x1a\x{80}-\x{bf}][\x1a\x{80}-\x{bf}][\x1a?]|\x1a`)
	embedded = sync.OnceValue(func() *regexp.Regexp {
		next := class2(follows)
		return regexp.MustCompile(`^(?:` + class2(firstOf2) + next + `|` + class2(firstOf3) + next + `{2}|` + class2(firstOf4) + next + `{3})+`)
	})
	strictRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(class2(strictly)) })
)

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isBad(s string) bool { return !isASCII(s) && badRE().MatchString(s) }

// fixEncoding is ftfy.fix_encoding.
func fixEncoding(s string) string {
	for {
		next := fixEncodingOnce(s)
		if next == s {
			return s
		}
		s = next
	}
}

func fixEncodingOnce(s string) string {
	if !isBad(s) {
		return s
	}
	latin1 := ""
	for _, p := range codePages() {
		b, ok := p.encode(s)
		if !ok {
			continue
		}
		if p.name == "latin-1" {
			latin1 = b
		}
		if p.name != "macroman" && altered.MatchString(b) {
			b = restoreA0(b)
		}
		if p.sloppy {
			b = lossy.ReplaceAllString(b, "\u00ef\u00bf\u00bd")
		}
		if fixed, ok := decodeUTF8(b); ok {
			return fixed
		}
	}
	if fixed := fixEmbedded(s); fixed != s {
		return fixed
	}
	if latin1 != "" && strings.IndexFunc(latin1, func(r rune) bool {
		return r == 0x81 || r == 0x8D || r == 0x8F || r == 0x90 || r == 0x9D // not assigned in Windows-1252
	}) < 0 {
		if fixed := fixC1(s); fixed != s {
			return fixed
		}
	}
	return fixC1(s)
}

func fixC1(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x80 && r < 0xA0 {
			return windows1252[r-0x80]
		}
		return r
	}, s)
}

// restoreA0 puts the byte A0 back where something made a space of it.
func restoreA0(b string) string {
	var out strings.Builder
	for i := 0; i < len(b); { // "Ã la" is "à la", not the beginning of a word
		if strings.HasPrefix(b[i:], "\u00c3 ") {
			rest := b[i+len("\u00c3 "):]
			word := false
			for _, w := range []string{" ", "quele", "quela", "quilo", "s "} {
				word = word || strings.HasPrefix(rest, w)
			}
			if !word {
				out.WriteString("\u00c3\u00a0 ")
				i += len("\u00c3 ")
				continue
			}
		}
		out.WriteByte(b[i])
		i++
	}
	return altered.ReplaceAllStringFunc(out.String(), func(m string) string { return strings.ReplaceAll(m, " ", "\u00a0") })
}

// decodeUTF8 decodes bytes written as characters below 256: UTF-8, with Java's two-byte zero and surrogates of three bytes each.
func decodeUTF8(b string) (string, bool) {
	raw := make([]byte, 0, len(b))
	for _, r := range b {
		raw = append(raw, byte(r))
	}
	if utf8.Valid(raw) {
		return string(raw), true
	}
	var out strings.Builder
	for len(raw) > 0 {
		if raw[0] == 0xC0 && len(raw) > 1 && raw[1] == 0x80 {
			out.WriteByte(0)
			raw = raw[2:]
			continue
		}
		if hi, ok := surrogate(raw); ok {
			raw = raw[3:]
			if lo, ok := surrogate(raw); ok && hi < 0xDC00 && lo >= 0xDC00 {
				out.WriteRune(0x10000 + (hi-0xD800)<<10 + lo - 0xDC00)
				raw = raw[3:]
			} else {
				out.WriteRune(utf8.RuneError)
			}
			continue
		}
		r, n := utf8.DecodeRune(raw)
		if r == utf8.RuneError && n <= 1 {
			return "", false
		}
		out.WriteRune(r)
		raw = raw[n:]
	}
	return out.String(), true
}

func surrogate(b []byte) (rune, bool) {
	if len(b) < 3 || b[0] != 0xED || b[1]&0xE0 != 0xA0 || b[2]&0xC0 != 0x80 {
		return 0, false
	}
	return 0xD000 | rune(b[1]&0x3F)<<6 | rune(b[2]&0x3F), true
}

// fixEmbedded repairs the parts of a text that look like UTF-8 in another encoding, each by itself.
func fixEmbedded(s string) string {
	var out strings.Builder
	before := ""
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		found := false
		if !strictRE().MatchString(before) {
			if m := embedded().FindString(s[i:]); m != "" {
				n, found = len(m), true
			}
		}
		part := s[i : i+n]
		_, last := utf8.DecodeLastRuneInString(part)
		before = part[len(part)-last:]
		if found && len(part) < len(s) && isBad(part) {
			part = fixEncoding(part)
		}
		out.WriteString(part)
		i += n
	}
	return out.String()
}
