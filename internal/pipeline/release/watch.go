package release

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
)

const (
	// watchBatch is how many questions are asked before their results are let go of.
	watchBatch = 256
	// shownSeeds is how many entities a change lists.
	shownSeeds = 5
)

// AskWatched asks the standing questions of the index of the generation that the run published and of the one that
// answered them last, and keeps what changed. What keeps questions from being asked is in the result, and the next
// night asks them again: an error says that the run is not to go on, or that the artifact store fails. It may be
// repeated.
func (r *Run) AskWatched(ctx context.Context) error {
	questions, err := r.Index.ListQuestions(ctx)
	if artifact.IsDamage(err) {
		return run.WatchFile.Write(ctx, r.Scratch, run.Watch{Found: failedWatch(0, err)})
	}
	if err != nil || len(questions) == 0 {
		return err
	}
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil || current.Generation != r.Generation { // an operator moved it since
		return err
	}
	last, err := r.Index.ReadLastWatch(ctx)
	if err != nil || last.Manifest == current.Manifest { // they were asked before scratch was collected
		return err
	}
	fixed, err := r.ReadPlan(ctx)
	if fault.Is(err, fault.NotFound) { // scratch was collected: an earlier attempt did what can be done
		return nil
	}
	if err != nil {
		return err
	}
	last.Manifest = cmp.Or(last.Manifest, fixed.Parent)
	watch, err := run.MakeOnce(ctx, r.BaseRun(), run.WatchFile, func(ctx context.Context) (run.Watch, error) {
		night := watchNight{
			Run: r, current: current, parent: fixed.Parent, former: last, keys: map[core.Digest]bool{},
			last: artifact.LastWatch{
				Generation: current.Generation, Manifest: current.Manifest, Behind: map[string]string{},
			},
		}
		watch, err := night.ask(ctx, questions)
		if err == nil || mustStop(ctx, err) || fault.Is(err, fault.LeaseLost) {
			return watch, err
		}
		r.Log.Warn("standing questions not asked", "run_id", r.Name(), "code", string(fault.CodeOf(err)))
		return run.Watch{Found: failedWatch(len(questions), err), Last: last}, nil
	})
	if err != nil {
		return err
	}
	if err := r.GuardLease(ctx); err != nil {
		return err
	}
	return r.Index.WriteLastWatch(ctx, watch.Last)
}

// failedWatch returns what a night found that could ask none of its questions.
func failedWatch(questions int, err error) core.Watched {
	out := core.Watched{Questions: questions, Failed: questions}
	out.NoteFailure(string(fault.CodeOf(err)), err.Error())
	return out
}

// watchNight asks the standing questions of an index for one run.
type watchNight struct {
	*Run
	current core.Pointer
	parent  string // manifest of the generation that the run began with; empty: none
	former  artifact.LastWatch
	last    artifact.LastWatch
	found   core.Watched
	lines   bytes.Buffer         // all changes
	whole   *retrieve.Generation // that is published

	mu   sync.Mutex
	keys map[core.Digest]bool // of the ledger
}

// ask asks the questions, each together with those that are compared with the same generation.
func (n *watchNight) ask(ctx context.Context, questions []core.Question) (run.Watch, error) {
	began := time.Now()
	n.found.Questions = len(questions)
	ctx = ledger.WithNote(ctx, func(task string, key core.Digest) {
		if n.mu.Lock(); task == ledger.Embed {
			n.keys[key] = true
		}
		n.mu.Unlock()
	})
	now, err := n.openAsker(ctx, n.current.Manifest, max(1, n.Settings.Retrieval.TopChunks))
	if err != nil {
		return run.Watch{}, err
	}
	defer now.Close()
	n.whole = now.generation
	groups := map[string][]core.Question{}
	for _, question := range questions {
		base := cmp.Or(n.former.Behind[question.ID], n.former.Manifest, n.parent)
		groups[base] = append(groups[base], question)
	}
	for _, base := range slices.Sorted(maps.Keys(groups)) {
		if err := n.compareWith(ctx, base, now, groups[base]); err != nil {
			return run.Watch{}, err
		}
	}
	n.found.Seconds = time.Since(began).Seconds()
	n.last.Keys = slices.SortedFunc(maps.Keys(n.keys), func(a, b core.Digest) int { return bytes.Compare(a[:], b[:]) })
	if n.found.Changed > 0 {
		n.found.Path = n.Index.GenerationKey(n.Generation, artifact.WatchedName)
		if err := n.GuardLease(ctx); err != nil {
			return run.Watch{}, err
		}
		if _, err := blob.Write(ctx, n.Index.Store, n.found.Path, n.lines.Bytes(), blob.Cond{}); err != nil {
			return run.Watch{}, err
		}
	}
	return run.Watch{Found: n.found, Last: n.last}, nil
}

