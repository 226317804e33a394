package document_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

func rowsOf(t *testing.T, content string, kind document.Kind) []document.Row {
	t.Helper()
	var out []document.Row
	take := func(row document.Row) error { out = append(out, row); return nil }
	err := document.StreamRows(strings.NewReader(content), kind, "f", document.DefaultLimits(), take)
	require.NoError(t, err)
	return out
}

func TestRowsHaveStableIdentities(t *testing.T) {
	a := rowsOf(t, `{"text":"x","n":1,"id":7}`+"\n"+`{"b":2,"a":"y"}`, document.JSONL)
	b := rowsOf(t, "\n"+` {"id":7, "n":1, "text":"x"}`+"\r\n\n"+`{"a":"y","b":2}`+"\n", document.JSONL)
	for i := range a {
		if a[i].ID != b[i].ID || len(a[i].Canonical) != len(b[i].Canonical) {
			t.Errorf("row %d depends on the order of its fields, or on blanks: %s %s", i, a[i].Canonical, b[i].Canonical)
		}
	}
	if a[0].ID != "7" || len(a[1].ID) != 64 || a[0].Line != 1 || a[1].Line != 2 || b[0].Line != 2 || b[1].Line != 4 {
		t.Errorf("%+v %+v", a, b)
	}
}

func TestWhichFieldIsTheId(t *testing.T) {
	for content, want := range map[string]string{
		`{"id":"a","_id":"b"}`:              "a",
		`{"_id":"b","doc_id":"c"}`:          "b",
		`{"document_id":5.50}`:              "5.50",
		`{"id":true}`:                       "true",
		`{"id":"","doc_id":"c"}`:            "c",
		`{"id":{"deep":1},"doc_id":"c"}`:    "c",
		`{"id":12345678901234567890123456}`: "12345678901234567890123456",
	} {
		got := rowsOf(t, content, document.JSONL)[0].ID
		assert.True(t, got == want, "%s: %q, want %q", content, got, want)
	}
}

func TestARecordHasTitleTextAndMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		kind              document.Kind
		content           string
		title, text, meta string
	}{
		"a passage":     {document.JSONL, `{"id":1,"title":"T","text":"x","n":1}`, "T", "x", "map[n:1]"},
		"other names":   {document.JSONL, `{"name":"N","passage":"p","abstract":"a"}`, "N", "p", "map[abstract:a]"},
		"text first":    {document.JSONL, `{"body":"b","text":"t"}`, "", "t", "map[body:b]"},
		"no text field": {document.JSONL, `{"id":1,"k":"v","a":2}`, "", "k: v\na: 2\n", "map[a:2 k:v]"},
		"a list":        {document.JSON, `[{"id":1,"name":"N","text":"t","n":1}]`, "N", "t", "map[n:1]"},
		"lists":         {document.JSONL, `{"text":"t","tags":["a", 2, true],"of":[{"x":1}],"no":[]}`, "", "t\n\nof[0].x: 1\n", "map[tags:a, 2, true]"},
		"no body, list": {document.JSONL, `{"id":1,"tags":["a","b"]}`, "", "tags: a, b\n", "map[tags:a, b]"},
		"long list":     {document.JSONL, `{"text":"t","v":[` + strings.Repeat("1,", 2000) + `1]}`, "", "t\n\nv: " + strings.Repeat("1, ", 2000) + "1\n", "map[]"},
		"csv":           {document.CSV, "id, title ,text,year\n1,T,\"a\nb\",1999\n", "T", "a\nb", "map[year:1999]"},
		"csv, short":    {document.CSV, "id,text,year\n1,x\n", "", "x", "map[]"},
		"csv, long":     {document.CSV, "id,text\n1,x,extra\n", "", "x\n\nextra\n", "map[]"},
		"csv, quotes":   {document.CSV, "id,text\n1,say \"x\" now\n", "", "say \"x\" now", "map[]"},
	} {
		rows := rowsOf(t, c.content, c.kind)
		title, text, meta, err := document.DecodeRecord(rows[0].Canonical, document.DefaultLimits())
		assert.True(t, err == nil && title == c.title && text == c.text && fmt.Sprint(meta) == c.meta,
			"%s: %q %q %v %v", name, title, text, meta, err)
	}
	_, _, _, err := document.DecodeRecord([]byte("no json"), document.DefaultLimits())
	assert.True(t, err != nil, "a damaged record")
}

