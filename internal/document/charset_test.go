package document_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// written is a text, and the sets of characters in which it is found.
type written struct{ charsets, text string }

// readSamples reads testdata/charsets.txt: names of sets in a line, the text, and an empty line.
func readSamples(t *testing.T) (samples []written) {
	t.Helper()
	raw := musttest.Get(os.ReadFile("testdata/charsets.txt"))(t)
	for block := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		charsets, text, _ := strings.Cut(block, "\n")
		samples = append(samples, written{charsets, text})
	}
	require.Len(t, samples, 30)
	return samples
}

// encodingOf returns the encoding of a name, as encoders know it.
func encodingOf(t *testing.T, name string) encoding.Encoding {
	t.Helper()
	if name == "x-mac-cyrillic" {
		return charmap.MacintoshCyrillic
	}
	known, err := ianaindex.IANA.Encoding(name)
	require.True(t, err == nil && known != nil, "%s: %v", name, err)
	return known
}

func readAs(t *testing.T, kind document.Kind, content string) (text string, meta map[string]string) {
	t.Helper()
	_, text, meta, err := documenttest.Read(content, kind)
	require.NoError(t, err, "%.40q", content)
	return text, meta
}

// A few words, a line, three lines, thirty: each is read as it was written, and the guess is noted.
func TestTextsWithoutALabelAreReadInTheirCharset(t *testing.T) {
	for _, one := range readSamples(t) {
		lines := strings.Split(one.text, "\n")
		words := strings.Fields(lines[0])
		samples := []string{strings.Join(words[:min(len(words), 6)], " ")}
		for _, count := range []int{1, 3, 30} {
			var some []string
			for i := range count {
				some = append(some, lines[i%len(lines)])
			}
			samples = append(samples, strings.Join(some, "\n")+"\n")
		}
		for charset := range strings.FieldsSeq(one.charsets) {
			for _, sample := range samples {
				content, err := encodingOf(t, charset).NewEncoder().String(sample)
				require.NoError(t, err, "%s %s: %v", charset, sample, err)
				text, meta := readAs(t, document.Text, content)
				assert.True(t, text == sample && meta["encoding"] != "",
					"%s: %.80q became %.80q as %q", charset, sample, text, meta["encoding"])
			}
		}
	}
}

// A few accents and signs are Western, also where the names of several languages stand together.
func TestShortWesternTextsStayWestern(t *testing.T) {
	for _, text := range []string{"£12 percent", "½ (report) ®", "µm, 20°C ±5, 3×4, 10² m³", "® costs, © 1999", "– CREW",
		"«oui» in rose", "1º, 2ª, Nº 5", "TOMÉ OF NAÏVE HÄMÄLÄINEN", "Søren in Reykjavík rose", "Žižek says", "Škoda crew of",
		"Ünal, Gösta, Århus and Þórður", "Citroën, è, Guðmundsson", "Übung µm István naïve café Øster", "naïve, Gábor",
		"Peña • François • Ægir • Köln", "This is § 5 of a ¶ with “quotes”, an ellipsis… and € 30", "l’été à São Paulo"} {
		content := musttest.Get(charmap.Windows1252.NewEncoder().String(text))(t)
		got, meta := readAs(t, document.Text, content)
		assert.True(t, got == text, "%q became %q as %s", text, got, meta["encoding"])
	}
}

// Without a mark, UTF-16 is read where most of it is Latin; of another script it is refused.
func TestTextsInUTF16AreReadOrRefusedWithoutAMark(t *testing.T) {
	read := 0
	for _, one := range readSamples(t) {
		for _, order := range []unicode.Endianness{unicode.LittleEndian, unicode.BigEndian} {
			content := musttest.Get(unicode.UTF16(order, unicode.IgnoreBOM).NewEncoder().String(one.text))(t)
			_, text, _, err := documenttest.Read(content, document.Text)
			assert.True(t, text == one.text || fault.Is(err, fault.BinaryContent), "%.40q became %.40q, %v", one.text, text, err)
			if err == nil {
				read++
			}
		}
	}
	assert.Equal(t, 32, read)
}