// compareWith asks questions of a generation and of the published one. Where the generation is gone, the one that the
// run began with stands in for it.
func (n *watchNight) compareWith(ctx context.Context, base string, now *asker, questions []core.Question) error {
	var before *asker
	if base != "" {
		var err error
		before, err = n.openAsker(ctx, base, now.chunks)
		if err != nil && fault.KindOf(err) != fault.Transient && base != n.parent && !mustStop(ctx, err) {
			return n.compareWith(ctx, n.parent, now, questions)
		}
		if mustStop(ctx, err) {
			return err
		}
		if err != nil {
			n.found.Failed += len(questions)
			n.found.NoteFailure(string(fault.CodeOf(err)), err.Error())
			if fault.KindOf(err) == fault.Transient {
				for _, question := range questions {
					n.last.Behind[question.ID] = base
				}
			}
			return nil
		}
		defer before.Close()
		n.found.Since = before.generation.Manifest.Generation
	}
	sortQuestions(questions)
	same := map[string]bool{}
	for batch := range slices.Chunk(questions, watchBatch) {
		due, err := n.chooseDue(ctx, batch, before, now, same)
		if err != nil {
			return err
		}
		if err := n.compareBatch(ctx, base, due, before, now); err != nil {
			return err
		}
	}
	return nil
}

// chooseDue returns the questions whose answers may have changed: not those of a reader who sees the same in both
// generations. same remembers what readers see.
func (n *watchNight) chooseDue(
	ctx context.Context, questions []core.Question, before, now *asker, same map[string]bool,
) ([]core.Question, error) {
	var due []core.Question
	for _, question := range questions {
		seesSame := false
		if before != nil && before.generation.HasLabels() && now.generation.HasLabels() {
			was, err := before.viewOf(ctx, question)
			if err != nil {
				return nil, err
			}
			is, err := now.viewOf(ctx, question)
			if err != nil {
				return nil, err
			}
			pair := was.ViewKey() + "\x00" + is.ViewKey()
			if _, known := same[pair]; !known {
				same[pair] = was.SeenDigest() == is.SeenDigest()
				n.Progress.Touch()
			}
			seesSame = same[pair]
		}
		if seesSame {
			n.found.Same++
		} else {
			due = append(due, question)
		}
	}
	return due, nil
}

// compareBatch asks both generations and notes what changed. Without a generation before there is nothing to compare.
func (n *watchNight) compareBatch(
	ctx context.Context, base string, questions []core.Question, before, now *asker,
) error {
	if before == nil || len(questions) == 0 {
		return nil
	}
	was, err := before.askEach(ctx, questions)
	if err != nil {
		return err
	}
	is, err := now.askEach(ctx, questions)
	if err != nil {
		return err
	}
	for i, question := range questions {
		if failed := cmp.Or(is[i].err, was[i].err); failed != nil {
			n.found.Failed++
			n.found.NoteFailure(string(fault.CodeOf(failed)), failed.Error())
			n.last.Behind[question.ID] = base
			continue
		}
		n.found.Asked++
		if slices.EqualFunc(was[i].found.Chunks, is[i].found.Chunks, isSameChunk) {
			continue
		}
		change, err := n.describeChange(ctx, question, was[i], is[i])
		if err != nil {
			return err
		}
		n.found.Changed++
		if len(n.found.Listed) < core.ShownWatched {
			n.found.Listed = append(n.found.Listed, change)
		}
		raw, err := json.Marshal(change)
		if err != nil {
			return fault.Internal.At("encode change of question", question.ID).Because(err)
		}
		n.lines.Write(append(raw, '\n'))
	}
	return nil
}

