package retrieve_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// speaking gives an answer in pieces.
type speaking struct {
	pieces []string
	fails  error
}

func (speaking) Info() model.Info { return model.Info{} }

func (s speaking) Complete(ctx context.Context, _ model.Call) (model.Reply, error) {
	take := model.Taker(ctx)
	for _, piece := range s.pieces {
		if take == nil {
			break
		}
		if err := take(piece); err != nil {
			return model.Reply{}, err
		}
	}
	return model.Reply{Text: strings.Join(s.pieces, "")}, s.fails
}

var said = []struct {
	raw, want string
	cited     []string
}{
	{"Oslo is the capital [1].", "Oslo is the capital [1].", []string{"a"}},
	{" \n Both [2] and [1], and [2] again. \n", "Both [2] and [1], and [2] again.", []string{"b", "a"}},
	{"Nothing names this [7], nor [3]. [9]", "Nothing names this , nor .", []string{"b"}},
	{"[4] Bergen is a port", "Bergen is a port", []string{"b"}},
	{"An [open bracket [1], [12345678901234567890123] and [", "An [open bracket [1], [12345678901234567890123] and [",
		[]string{"a"}},
	{"[ 1 ] ist kein Zeichen, [1] schon: Tromsø.", "[ 1 ] ist kein Zeichen, [1] schon: Tromsø.", []string{"a"}},
	{" [8] ", "No data was found for this question; please rephrase it.", nil},
	{strings.Repeat("ø ", 5000), strings.TrimSpace(strings.Repeat("ø ", 4000)), nil},
}

// However an answer is cut into pieces: who takes it as it comes reads what the whole answer says.
func TestAnAnswerInPiecesIsTheAnswer(t *testing.T) {
	passages := []retrieve.Passage{
		{ID: "a", Title: "Oslo", Text: "Oslo is the capital of Norway."},
		{ID: "b", Title: "Bergen", Text: "Nothing names this port: Bergen is a port in Norway."},
		{ID: "c", Title: "Unused"},
	}
	used := []bool{true, true, false}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // places to cut at
	for _, c := range said {
		whole, err := retrieve.Answer(t.Context(), speaking{pieces: []string{c.raw}}, "?", "context", passages, used)
		if err != nil || whole.Text != c.want || !slices.Equal(whole.Citations, c.cited) {
			t.Fatalf("%.60q: %.60q %v %v", c.raw, whole.Text, whole.Citations, err)
		}
		if nothing := c.raw == " [8] "; (whole.Kind == retrieve.NoAnswer) != nothing {
			t.Errorf("%.60q: kind %s", c.raw, whole.Kind)
		}
		for range 20 {
			var pieces []string
			runes := []rune(c.raw)
			for len(runes) > 0 {
				size := 1 + random.IntN(min(len(runes), 7))
				pieces = append(pieces, string(runes[:size]))
				runes = runes[size:]
			}
			var heard strings.Builder
			ctx := model.Deltas(t.Context(), func(text string) error { heard.WriteString(text); return nil })
			parts, err := retrieve.Answer(ctx, speaking{pieces: pieces}, "?", "context", passages, used)
			if err != nil || parts.Text != c.want || heard.String() != c.want || !slices.Equal(parts.Citations, c.cited) {
				t.Fatalf("%q: heard %.60q, text %.60q %v %v", pieces, heard.String(), parts.Text, parts.Citations, err)
			}
			if cut := strings.HasPrefix(c.raw, "ø"); parts.Truncated != cut {
				t.Errorf("%.60q: truncated %v", c.raw, parts.Truncated)
			}
		}
	}
}

func TestAnAnswerWithoutPiecesComesInOne(t *testing.T) {
	heard := ""
	ctx := model.Deltas(t.Context(), func(text string) error { heard += text; return nil })
	answered, err := retrieve.Answer(ctx, silent{}, "?", "context", []retrieve.Passage{{ID: "a"}}, []bool{true})
	if err != nil || heard != "Oslo [1]." || answered.Text != heard || answered.Kind != retrieve.ByModel {
		t.Errorf("%q %+v %v", heard, answered, err)
	}
	heard = ""
	answered, err = retrieve.Answer(ctx, silent{}, "?", "", nil, nil)
	if err != nil || heard == "" || answered.Text != heard || answered.Kind != retrieve.NoAnswer {
		t.Errorf("nothing found: %q %+v %v", heard, answered, err)
	}
}

// silent is a model that gives no pieces.
type silent struct{ speaking }

func (silent) Complete(context.Context, model.Call) (model.Reply, error) {
	return model.Reply{Text: " Oslo [1]. "}, nil
}

func TestAnAnswerThatBreaksOffIsNone(t *testing.T) {
	broken := errors.New("broken")
	ctx := model.Deltas(t.Context(), func(string) error { return nil })
	chat := speaking{[]string{"Oslo"}, broken}
	if _, err := retrieve.Answer(ctx, chat, "?", "context", nil, nil); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
