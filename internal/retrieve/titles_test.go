package retrieve_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/retrievetest"
)

// articles returns a film, its director, and what has more words of questions about them; called gives them titles.
func articles(called func(name string) string) []retrievetest.Document {
	var out []retrievetest.Document
	add := func(name, text string, entities ...string) {
		chunk := retrievetest.Chunk{Text: text, Entities: append(entities, called(name))}
		out = append(out, retrievetest.Document{Key: name, Title: called(name), Chunks: []retrievetest.Chunk{chunk}})
	}
	add("Ada Berg", "She grew up with seven brothers.")
	add("Mercury", "It went down with all hands.")
	add("Northern Night", "A drama by Ada Berg about Mercury.", "Ada Berg", "Mercury")
	for i := range 9 {
		add(fmt.Sprintf("Old Director %d", i), "A northern director, born where a director is born.", "Old Director 0")
	}
	return out
}

func TestAnIndexChoosesTheSettingAndAQueryMayChooseAnother(t *testing.T) {
	plain := func(name string) string { return name }
	page := func(name string) string { return "10-Q, page of " + name }
	many := func(m *core.Manifest) { m.Counts.Tokens = 700 * m.Counts.Chunks }
	for _, one := range []struct {
		name        string
		called      func(string) string
		edit        func(*core.Manifest)
		given, want string
		found       bool // film and director come first
	}{
		{"names", plain, nil, "auto", "linked", true},
		{"names in long chunks", plain, many, "auto", "linked", true},
		{"overruled", plain, nil, "short", "short", false},
		{"headings", page, nil, "auto", "short", false},
		{"headings of long chunks", page, many, "auto", "long", false},
		{"overruled for headings", page, nil, "linked", "linked", false},
	} {
		t.Run(one.name, func(t *testing.T) {
			o := openDocuments(t, articles(one.called), retrievetest.Options{Edit: one.edit})
			query := o.query(t, retrieve.Hybrid, "Where was the director of Northern Night born?")
			query.Params = retrieve.Params{"setting": one.given, "k_chunks": 1}
			result := o.run(t, query)
			explain := result.Explain.(retrieve.HybridExplain)
			setting := explain.Setting
			keys := o.keys(result)
			found := keys[0] == "Northern Night" && keys[1] == "Ada Berg"
			if setting.Name != one.want || found != one.found || (len(setting.Asked) == 1) != one.found ||
				(explain.Chunks[1].Seed > 0) != one.found { // the film names its director
				t.Errorf("%+v found %v", setting, keys)
			}
		})
	}
}

func TestATitleIsAskedForAsItIsWritten(t *testing.T) {
	documents := articles(func(name string) string { return name })
	for i := range 4 { // more than may have one title
		documents = append(documents, retrievetest.Document{
			Key: fmt.Sprintf("Some Song %d", i), Title: "Some Song",
			Chunks: []retrievetest.Chunk{{Text: fmt.Sprintf("Sung by %d.", i), Entities: []string{"Some Song"}}},
		})
	}
	o := openDocuments(t, documents, retrievetest.Options{})
	berg := map[core.ID]bool{core.ClassID("ada berg"): true}
	for _, one := range []struct {
		question string
		without  map[core.ID]bool
		prefix   string
		want     int
	}{
		{question: "Who made Northern Night?", want: 1},
		{question: "What was Ada Berg's drama, and “Northern Night” what?", want: 2},
		{question: "Ada Berg, Ada Berg!", want: 1},
		{question: "Who made northern night?"},
		{question: "What was Mercury?"}, // one word may be any
		{question: "Who sang Some Song?"},
		{question: "Ada Berg", without: berg},
		{question: "Ada Berg", prefix: "N"},
	} {
		query := o.query(t, retrieve.Hybrid, one.question)
		query.Without.Entities, query.Filter.Prefix = one.without, one.prefix
		got := o.run(t, query).Explain.(retrieve.HybridExplain).Setting.Asked
		assert.True(t, len(got) == one.want, "%q names %d, want %d", one.question, len(got), one.want)
	}
}