// A few bytes that are no UTF-8, a zero or a line of another program, do not make a text one of another charset.
func TestStrayBytesLeaveTheCharset(t *testing.T) {
	for content, want := range map[string]string{
		"# Verträge\n\nJörg prüft in Zürich.\nEin \x96 Strich.\n":       "# Verträge\n\nJörg prüft in Zürich.\nEin \ufffd Strich.\n",
		"Zoë Ångström, Jörg\nRen\xe9e M\xfcller und noch mehr Text, ja": "Zoë Ångström, Jörg\nRen\ufffde M\ufffdller und noch mehr Text, ja",
		"Порт закрыт. \xff Капитан вышел в море.\n":                     "Порт закрыт. \ufffd Капитан вышел в море.\n",
		"東京の会社\xe3\x81 は契約に署名した。社長です。":                                  "東京の会社\ufffd\ufffd は契約に署名した。社長です。",
		"id,text\n1,has\x00nul here\n2,ok\n":                            "id,text\n1,has nul here\n2,ok\n",
		"# Title with a zero\n\nA\x00B text.\n":                         "# Title with a zero\n\nA B text.\n",
		"# Zürich\n\nA\x00B text of Jörg.\n":                            "# Zürich\n\nA B text of Jörg.\n",
	} {
		text, meta := readAs(t, document.Text, content)
		assert.True(t, text == want && meta["encoding"] == "", "%q became %q as %q", content, text, meta["encoding"])
	}
}

// What a page says of its charset counts, unless its bytes speak against it.
func TestPagesAreReadInTheCharsetThatTheyName(t *testing.T) {
	encoded := func(charset, text string) string {
		out := musttest.Get(encodingOf(t, charset).NewEncoder().String(text))(t)
		return out
	}
	const russian = "<p>Капитан Фёдор Громов.</p>"
	for name, c := range map[string]struct{ content, want, guess string }{
		"http-equiv": {
			`<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">` + encoded("windows-1251", russian),
			"Капитан Фёдор Громов.", "",
		},
		"single quotes": {`<meta charset='koi8-r'>` + encoded("koi8-r", russian), "Капитан Фёдор Громов.", ""},
		"far from the start": {
			"<head>" + strings.Repeat("<!-- remark -->", 200) + "<meta charset=windows-1251>" + encoded("windows-1251", russian),
			"Капитан Фёдор Громов.", "",
		},
		"in a comment": {`<!-- <meta charset=gbk> --><meta charset=windows-1251>` + encoded("windows-1251", russian),
			"Капитан Фёдор Громов.", ""},
		"by the declaration": {`<?xml version="1.0" encoding="windows-1251"?><html>` + encoded("windows-1251", russian),
			"Капитан Фёдор Громов.", ""},
		"says UTF-8, is not": {"<meta charset=utf-8>" + encoded("windows-1251", russian), "Капитан Фёдор Громов.",
			"windows-1251"},
		"says Latin-1, is UTF-8":      {"<meta charset=iso-8859-1><p>Zürich", "Zürich", ""},
		"says windows-1251, is UTF-8": {"<meta charset=windows-1251>" + russian, "Капитан Фёдор Громов.", ""},
		"says UTF-16, is not":         {"<meta charset=utf-16><p>Łódź", "Łódź", ""},
		"says Latin-1, is Russian":    {"<meta charset=iso-8859-1>" + encoded("koi8-r", russian), "Капитан Фёдор Громов.", "koi8-u"},
		"says Latin-1, is Latin-1":    {"<meta charset=iso-8859-1><p>Z\xfcrich", "Zürich", ""},
		"says unicode, is Latin-1":    {"<meta charset=unicode><p>Z\xfcrich", "Zürich", "windows-1252"},
		"a mark before the label":     {"\xef\xbb\xbf<meta charset=gbk><p>Łódź", "Łódź", ""},
		"says nothing":                {encoded("windows-1251", russian), "Капитан Фёдор Громов.", "windows-1251"},
		"an unknown name":             {"<meta charset=x-none>" + encoded("windows-1251", russian), "Капитан Фёдор Громов.", "windows-1251"},
		"gb2312 means what holds it":  {"<meta charset=gb2312>" + encoded("gb18030", "<p>朱镕基"), "朱镕基", ""},
		"seven bits":                  {"<meta charset=iso-2022-jp>" + encoded("iso-2022-jp", "<p>山田太郎です"), "山田太郎です", ""},
	} {
		text, meta := readAs(t, document.HTML, c.content)
		assert.True(t, text == c.want && meta["encoding"] == c.guess, "%s: %q as %q", name, text, meta["encoding"])
	}
}

