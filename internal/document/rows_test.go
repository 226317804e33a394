package document_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

func rowsOf(t *testing.T, content string, kind document.Kind) []document.Row {
	t.Helper()
	var out []document.Row
	take := func(row document.Row) error { out = append(out, row); return nil }
	require.NoError(t, document.StreamRows(strings.NewReader(content), kind, "f", document.DefaultLimits(), take))
	return out
}

func TestRowsHaveStableIdentities(t *testing.T) {
	a := rowsOf(t, `{"text":"x","n":1,"id":7}`+"\n"+`{"b":2,"a":"y"}`, document.JSONL)
	b := rowsOf(t, "\n"+` {"id":7, "n":1, "text":"x"}`+"\r\n\n"+`{"a":"y","b":2}`+"\n", document.JSONL)
	for i := range a {
		assert.True(t, a[i].ID == b[i].ID && len(a[i].Canonical) == len(b[i].Canonical),
			"row %d depends on the order of its fields, or on blanks: %s %s", i, a[i].Canonical, b[i].Canonical)
	}
	assert.True(t, a[0].ID == "7" && len(a[1].ID) == 64 && a[0].Line == 1 && a[1].Line == 2 && b[0].Line == 2 &&
		b[1].Line == 4, "%+v %+v", a, b)
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
		assert.True(t, len(rows) == 3 && rows[0].Err == nil && rows[2].Err == nil && rows[2].ID == "3" &&
			fault.Is(rows[1].Err, fault.Unreadable) && rows[1].Line == c.line &&
			strings.Contains(rows[1].Err.Error(), fmt.Sprintf("f line %d", c.line)), "%s: %+v", kind, rows)
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
		assert.True(t, rows == c.rows && (err == nil) == (c.says == "") &&
			(err == nil || strings.Contains(err.Error(), c.says)), "%.40s: %d rows, %v", content, rows, err)
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
	assert.True(t, len(rows) == 3 && rows[0].ID == rows[2].ID && rows[0].Line == 2 && rows[1].Line == 3 &&
		rows[2].Line == 5, "%+v", rows)
}

// tableOf gives the rows of a table, each with its title and text, or with "!line" where something of it is wrong.
func tableOf(t *testing.T, name, content string) string {
	t.Helper()
	var out []string
	take := func(row document.Row) error {
		if row.Err != nil {
			assert.True(t, strings.Contains(row.Err.Error(), fmt.Sprintf("%s line %d", name, row.Line)), "%s: %v", name, row.Err)
			out = append(out, fmt.Sprintf("!%d", row.Line))
			return nil
		}
		title, text, _, err := document.DecodeRecord(row.Canonical, document.DefaultLimits())
		out = append(out, title+"> "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "/"))
		return err
	}
	kind, _, _ := document.TypeOf(name)
	err := document.StreamRows(strings.NewReader(content), kind, name, document.DefaultLimits(), take)
	assert.NoError(t, err, "%s: %v", name, err)
	return strings.Join(out, " & ")
}

