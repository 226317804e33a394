package document_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
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
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// written are texts, and the sets of characters in which they are found.
var written = []struct{ charsets, text string }{
	{"windows-1251 koi8-r ibm866 iso-8859-5", "Капитан корабля Фёдор Громов вышел в море в пять часов утра.\n" +
		"Порт Мурманск закрыт до конца недели из-за шторма.\n" +
		"Груз пшеницы передан на склад номер семь.\nВрач Мария Иванова осмотрела всех пассажиров."},
	{"windows-1251 koi8-u", "Капітан судна Іван Петренко вийшов у море о п'ятій ранку.\n" +
		"Порт Одеса зачинено до кінця тижня через шторм.\n" +
		"Вантаж пшениці передано на склад номер сім.\nЇхній лікар оглянув усіх пасажирів."},
	{"windows-1251", "Капитанът на кораба Георги Димитров излезе в морето в пет часа сутринта.\n" +
		"Пристанище Варна е затворено до края на седмицата заради бурята.\nТоварът пшеница е предаден на склада."},
	{"windows-1253 iso-8859-7", "Ο καπετάνιος του πλοίου Γιώργος Παπαδόπουλος βγήκε στη θάλασσα στις πέντε το πρωί.\n" +
		"Το λιμάνι του Πειραιά είναι κλειστό μέχρι το τέλος της εβδομάδας.\n" +
		"Το φορτίο σιταριού παραδόθηκε στην αποθήκη.\nΗ γιατρός εξέτασε όλους τους επιβάτες."},
	{"windows-1255 iso-8859-8", "מנהל הנמל הוא אלון ברק והמזח נסגר בשעה תשע.\n" +
		"הספינה יצאה לים בשעה חמש בבוקר.\nהרופאה בדקה את כל הנוסעים על הסיפון.\nהמטען הועבר למחסן מספר שבע."},
	{"windows-1256 iso-8859-6", "مدير الميناء هو خالد منصور والرصيف يغلق في الساعة التاسعة.\n" +
		"خرجت السفينة إلى البحر في الساعة الخامسة صباحا.\nفحصت الطبيبة جميع الركاب على السفينة.\nتم نقل البضائع إلى المخزن."},
	{"windows-1250 iso-8859-2", "Kapitan statku Władysław Żółkiewski wypłynął w morze o piątej rano.\n" +
		"Port w Gdańsku jest zamknięty do końca tygodnia z powodu burzy.\n" +
		"Ładunek pszenicy został przekazany do magazynu.\nLekarka zbadała wszystkich pasażerów."},
	{"windows-1250 iso-8859-2", "Kapitán lodi Jiří Dvořák vyplul na moře v pět hodin ráno.\n" +
		"Přístav je uzavřen do konce týdne kvůli bouři.\n" +
		"Náklad pšenice byl předán do skladu číslo sedm.\nLékařka vyšetřila všechny cestující."},
	{"windows-1250 iso-8859-2", "A hajó kapitánya, Szűcs Gergő reggel öt órakor futott ki a tengerre.\n" +
		"A kikötő a hét végéig zárva tart a vihar miatt.\n" +
		"A búzarakományt átadták a raktárnak, az őr aláírta.\nAz orvosnő megvizsgálta az összes utast."},
	{"windows-1254", "Geminin kaptanı Gökhan Şahin sabah saat beşte denize açıldı.\n" +
		"Liman fırtına nedeniyle hafta sonuna kadar kapalı.\n" +
		"Buğday yükü yedi numaralı depoya teslim edildi.\nDoktor bütün yolcuları muayene etti."},
	{"shift_jis euc-jp",
		"ユーザーのデータをサーバーにコピーします。\n" + "メールアドレスとパスワードを入力してください。\n" + "コーヒーメーカーのカバーを外す。\n" + "スーパーコンピューターのメモリーは二倍です。"},
	{"shift_jis", "ﾌﾘｶﾞﾅはﾔﾏﾀﾞ ﾀﾛｳです。口座の名義と同じです。\n" + "ﾍﾟｰｼﾞの下にﾎﾞﾀﾝがあります。\n" + "ｻｰﾊﾞｰの名は港です。\n" + "株式会社の売上は百億円です。"},
	{"gb18030", "港口的负责人是王小明。\n" + "码头九点关闭，船只不能再进入。\n" + "船长早上五点出海，货物已经送到七号仓库。\n" + "医生检查了所有的乘客。"},
	{"big5", "港口的負責人是王小明。\n" + "碼頭九點關閉，船隻不能再進入。\n" + "船長早上五點出海，貨物已經送到七號倉庫。\n" + "醫生檢查了所有的乘客。"},
	{"euc-kr", "항구 책임자는 김철수입니다.\n" + "부두는 아홉 시에 닫힙니다.\n" + "선장은 아침 다섯 시에 바다로 나갔습니다.\n" + "의사는 모든 승객을 검사했습니다."},
	{"shift_jis euc-jp iso-2022-jp", "港の責任者は山田太郎です。\n" + "桟橋は九時に閉まります。\n" + "船長は朝五時に海に出ました。\n" + "医師はすべての乗客を診察しました。"},
	{"windows-1252 macintosh ibm850", "Der Kapitän heißt Jürgen Müller und fuhr um fünf Uhr früh hinaus.\n" +
		"Der Hafen ist bis zum Ende der Woche geschlossen, wegen des Sturms über der Küste.\n" +
		"Die Ladung wurde dem Lager übergeben."},
	{"windows-1252 macintosh", "Le capitaine du navire, René Lefèvre, a quitté le port à cinq heures.\n" +
		"Le port est fermé jusqu'à la fin de la semaine à cause de la tempête.\nL’équipage a été examiné par le médecin."},
	{"windows-1252 macintosh ibm850", "El capitán José Muñoz salió del puerto a las cinco de la mañana.\n" +
		"¿Quién firmó el informe? El señor Ibáñez."},
	{"windows-1252", "Kaptenen Gösta Åkesson lämnade hamnen klockan fem på morgonen.\n" +
		"Hamnen är stängd till slutet av veckan på grund av stormen."},
	{"windows-1252", "Kaptajnen Søren Kjær forlod havnen klokken fem om morgenen.\n" +
		"Havnen er lukket indtil søndag på grund af stormen."},
	{"windows-1252", "O capitão João Conceição saiu do porto às cinco da manhã.\n" +
		"A médica não examinou todos os passageiros."},
	{"windows-1252", "Kapteeni Väinö Hämäläinen lähti satamasta viideltä aamulla.\nSatama on suljettu myrskyn takia."},
	{"windows-1252", "Skipstjórinn Þórður Guðmundsson fór út klukkan fimm."},
	{"windows-1252", "Zürich und München"},
	{"windows-1252", "“quoted” €"},
	{"windows-1252", "Café £5 – 20°C"},
	{"windows-1252", "naïve résumé"},
	{"windows-1250 iso-8859-2", "Căpitanul navei, Ştefan Ionescu, a ieşit în larg la ora cinci dimineaţa.\n" +
		"Portul este închis până la sfârşitul săptămânii."},
	{"windows-874", "ผู้จัดการท่าเรือคือสมชาย ใจดี\n" + "ท่าเรือปิดเวลาเก้าโมง"},
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
	_, text, meta, err := parse(content, kind)
	require.NoError(t, err, "%.40q", content)
	return text, meta
}

// A few words, a line, three lines, thirty: each is read as it was written, and the guess is noted.
func TestTextsWithoutALabelAreReadInTheirCharset(t *testing.T) {
	for _, one := range written {
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

func TestTextsInUTF16AreReadWithoutAMark(t *testing.T) {
	for _, one := range written {
		for _, order := range []unicode.Endianness{unicode.LittleEndian, unicode.BigEndian} {
			content, err := unicode.UTF16(order, unicode.IgnoreBOM).NewEncoder().String(one.text)
			if err != nil || len(content) < 40 || !strings.Contains(content, "\x00") {
				continue
			}
			text, _ := readAs(t, document.Text, content)
			assert.True(t, text == one.text, "%.40q became %.40q", one.text, text)
		}
	}
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
		"over\b\bstruck":                              "over  struck",
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
		assert.True(t, err == nil && strings.ToValidUTF8(string(text), "") == string(text) &&
			!bytes.ContainsAny(text, "\r\x00"), "%q became %q, %v", raw, text, err)
	})
}
