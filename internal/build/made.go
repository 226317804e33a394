package build

import (
	"github.com/unweaver/unweaver/internal/build/fold"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/lang/names"
	"github.com/unweaver/unweaver/internal/lang/text"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/stage/chunk"
)

// MadeBy names the rules of this program that a generation of a configuration is made by. A generation made by others
// is built again, with the difference as the reason.
func MadeBy(spec corpus.Spec) corpus.Made {
	made := madeBy
	if made.Analyser == "" {
		made.Analyser = text.In(spec.Retrieval.Language).Analyser()
	}
	if byRule := spec.Chat.Provider == "builtin" || spec.ExtractionShare() < 1; byRule {
		made.Rules = builtin.Chat{Language: spec.Retrieval.Language}.Info().Model
	}
	if made.ClassText == "" {
		made.ClassText = fold.Recipe(spec.Parity)
	}
	return made
}

var madeBy = corpus.Made{
	Parser: document.ParserVersion, Chunker: chunk.ChunkerVersion, Names: names.Version,
}
