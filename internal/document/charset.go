package document

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/rangetable"
)

// western is what bytes are that are no UTF-8, where nothing else is likelier.
const western = "windows-1252"

// Letters by script, the most frequent first.
const (
	cyrillic = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъёіїєґўђјљњћџ"
	greek    = "αοιετσνηυρπκμλςωδγχθφβξζψάέήίόύώϊϋΐΰ"
	hebrew   = "יהולארתבשמנדחקפעכסגזטצםןךףץ"
	arabic   = "اليمنوترعبدسفهكقحجشصطخذزثضغظةىأإآئؤءپچگ"
	thai     = "านรอกเงมยลวดทสตะปบคหแจพชขใไโผศณซถธษฟญภฉฤฐฎฏฬฝฆฑฌฮๆาำ"
)

// frequent is how many letters of a script are its frequent ones.
const frequent = 12

// alphabet is a language as one set of characters writes it: its small letters beyond ASCII.
type alphabet struct{ letters, charsets string }

// alphabets in the order in which they win where several are as likely.
var alphabets = []alphabet{
	{"äöüß", "windows-1252"}, {"àâçéèêëîïôûùüœæ", "windows-1252"},
	{"áéíóúüñçàèòï", "windows-1252"}, {"åäöéüæø", "windows-1252"},
	{"áàâãçéêíóôõú", "windows-1252"}, {"àèéìíòóùú", "windows-1252"}, {"ëïéèöüáó", "windows-1252"},
	{cyrillic, "windows-1251 koi8-u iso-8859-5"},
	{greek, "windows-1253 iso-8859-7"}, {hebrew, "windows-1255"}, {arabic, "windows-1256 iso-8859-6"},
	{thai, "windows-874"}, {"áčďéěíňóřšťúůýž", "windows-1250 iso-8859-2"},
	{"ąćęłńóśźż", "windows-1250 iso-8859-2"}, {"áéíóöőúüű", "windows-1250 iso-8859-2"},
	{"áäčďéíĺľňóôŕšťúýž", "windows-1250 iso-8859-2"}, {"ăâîşţ", "windows-1250 iso-8859-2"},
	{"čćžšđ", "windows-1250 iso-8859-2"}, {"çğıöşüâî", "windows-1254"}, {"ąčęėįšųūž", "windows-1257"},
	{"āčēģīķļņšūž", "windows-1257"}, {"äöõüšž", "windows-1257"}, {icelandic, "windows-1252"},
}

// icelandic has its own letters where Turkish has, and is rarer.
const icelandic = "áéíóúýþðæö"

// script is a set of characters of two bytes, and the characters that running text in it has most.
type script struct {
	charset, most string
	own           []*unicode.RangeTable
}

var scripts = []script{
	{"shift_jis", "のにはをたがでてとしれさるなからもいすまっあこそきよりけくだん", japanese},
	{"euc-jp", "のにはをたがでてとしれさるなからもいすまっあこそきよりけくだん", japanese},
	{"euc-kr", "이다는의에을가고를은한하지로사기도어인그대서자리시나아라해있니부일전수정보", []*unicode.RangeTable{unicode.Hangul}},
	{"gb18030", "的一是不了在人有我他这中大来上个国和地到说们为子要时出会可也你对生能而于得下自之年过发后作里用道行所然" +
		"家方成多经么去同现当没动面起看定天分还进好小部其些主样理心本前开但因只从想实日月公上市区", chinese},
	{"big5", "的一是不了在人有我他這中大來上個國和地到說們為子要時出會可也你對生能而於得下自之年過發後作裡用道行所然" +
		"家方成多經麼去同現當沒動面起看定天分還進好小部其些主樣理心本前開但因只從想實日月公上市區", chinese},
}

var (
	// Unicode counts the sign that lengthens kana to no script.
	japanese = []*unicode.RangeTable{unicode.Hiragana, unicode.Katakana, unicode.Han, rangetable.New('ー')}
	chinese  = []*unicode.RangeTable{unicode.Han}
)

// CharsetOf returns the encoding of a name, nil where the name is not known.
func CharsetOf(name string) encoding.Encoding {
	switch low := strings.ToLower(strings.TrimSpace(name)); low {
	case "utf-32", "utf-32le", "utf-32be":
		return utf32.UTF32(low == "utf-32le" == utf32.LittleEndian, utf32.UseBOM)
	}
	if known, found := charset.Lookup(name); known != nil && found != "replacement" {
		return known
	}
	known, err := ianaindex.IANA.Encoding(name)
	if err != nil {
		return nil
	}
	return known
}

