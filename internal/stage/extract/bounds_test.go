package extract_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
)

func TestOfAnAnswerThatHoldsTooMuchTheBeginningIsTakenAndTheRestCounted(t *testing.T) {
	type entity struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	entities := []entity{
		{strings.Repeat("n", extract.MaxName+1), "d"},
		{"Long", strings.Repeat("d", extract.MaxDescription+5)},
	}
	for i := range 8_000 {
		entities = append(entities, entity{fmt.Sprint("Name ", i), "d"})
	}
	answer := stagetest.Must(json.Marshal(map[string]any{"entities": entities}))
	b := newBench(t)
	in := b.in(&stagetest.Chat{Answer: stagetest.Says(string(answer))}, stagetest.Numbered(1, "Text %d.")...)
	for _, when := range []string{"paid for", "from the ledger"} {
		res := stagetest.Must(extract.Run(t.Context(), in))
		if want := int64(len(entities) - extract.MaxEntities + 1); res.Progress.Cut != want { // one is cut and taken
			t.Errorf("%s: %d counted, want %d", when, res.Progress.Cut, want)
		}
	}
}

// The answer of the built-in rules about a long line of names, as of a table without full stops, can be read.
func TestRulesReadADocumentOfAnySize(t *testing.T) {
	var row strings.Builder
	for i := 0; row.Len() < 140_000; i++ {
		fmt.Fprintf(&row, "met Name%d & \"Sons\" <x>, ", i)
	}
	reply := stagetest.Must(builtin.Chat{}.Complete(t.Context(), model.Call{Task: model.Extract, Input: row.String()}))
	entities, rung, ok := extract.Parse(reply.Text)
	assert.True(t, ok && rung == extract.RungStrict && len(entities) == extract.MaxEntities,
		"%d bytes, %d entities, %q", len(reply.Text), len(entities), rung)
}
