package document_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

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
		"struck over":           {"N\bNA\bAM\bME\bE _\bi_\bn a\b\nb\b", "NAME in a \nb "},
		"struck at the border":  {strings.Repeat("x", 64<<10-1) + "é\bé.", strings.Repeat("x", 64<<10-1) + "é."},
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
			if err != nil || string(got) != c[1] {
				t.Errorf("%s, %s: %d bytes, %v, want %d", name, how, len(got), err, len(c[1]))
			}
		}
	}
}

func TestBinaryContentIsRefused(t *testing.T) {
	for name, content := range map[string]string{
		"a program":     "\x7fELF\x02\x01\x01\x00\x00",
		"an image":      "\x89PNG\r\n\x1a\n\x00\x00",
		"control bytes": strings.Repeat("ab\x01\x02", 100),
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
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err := writer.Write([]byte("unpacked"))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	for name, c := range map[string]struct {
		content string
		gz      bool
		want    string
		code    fault.Code
	}{
		"packed":           {packed.String(), true, "unpacked", ""},
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
	cut, err := document.Gunzip(bytes.NewReader(packed.Bytes()[:packed.Len()-4]), true, "cut", document.DefaultLimits())
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
		if err != nil || strings.ToValidUTF8(string(text), "") != string(text) || bytes.ContainsAny(text, "\r\x00") {
			t.Errorf("%q became %q, %v", raw, text, err)
		}
	})
}
