package release

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
)

const (
	watchBatch = 128 // questions are asked before what was found is kept
	watchTime  = 15 * time.Minute
	// watchRefused is how many questions may fail for good before the rest of a batch is not tried one by one.
	watchRefused = 10
	// shownPassages and shownQuote bound what a change shows of an answer; the second is in bytes.
	shownPassages, shownQuote = 20, 4 << 10
)

// AskWatched asks the standing questions of the index of the generation that the run published and of the one that
// answered them last, and keeps what changed. What keeps questions from being asked is in the report, and the next
// night that publishes asks them again: an error says that the run is not to go on, or that the artifact store fails. A
// repeated attempt goes on where the last one ended.
func (r *Run) AskWatched(ctx context.Context) error {
	questions, err := r.Index.ListQuestions(ctx)
	if artifact.IsDamage(err) {
		found := core.Watched{}
		found.NoteFailure(string(fault.CodeOf(err)), err.Error()+": remove all questions, and add them again "+
			"(unweaver watch remove --index "+r.Index.Name+" all)")
		return r.reportWatched(ctx, found)
	}
	if err != nil {
		return err
	}
	last, err := r.Index.ReadLastWatch(ctx)
	if err != nil {
		return err
	}
	if len(questions) == 0 {
		if last.Manifest == "" {
			return nil
		}
		return r.Index.WriteLastWatch(ctx, artifact.LastWatch{})
	}
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil || current.Generation != r.Generation { // an operator moved it since
		return err
	}
	n := watchNight{Run: r, last: last, keys: map[core.Digest]bool{}, began: time.Now()}
	if last.Manifest != current.Manifest {
		err = n.beginRound(ctx, questions, current)
	} else { // an earlier attempt asked some, or all
		err = n.readLines(ctx)
	}
	if err != nil {
		return err
	}
	if !n.last.Open {
		return n.report(ctx)
	}
	n.seconds = n.last.Found.Seconds
	for _, key := range n.last.Keys {
		n.keys[key] = n.seconds > 0
	}
	err = n.ask(ctx, questions)
	if mustStop(ctx, err) {
		return err
	}
	if err != nil {
		r.Log.Warn("standing questions not asked", "run_id", r.Name(), "code", string(fault.CodeOf(err)))
		n.last.Found.NoteFailure(string(fault.CodeOf(err)), err.Error())
	}
	if n.last.Found.Asked == len(questions) { // else the ledger keeps those of questions that were not asked
		maps.DeleteFunc(n.keys, func(_ core.Digest, used bool) bool { return !used })
	}
	n.last.Open = false
	n.last.Found.Failed += len(n.last.Behind)
	if err := n.save(ctx); err != nil {
		return err
	}
	return n.report(ctx)
}

// reportWatched puts what was found into the report of the run.
func (r *Run) reportWatched(ctx context.Context, found core.Watched) error {
	return r.changeReport(ctx, func(report *core.Report) {
		report.Watched = &found
		report.NoteProblem(core.Problem{Code: found.Code, Object: "watch", Detail: found.Problem})
	})
}

// watchNight asks the standing questions of an index for one run.
type watchNight struct {
	*Run
	last    artifact.LastWatch
	began   time.Time
	seconds float64              // that earlier attempts took
	lines   []byte               // all changes
	written int                  // bytes of them that are kept
	refused int                  // questions that failed for good
	stopped bool                 // the questions left are for the next night
	whole   *retrieve.Generation // that is published

	mu   sync.Mutex
	keys map[core.Digest]bool // of the ledger; true: this night used it
}

// beginRound notes which generation each question is compared with.
func (n *watchNight) beginRound(ctx context.Context, questions []core.Question, current core.Pointer) error {
	manifest, err := n.Index.ManifestOf(ctx, current)
	if err != nil {
		return err
	}
	behind := make(map[string]string, len(questions))
	for _, question := range questions {
		behind[question.ID] = cmp.Or(n.last.Behind[question.ID], n.last.Manifest, manifest.Parent)
	}
	n.last = artifact.LastWatch{
		Generation: current.Generation, Manifest: current.Manifest, Keys: n.last.Keys, Behind: behind, Open: true,
		Found: core.Watched{Questions: len(questions)},
	}
	return nil
}

