package unit

import (
	"bytes"
	"context"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	stored "github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/join"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/stage/reduce"
	"github.com/unweaver/unweaver/internal/stage/segment"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// OpenTable opens what counts in a generation; release it.
func (r *Run) OpenTable(ctx context.Context, manifest *core.Manifest) (*stored.Table, error) {
	return stored.OpenTable(ctx, r.Cache, r.Index, manifest)
}

// OpenTombs opens which documents of a parent do not count. Release it.
func (r *Run) OpenTombs(ctx context.Context, parent *core.Manifest) (*stored.Files, func(), error) {
	if parent == nil {
		return nil, func() {}, nil
	}
	files, err := stored.OpenTombs(ctx, r.Cache, r.Index, parent.Segments)
	if err != nil {
		return nil, func() {}, err
	}
	return files, files.Release, nil
}

// IsPartial reports whether a build makes a part of a generation and leaves the rest of the parent's segments as they
// are: where nothing but documents changed. Everything else is made from all documents, with what is paid taken over;
// other limits may let other titles and texts in.
func (r *Run) IsPartial(fixed run.Plan, parent *core.Manifest, reasons []string) bool {
	return parent != nil && !fixed.Rebuild && !fixed.Foreign && len(reasons) == 0 && len(fixed.Damage) == 0 &&
		parent.Limits == r.Limits.Key()
}

// Refused reports the documents of a parent with chunks that the model server refused: the next night asks again. In a
// round of retry-failed it reports those that the round is for. nil where there are none, or all documents are made
// anyway.
func (r *Run) Refused(
	ctx context.Context, fixed run.Plan, parent *core.Manifest,
) (retry func(key string) bool, err error) {
	if !fixed.Part || fixed.Purge != "" || parent.Counts.Refused == 0 && r.Attempt == 0 { // a purge leaves it to a night
		return nil, nil
	}
	chosen, err := r.ChosenLetters(ctx)
	if err != nil {
		return nil, err
	}
	documents := map[string]bool{}
	for letter, err := range run.LettersOf(ctx, r.Index, parent.Generation) {
		if err != nil {
			return nil, err
		}
		if r.Attempt == 0 && letter.Reason == string(fault.ModelRefused) || r.Attempt > 0 && chosen(letter) {
			documents[letter.Document] = true
		}
		r.Progress.Touch()
	}
	return func(key string) bool { return documents[key] }, nil
}

// night is a build that makes a part of a generation, beside its parent.
type night struct {
	*Run
	fixed  run.Plan
	parent *core.Manifest
	table  *stored.Table
	ended  map[int]map[uint32]bool // of each split the documents that do not count any more
}

// OpenNight opens the parent, and finds what of it does not count any more; nil where all of a generation is made.
// Release it.
func (r *Run) OpenNight(ctx context.Context) (*night, func(), error) {
	none := func() {}
	fixed, err := run.ReadKept(ctx, r.BaseRun(), run.PlanFile)
	if err != nil || !fixed.Part {
		return nil, none, err
	}
	parent, err := r.ReadParent(ctx, fixed.Parent)
	if err != nil {
		return nil, none, err
	}
	n := &night{Run: r, fixed: fixed, parent: parent, ended: map[int]map[uint32]bool{}}
	if n.table, err = r.OpenTable(ctx, parent); err != nil {
		return nil, none, err
	}
	keys, err := r.goneKeys(ctx, fixed)
	if err != nil {
		n.table.Release()
		return nil, none, err
	}
	for _, key := range keys {
		place, ok := n.table.FindDocument(key)
		if !ok {
			n.table.Release()
			return nil, none, fault.Internal.At("take out document", fault.QuoteName(key)).
				Because("it does not count in the generation before").
				Advise("report this; " + r.Index.AdviseRebuild())
		}
		if n.ended[place.Segment] == nil {
			n.ended[place.Segment] = map[uint32]bool{}
		}
		n.ended[place.Segment][uint32(place.Row)] = true
	}
	return n, n.table.Release, nil
}

// goneKeys reads the keys of documents of the parent that do not count any more: each process once, as each unit needs
// them.
func (r *Run) goneKeys(ctx context.Context, fixed run.Plan) ([]string, error) {
	file := r.goneKey(fixed)
	if known, ok := r.Kept.Get(file); ok {
		return known.([]string), nil //nolint:forcetypeassert // the name of a file says of what type it is
	}
	keys := []string{}
	for row, err := range artifact.ScanAll(ctx, r.Artifacts, file) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, string(row.Key))
	}
	r.Kept.Put(file, keys)
	return keys, nil
}

// goneKey returns where the keys of documents of the parent lie that do not count any more.
func (r *Run) goneKey(fixed run.Plan) string {
	return artifact.ScratchKey(plan.GoneKey(r.Scratch.Prefix), fixed.Plan.Gone)
}

