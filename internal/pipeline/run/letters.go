package run

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/artifact/textseg"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// retried is what a round of retry-failed is for: these chunks, or where there are none all that were not discarded.
type retried struct {
	Chunks []string `json:"chunks,omitempty"`
}

func retryFile(index artifact.Index, generation string) string {
	return index.GenerationKey(generation, "retry.json")
}

// ChooseLetters keeps what a round of retry-failed is for.
func ChooseLetters(ctx context.Context, index artifact.Index, generation string, chunks []string) error {
	_, err := blob.WriteJSON(ctx, index.Store, retryFile(index, generation), retried{chunks}, blob.Cond{})
	return err
}

// ReadChoice returns the chunks that a round of retry-failed is for; none stands for all that were not discarded.
func ReadChoice(ctx context.Context, index artifact.Index, generation string) ([]string, error) {
	var chosen retried
	_, err := blob.ReadJSON(ctx, index.Store, retryFile(index, generation), &chosen)
	if fault.Is(err, fault.NotFound) {
		err = nil
	}
	return chosen.Chunks, err
}

// RetriesAll reports whether this is a round of retry-failed for whatever failed.
func (r *Run) RetriesAll(ctx context.Context) (bool, error) {
	if r.Attempt == 0 {
		return false, nil
	}
	chosen, err := ReadChoice(ctx, r.Index, r.Generation)
	return len(chosen) == 0, err
}

// ChosenLetters says which letters a round of retry-failed is for.
func (r *Run) ChosenLetters(ctx context.Context) (func(extract.DeadLetter) bool, error) {
	chosen, err := ReadChoice(ctx, r.Index, r.Generation)
	return func(letter extract.DeadLetter) bool {
		if len(chosen) == 0 {
			return letter.Discarded == nil
		}
		return slices.Contains(chosen, letter.Chunk)
	}, err
}

// letterOf returns a dead letter in the form that people see.
func letterOf(found extract.DeadLetter) core.Letter {
	kind := core.LetterSystem
	if fault.Code(found.Reason).Kind() == fault.Content {
		kind = core.LetterContent
	}
	return core.Letter{
		Chunk: found.Chunk, Document: found.Document, Ordinal: found.Ordinal, Reason: found.Reason, Kind: kind,
		Attempts: found.Attempt + 1, Raw: found.Raw, Discarded: found.Discarded,
	}
}

// ReadLetters returns the dead letters of a generation, in the order of documents and their chunks.
func ReadLetters(ctx context.Context, index artifact.Index, generation string) ([]core.Letter, error) {
	out := []core.Letter{}
	for letter, err := range LettersOf(ctx, index, generation) {
		if err != nil {
			return nil, err
		}
		out = append(out, letterOf(letter))
	}
	slices.SortFunc(out, func(a, b core.Letter) int {
		return cmp.Or(strings.Compare(a.Document, b.Document), a.Ordinal-b.Ordinal)
	})
	return out, nil
}

// readLetter reads one dead letter, with the etag that it has.
func readLetter(
	ctx context.Context, index artifact.Index, generation, chunk string,
) (letter extract.DeadLetter, etag string, err error) {
	var id core.ID
	err = id.UnmarshalText([]byte(chunk))
	if err == nil {
		info, unread := blob.ReadJSON(ctx, index.Store, extract.DeadLetterKey(index, generation, chunk), &letter)
		etag, err = info.ETag, unread
		if err != nil && !fault.Is(err, fault.NotFound) {
			return letter, "", err
		}
	}
	if err != nil {
		return letter, "", fault.NotFound.At("find dead letter", fault.QuoteName(chunk)).
			Because("generation " + generation + " of " + index.Name + " has no dead letter of this passage").
			Advise("to list them: unweaver dead-letters list " + index.Name)
	}
	return letter, etag, nil
}

// FindLetter returns a dead letter of a generation, with the text of its chunk.
func FindLetter(
	ctx context.Context, index artifact.Index, manifest *core.Manifest, chunk string,
) (core.Letter, error) {
	found, _, err := readLetter(ctx, index, manifest.Generation, chunk)
	if err != nil {
		return core.Letter{}, err
	}
	letter := letterOf(found)
	letter.Text, err = chunkText(ctx, index, manifest, found.Document, chunk)
	return letter, err
}