// readLines reads the changes that an earlier attempt kept. One that it did not count is found again.
func (n *watchNight) readLines(ctx context.Context) error {
	if n.last.Found.Changed == 0 {
		return nil
	}
	raw, _, err := blob.Read(ctx, n.Index.Store, n.linesKey())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	kept := 0
	for line := range bytes.Lines(raw) {
		if kept++; kept <= n.last.Found.Changed {
			n.lines = append(n.lines, line...)
		}
	}
	n.written = len(n.lines)
	return nil
}

func (n *watchNight) linesKey() string {
	return n.Index.GenerationKey(n.Generation, artifact.WatchedName)
}

// save keeps what was found so far, and which questions are still to be asked.
func (n *watchNight) save(ctx context.Context) error {
	if err := n.GuardLease(ctx); err != nil {
		return err
	}
	if len(n.lines) > n.written {
		if _, err := blob.Write(ctx, n.Index.Store, n.linesKey(), n.lines, blob.Cond{}); err != nil {
			return err
		}
		n.last.Found.Path, n.written = n.linesKey(), len(n.lines)
	}
	n.mu.Lock()
	n.last.Keys = slices.SortedFunc(maps.Keys(n.keys), func(a, b core.Digest) int { return bytes.Compare(a[:], b[:]) })
	n.mu.Unlock()
	n.last.Found.Seconds = n.seconds + time.Since(n.began).Seconds()
	if err := n.Index.WriteLastWatch(ctx, n.last); err != nil {
		return err
	}
	return n.ChangeState(ctx, func(state *core.RunState) { state.Report.Watched = new(n.last.Found) })
}

// report puts what was found into the report of the run, with the first changes.
func (n *watchNight) report(ctx context.Context) error {
	found := n.last.Found
	for line := range bytes.Lines(n.lines) {
		var change core.WatchedChange
		if err := json.Unmarshal(line, &change); err != nil {
			return fault.SegmentDamage.At("read", n.Index.Store.Location(n.linesKey())).Because(err)
		}
		if found.Listed = append(found.Listed, change); len(found.Listed) == core.ShownWatched {
			break
		}
	}
	return n.reportWatched(ctx, found)
}

// ask asks the questions that are behind, each together with those that are compared with the same generation.
func (n *watchNight) ask(ctx context.Context, questions []core.Question) error {
	ctx = ledger.WithNote(ctx, func(task string, key core.Digest) {
		if n.mu.Lock(); task == ledger.Embed {
			n.keys[key] = true
		}
		n.mu.Unlock()
	})
	now, err := n.openAsker(ctx, n.last.Manifest, max(1, n.Settings.Retrieval.TopChunks))
	if err != nil {
		return err
	}
	defer now.Close()
	n.whole = now.generation
	groups, known := map[string][]core.Question{}, map[string]bool{}
	for _, question := range questions {
		if base, due := n.last.Behind[question.ID]; due {
			groups[base] = append(groups[base], question)
			known[question.ID] = true
		}
	}
	maps.DeleteFunc(n.last.Behind, func(id, _ string) bool { return !known[id] }) // removed since
	for _, base := range slices.Sorted(maps.Keys(groups)) {
		if n.stopped {
			break
		}
		if err := n.compareWith(ctx, base, now, groups[base]); err != nil {
			return err
		}
	}
	return nil
}

