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
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode/utf32"
	"golang.org/x/text/transform"
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
	{"äöüß", "windows-1252 ibm850 macintosh"}, {"àâçéèêëîïôûùüœæ", "windows-1252 ibm850 macintosh"},
	{"áéíóúüñçàèòï", "windows-1252 ibm850 macintosh"}, {"åäöéüæø", "windows-1252 ibm850"},
	{"áàâãçéêíóôõú", "windows-1252"}, {"àèéìíòóùú", "windows-1252"}, {"ëïéèöüáó", "windows-1252"},
	{cyrillic, "windows-1251 koi8-u ibm866 iso-8859-5 x-mac-cyrillic"},
	{greek, "windows-1253 iso-8859-7"}, {hebrew, "windows-1255 ibm862"}, {arabic, "windows-1256 iso-8859-6"},
	{thai, "windows-874"}, {"áčďéěíňóřšťúůýž", "windows-1250 iso-8859-2 ibm852"},
	{"ąćęłńóśźż", "windows-1250 iso-8859-2 ibm852"}, {"áéíóöőúüű", "windows-1250 iso-8859-2"},
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
	japanese = []*unicode.RangeTable{unicode.Hiragana, unicode.Katakana, unicode.Han}
	chinese  = []*unicode.RangeTable{unicode.Han}
)

// charsetOf returns the encoding of a name, nil where the name is not known.
func charsetOf(name string) encoding.Encoding {
	switch low := strings.ToLower(strings.TrimSpace(name)); low {
	case "gb2312", "gbk", "gb_2312-80", "cp936", "936", "ms936", "x-gbk":
		return simplifiedchinese.GB18030
	case "cp949", "ms949", "uhc":
		name = "euc-kr"
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
func IsCharset(name string) bool { return charsetOf(name) != nil }

// Transcode returns an object whose charset is given as UTF-8 that says so; one without, or of a type that is no text by
// itself, as it is.
func Transcode(reader io.Reader, kind Kind, name string) io.Reader {
	known := charsetOf(name)
	if name == "" || known == nil || !kind.Streams() && kind != HTML && kind != JSON {
		return reader
	}
	return io.MultiReader(strings.NewReader(mark8), transform.NewReader(reader, known.NewDecoder()))
}

// shifted are the marks by which ISO-2022-JP, of seven bits, turns to characters of two bytes and back.
var shifted = regexp.MustCompile(`\x1b\$[@B](?:[!-~]{2})+\x1b\([BJ]`)

// guessCharset returns the likeliest set of characters of a text that is no UTF-8: it decodes the start of it by each,
// and looks how much of it stands as it does in a language.
func guessCharset(sample []byte) string {
	sample = sample[:min(len(sample), 16<<10)]
	if end := bytes.LastIndexByte(sample, '\n'); end > len(sample)/2 {
		sample = sample[:end] // no character is cut
	}
	if shifted.Match(sample) {
		return "iso-2022-jp"
	}
	best, most := western, 0.0
	plain := 0.0 // of the usual one
	for _, language := range alphabets {
		for name := range strings.FieldsSeq(language.charsets) {
			share := language.share(decodedAs(sample, name))
			if name == western && language.letters != icelandic {
				plain = max(plain, share)
			}
			if share > most+1e-9 {
				best, most = name, share
			}
		}
	}
	if most < 0.7 || most < plain+0.1 {
		best, most = western, plain
	}
	for _, one := range scripts {
		if share := one.share(decodedAs(sample, one.charset)); share > most {
			best, most = one.charset, share
		}
	}
	return best
}

func decodedAs(sample []byte, name string) []rune { return decodedBy(sample, charsetOf(name)) }

func decodedBy(sample []byte, by encoding.Encoding) []rune {
	text, err := by.NewDecoder().Bytes(sample)
	if err != nil {
		return nil
	}
	return []rune(string(text))
}

// signsWithin stand between letters, signsBefore follow none, and of symbols signsBeside alone stand beside one.
const (
	signsWithin = "’‘–—·…/©®°™\u00a0\u00ad\u200c\u200d\u200e\u200f"
	signsBefore = "¶¼½¾¿¡¹ªµ"
	signsBeside = "©®°™"
)

// share is how much of the text beyond ASCII is letters of the language, where they stand as letters do: none beside a
// letter of another script, no capital behind a small letter, no mark without one.
func (a alphabet) share(text []rune) float64 {
	first, _ := utf8.DecodeRuneInString(a.letters)
	latin := unicode.Is(unicode.Latin, first)
	good, all := 0.0, 0.0
	at := func(i int) rune {
		if i < 0 || i >= len(text) {
			return ' '
		}
		return text[i]
	}
	for i, r := range text {
		if r < utf8.RuneSelf {
			continue
		}
		before, behind := at(i-1), at(i+1)
		switch {
		case unicode.IsMark(r):
			all++
			if !latin && (unicode.IsMark(before) || strings.ContainsRune(a.letters, before)) {
				good++
			}
		case !unicode.IsLetter(r):
			led, leads := unicode.IsLetter(before), unicode.IsLetter(behind)
			if unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Co, r) ||
				(led || leads) && unicode.IsSymbol(r) && !strings.ContainsRune(signsBeside, r) ||
				led && strings.ContainsRune(signsBefore, r) || led && leads && !strings.ContainsRune(signsWithin, r) {
				all++
			}
		default:
			all++
			good += a.worth(r, before, behind, latin)
		}
	}
	if all == 0 {
		return 0
	}
	return good / all
}

// worth is 1 for a frequent letter of the language, 0 for one that is none or does not stand as one.
func (a alphabet) worth(r, before, behind rune, latin bool) float64 {
	place := strings.IndexRune(a.letters, unicode.ToLower(r))
	ascii := func(r rune) bool { return r < utf8.RuneSelf && unicode.IsLetter(r) }
	beyond := func(r rune) bool { return r >= utf8.RuneSelf && unicode.IsLetter(r) }
	switch {
	case place < 0, unicode.IsUpper(r) && unicode.IsLower(before):
		return 0
	case latin && beyond(before) && beyond(behind), !latin && (ascii(before) || ascii(behind)):
		return 0
	case latin || utf8.RuneCountInString(a.letters[:place]) < frequent:
		return 1
	}
	return 0.6
}

// share is more than 1 for running text in a script: where nearly all characters are of it, and some of them frequent.
func (s script) share(text []rune) float64 {
	own, most, all := 0.0, 0.0, 0.0
	ascii := func(i int) bool {
		return i >= 0 && i < len(text) && text[i] < utf8.RuneSelf && unicode.IsLetter(text[i])
	}
	for i, r := range text {
		switch {
		case r < utf8.RuneSelf, unicode.IsPunct(r) && r < 0xff61, unicode.IsSpace(r), r >= 0xff01 && r < 0xff61:
			continue
		case unicode.In(r, s.own...) && r < 0xff61 && !ascii(i-1) && !ascii(i+1):
			own++
		}
		if all++; strings.ContainsRune(s.most, r) {
			most++
		}
	}
	switch {
	case all == 0, own < 0.9*all:
		return 0
	case most < 0.06*all:
		return 0.5 // of letters that are rare: likelier than what is no language at all
	}
	return 1 + most/all
}
