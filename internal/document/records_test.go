package document_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/tables"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// A row above a limit costs that row: those behind it keep their line numbers. Where a quote was left open, they are
// found again at the next line.
func TestRowsBehindALongOneAreRead(t *testing.T) {
	limits := document.DefaultLimits()
	limits.Row = 50
	long := strings.Repeat("x", 100)
	for name, c := range map[string]struct {
		kind    document.Kind
		content string
		want    string
	}{
		"a long line":        {document.JSONL, `{"id":1}` + "\n" + `{"a":"` + long + "\"}\n\n" + `{"id":4}`, "1:1 2:! 4:4"},
		"a long last line":   {document.JSONL, `{"id":1}` + "\n" + `{"a":"` + long, "1:1 2:!"},
		"a long record":      {document.CSV, "id,text\n2," + long + "\n3,c\n", "2:! 3:3"},
		"a long last record": {document.CSV, "id,text\n2,b\n3," + long, "2:2 3:!"},
		"an open quote": {document.CSV, "id,text\n2,\"open\n" + strings.Repeat("3,a\n", 5) + strings.Repeat("4,b\n", 10),
			"2:! 2:2 3:3 4:3 5:3 6:3 7:3 8:4 9:4 10:4 11:4 12:4 13:4 14:4 15:4 16:4 17:4"},
		"a long quoted record of one line": {document.CSV, "id,text\n2,\"" + long + "\"\n3,c\n", "2:! 3:3"},
		"a quoted record of many lines": {document.CSV, "id,text\n2,\"a\nb\n\nc\"\n6,\"d\"\r\n7,\"say \"\"so\"\"\n\"\n",
			"2:2 6:6 7:7"},
	} {
		var got []string
		err := document.StreamRows(strings.NewReader(c.content), c.kind, "f", limits, func(row document.Row) error {
			id := row.ID
			if row.Err != nil {
				if id = "!"; fault.KindOf(row.Err) != fault.Content ||
					!strings.Contains(row.Err.Error(), fmt.Sprintf("f line %d", row.Line)) {
					t.Errorf("%s: %v", name, row.Err)
				}
			}
			got = append(got, fmt.Sprintf("%d:%s", row.Line, id))
			return nil
		})
		assert.True(t, err == nil && strings.Join(got, " ") == c.want, "%s: %v, %v", name, got, err)
	}
}

// Of a file in which every line opens a quote each line is a problem, and none is read again and again.
func TestOpenQuotesAreNotReadAgainWithoutEnd(t *testing.T) {
	limits := document.DefaultLimits()
	limits.Row = 1 << 20
	content := "id,text\n" + strings.Repeat("1,\"open\n", 1<<18)
	start, rows := time.Now(), 0
	err := document.StreamRows(strings.NewReader(content), document.CSV, "f", limits, func(document.Row) error {
		rows++
		return nil
	})
	assert.True(t, err == nil && rows == 2<<18 && time.Since(start) <= 5*time.Minute,
		"%d rows in %v, %v", rows, time.Since(start), err)
}