// compareWith asks questions of a generation and of the published one. Where the generation was collected, the parent
// of the published one stands in for it.
func (n *watchNight) compareWith(ctx context.Context, base string, now *asker, questions []core.Question) error {
	if base == "" { // there is nothing to compare with
		n.settle(questions)
		return nil
	}
	before, err := n.openBase(ctx, base, now.chunks)
	if parent := n.whole.Manifest.Parent; err != nil && fault.KindOf(err) != fault.Transient && parent != "" &&
		base != parent && !mustStop(ctx, err) {
		gone := err
		if before, err = n.openBase(ctx, parent, now.chunks); err == nil {
			n.last.Found.NoteFailure(string(fault.CodeOf(gone)), fmt.Sprintf("%d questions are compared with %s, as the "+
				"generation that they were asked of last cannot be read: %v", len(questions),
				before.generation.Manifest.Generation, gone))
		}
	}
	switch {
	case mustStop(ctx, err):
		return err
	case err != nil && fault.KindOf(err) == fault.Transient:
		n.stop(err)
		return nil
	case err != nil:
		n.last.Found.Failed += len(questions)
		n.last.Found.NoteFailure(string(fault.CodeOf(err)), fmt.Sprintf("%d questions are not compared, and what changed "+
			"for them is not known: the generation that they were asked of last cannot be read: %v", len(questions), err))
		n.settle(questions)
		return nil
	}
	defer before.Close()
	since := before.generation.Manifest.Generation
	n.last.Found.Since = min(cmp.Or(n.last.Found.Since, since), since)
	slices.SortStableFunc(questions, func(a, b core.Question) int { return slices.Compare(a.Labels, b.Labels) })
	same := map[string]bool{}
	for batch := range slices.Chunk(questions, watchBatch) {
		limit := cmp.Or(n.WatchTime, watchTime)
		if time.Since(n.began).Seconds()+n.seconds > limit.Seconds() {
			n.stop(fault.Timeout.At("ask standing questions of", n.Index.Name).
				Because("it took more than " + limit.String() + ": the next night that publishes asks the rest"))
			return nil
		}
		due, err := n.chooseDue(ctx, batch, before, now, same)
		if err == nil {
			err = n.compareBatch(ctx, due, before, now)
		}
		if err != nil {
			return err
		}
		if n.stopped {
			return nil
		}
		if err := n.save(ctx); err != nil {
			return err
		}
	}
	return nil
}

// openBase opens a generation to compare with. What is left on this machine of one that was deleted is not read.
func (n *watchNight) openBase(ctx context.Context, sha string, chunks int) (*asker, error) {
	manifest, err := n.Index.Manifest(ctx, sha)
	if err != nil {
		return nil, err
	}
	from := artifact.Index{Store: n.Index.Store, Name: manifest.Index}
	ref, err := from.GenerationRef(ctx, manifest.Generation)
	if err == nil && ref.Manifest != sha {
		err = fault.NotFound.At("open generation", manifest.Generation).Because("it was collected")
	}
	if err != nil {
		return nil, err
	}
	return n.openAsker(ctx, sha, chunks)
}

// stop leaves the questions that are behind to the next night.
func (n *watchNight) stop(why error) {
	n.stopped = true
	n.last.Found.NoteFailure(string(fault.CodeOf(why)), why.Error())
}

// settle takes questions out of those that are behind.
func (n *watchNight) settle(questions []core.Question) {
	for _, question := range questions {
		delete(n.last.Behind, question.ID)
	}
}

// chooseDue returns the questions whose answers may have changed: not those of a reader who sees the same in both
// generations. same remembers what readers see.
func (n *watchNight) chooseDue(
	ctx context.Context, questions []core.Question, before, now *asker, same map[string]bool,
) (due []core.Question, err error) {
	if !before.generation.HasLabels() || !now.generation.HasLabels() {
		return questions, nil
	}
	for _, question := range questions {
		readers := core.ReadersOf(question.Labels)
		was, err := before.generation.View(ctx, readers)
		if err != nil {
			return nil, err
		}
		is, err := now.generation.View(ctx, readers)
		if err != nil {
			return nil, err
		}
		n.Progress.Touch()
		pair := was.ViewKey() + "\x00" + is.ViewKey()
		if _, known := same[pair]; !known {
			digest := was.SeenDigest()
			n.Progress.Touch()
			same[pair] = digest == is.SeenDigest()
		}
		if same[pair] {
			n.last.Found.Same++
			delete(n.last.Behind, question.ID)
		} else {
			due = append(due, question)
		}
	}
	return due, nil
}