// IsCharset reports whether a set of characters of that name is known.
func IsCharset(name string) bool { return CharsetOf(name) != nil }

// HasShifts reports whether a set of characters has seven bits: what a code in a field turns it to may cover the quotes
// and the delimiters behind it.
func HasShifts(name string) bool {
	known := CharsetOf(name)
	if name == "" || known == nil {
		return false
	}
	for _, said := range []string{"\x1b$B?M\x1b(B", "~{HK~}"} { // as ISO-2022-JP and HZ have it
		if shown, err := known.NewDecoder().String(said); err == nil && shown == "人" {
			return true
		}
	}
	return false
}

// Transcode returns an object whose charset is given as UTF-8 that says so; one without, or of a type that is no text
// by itself, as it is.
func Transcode(reader io.Reader, kind Kind, name string) io.Reader {
	known := CharsetOf(name)
	if name == "" || known == nil || !kind.IsStreamed() && kind != HTML && kind != JSON {
		return reader
	}
	return io.MultiReader(strings.NewReader(ByteOrderMark), decodeLines(reader, known))
}

// decodeLines decodes a text, and each line of it by itself where lines end as those of ASCII do: no character, and no
// shift of a set of seven bits, reaches into the next line (RFC 1468).
func decodeLines(r io.Reader, from encoding.Encoding) io.Reader {
	by := transform.Transformer(from.NewDecoder())
	if ends, err := from.NewEncoder().String("\r\n"); err == nil && ends == "\r\n" {
		by = lineDecoder{by}
	}
	return transform.NewReader(r, by)
}

// lineDecoder begins anew behind each end of a line.
type lineDecoder struct{ transform.Transformer }

// Transform implements transform.Transformer.
func (d lineDecoder) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	for nSrc < len(src) {
		line, end := src[nSrc:], bytes.IndexAny(src[nSrc:], "\r\n")
		if end >= 0 {
			line = line[:end]
		}
		written, read, err := d.Transformer.Transform(dst[nDst:], line, atEOF || end >= 0)
		nDst, nSrc = nDst+written, nSrc+read
		if err != nil || end < 0 {
			return nDst, nSrc, err
		}
		if nDst == len(dst) {
			return nDst, nSrc, transform.ErrShortDst
		}
		dst[nDst] = src[nSrc]
		nDst, nSrc = nDst+1, nSrc+1
		d.Reset()
	}
	return nDst, nSrc, nil
}

// sevenBits is the set of characters that shifted marks.
const sevenBits = "iso-2022-jp"

// shifted are the marks by which ISO-2022-JP, of seven bits, turns to characters of two bytes and back.
var shifted = regexp.MustCompile(`\x1b\$[@B](?:[!-~]{2})+\x1b\([BJ]`)

// enough bytes tell charsets apart.
const enough = 4 << 10

// pickLines returns the first lines that are not ASCII alone.
func pickLines(text []byte) (lines []byte) {
	for len(text) > 0 && len(lines) < enough {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		if text = rest; !IsASCII(line) {
			lines = append(append(lines, line...), '\n')
		}
	}
	return lines[:min(len(lines), enough)]
}

// guessCharset returns the likeliest set of characters of a text that is no UTF-8: it decodes some lines of it by each,
// and looks how much of them stands as it does in a language.
func guessCharset(sample []byte) string {
	sample = pickLines(sample)
	usual := decodedAs(sample, western)
	plain := 0.0 // share of the likeliest language that the usual one writes
	for _, language := range alphabets {
		if strings.Contains(language.charsets, western) && language.letters != icelandic {
			plain = max(plain, language.fitText(usual))
		}
	}
	best, most := western, plain
	for _, language := range alphabets {
		for name := range strings.FieldsSeq(language.charsets) {
			text := decodedAs(sample, name)
			share := language.fitText(text)
			if share > max(most, plain+0.1)+1e-9 && (name == western || language.beatsChance(text, usual, share)) {
				best, most = name, share
			}
		}
	}
	for _, one := range scripts {
		if share := one.measureShare(decodedAs(sample, one.charset)); share > most {
			best, most = one.charset, share
		}
	}
	return best
}

func decodedAs(sample []byte, name string) []rune {
	text, err := CharsetOf(name).NewDecoder().Bytes(sample)
	if err != nil {
		return nil
	}
	return []rune(string(text))
}

