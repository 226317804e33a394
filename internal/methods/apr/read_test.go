package apr_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/model/triples"
	"github.com/unweaver/unweaver/internal/text"
)

func FuzzAnAnswerIsReadWithoutHarm(f *testing.F) {
	f.Add(`{"triples":[{"sentence":0,"head":"a","relation":"b","tail":"c"},["a","b","c"]]}`)
	f.Add(`[[[[`)
	f.Add(`"triples" : [ {"sentence":-1e99}`)
	part := triples.CutParts(text.LanguageOf("en"), "Marie Curie was born in Warsaw. She knew Paris.")[0]
	f.Fuzz(func(t *testing.T, answer string) {
		said, _ := part.Read(answer)
		_, _, left := apr.Indexify([]apr.Document{{Key: "d", Triples: said.Triples}})
		assert.True(t, len(left) == 0, "what was read is no triple of a codebook: %v", left)
	})
}
