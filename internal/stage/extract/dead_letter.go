package extract

import (
	"context"
	"fmt"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// DeadLetterKey returns where the dead letter of a chunk lies, and with an empty id the folder of all.
func DeadLetterKey(index artifact.Index, generation, chunk string) string {
	folder := index.GenerationKey(generation, "dead-letters") + "/"
	if chunk == "" {
		return folder
	}
	return folder + chunk + ".json"
}

// DeadLetter is generations/<gen>/dead-letters/<chunk id>.json.
type DeadLetter struct {
	Chunk    string `json:"chunk"`
	Document string `json:"document"`
	Ordinal  int    `json:"ordinal"`
	Reason   string `json:"reason"`
	Attempt  int    `json:"attempt"`
	Key      string `json:"ledger_key"`
	Raw      string `json:"raw"`

	Discarded *core.Discarded `json:"discarded,omitempty"` // a person does not want to see it any more
}

// rawShown bounds what a problem shows of an answer, in runes.
const rawShown = 160

// Problem returns the dead letter as a report shows it: the file, the chunk and the cause.
func (d DeadLetter) Problem() core.Problem {
	words := strings.Join(strings.Fields(d.Raw), " ")
	if runes := []rune(words); len(runes) > rawShown {
		words = string(runes[:rawShown]) + "..."
	}
	why := words
	switch {
	case d.Reason != string(fault.BadOutput) && words == "":
		why = "its dead letter is unreadable"
	case d.Reason == string(fault.BadOutput) && words == "":
		why = "the answers of the model were empty"
	case d.Reason == string(fault.BadOutput):
		why = "the answers of the model are unreadable; the last one begins: " + words
	}
	if model.IsNothing(d.Raw) {
		why = words
	}
	return core.Problem{
		Code: d.Reason, Object: d.Document,
		Detail: fmt.Sprintf("nothing was extracted from passage %d (%s): %s", d.Ordinal, d.Chunk, why),
	}
}

// deadLetters writes dead letters once nothing can turn the failures of a batch into something else any more: a batch
// that is repeated because the run paused may find that a chunk is fine.
func (b *batch) deadLetters(ctx context.Context, chunks []item) error {
	return parallel.Each(ctx, len(chunks), min(width, len(chunks)), func(ctx context.Context, i int) error {
		if chunks[i].dead == nil {
			return nil
		}
		return b.deadLetter(ctx, &chunks[i])
	})
}

func (b *batch) deadLetter(ctx context.Context, x *item) error {
	letter := DeadLetter{
		Chunk:    x.chunk.ID.String(),
		Document: x.doc,
		Ordinal:  x.chunk.Ordinal,
		Reason:   x.dead.Reason,
		Attempt:  max(b.Attempt, x.dead.attempt),
		Key:      x.out.Key.String(),
		Raw:      x.dead.Raw,
	}
	key := DeadLetterKey(b.Artifacts, b.Gen, letter.Chunk)
	_, err := blob.WriteJSON(ctx, b.Artifacts.Store, key, letter, blob.Cond{})
	return err
}