func TestACharsetOfTheConfigurationCounts(t *testing.T) {
	content, err := encodingOf(t, "koi8-r").NewEncoder().String("<meta charset=gbk><p>Ёж")
	require.NoError(t, err)
	for _, kind := range []document.Kind{document.HTML, document.Text, document.CSV} {
		reader, err := document.Decode(document.Transcode(strings.NewReader(content), kind, "KOI8-R"), "x")
		require.NoError(t, err)
		text, err := io.ReadAll(reader)
		assert.True(t, err == nil && strings.HasSuffix(string(text), "Ёж"), "%s: %q, %v", kind, text, err)
	}
	mail, err := io.ReadAll(document.Transcode(strings.NewReader(content), document.EML, "KOI8-R"))
	assert.True(t, err == nil && string(mail) == content, "mail says its charset itself: %q, %v", mail, err)
}

// A few control characters are blanks; many are what no text has.
func TestSomeControlCharactersAreBlanks(t *testing.T) {
	for content, want := range map[string]string{
		"Line by Cy Moor.\vNext by Di Nash.\n":        "Line by Cy Moor. Next by Di Nash.\n",
		"a\x00b":                                      "a b",
		"The end of a file of DOS\x1a":                "The end of a file of DOS ",
		"over\bstruck\b":                              "over struck ",
		strings.Repeat("many words\v", 100):           strings.Repeat("many words ", 100),
		"next line\u0085of another program\x7f":       "next line of another program ",
		strings.Repeat("long text ", 10_000) + "\x00": strings.Repeat("long text ", 10_000) + " ",
	} {
		text, _ := readAs(t, document.Text, content)
		assert.True(t, text == want, "%.40q became %.40q", content, text)
	}
}

func TestTextThatIsMostlyNoTextIsAnError(t *testing.T) {
	for content, bad := range map[string]bool{
		strings.Repeat("\uFFFD", 20) + " some letters": true,
		strings.Repeat("\ue000\uf8ff ", 20):            true,
		strings.Repeat("\U000f0000", 2000) + "\n":      true,
		"a \uFFFD": false,
		"Letters with one \uFFFD, and \ue000 in between.": false,
		"\n \t\n": false, "": false,
	} {
		sound := document.NewSound(iotest.OneByteReader(strings.NewReader(content)), "dir/x")
		text, err := io.ReadAll(iotest.OneByteReader(sound))
		if lost := strings.Count(content, "\uFFFD"); (lost > 0) != strings.HasSuffix(sound.DescribeLoss(), fmt.Sprintf(": %d", lost)) {
			t.Errorf("%.40q: %q", content, sound.DescribeLoss())
		}
		assert.True(t, (err != nil) == bad && string(text) == content && (!bad || strings.Contains(err.Error(), "dir/x")),
			"%.40q: %d bytes, %v", content, len(text), err)
	}
}