func TestTheDelimiterOfATableIsFound(t *testing.T) {
	for name, c := range map[string]struct{ file, content, want string }{
		"commas":             {"a.csv", "id,name,town\n1,Ada,Oslo\n2,Ben,Rome\n", "Ada> town: Oslo & Ben> town: Rome"},
		"semicolons":         {"a.csv", "id;name;town\n1;Ada, MD;Oslo\n2;Ben;Rome\n", "Ada, MD> town: Oslo & Ben> town: Rome"},
		"tabs":               {"a.csv", "id\tname\ttown\n1\tAda, MD\tOslo; or\n", "Ada, MD> town: Oslo; or"},
		"a tsv":              {"a.tsv", "id\tname\n1\tAda\n", "Ada> Ada"},
		"bars":               {"a.csv", "id|name|town\n1|Ada, MD|Oslo; or\n", "Ada, MD> town: Oslo; or"},
		"decimal commas":     {"a.csv", "part;price;mass\nbolt;1,50;2,25\nnut;0,25;1,75\n", "> part: bolt/price: 1,50/mass: 2,25 & > part: nut/price: 0,25/mass: 1,75"},
		"a name's comma":     {"a.csv", "Price, EUR;Mass\n1,5;2\n2,5;3\n", "> Price, EUR: 1,5/Mass: 2 & > Price, EUR: 2,5/Mass: 3"},
		"decimal numbers":    {"a.csv", "price;mass\n1,5;2,5\n3,5;4,5\n", "> price: 1,5/mass: 2,5 & > price: 3,5/mass: 4,5"},
		"quoted commas":      {"a.csv", "id;name\n1;\"Cid, Vera\"\n2;\"Dahl; Wim\"\n", "Cid, Vera> Cid, Vera & Dahl; Wim> Dahl; Wim"},
		"it is said":         {"a.csv", "sep=;\nname;note\nAda;a,b,c\n", "Ada> note: a,b,c"},
		"it is said, caps":   {"a.csv", "\"SEP=|\"\r\nname|note\r\nAda|x;y\r\n", "Ada> note: x;y"},
		"a tab is said":      {"a.csv", "sep=\t\nname\tnote\nAda\tx,y\n", "Ada> note: x,y"},
		"one column":         {"a.csv", "name\nAda\nBen\n", "Ada> Ada & Ben> Ben"},
		"one column, text":   {"a.csv", "text\nAda; then Ben\nCid\nDan\n", "> Ada; then Ben & > Cid & > Dan"},
		"one column, commas": {"a.csv", "address\n12 Main St, Oslo\n5 High St, Rome\n", "> address: 12 Main St, Oslo & > address: 5 High St, Rome"},
		"one column, quotes": {"a.csv", "name\n\"Cid, Vera\"\n", "Cid, Vera> Cid, Vera"},
		"trailing delimiter": {"a.csv", "id;name;\n1;Ada;\n2;Ben;\n", "Ada> Ada & Ben> Ben"},
		"blanks, quotes":     {"a.csv", "name, town\n\"Ada\", \"Oslo, east\"\n", "Ada> town: Oslo, east"},
		"semicolons in text": {"a.csv", "id,text\n1,one; two; three\n2,four\n3,five; six\n",
			"> one; two; three & > four & > five; six"},
	} {
		got := tableOf(t, c.file, c.content)
		assert.True(t, got == c.want, "%s: %s", name, got)
	}
}

func TestAFirstLineThatIsARowIsOne(t *testing.T) {
	for content, want := range map[string]string{
		"1,Ada,Oslo\n2,Ben,Rome\n":                                 "> 1/Ada/Oslo & > 2/Ben/Rome",
		"Ada,1999-05-06\nBen,2001-07-08\n":                         "> Ada/1999-05-06 & > Ben/2001-07-08",
		"Vertigo,1958\nCasablanca,1942\n":                          "> Vertigo/1958 & > Casablanca/1942",
		"Ada,a@b.example\nBen,c@d.example\n":                       "> Ada/a@b.example & > Ben/c@d.example",
		"Ada,Oslo\nBen,Oslo\nCid,Oslo\n":                           "> Ada/Oslo & > Ben/Oslo & > Cid/Oslo",
		"7;Ada Lund;1,50\n":                                        "> 7/Ada Lund/1,50",
		"The harbour closes at nine.\n":                            "> The harbour closes at nine.",
		"The harbour closes at nine.\nThe pilot comes at once.\n":  "> The harbour closes at nine. & > The pilot comes at once.",
		"country,2019,2020\nNorway,1950,6\n":                       "> country: Norway/2019: 1950/2020: 6",
		"country,2020\nNorway,5\nChad,6\n":                         "> country: Norway/2020: 5 & > country: Chad/2020: 6",
		"0,1,2\n5,Ada,7\n":                                         "> 0: 5/1: Ada/2: 7",
		"place,1/22/20,1/23/20\nOslo,3,4\n":                        "> place: Oslo/1/22/20: 3/1/23/20: 4",
		"town,mayor\nOslo,Ada\ntown,mayor\nRome,Ben\ntown,mayor\n": "> town: Oslo/mayor: Ada & > town: town/mayor: mayor & > town: Rome/mayor: Ben & > town: town/mayor: mayor",
		"town,mayor\n":                                             "", "id,2,7\n": "", "year,2020\n": "",
	} {
		got := tableOf(t, "a.csv", content)
		assert.True(t, got == want, "%q: %s", content, got)
	}
}

