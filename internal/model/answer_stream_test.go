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
