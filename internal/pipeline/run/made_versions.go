package run

import (
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/classmerge"
	"github.com/unweaver/unweaver/internal/text"
	"github.com/unweaver/unweaver/internal/text/names"
)

// MadeBy names the rules of this program that a generation of a configuration is made by. A generation made by others
// is built again, with the difference as the reason.
func MadeBy(spec core.Spec) core.Made {
	made := Rules
	if made.Analyser == "" {
		made.Analyser = text.LanguageOf(spec.Retrieval.Language).Analyser()
	}
	if byRule := spec.BuildsBy("builtin") || spec.ExtractionShare() < 1; byRule {
		made.Rules = builtin.Chat{Language: spec.Retrieval.Language}.Info().Model
	}
	if made.ClassText == "" {
		made.ClassText = classmerge.RecipeVersion(spec.Parity)
	}
	return made
}

// Rules are the versions of what makes a generation that no configuration changes. Tests alone set them.
var Rules = core.Made{
	Parser: document.ParserVersion, Chunker: chunk.ChunkerVersion, Names: names.Version,
}