// beatsChance reports whether letters of a language are more than chance makes of a few accents and signs in a Western
// text: there are some where that has other letters, or signs that stand as none does.
func (a alphabet) beatsChance(text, usual []rune, share float64) bool {
	letters := 0
	for i, r := range text {
		switch {
		case i >= len(usual) || usual[i] == r || !unicode.IsLetter(r):
		case unicode.IsLetter(usual[i]) && !strings.ContainsRune(signLetters, usual[i]), isOdd(usual, i, true):
			letters++
		default:
			letters-- // a sign where signs stand
		}
	}
	if !a.isLatin() {
		return share >= 0.6 && letters >= 3
	}
	if strings.Contains(a.charsets, "windows-1257") { // any accents look like Baltic ones
		letters -= 2
	}
	return share >= 0.93 && letters > 1
}

func (a alphabet) isLatin() bool {
	first, _ := utf8.DecodeRuneInString(a.letters)
	return unicode.Is(unicode.Latin, first)
}

// signsWithin stand between letters, signsBefore follow none, and of symbols signsBeside alone stand beside one.
const (
	signsWithin = "’‘–—·…/©®°™\u00a0\u00ad\u200c\u200d\u200e\u200f"
	signsBefore = "¶¼½¾¿¡¹"
	signsBeside = "©®°™"
	signLetters = "ªºµ"
)

// runeAt returns a character of a text, a blank outside of it.
func runeAt(text []rune, i int) rune {
	if i < 0 || i >= len(text) {
		return ' '
	}
	return text[i]
}

// isBeyond reports whether a letter beyond ASCII is there.
func isBeyond(text []rune, i int) bool {
	r := runeAt(text, i)
	return r >= utf8.RuneSelf && unicode.IsLetter(r)
}

// fitText returns how much of what is beyond ASCII is a letter of the language, the more frequent ones of one that is
// not Latin above all, and stands as letters do.
func (a alphabet) fitText(text []rune) float64 {
	good, all, latin := 0.0, 0.0, a.isLatin()
	for i, r := range text {
		place := strings.IndexRune(a.letters, unicode.ToLower(r))
		if unicode.IsMark(r) {
			place = strings.IndexRune(a.letters, runeAt(text, i-1))
		}
		switch {
		case r < utf8.RuneSelf:
			continue
		case isOdd(text, i, latin):
		case !unicode.IsMark(r) && (!unicode.IsLetter(r) || strings.ContainsRune(signLetters, r)):
			continue
		case latin && place >= 0, place >= 0 && utf8.RuneCountInString(a.letters[:place]) < frequent:
			good++
		case place >= 0:
			good += 0.6
		}
		all++
	}
	return good / max(all, 1)
}

// isOdd reports whether a character stands as none does: a sign within a word, a capital behind a small letter, four
// letters beyond ASCII in a row in a Latin word, one beside an ASCII letter in another.
func isOdd(text []rune, i int, latin bool) bool {
	r, before, behind := text[i], runeAt(text, i-1), runeAt(text, i+1)
	led, leads := unicode.IsLetter(before), unicode.IsLetter(behind)
	switch {
	case unicode.IsMark(r):
		return latin
	case strings.ContainsRune(signLetters, r):
		return leads && (led || r != 'µ')
	case !unicode.IsLetter(r):
		return unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Co, r) ||
			(led || leads) && unicode.IsSymbol(r) && !strings.ContainsRune(signsBeside, r) ||
			led && strings.ContainsRune(signsBefore, r) || led && leads && !strings.ContainsRune(signsWithin, r)
	case unicode.IsUpper(r) && unicode.IsLower(before):
		return true
	case latin:
		return isBeyond(text, i-1) && isBeyond(text, i+1) && (isBeyond(text, i-2) || isBeyond(text, i+2))
	}
	return led && before < utf8.RuneSelf || leads && behind < utf8.RuneSelf
}

// measureShare returns more than 1 for running text in a script: where nearly all characters are of it, and some of
// them frequent.
func (s script) measureShare(text []rune) float64 {
	own, most, all := 0.0, 0.0, 0.0
	for _, r := range text {
		if r < utf8.RuneSelf || unicode.IsPunct(r) || unicode.IsSpace(r) || r >= 0xff01 && r < 0xffa0 {
			continue
		}
		all++
		if unicode.In(r, s.own...) {
			own++
		}
		if strings.ContainsRune(s.most, r) {
			most++
		}
	}
	if all < 3 || own < 0.9*all || most < 0.06*all {
		return 0
	}
	return 1 + most/all
}

// IsPrivateUse reports whether a character says nothing but in its font.
func IsPrivateUse(char rune) bool {
	return unicode.Is(unicode.Co, char) || char == unicode.ReplacementChar
}
