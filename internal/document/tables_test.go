package document_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
)

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
	kind := kindOf(t, name)
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
		title, text, _, err := parse(c.content, document.JSON)
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
		_, text, _, err := parse(content, document.JSON)
		assert.True(t, err == nil && text == want, "%s: %q %v", content, text, err)
	}
	for _, content := range []string{`[1] 2`, `{"a":1,}`, `[1`, ``, `{"a":NaN}`} {
		_, _, _, err := parse(content, document.JSON)
		assert.True(t, fault.Is(err, fault.Unreadable), "%s: %v", content, err)
	}
}