func TestQuotesOfOtherProgramsAreRead(t *testing.T) {
	for content, want := range map[string]string{
		`id,name,town` + "\n" + `1,"Ada \"the pilot\", MD",Oslo` + "\n" + `2,"Ben \\",Rome`: `Ada "the pilot", MD> town: Oslo & Ben \> town: Rome`,
		`id,name,path` + "\n" + `1,"Ada","C:\new\"` + "\n" + `2,"Ben","D:\"`:                `Ada> path: C:\new\ & Ben> path: D:\`,
		"id,name,town\n'1','Lund, Ada','Oslo'\n'2','O''Hara \"B\"','Rome'\n":                `'Lund> town:  Ada'/'Oslo' & 'O''Hara "B"'> town: 'Rome'`,
		"'id','name','town'\n'1','Lund, Ada','Oslo'\n'2','O''Hara','Rome'\n":                "Lund, Ada> town: Oslo & O'Hara> town: Rome",
		"id,name\n1,the pilots' house\n2,'tis, they say\n":                                  "the pilots' house> the pilots' house & 'tis> they say",
	} {
		got := tableOf(t, "a.csv", content)
		assert.True(t, got == want, "%q: %s", content, got)
	}
}

func TestAllCellsOfATableAreKeptInTheirOrder(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"the order of the file": {"zone,id,area\nz,1,a\n", "> zone: z/area: a"},
		"longer rows":           {"id,name\n1,Ada,extra,more\n2,Ben\n", "Ada> extra/more & Ben> Ben"},
		"longer beside a text":  {"id,text\n1,Ada,extra\n", "> Ada//extra"},
		"shorter rows":          {"id,name,town\n1,Ada\n2\n", "Ada> Ada & > "},
		"a name twice":          {"id,phone,phone\n1,11,22\n", "> phone: 11/phone: 22"},
		"no name":               {",town\n0,Oslo\n", "> 0/town: Oslo"},
		"two ids":               {"id,doc_id,name\n1,X-7,Ada\n", "Ada> doc_id: X-7"},
		"a title alone":         {"title\nAda\n", "Ada> Ada"},
		"empty rows":            {"id,name\n,\n1,Ada\n , \n", "Ada> Ada"},
		"lines in a cell":       {"id,name,note\n1,Ada,\"a\nb\"\n", "Ada> note: a/b"},
		"a long field":          {"id,text,note\n1,Ada," + strings.Repeat("n", 600) + "\n", "> Ada//note: " + strings.Repeat("n", 600)},
	} {
		got := tableOf(t, "a.csv", c.content)
		assert.True(t, got == c.want, "%s: %s", name, got)
	}
}

// An open quote costs no row: its line is a problem and is read as it stands, those behind it are what they are.
func TestAnOpenQuoteIsAProblemOfItsLine(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"to the end":           {"id,name,town\n1,Ada,Oslo\n2,\"Ben,Rome\n3,Cid,Bonn\n", "Ada> town: Oslo & !3 & \"Ben> town: Rome & Cid> town: Bonn"},
		"the last line":        {"id,name\n1,Ada\n2,\"Ben", "Ada> Ada & !3 & \"Ben> \"Ben"},
		"closed by another":    {"id,name\n1,\"Ada\n2,\"Ben\"\n3,Cid\n", "!2 & \"Ada> \"Ada & Ben> Ben & Cid> Cid"},
		"a letter behind it":   {"id,name,town\n1,\"Ada\" she,Oslo\n2,Ben,Rome\n", "!2 & \"Ada\" she> town: Oslo & Ben> town: Rome"},
		"of the head":          {"id,\"name\n1,Ada\n", "!1 & > \"name: Ada"},
		"two of them":          {"id,name\n1,\"Ada\n2,Ben\n3,\"Cid\n4,Dan\n", "!2 & \"Ada> \"Ada & Ben> Ben & !4 & \"Cid> \"Cid & Dan> Dan"},
		"a field of two lines": {"id,name\n1,\"Ada\nand Ben\"\n2,Cid\n", "Ada\nand Ben> Ada/and Ben & Cid> Cid"},
		"quotes in a field":    {"id,name\n1,say \"x\" now\n2,\"say \"\"y\"\"\"\n", "say \"x\" now> say \"x\" now & say \"y\"> say \"y\""},
	} {
		got := tableOf(t, "a.csv", c.content)
		assert.True(t, got == c.want, "%s: %s", name, got)
	}
}

func TestNestedValuesOfJSONAreReadBehindTheirPath(t *testing.T) {
	for name, c := range map[string]struct{ content, title, text string }{
		"objects in a list": {`{"title":"T","towns":[{"name":"Oslo","chief":{"name":"Ada"}},{"name":"Rome"}],"n":2}`, "T",
			"towns[0].name: Oslo\ntowns[0].chief.name: Ada\ntowns[1].name: Rome\nn: 2\n"},
		"a list of words":    {`{"tags":["a","b",3,null,true]}`, "", "tags: a, b, 3, true\n"},
		"lists in lists":     {`{"at":[[1.50,2],[3,4]]}`, "", "at[0]: 1.50, 2\nat[1]: 3, 4\n"},
		"beside a text":      {`{"text":"Said.","by":[{"name":"Ada"}],"year":1999}`, "", "Said.\n\nby[0].name: Ada\n"},
		"a text in parts":    {`{"text":["One.","Two."]}`, "", "text: One., Two.\n"},
		"metadata":           {`{"text":"Said.","metadata":{"title":"M","by":{"name":"Ada"}}}`, "M", "Said.\n\nmetadata.by.name: Ada\n"},
		"a name twice":       {`{"a":"one","a":"two"}`, "", "a: one\na: two\n"},
		"only a title":       {`{"title":"T","n":null}`, "T", "T"},
		"long items":         {`{"a":["` + strings.Repeat("x", 90) + `","y"]}`, "", "a: " + strings.Repeat("x", 90) + "\na: y\n"},
		"the order":          {`{"z":1,"a":{"y":2,"b":3}}`, "", "z: 1\na.y: 2\na.b: 3\n"},
		"an empty text":      {`{"text":"","content":"Said."}`, "", "Said."},
		"control characters": {`{"name":"T\u0000","a":"o\u0000n\u001fe\u0085"}`, "T", "a: o n e \n"},
		"a title of blanks":  {`{"title":" ","name":"Ada","a":1}`, "Ada", "a: 1\n"},
	} {
		title, text, _, err := documenttest.Read(c.content, document.JSON)
		assert.True(t, err == nil && title == c.title && text == c.text, "%s: %q %q %v", name, title, text, err)
		row := tableOf(t, "a.jsonl", c.content)
		want := c.title + "> " + strings.ReplaceAll(strings.TrimSpace(c.text), "\n", "/")
		assert.True(t, row == want, "%s as a line: %s", name, row)
	}
	for content, want := range map[string]string{
		`[{"a":"by Ada"},{"a":"by Ben","c":[1,{"d":2}]}]`: "a: by Ada\n\na: by Ben\nc: 1\nc[1].d: 2\n",
		`["One.","Two."]`:      "One., Two.\n",
		`[[1,2],[{"a":3}]]`:    "1, 2\n\n[0].a: 3\n",
		`"Said."`:              "Said.\n",
		`{"a":"\ud83d\ude00"}`: "a: 😀\n",
	} {
		_, text, _, err := documenttest.Read(content, document.JSON)
		assert.True(t, err == nil && text == want, "%s: %q %v", content, text, err)
	}
	for _, content := range []string{`[1] 2`, `{"a":1,}`, `[1`, ``, `{"a":NaN}`} {
		_, _, _, err := documenttest.Read(content, document.JSON)
		assert.True(t, fault.Is(err, fault.Unreadable), "%s: %v", content, err)
	}
}

// What says nothing costs nothing, however deep it lies, and names that are written again and again have an end.
func TestDeepRecordsStaySmall(t *testing.T) {
	deep := func(leaf string, leaves int) []byte {
		return []byte(strings.Repeat(`{"a long name of a field":`, 500) + "[" + strings.Repeat(leaf+",", leaves) + "1]" +
			strings.Repeat("}", 500))
	}
	for _, nothing := range []string{"[]", "{}", `{"b":""}`, "[[]]"} {
		raw := deep(nothing, 20_000)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, text, _, err := document.DecodeRecord(raw, document.DefaultLimits())
		runtime.ReadMemStats(&after)
		require.True(t, err == nil && strings.HasSuffix(text, ": 1\n"), "%v", err)
		assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100*len(raw)), nothing)
	}
	_, _, _, err := document.DecodeRecord(deep(`{"b":"c"}`, 2000), document.DefaultLimits())
	assert.True(t, fault.Is(err, fault.TooLarge) && strings.Contains(err.Error(), "limits.document.ratio"), "%v", err)
	_, err = document.ParseJSON(deep(`{"b":"c"}`, 2000), "a.json", document.DefaultLimits())
	assert.True(t, fault.Is(err, fault.TooLarge) && strings.Contains(err.Error(), "limits.document.ratio"), "%v", err)
}

// The head of a table is searched once, not for each of its rows.
func TestTheHeadOfATableIsSearchedOnce(t *testing.T) {
	content := strings.Repeat("column,", 9000) + "end\n" + strings.Repeat("1,2\n", 3)
	for _, row := range rowsOf(t, content, document.CSV) {
		row.LacksColumn("labels")
		assert.Zero(t, testing.AllocsPerRun(10, func() { row.LacksColumn("labels") }))
	}
}
