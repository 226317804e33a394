package model_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/model"
)

func TestOnlyWhatStandsBehindTheLastThoughtIsSaid(t *testing.T) {
	const json = `{"entities":[{"name":"A","description":"d"}]}`
	for name, c := range map[string]struct {
		text, said string
		thinking   bool
	}{
		"no thought":                 {" Oslo < Bergen [1]. ", " Oslo < Bergen [1]. ", false},
		"a block":                    {"<think>Is it Bergen?</think>\n\nOslo.", "Oslo.", false},
		"a block of another name":    {"<thinking>a</thinking>Oslo.", "Oslo.", false},
		"capitals and blanks":        {"<Think >a</ THINK>Oslo.", "Oslo.", false},
		"reasoning":                  {"<reasoning>\na\n</reasoning>\nOslo.", "Oslo.", false},
		"seed":                       {"<seed:think>a<seed:cot_budget_reflect>b</seed:cot_budget_reflect></seed:think>Oslo.", "Oslo.", false},
		"brackets":                   {"[THINK]a[/THINK]Oslo [1].", "Oslo [1].", false},
		"a solution":                 {"<|begin_of_thought|>a<|end_of_thought|>\n<|begin_of_solution|>Oslo.<|end_of_solution|>", "Oslo.", false},
		"a response":                 {"<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>Oslo.<|END_RESPONSE|>", "Oslo.", false},
		"an answer in its own tag":   {"<think>a</think>\n<answer>\nOslo.\n</answer>", "Oslo.", false},
		"a tag around it alone":      {"<answer>Oslo.</answer>", "Oslo.", false},
		"channels":                   {"<|channel|>analysis<|message|>Is it?<|end|><|start|>assistant<|channel|>final<|message|>Oslo.<|return|>", "Oslo.", false},
		"channels of JSON":           {"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>" + json, json, false},
		"channels without tokens":    {"analysisWe look.assistantfinalOslo.", "Oslo.", false},
		"the other channels":         {"<|channel>thought\na<channel|>Oslo.", "Oslo.", false},
		"signs of another kind":      {"◁think▷a◁/think▷Oslo.", "Oslo.", false},
		"the beginning is lost":      {"Is it Bergen? Yes: [1]\n</think>\nOslo.", "Oslo.", false},
		"the beginning is lost, too": {"Let me look: " + json + " fine.\n</think>\n[]", "[]", false},
		"several":                    {"<think>a</think>Bergen.<think>no</think>Oslo.", "Oslo.", false},
		"one behind":                 {json + "<think>Are these all?</think>", json, false},
		"one behind, not closed":     {json + "\n<think>Are these", json, true},
		"not closed":                 {"<think>\nI go on about " + json, "", true},
		"not closed, by channel":     {"<|channel|>analysis<|message|>I go on about Oslo", "", true},
		"the second not closed":      {"<think>a</think>\n<think>b", "", true},
		"nothing behind":             {"I go on.</think>\n", "", false},
		"nothing behind a block":     {"<think>a</think>", "", false},
		"spoken of in JSON":          {`{"d":"</think> ends it, <think> begins"}`, `{"d":"</think> ends it, <think> begins"}`, false},
		"spoken of in JSON behind":   {`so.</think>{"d":"a </think> [1] b"} It is.`, `{"d":"a </think> [1] b"} It is.`, false},
		"spoken of in quotes":        {"`</think>` ends a thought.", "`</think>` ends a thought.", false},
		"spoken of in a sentence":    {"Some write <think> before it.", "Some write <think> before it.", false},
		"the end of a turn":          {"Oslo.<|im_end|>", "Oslo.", false},
	} {
		said, thinking := model.TakeAnswer(c.text)
		assert.True(t, said == c.said && thinking == c.thinking, "%s: %q %v, want %q", name, said, thinking, c.said)
		again, _ := model.TakeAnswer(said)
		assert.True(t, again == said, "%s: of %q it takes %q", name, said, again)
	}
}

// Time and memory are in proportion to the length of a reply, whatever stands in it.
func TestRepliesOfNothingButMarksAreRead(t *testing.T) {
	for _, unit := range []string{"<think>", "</think>", "{", "[", `{"a":`, "<|channel|>", "<", "[THINK]", "assistantfinal", "\n<answer>"} {
		text := strings.Repeat(unit, 1<<18/len(unit))
		said, _ := model.TakeAnswer("analysis" + text)
		assert.True(t, len(said) <= len(text)+8, "%q: %d bytes", unit, len(said))
	}
}

// Marks that one long line speaks of are read in time that grows with the line: its square would be half an hour here.
func TestALongLineThatSpeaksOfManyMarksIsRead(t *testing.T) {
	line := strings.Repeat("x <think>", 1<<19)
	said, thinking := model.TakeAnswer(line)
	assert.True(t, said == line && !thinking, "%d of %d bytes, %v", len(said), len(line), thinking)
}