func TestTextIsDecodedFromWhatItIsWrittenIn(t *testing.T) {
	words := strings.Repeat("wörter und ", 300)
	long := strings.Repeat("ab", 40<<10) // over what decides
	for name, c := range map[string][2]string{
		"plain":                 {"a\nb", "a\nb"},
		"UTF-8 with mark":       {"\xef\xbb\xbfé", "é"},
		"line ends":             {"a\r\nb\rc\r\n", "a\nb\nc\n"},
		"line ends alone":       {"\r\r\n\n\r", "\n\n\n\n"},
		"Latin-1":               {"Z\xfcrich und M\xfcnchen", "Zürich und München"},
		"Windows-1252":          {"\x93quoted\x94 \x80", "“quoted” €"},
		"UTF-16 little":         {"\xff\xfea\x00\xe9\x00", "aé"},
		"UTF-16 big":            {"\xfe\xff\x00a\x00\xe9", "aé"},
		"UTF-16 without mark":   {"a\x00b\x00c\x00d\x00e\x00", "abcde"},
		"UTF-16 big, no mark":   {"\x00a\x00b\x00c\x00d\x00e", "abcde"},
		"one bad byte":          {words + "\xff", words + "\uFFFD"},
		"bad behind the sample": {"é" + long + "\xff\xfe", "é" + long + "\uFFFD\uFFFD"},
		"Latin-1 behind ASCII":  {long + "Z\xfcrich \x80", long + "Zürich €"},
		"a rune at the border":  {strings.Repeat("x", 64<<10-1) + "é.", strings.Repeat("x", 64<<10-1) + "é."},
		"zero bytes later":      {long + "a\x00b", long + "a b"},
		"codes of a terminal":   {"\x1b[1;31mred\x1b[0m \x1b]0;window\x07a\x1b(Bb \x1b", "red ab  "},
		"empty":                 {"", ""},
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"whole":        func(r io.Reader) io.Reader { return r },
			"byte by byte": iotest.OneByteReader,
			"with the end": iotest.DataErrReader,
		} {
			decoded, err := document.Decode(wrap(strings.NewReader(c[0])), name)
			require.NoError(t, err, name)
			got, err := io.ReadAll(wrap(decoded))
			assert.True(t, err == nil && string(got) == c[1], "%s, %s: %d bytes, %v, want %d", name, how, len(got), err,
				len(c[1]))
		}
	}
}

func TestBinaryContentIsRefused(t *testing.T) {
	for name, content := range map[string]string{
		"a program":     "\x7fELF\x02\x01\x01\x00\x00",
		"an image":      "\x89PNG\r\n\x1a\n\x00\x00",
		"control bytes": strings.Repeat("ab\x01\x02", 100),
		"struck over":   strings.Repeat("N\bNA\bA", 100),
	} {
		_, err := document.Decode(strings.NewReader(content), "dir/"+name)
		assert.True(t, fault.Is(err, fault.BinaryContent) && strings.Contains(err.Error(), "dir/"+name), "%s: %v", name, err)
	}
}

func TestABrokenSourceIsTold(t *testing.T) {
	broken := errors.New("connection reset")
	_, err := document.Decode(iotest.ErrReader(broken), "x")
	assert.True(t, fault.Is(err, fault.Unreadable) && errors.Is(err, broken), "at the start: %v", err)
	reader, err := document.Decode(
		io.MultiReader(strings.NewReader(strings.Repeat("text ", 20_000)), iotest.ErrReader(broken)), "x")
	require.NoError(t, err)
	_, err = io.ReadAll(reader)
	assert.True(t, errors.Is(err, broken), "later: %v", err)
}

func TestGunzip(t *testing.T) {
	packed := documenttest.Gzip("unpacked")
	for name, c := range map[string]struct {
		content string
		gz      bool
		want    string
		code    fault.Code
	}{
		"packed":           {packed, true, "unpacked", ""},
		"plain":            {"plain", false, "plain", ""},
		"not what it says": {"plain", true, "", fault.Unreadable},
		"empty":            {"", true, "", fault.Unreadable},
	} {
		reader, err := document.Gunzip(strings.NewReader(c.content), c.gz, name, document.DefaultLimits())
		if fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil {
			continue
		}
		got, err := io.ReadAll(reader)
		assert.True(t, err == nil && string(got) == c.want, "%s: %q, %v", name, got, err)
	}
	cut, err := document.Gunzip(bytes.NewReader([]byte(packed)[:len(packed)-4]), true, "cut", document.DefaultLimits())
	require.NoError(t, err)
	_, err = io.ReadAll(cut)
	assert.True(t, err != nil, "a cut file reads as a whole one")
}

// Whatever the bytes: no panic, and what is decoded is valid and free of carriage returns.
func FuzzDecodedTextIsValid(f *testing.F) {
	f.Add([]byte("a\r\nb\xff"))
	f.Add([]byte("\xff\xfea\x00\r\x00\n\x00"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		reader, err := document.Decode(bytes.NewReader(raw), "x")
		if err != nil {
			return
		}
		text, err := io.ReadAll(reader)
		assert.True(t, err == nil && strings.ToValidUTF8(string(text), "") == string(text) &&
			!bytes.ContainsAny(text, "\r\x00"), "%q became %q, %v", raw, text, err)
	})
}