// A bad row costs that row and names its line; the others are read.
func TestABadRowIsOneRow(t *testing.T) {
	for kind, c := range map[document.Kind]struct {
		content string
		line    int
	}{
		document.JSONL: {`{"id":1}` + "\n{oops\n" + `{"id":3}`, 2},
	} {
		rows := rowsOf(t, c.content, kind)
		if len(rows) != 3 || rows[0].Err != nil || rows[2].Err != nil || rows[2].ID != "3" ||
			!fault.Is(rows[1].Err, fault.Unreadable) || rows[1].Line != c.line ||
			!strings.Contains(rows[1].Err.Error(), fmt.Sprintf("f line %d", c.line)) {
			t.Errorf("%s: %+v", kind, rows)
		}
	}
	for _, content := range []string{`[1]`, `"text"`, `null`, `{"id":1} {"id":2}`, `{"id":1},`} {
		rows := rowsOf(t, content, document.JSONL)
		assert.True(t, rows[0].Err != nil, "%s is no record: %+v", content, rows)
	}
}

// A list of records ends where it is damaged, and says where. One that holds anything else is one document.
func TestAListOfRecordsIsReadAsRows(t *testing.T) {
	small := document.Limits{Row: 1000}
	for content, c := range map[string]struct {
		rows int
		says string
	}{
		` [{"id":1},{"a":2} ]` + "\n":      {2, ""},
		"[]":                               {0, ""},
		`[{"id":1},{"a":"`:                 {1, "f record 2: it is cut: it ends within \"/1"},
		`[{"id":1},{"id":2}`:               {2, "f record 3: it is cut"},
		`[{"id":1} {"id":2}]`:              {1, "f record 2: it is not valid JSON"},
		`[{"id":1}] x`:                     {1, "f record 2"},
		`[{"id":1},` + long + `,{"id":3}]`: {1, "f record 2: it has more bytes, above limits.document.row: 1000"},
		`[{"id":1},7]`:                     {1, document.ErrMixed.Error()},
		`[[{"id":1}]]`:                     {0, document.ErrMixed.Error()},
		`{"id":1}`:                         {0, document.ErrMixed.Error()},
	} {
		rows := 0
		take := func(row document.Row) error { rows++; return row.Err }
		err := document.StreamRows(strings.NewReader(content), document.JSON, "f", small, take)
		if rows != c.rows || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.40s: %d rows, %v", content, rows, err)
		}
	}
}

var long = `{"id":2,"text":"` + strings.Repeat("x", 100_000) + `"}`

func TestObjectsWithoutRows(t *testing.T) {
	for content, kind := range map[string]document.Kind{
		"": document.CSV, "\n\n": document.JSONL, "id,text\n": document.CSV, " ": document.JSONL,
	} {
		rows := rowsOf(t, content, kind)
		assert.True(t, len(rows) == 0, "%q: %+v", content, rows)
	}
}

func TestRowsEndWhereTheyAreToldTo(t *testing.T) {
	stop := errors.New("enough")
	for kind, content := range map[document.Kind]string{
		document.JSONL: `{"id":1}` + "\n" + `{"id":2}` + "\n", document.CSV: "id\n1\n2\n",
	} {
		seen := 0
		take := func(document.Row) error { seen++; return stop }
		err := document.StreamRows(strings.NewReader(content), kind, "f", document.DefaultLimits(), take)
		assert.True(t, errors.Is(err, stop) && seen == 1, "%s: %d rows, %v", kind, seen, err)
		broken := io.MultiReader(strings.NewReader(content), iotest.ErrReader(io.ErrUnexpectedEOF))
		seen = 0
		take = func(document.Row) error { seen++; return nil }
		err = document.StreamRows(broken, kind, "f", document.DefaultLimits(), take)
		assert.True(t, fault.Is(err, fault.Unreadable) && seen == 2, "%s, broken: %d rows, %v", kind, seen, err)
	}
}

// Equal rows of two objects are distinguished by their object, equal ids in one object are for the reader to refuse.
func TestEqualIdsKeepTheirLines(t *testing.T) {
	rows := rowsOf(t, "id,text\n7,a\n8,\"two\nlines\"\n7,b\n", document.CSV)
	if len(rows) != 3 || rows[0].ID != rows[2].ID || rows[0].Line != 2 || rows[1].Line != 3 || rows[2].Line != 5 {
		t.Errorf("%+v", rows)
	}
}