// compareBatch asks both generations and notes what changed. Questions that cannot be asked together for a reason that
// stays are asked in smaller batches, so that one does not silence the others.
func (n *watchNight) compareBatch(ctx context.Context, questions []core.Question, before, now *asker) error {
	if len(questions) == 0 || n.stopped {
		return nil
	}
	is, err := now.askEach(ctx, questions)
	var was []answered
	if err == nil {
		was, err = before.askEach(ctx, questions)
	}
	switch {
	case mustStop(ctx, err):
		return err
	case err != nil && fault.KindOf(err) == fault.Transient:
		n.stop(err)
		return nil
	case err != nil && len(questions) > 1 && n.refused < watchRefused:
		half := len(questions) / 2
		if err := n.compareBatch(ctx, questions[:half], before, now); err != nil {
			return err
		}
		return n.compareBatch(ctx, questions[half:], before, now)
	}
	for i, question := range questions {
		failed := err
		if err == nil {
			failed = cmp.Or(is[i].err, was[i].err)
		}
		if failed != nil {
			n.refused++
			n.stopped = n.stopped || fault.KindOf(failed) == fault.Transient
			n.last.Found.NoteFailure(string(fault.CodeOf(failed)),
				fmt.Sprintf("question %s (%.100s): %v", question.ID, question.Question, failed))
			continue
		}
		if err := n.compareAnswers(ctx, question, was[i], is[i]); err != nil {
			return err
		}
	}
	return nil
}

// compareAnswers notes a question whose passages changed.
func (n *watchNight) compareAnswers(ctx context.Context, question core.Question, was, is answered) error {
	n.last.Found.Asked++
	delete(n.last.Behind, question.ID)
	if slices.EqualFunc(was.found.Chunks, is.found.Chunks, isSameChunk) {
		return nil
	}
	change, err := n.describeChange(ctx, question, was, is)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(change)
	if err != nil {
		return fault.Internal.At("encode change of question", question.ID).Because(err)
	}
	n.last.Found.Changed++
	n.lines = append(append(n.lines, raw...), '\n')
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
		case n.isHidden(key, has.view, lacks.view):
			key, change = "", "hidden"
		case lacks.view.Live.FindDocument(key) < 0:
			change = missing
		}
		out = append(out, core.Change{Change: change, Object: key})
	}
	return out
}

// isHidden reports whether who asks may not read a document of the published generation, which a former one let them
// read: nothing of it is shown to them any more. So is one that is gone since documents had labels, if they have none
// now: everybody may read reports then.
func (n *watchNight) isHidden(document string, from, view *retrieve.Generation) bool {
	return view.Manifest.Generation == n.last.Generation && view.Live.FindDocument(document) < 0 &&
		(n.whole.Live.FindDocument(document) >= 0 || from.HasLabels() && !n.whole.HasLabels())
}

// describeAnswer returns the passages that a generation found, and the sentences that answer, as far as the view of the
// published generation has their documents or no document of that name is left.
func (n *watchNight) describeAnswer(
	ctx context.Context, question core.Question, from answered, view *retrieve.Generation,
) (core.WatchedAnswer, error) {
	out := core.WatchedAnswer{Passages: []core.Citation{}, Reason: from.found.Reason}
	from.found.Chunks = slices.DeleteFunc(slices.Clone(from.found.Chunks), func(chunk retrieve.Chunk) bool {
		return n.isHidden(from.view.Live.Key(int(chunk.Live.Document)), from.view, view)
	})
	for _, chunk := range from.found.Chunks[:min(len(from.found.Chunks), shownPassages)] {
		out.Passages = append(out.Passages, core.Citation{
			Document: from.view.Live.Key(int(chunk.Live.Document)), Chunk: chunk.Live.ID.String(),
			Start: int(chunk.Live.Start), End: int(chunk.Live.End),
		})
	}
	var err error
	if n.Quote != nil && len(from.found.Chunks) > 0 {
		out.Quote, err = n.Quote(ctx, from.view, question.Question, from.found)
		out.Quote = strings.ToValidUTF8(out.Quote[:min(len(out.Quote), shownQuote)], "")
	}
	return out, err
}