// chunkText finds the text of a chunk of a document. A split in which the document is dead may have it with other
// chunks; the same chunk has the same text everywhere.
func chunkText(
	ctx context.Context, index artifact.Index, manifest *core.Manifest, document, chunk string,
) (string, error) {
	listed := manifest.Segments
	texts := make([]*string, len(listed.Documents))
	err := parallel.Each(ctx, len(listed.Documents), LettersAtOnce, func(ctx context.Context, i int) error {
		segment := listed.Documents[i]
		reader, err := artifact.OpenRowsOf(ctx, index.Store, index.SegmentKey(segment.SHA256), segment.Bytes)
		if err != nil {
			return err
		}
		raw, err := reader.Get(ctx, document)
		if err != nil || raw == nil {
			return err
		}
		row, err := rows.DecodeDocument(raw)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(row.Chunks, func(place rows.Place) bool { return place.ID.String() == chunk })
		of := slices.IndexFunc(listed.Text, func(text core.Segment) bool { return text.Part == segment.Part })
		if at < 0 || of < 0 {
			return nil
		}
		pieces, err := textseg.OpenOf(ctx, index.Store, index.SegmentKey(listed.Text[of].SHA256), listed.Text[of].Bytes)
		if err != nil {
			return err
		}
		text, err := pieces.Slice(ctx, document, row.Frame, row.Chunks[at].Start, row.Chunks[at].End)
		texts[i] = &text
		return err
	})
	if err != nil {
		return "", err
	}
	for _, text := range texts {
		if text != nil {
			return *text, nil
		}
	}
	return "", fault.SegmentDamage.At("read chunk", chunk).
		Because("no segment of generation " + manifest.Generation + " has it").
		Advise("to check the generation: unweaver audit " + index.Name)
}

// DiscardLetters marks dead letters that need no attention any more; retry-failed leaves them out. All are looked up
// before the first is marked. One that changed or went meanwhile, as a purge took it, is not written again.
func DiscardLetters(ctx context.Context, index artifact.Index, generation string, chunks []string, why string) error {
	chunks = slices.Compact(slices.Sorted(slices.Values(chunks)))
	letters, etags := make([]extract.DeadLetter, len(chunks)), make([]string, len(chunks))
	err := parallel.Each(ctx, len(chunks), LettersAtOnce, func(ctx context.Context, i int) (err error) {
		letters[i], etags[i], err = readLetter(ctx, index, generation, chunks[i])
		return err
	})
	if err != nil {
		return err
	}
	return parallel.Each(ctx, len(letters), LettersAtOnce, func(ctx context.Context, i int) error {
		letters[i].Discarded = &core.Discarded{At: time.Now().UTC(), Why: why}
		key := extract.DeadLetterKey(index, generation, letters[i].Chunk)
		_, err := blob.WriteJSON(ctx, index.Store, key, letters[i], blob.Cond{Match: etags[i]})
		if fault.Is(err, fault.Precondition) {
			return fault.GenBusy.At("discard dead letter", letters[i].Chunk).
				Because("another command changed or removed it meanwhile").
				Advise("to see the current state: unweaver dead-letters list " + index.Name)
		}
		return err
	})
}

// LettersOf reads the dead letters of a generation, side by side, in the order of their keys. One that is removed
// meanwhile is left out.
func LettersOf(
	ctx context.Context, index artifact.Index, generation string,
) iter.Seq2[extract.DeadLetter, error] {
	keys := func(yield func(string, error) bool) {
		for info, err := range index.Store.List(ctx, extract.DeadLetterKey(index, generation, ""), "") {
			if !yield(info.Key, err) || err != nil {
				return
			}
		}
	}
	read := func(ctx context.Context, key string) (letter extract.DeadLetter, err error) {
		_, err = blob.ReadJSON(ctx, index.Store, key, &letter)
		if fault.Is(err, fault.NotFound) {
			err = nil
		}
		return letter, err
	}
	return func(yield func(extract.DeadLetter, error) bool) {
		for letter, err := range parallel.MapOrdered(ctx, LettersAtOnce, keys, read) {
			if (err != nil || letter.Chunk != "") && !yield(letter, err) || err != nil {
				return
			}
		}
	}
}

// LettersAtOnce is how many dead letters are carried at once.
const LettersAtOnce = 32
