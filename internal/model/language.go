package model

import "github.com/unweaver/unweaver/internal/text"

// NameLanguage returns the sentence of a prompt that names the language to write in, and what the version of the prompt
// has for it: the configured language, else that of the text. Both are empty where English is to be written of an
// English text, or nothing is known of the text: prompts are English, and such texts keep what was paid for them.
func NameLanguage(configured, about string) (sentence, version string) {
	found := text.DetectLanguage(about)
	wanted := configured
	if wanted == "" {
		wanted = found
	}
	switch {
	case wanted == "", wanted == "en" && (found == "" || found == "en"):
		return "", ""
	case wanted == text.Undetermined:
		return "\nWrite in the language of the text.", "/" + wanted
	}
	return "\nWrite in " + text.LanguageOf(wanted).Name() + ".", "/" + wanted
}

// AnswerLanguage returns the sentence that has an answer follow the language of its question.
func AnswerLanguage(question string) string {
	found := text.DetectLanguage(question)
	if found == "" || found == text.Undetermined {
		return "\nAnswer in the language of the question."
	}
	return "\nAnswer in the language of the question: " + text.LanguageOf(found).Name() + "."
}