// CountGone counts the chunks that do not count any more.
func (n *night) CountGone() (out core.Counts) {
	for number, documents := range n.ended {
		file := n.table.Splits[number]
		for row := range documents {
			document := file.Documents[row]
			for i := range document.Count {
				out.Chunks++
				out.Tokens += int64(file.Chunks[document.Chunks+i].Tokens)
			}
		}
	}
	return out
}

// newReduceNight returns what reduce finds of the parent.
func (n *night) newReduceNight() (*reduce.Night, error) {
	out := &reduce.Night{Ended: n.endedClasses}
	for number, one := range n.parent.Segments.Splits {
		parts, err := stored.SelectParts(n.parent.Segments.Mentions, "mentions", one.Extract, one.Extracts)
		if err != nil {
			return nil, err
		}
		file, dead, ended := n.table.Splits[number], n.table.DeadRows(one.SHA256), n.ended[number]
		for i, part := range parts {
			base := int64(segment.FirstChunk(file, i))
			document := func(chunk int64) (row uint32, ok bool) {
				if at := base + chunk; chunk >= 0 && at < int64(len(file.Chunks)) {
					row = file.Chunks[at].Document
					return row, dead == nil || !dead(int(row))
				}
				return 0, false
			}
			out.Parts = append(out.Parts, reduce.Part{
				Segment: part,
				Was: func(chunk int64) bool {
					_, counted := document(chunk)
					return counted
				},
				Is: func(chunk int64) bool {
					row, counted := document(chunk)
					return counted && !ended[row]
				},
			})
		}
	}
	return out, nil
}

// endedClasses gives the classes in a range of ids that chunks mention which do not count any more. The tables of the
// splits that they are in are walked in memory.
func (n *night) endedClasses(from, to string) []core.ID {
	var out []core.ID
	for number := range n.parent.Segments.Splits {
		ended := n.ended[number]
		if len(ended) == 0 {
			continue
		}
		file := n.table.Splits[number]
		var first core.ID
		copy(first[:], from)
		for class := file.ClassFrom(first); class < len(file.ClassIDs); class++ {
			id := file.ClassIDs[class]
			if to != "" && bytes.Compare(id[:], []byte(to)) >= 0 {
				break
			}
			for _, chunk := range file.ChunksOf(class) {
				if ended[file.Chunks[chunk].Document] {
					out = append(out, id)
					break
				}
			}
		}
	}
	return out
}

// carryLetters writes the dead letters of chunks that count still beside those of this generation's own, and counts
// them.
func (n *night) carryLetters(ctx context.Context, out *run.Partitions) error {
	if n.parent.Counts.DeadLetters == 0 {
		return nil
	}
	carry := func(ctx context.Context, letter extract.DeadLetter) (*extract.DeadLetter, error) {
		place, counts := n.table.FindDocument(letter.Document)
		if !counts || n.ended[place.Segment][uint32(place.Row)] {
			return nil, nil
		}
		_, err := blob.WriteJSON(ctx, n.Artifacts, extract.DeadLetterKey(n.Index, n.Generation, letter.Chunk), letter,
			blob.Cond{})
		return &letter, err
	}
	letters := run.LettersOf(ctx, n.Index, n.parent.Generation)
	for letter, err := range parallel.MapOrdered(ctx, run.LettersAtOnce, letters, carry) {
		if err != nil {
			return err
		}
		if letter == nil {
			continue
		}
		if out.Dead++; len(out.Failed) < plan.MaxProblems {
			out.Failed = append(out.Failed, extract.Failed{
				Chunk: letter.Chunk, Document: letter.Document, Ordinal: letter.Ordinal, Reason: letter.Reason,
			})
		}
		n.Progress.Touch()
	}
	return nil
}

// endedKeys returns where load wrote the rows of classes that do not count any more.
func (r *Run) endedKeys(ctx context.Context, partitions int) ([]string, error) {
	var keys []string
	for loaded, err := range run.ReadEach(ctx, r.BaseRun(), partitions, run.LoadFile) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, artifact.ScratchKey(join.EndedKey(r.Scratch.Prefix, len(keys)), loaded.Ended))
	}
	return keys, nil
}

// numbers are those of the first parts of what a build writes: behind those of its parent, where it leaves these as
// they are.
type numbers struct{ text, extract, class int }

func (n *night) nextNumbers() numbers {
	if n == nil {
		return numbers{}
	}
	next := func(list []core.Segment) (number int) {
		for _, segment := range list {
			number = max(number, segment.Part+1)
		}
		return number
	}
	listed := n.parent.Segments
	return numbers{text: next(listed.Text), extract: next(listed.Extract), class: next(listed.Classes)}
}
