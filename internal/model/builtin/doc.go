// Package builtin holds the models that need no key, no network and no download: a rule-based extractor
// (names and terms of a text), an extractive shortener and answerer, and a hashing embedder. They are deterministic,
// and an honest default for trying the product; wherever their results are shown they are labelled "built-in models".
package builtin

import "github.com/unweaver/unweaver/internal/text"

// Versions of the rules; a change of what is extracted, shortened or embedded raises them, since they are part of
// identities. Answers are part of none.
const (
	ChatModel     = "rules-6"
	EmbedderModel = "hashing-3"
)

// rulesName names the rules of a language; in all but English the name carries the language's too.
func rulesName(language *text.Language) string {
	if language == english {
		return ChatModel
	}
	return ChatModel + " " + language.Analyser()
}

// embedderName names the embedder of a language.
func embedderName(language *text.Language) string {
	if language == english {
		return EmbedderModel
	}
	return EmbedderModel + " " + language.Analyser()
}

var english = text.LanguageOf("en")
