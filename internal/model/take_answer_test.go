package model_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// inPieces gives the parts of a reply that are given on before its end, and all that are.
func inPieces(open bool, pieces []string) (early, all []string, answer string, err error) {
	saying := model.Saying{Open: open, Give: func(text string) error {
		all = append(all, text)
		return nil
	}}
	for _, piece := range pieces {
		if err = saying.Add(piece); err != nil {
			return nil, all, "", err
		}
	}
	early = slices.Clone(all)
	answer, _, err = saying.End()
	return early, all, answer, err
}

func TestWhatIsSaidComesInPieces(t *testing.T) {
	for name, c := range map[string]struct {
		open   bool
		pieces []string
		early  []string
		answer string
		err    error
	}{
		"plain":                      {true, []string{"Oslo", " is", " it."}, []string{"Oslo", " is", " it."}, "Oslo is it.", nil},
		"plain, of an unknown model": {false, []string{"Oslo", " is", " it."}, nil, "Oslo is it.", nil},
		"behind a thought":           {true, []string{"<th", "ink>Is it?", "</thi", "nk>\n", "Oslo", " it is."}, []string{"Oslo", " it is."}, "Oslo it is.", nil},
		"of an unknown model":        {false, []string{"<think>Is it?</think>\n", "Oslo", " it is."}, []string{"Oslo", " it is."}, "Oslo it is.", nil},
		"whose beginning is lost":    {false, []string{"Is it?", "\n</think>", "Oslo", " it is."}, []string{"Oslo", " it is."}, "Oslo it is.", nil},
		"that is not closed":         {true, []string{"<think>Is", " it?"}, nil, "", nil},
		"lost though none was":       {true, []string{"Is it?", "\n</think>", "Oslo"}, nil, "", model.ErrLateThought},
		"a sign of less":             {true, []string{"x <", " b", " < c", " [1", "]"}, []string{"x", " < b", " < c", " [1", "]"}, "x < b < c [1]", nil},
		"a mark in quotes":           {true, []string{"`</think", ">`", " ends it."}, []string{"`", "</think>`", " ends it."}, "`</think>` ends it.", nil},
		"a tag around it":            {true, []string{"<answer>Os", "lo.</answer>"}, nil, "Oslo.", nil},
		"a thought behind":           {true, []string{"Oslo.", "\n<think>Is", " it?</think>", "\n"}, []string{"Oslo."}, "Oslo.", nil},
		"a word like a channel":      {true, []string{"ana", "lysis", " of it"}, []string{"analysis of it"}, "analysis of it", nil},
		"a channel":                  {true, []string{"ana", "lysisWe", " look.assistantfinal", "Oslo"}, nil, "Oslo", nil},
		"the end of a turn":          {true, []string{"Oslo.", "<|im_", "end|>"}, []string{"Oslo."}, "Oslo.", nil},
	} {
		early, all, answer, err := inPieces(c.open, c.pieces)
		assert.True(t, errors.Is(err, c.err) && answer == c.answer && slices.Equal(early, c.early),
			"%s: %q, then %q, %v", name, early, answer, err)
		assert.True(t, err != nil || strings.Join(all, "") == answer, "%s: %q was given of %q", name, all, answer)
	}
}

// However a reply is cut, and whatever is known of its model, what is given on is the answer of the whole, or nothing
// of a thought came before the error.
func TestAReplyInPiecesIsThatOfTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	parts := []string{
		"<think>", "</think>", "[THINK]", "[/THINK]", "\n", " ", "Oslo", "é", "<", "[1]", "`", "<|end|>", "a thought",
		"<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<answer>", "</answer>", "analysis", "<|im_end|>",
	}
	for range 20_000 {
		var whole string
		for range random.IntN(9) {
			whole += parts[random.IntN(len(parts))]
		}
		var pieces []string
		for rest := whole; rest != ""; {
			n := 1 + random.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		want, _ := model.TakeAnswer(whole)
		for _, open := range []bool{true, false} {
			_, all, answer, err := inPieces(open, pieces)
			require.True(t, err != nil || answer == strings.TrimSpace(want) && strings.Join(all, "") == answer,
				"%q: %q of %q, want %q", pieces, all, answer, want)
			require.True(t, err == nil || errors.Is(err, model.ErrLateThought) && len(all) != 0, "%q: %v", pieces, err)
		}
	}
}
