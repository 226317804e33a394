package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// cleanWord returns a word by compatibility forms (NFKC), without characters that have no width and without the marks
// that Arabic and Hebrew leave out as a rule. Apostrophes, hyphens, sharps and digits of any kind are the ASCII ones.
func cleanWord(word string) string {
	if IsASCII(word) {
		return word
	}
	return norm.NFC.String(strings.Map(cleanRune, norm.NFKD.String(word)))
}

func cleanRune(r rune) rune {
	switch {
	case r < utf8.RuneSelf:
		return r
	case isInvisible(r) || vowelMark(r) || unicode.IsSpace(r): // ﷺ is several words
		return -1
	case unicode.Is(unicode.Nd, r):
		return digitOf(r)
	}
	switch r {
	case '‘', '’', 'ʼ', '′', '´':
		return '\''
	case '‐', '‑', '−':
		return '-'
	case '♯':
		return '#'
	case 'ς':
		return 'σ'
	}
	return r
}

// isInvisible reports whether a character has no width: soft hyphens, joiners, zero-width spaces, marks of direction,
// selectors of variants.
func isInvisible(r rune) bool {
	return unicode.Is(unicode.Cf, r) || r == '\u034f' || (r >= '\ufe00' && r <= '\ufe0f') ||
		(r >= '\U000e0100' && r <= '\U000e01ef')
}

// vowelMark reports whether a character is a sign that Arabic, Hebrew and Syriac may write at a letter, or the stroke
// that lengthens an Arabic one.
func vowelMark(r rune) bool {
	switch {
	case r == '\u0640':
		return true
	case r < 0x0591 || r > 0x08ff || r > 0x074a && r < 0x08d3:
		return false
	}
	return unicode.Is(unicode.Mn, r)
}

// digitOf returns the ASCII digit of a decimal digit: each script has its ten in order.
func digitOf(r rune) rune {
	for _, run := range unicode.Nd.R16 {
		if uint16(r) <= run.Hi && r <= 0xffff {
			return '0' + (r-rune(run.Lo))%10
		}
	}
	for _, run := range unicode.Nd.R32 {
		if uint32(r) <= run.Hi {
			return '0' + (r-rune(run.Lo))%10
		}
	}
	return r
}

// IsASCII reports whether a text has characters of ASCII alone.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// letters of the Latin script that Unicode does not decompose, as people write them on keyboards without them.
var letters = strings.NewReplacer("ß", "ss", "æ", "ae", "œ", "oe", "ø", "o", "ł", "l", "đ", "d", "ð", "d", "þ", "th",
	"ħ", "h", "ŧ", "t", "ı", "i", "ŋ", "ng", "ĸ", "k", "ȷ", "j")

// stripAccents takes the accents off letters of a lower-case word: all of Latin and Greek, the stress and the diaeresis
// of Cyrillic. Signs that other scripts add to their letters stay, and so do letters of their own such as й.
func stripAccents(word string) string {
	if IsASCII(word) {
		return word
	}
	var out []rune
	var base rune
	for _, r := range norm.NFD.String(word) {
		if !unicode.Is(unicode.Mn, r) {
			base = r
		} else if isAccent(base, r) {
			continue
		}
		out = append(out, r)
	}
	return letters.Replace(norm.NFC.String(string(out)))
}

// isAccent reports whether a mark at a letter is left out by people who write without accents.
func isAccent(base, mark rune) bool {
	const stressed, grave, acute, diaeresis = "аеиоуыэюяі", '\u0300', '\u0301', '\u0308'
	switch {
	case unicode.In(base, unicode.Latin, unicode.Greek):
		return true
	case base == 'е' && mark == diaeresis:
		return true
	}
	return strings.ContainsRune(stressed, base) && (mark == grave || mark == acute)
}

// foldCase returns a form of a word in lower case.
func foldCase(form string) string {
	form = strings.ToLower(form)
	if IsASCII(form) {
		return form
	}
	return norm.NFC.String(form)
}