func TestABrokenSourceBehindALongRowIsTold(t *testing.T) {
	limits := document.DefaultLimits()
	limits.Row = 50
	broken := errors.New("connection reset")
	for kind, content := range map[document.Kind]string{
		document.JSONL: strings.Repeat("x", 100), document.CSV: "a,b\n1,\"open\n" + strings.Repeat("2,b\n", 40),
	} {
		source := io.MultiReader(strings.NewReader(content), failing{broken})
		err := document.StreamRows(source, kind, "f", limits, func(document.Row) error { return nil })
		assert.True(t, errors.Is(err, broken), "%s: %v", kind, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// onlyReturns is a line of more carriage returns than the one that ends it.
var onlyReturns = regexp.MustCompile(`(?m)^\r{2,}$`)

// Records without faults are those that encoding/csv reads.
func FuzzRecordsAreThoseOfTheStandardLibrary(f *testing.F) {
	for _, seed := range []string{"a,b\n1,\"x\ny\"\n", "a\n\"q\"\"q\"\r\n\n\"open\n1", "a\n\"x\" y\"\r\nz\n",
		"\r\na,\"b\r", "\"\"\n\"\"\"\n", "a\r\r\nb", "a,b\n,\n1,2,3\n", "0", "1,x\n2,y\n", "0\n0,00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if onlyReturns.MatchString(content) || strings.ContainsAny(content, "\t;|=") || strings.Contains(content, `, "`) {
			return // blank here, a row of carriage returns there; or another dialect
		}
		if strings.ContainsFunc(strings.NewReplacer("\n", "", "\r", "").Replace(content), unicode.IsControl) {
			return // Decode takes them away
		}
		reader := csv.NewReader(strings.NewReader(content))
		comma, quote := document.DialectOf(content)
		if quote != '"' {
			return // another dialect
		}
		reader.FieldsPerRecord, reader.Comma = -1, comma // none, where commas stand in numbers alone
		var want []string
		var records, sample [][]string // sample: shows whether the first record names the columns
		var lines []int
		head, from, err := []string{}, int64(0), error(nil)
		for err == nil {
			var record []string
			if record, err = reader.Read(); err != nil {
				break
			}
			line, _ := reader.FieldPos(0)
			records, lines = append(records, record), append(lines, line)
			if until := reader.InputOffset(); len(sample) < 200 && strings.TrimSpace(content[from:until]) != "" {
				sample = append(sample, record)
			}
			from = reader.InputOffset()
		}
		if len(records) > 0 && tables.NamesColumns(sample) {
			head, records, lines = records[0], records[1:], lines[1:]
		}
		for at, record := range records {
			var fields []string
			for i, value := range record {
				name := ""
				if i < len(head) {
					name = strings.TrimSpace(head[i])
				}
				fields = append(fields, fmt.Sprintf("%q:%q", strings.ToValidUTF8(name, "?"), strings.ToValidUTF8(value, "?")))
			}
			if strings.TrimSpace(strings.Join(record, "")) != "" {
				want = append(want, fmt.Sprintf("%d %s", lines[at], fields))
			}
		}
		if !errors.Is(err, io.EOF) || !utf8.ValidString(content) {
			return // what is faulty is a problem
		}
		var got []string
		err = document.StreamRows(strings.NewReader(content), document.CSV, "f", document.DefaultLimits(),
			func(row document.Row) error {
				decoder, fields := json.NewDecoder(bytes.NewReader(row.Canonical)), []string(nil)
				for token, err := decoder.Token(); err == nil; token, err = decoder.Token() {
					if name, ok := token.(string); ok {
						value, _ := decoder.Token()
						fields = append(fields, fmt.Sprintf("%q:%q", name, value))
					}
				}
				got = append(got, fmt.Sprintf("%d %s", row.Line, fields))
				return row.Err
			})
		assert.True(t, err == nil && fmt.Sprint(got) == fmt.Sprint(want), "%q: got %q, want %q, %v", content, got, want, err)
	})
}

// blankControl returns a space for a control character: no text of a document has one, but tabs and ends of lines.
func blankControl(r rune) rune {
	if unicode.IsControl(r) && !strings.ContainsRune("\n\t\f", r) {
		return ' '
	}
	return r
}

func TestARowOfTooManyColumnsIsABadRowAndTheNextIsRead(t *testing.T) {
	content := "id,text\n2,a\n3" + strings.Repeat(",", 10_000) + "\n4" + strings.Repeat(",b", 9_999) + "\n"
	var got []string
	err := document.StreamRows(strings.NewReader(content), document.CSV, "f", document.DefaultLimits(),
		func(row document.Row) error {
			bad := fault.Is(row.Err, fault.TooLarge) && strings.Contains(row.Err.Error(), "10001 columns, above 10000")
			got = append(got, fmt.Sprintf("%d:%v:%v", row.Line, row.Err == nil, bad))
			return nil
		})
	want := "2:true:false 3:false:true 4:true:false"
	assert.True(t, err == nil && strings.Join(got, " ") == want, "%v, %v", got, err)
	wide := strings.Repeat("x,", 10_000) + "x\n1\n"
	err = document.StreamRows(strings.NewReader(wide), document.CSV, "f", document.DefaultLimits(),
		func(document.Row) error { return nil })
	assert.True(t, fault.Is(err, fault.TooLarge) && strings.Contains(err.Error(), "columns"), "a head: %v", err)
}

// Whatever the shape of a JSON value, each name on the way to a value, each text and each number is read.
func FuzzAllOfJSONIsRead(f *testing.F) {
	for _, seed := range []string{`[1,{"b":[],"a":{}},"<é\u2028\ud800>",null,true,1.50e3]`, `"x"`, `{"a":[[{}]]}`, `-0`,
		`"a\u0000b"`, `{"a":{"b":[1,{"c":"d\ne"}]}}`, `{"text":"t","metadata":{"title":5,"deep":[["x"]]},"id":7,"_id":8,"name":""}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		var value any
		decoder := json.NewDecoder(strings.NewReader(content))
		decoder.UseNumber()
		if !utf8.ValidString(content) || decoder.Decode(&value) != nil || decoder.More() {
			return
		}
		title, text, meta, err := documenttest.Read(content, document.JSON)
		if err != nil {
			return // something follows the value
		}
		whole := fmt.Sprint(title, "\n", text, "\n", meta)
		var look func(value any)
		look = func(value any) {
			switch v := value.(type) {
			case []any:
				for _, each := range v {
					look(each)
				}
			case map[string]any:
				for _, each := range v {
					look(each)
				}
			case string, json.Number, bool:
				said := strings.TrimSpace(strings.Map(blankControl, fmt.Sprint(v)))
				assert.True(t, strings.Contains(whole, said), "%s: %q has no %q", content, whole, said)
			}
		}
		if record, ok := value.(map[string]any); ok {
			for _, name := range []string{"id", "_id", "doc_id", "document_id"} {
				delete(record, name) // one of them is the key
			}
		}
		look(value)
	})
}

// Rows of several authors stand in one table: what one writes in their fields leaves the rows of the others what they
// are, as any program for CSV writes them. Where a row may belong to another, nobody reads it.
func TestARowTakesNothingOfTheRowsOfOthers(t *testing.T) {
	const begins, ends, hidden = "id,text,labels\r\n", "9,\",public\nend\",public\r\n", "8,hush,secret\r\n"
	const four, endsFour, hiddenFour = "id,text,note,labels\r\n", "9,\",n,public\nend\",n,public\r\n", "8,hush,n,secret\r\n"
	lines := strings.Repeat(strings.Repeat("x", 400)+"\n", 180) // more than what decides
	letter, err := encodingOf(t, "shift_jis").NewEncoder().String("7|これはきょうのてがみですからよんでください|public|n\r\n")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		content string
		kept    bool // the row of the other one has its own label
	}{
		"apostrophes": {begins + "7," + strings.Repeat(";'';", 40) + ",public\r\n" + "6,'it begins,public\r\n" + hidden +
			"9,it ends',public\r\n", true},
		"a quote beside apostrophes": {"'id','text','labels'\n6,a \" sign,public\n'7','it begins','public'\n'8','hush','secret'\n",
			true},
		"a shift that stays open": {begins + "7,\x1b$B$$\x1b(B,public\r\n6,open \x1b$B!,public\r\n" + hidden + "9,\x1b(B,public\r\n",
			true},
		"a shift over a quote":           {four + "7,\"a,\x1b$B\",!!\x1b(B,public\r\n" + hiddenFour + endsFour, true},
		"an escape":                      {begins + "7,\"a, b\x1b\",public\r\n" + hidden + ends, true},
		"a code of a terminal":           {four + "7,\"a,\x1b]\",\az,public\r\n" + hiddenFour + endsFour, true},
		"zeros":                          {begins + "7," + strings.Repeat("\x00a", 300) + ",public\r\n" + hidden, false},
		"a long line":                    {begins + "7,\"" + strings.Repeat("x", 200_000) + "\n1,\",public\r\n" + hidden + ends, false},
		"apostrophes behind a separator": {"\"sep=,\"\n'id','text','labels'\n'8','hush','secret'\n", true},
		"a long row":                     {begins + "7,\"" + lines + lines + "1,\",public\r\n" + hidden + ends, false},
		"backslashes": {begins + "7,\"a,b\\\",public\r\n" + hidden + ends + "6,\"x\\\"\",public\n" + lines + "end\",public\r\n",
			false},
		"another delimiter": {begins + "7,\"a\n" + strings.ReplaceAll(lines, "x\n", ";x\n") + "end\",public\r\n" + hidden, false},
		"another charset":   {"id|text|labels|note\r\n" + strings.Repeat(letter, 30) + "8|hush caf\xe9|secret|public\r\n", false},
	} {
		limits, kept := document.DefaultLimits(), false
		limits.Row = 100_000
		text, _, err := document.DecodeTable(strings.NewReader(c.content), "f", true)
		if assert.Equal(t, name == "zeros", err != nil, "%s: %v", name, err); err != nil { // nobody reads any
			continue
		}
		err = document.StreamRows(text, document.CSV, "f", limits, func(row document.Row) error {
			if row.Err != nil || row.LacksColumn("labels") || !bytes.Contains(row.Canonical, []byte("hush")) {
				return nil
			}
			_, _, meta, err := document.DecodeRecord(row.Canonical, limits)
			kept = true
			assert.Equal(t, "secret", meta["labels"], "%s: %s", name, row.Canonical)
			return err
		})
		assert.NoError(t, err, name)
		assert.Equal(t, c.kept, kept, name)
	}
}

// Who writes Japanese in seven bits mostly names columns in ASCII.
func TestATableWithoutLabelsIsReadInSevenBits(t *testing.T) {
	for content, want := range map[string]string{
		"id,text\n1,\x1b$B?M\x1b(B\n": "人", "id,text\n1,\x1b$B?M\x1b(B é\n": "?M é", // it has more bits
	} {
		text, _, err := document.DecodeTable(strings.NewReader(content), "f", false)
		require.NoError(t, err)
		assert.NoError(t, document.StreamRows(text, document.CSV, "f", document.DefaultLimits(), func(row document.Row) error {
			assert.Contains(t, string(row.Canonical), `"text":"`+want+`"`)
			return nil
		}))
	}
}

func TestAShiftEndsWithItsLine(t *testing.T) {
	lines := "a \x1b$B!!\r\nb\n\x1b$B?M\n" + strings.Repeat("\n", 4<<10) + "\x1b$B?M\x1b(B\rc"
	text, err := io.ReadAll(document.Transcode(strings.NewReader(lines), document.Text, "iso-2022-jp"))
	require.NoError(t, err)
	assert.Equal(t, document.ByteOrderMark+"a \u3000\r\nb\n人\n"+strings.Repeat("\n", 4<<10)+"人\rc", string(text))
}

func TestSetsOfSevenBitsHaveShifts(t *testing.T) {
	for name, want := range map[string]bool{
		"ISO-2022-JP": true, "HZ-GB-2312": true, "": false, "x-none": false, "windows-1252": false, "shift_jis": false,
		"gb18030": false, "utf-8": false, "utf-16le": false,
	} {
		assert.Equal(t, want, document.HasShifts(name), name)
	}
}

// Taken again for each of them, what follows would take hours.
func TestManyEscapesAreReadOnce(t *testing.T) {
	text, err := document.Decode(strings.NewReader(strings.Repeat("\x1b", 32<<20)), "x")
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, text)
	assert.True(t, err == nil && n == 32<<20, "%d, %v", n, err)
}
