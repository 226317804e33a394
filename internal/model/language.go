package model

import (
	"cmp"

	"github.com/unweaver/unweaver/internal/text"
)

// NameLanguage returns the sentence of a prompt that names the language to write in, the configured one or that of the
// text, and the suffix that it gives to the version of the prompt. Both are empty for English about an English text, or
// about one too short to recognise: prompts are English, and a model needs no sentence there.
func NameLanguage(configured, about string) (sentence, version string) {
	found := ""
	if configured == "" || configured == "en" { // for no other it matters what the text is in
		found = text.DetectLanguage(about)
	}
	wanted := cmp.Or(configured, found)
	switch {
	case wanted == "", wanted == "en" && (found == "" || found == "en"):
		return "", ""
	case wanted == text.Undetermined:
		return "\nWrite in the language of the text.", "/" + wanted
	}
	return "\nWrite in " + text.NameOf(wanted) + ".", "/" + wanted
}

// AnswerLanguage returns the sentence that has an answer follow the language of its question.
func AnswerLanguage(question string) string {
	found := text.DetectLanguage(question)
	if found == "" || found == text.Undetermined {
		return "\nAnswer in the language of the question."
	}
	return "\nAnswer in the language of the question: " + text.NameOf(found) + "."
}