// isSameChunk reports whether two generations have a passage in common: an id follows from its document and its text.
func isSameChunk(a, b retrieve.Chunk) bool { return a.Live.ID == b.Live.ID }

// describeChange says from what to what an answer changed, and why.
func (n *watchNight) describeChange(
	ctx context.Context, question core.Question, was, is answered,
) (out core.WatchedChange, err error) {
	out.Question, out.Because = question, []core.Change{}
	if out.Before, err = n.describeAnswer(ctx, question, was, is.view); err != nil {
		return out, err
	}
	if out.After, err = n.describeAnswer(ctx, question, is, is.view); err != nil {
		return out, err
	}
	out.Because = append(n.findCauses(was, is, "removed"), n.findCauses(is, was, "added")...)
	seen := map[string]bool{}
	out.Because = slices.DeleteFunc(out.Because, func(change core.Change) bool {
		twice := seen[change.Object]
		seen[change.Object] = true
		return twice
	})
	if len(out.Because) > 0 {
		return out, nil
	}
	scores := map[core.ID]float64{}
	for _, chunk := range was.found.Chunks {
		scores[chunk.Live.ID] = chunk.Score
	}
	for _, chunk := range is.found.Chunks {
		if score, both := scores[chunk.Live.ID]; both {
			out.Moved = max(out.Moved, math.Abs(chunk.Score-score))
		}
	}
	out.Seeds = append(findSeeds(was, is, "left"), findSeeds(is, was, "came")...)
	return out, nil
}

// findCauses lists the documents of passages which one answer has and the other does not, as far as the other side
// lacks these passages themselves: missing is what a document is that the other side lacks as a whole.
func (n *watchNight) findCauses(has, lacks answered, missing string) []core.Change {
	out := []core.Change{}
	for _, chunk := range has.found.Chunks {
		if lacks.view.Live.FindChunk(chunk.Live.ID) != nil {
			continue
		}
		key, change := has.view.Live.Key(int(chunk.Live.Document)), "changed"
		switch {
		case n.isHidden(key, lacks.view):
			key, change = "", "hidden"
		case lacks.view.Live.FindDocument(key) < 0:
			change = missing
		}
		out = append(out, core.Change{Change: change, Object: key})
	}
	return out
}

// findSeeds lists entities which one search started from and the other did not.
func findSeeds(has, lacks answered, change string) (out []core.Change) {
	for _, entity := range has.found.Entities {
		same := func(other retrieve.Entity) bool { return other.ID == entity.ID }
		if len(out) < shownSeeds && !slices.ContainsFunc(lacks.found.Entities, same) {
			out = append(out, core.Change{Change: change, Object: entity.Name, ID: entity.ID.String()})
		}
	}
	return out
}

// isHidden reports whether who asks may not read a document of the published generation, which a former one let them
// read: nothing of it is shown to them any more.
func (n *watchNight) isHidden(document string, view *retrieve.Generation) bool {
	return view.Manifest.Generation == n.current.Generation && view.Live.FindDocument(document) < 0 &&
		n.whole.Live.FindDocument(document) >= 0
}

// describeAnswer returns the passages that a generation found, and the sentences that answer, as far as the view of the
// published generation has their documents or no document of that name is left.
func (n *watchNight) describeAnswer(
	ctx context.Context, question core.Question, from answered, view *retrieve.Generation,
) (core.WatchedAnswer, error) {
	out := core.WatchedAnswer{Passages: []core.Citation{}, Reason: from.found.Reason}
	from.found.Chunks = slices.DeleteFunc(slices.Clone(from.found.Chunks), func(chunk retrieve.Chunk) bool {
		return n.isHidden(from.view.Live.Key(int(chunk.Live.Document)), view)
	})
	for _, chunk := range from.found.Chunks {
		out.Passages = append(out.Passages, core.Citation{
			Document: from.view.Live.Key(int(chunk.Live.Document)), Chunk: chunk.Live.ID.String(),
			Start: int(chunk.Live.Start), End: int(chunk.Live.End),
		})
	}
	var err error
	if n.Quote != nil && len(from.found.Chunks) > 0 {
		out.Quote, err = n.Quote(ctx, from.view, question.Question, from.found)
	}
	return out, err
}
