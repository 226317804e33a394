package gemstage

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model"
)

// Versions of prompts, and of the answers' schemas.
const (
	questionsPrompt = "questions/1"
	summaryPrompt   = "theme/1"
	SchemaVersion   = "questions/1"
)

// usualQuestions is for how many the version of the prompt is questionsPrompt alone.
const usualQuestions = 5

// promptOf returns the version of the prompt for so many questions: another number is another prompt.
func promptOf(count int) string {
	if count == usualQuestions {
		return questionsPrompt
	}
	return questionsPrompt + "/" + strconv.Itoa(count)
}

// DigestPrompts returns a digest of what models are asked.
func DigestPrompts() core.Digest {
	return core.Sum(Rules, questionsPrompt, summaryPrompt, SchemaVersion)
}

const reminder = "\n\nAnswer again with nothing but JSON of the form that was asked for."

// questionsSystem returns the system prompt for so many questions. The one for usualQuestions stays as it is, or what
// was paid for with it is paid for again.
func questionsSystem(count int) string {
	number, noun := strconv.Itoa(count), "questions"
	switch count {
	case 1:
		number, noun = "one", "question"
	case usualQuestions:
		number = "five"
	}
	return `You are given a passage. Write exactly ` + number + ` different ` + noun + ` that this passage alone ` +
		`answers.
Each must make sense without the passage: name what it is about, never write "the passage" or "the text". ` +
		`Most ask for one fact each, one asks for the main point. Write them in the language of the passage.
Answer with JSON only: {"questions":[` + strings.TrimSuffix(strings.Repeat(`"...",`, count), ",") + `]}`
}

const summarySystem = `You are given passages that have a theme in common. Write in plain prose, in at most ` +
	`80 words, what they say
about it: what is common first, names and figures where they matter. No introduction. ` +
	`Write in the language of the passages.
Answer with JSON only: {"description":"..."}`

var (
	questionsSchema = json.RawMessage(`{"type":"object","properties":{"questions":{"type":"array","items":` +
		`{"type":"string"}}},"required":["questions"],"additionalProperties":false}`)
	summarySchema = json.RawMessage(`{"type":"object","properties":{"description":{"type":"string"}},` +
		`"required":["description"],"additionalProperties":false}`)
)

// questionsCall counts as one of extraction, and summaryCall as one of shortening: so budgets hold for them.
func questionsCall(document, content string, count int) model.Call {
	return model.Call{
		Task: model.Extract, System: questionsSystem(count), User: content, Schema: questionsSchema, Input: content,
		Ref: document,
	}
}

// summaryRunes is how long a summary is at most.
const summaryRunes = 600

func summaryCall(theme int, passages string) model.Call {
	return model.Call{
		Task: model.Shorten, System: summarySystem, User: passages, Schema: summarySchema, Input: passages,
		Name: "theme " + strconv.Itoa(theme), Limit: summaryRunes,
	}
}

// maxAnswer is how long an answer may be, in bytes; a longer one is not read.
const maxAnswer = 1 << 18

// findJSON returns the first JSON value of an answer, whatever stands around it; nil where there is none.
func findJSON(reply string) json.RawMessage {
	if len(reply) > maxAnswer {
		return nil
	}
	at := strings.IndexAny(reply, "{[")
	if at < 0 {
		return nil
	}
	var raw json.RawMessage
	if json.NewDecoder(strings.NewReader(reply[at:])).Decode(&raw) != nil {
		return nil
	}
	return raw
}

// readQuestions accepts {"questions": [...]} and a bare list.
func readQuestions(reply string, most int) []string {
	raw := findJSON(reply)
	var asked struct {
		Questions []string `json:"questions"`
	}
	if raw == nil || json.Unmarshal(raw, &asked) != nil {
		_ = json.Unmarshal(raw, &asked.Questions) // nothing, where it is no list either
	}
	return FilterQuestions(asked.Questions, most)
}

func readSummary(reply string) string {
	var said struct {
		Description string `json:"description"`
	}
	if raw := findJSON(reply); raw == nil || json.Unmarshal(raw, &said) != nil {
		return ""
	}
	return strings.TrimSpace(said.Description)
}
