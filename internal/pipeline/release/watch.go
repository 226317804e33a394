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
	watchBatch = 128 // questions are asked before the time is looked at
	watchTime  = 15 * time.Minute
	// shownPassages and shownQuote bound what a change shows of an answer; the second is in bytes.
	shownPassages, shownQuote = 20, 4 << 10
)

// AskWatched asks the standing questions of the index of the generation that the run published and of the one that
// answered them last, and keeps what changed. What keeps questions from being asked is in the report, and the next
// night that publishes asks them again: an error says that the run is not to go on, or that the artifact store fails. A
// repeated attempt asks all of them again, unless an earlier one kept what it found.
func (r *Run) AskWatched(ctx context.Context) error {
	questions, err := r.Index.ListQuestions(ctx)
	if artifact.IsDamage(err) {
		return r.Warn(ctx, core.Problem{
			Code: string(fault.CodeOf(err)), Object: "watch", Detail: err.Error() + ": remove all questions, and add them " +
				"again (unweaver watch remove --index " + r.Index.Name + " all)",
		})
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
	if err != nil || current.Generation != r.Generation || current.Manifest == last.Manifest {
		return err // an operator moved it since, or an earlier attempt kept what it found
	}
	now, err := r.openAsker(ctx, current.Manifest, max(1, r.Settings.Retrieval.TopChunks))
	if mustStop(ctx, err) {
		return err
	}
	if err != nil {
		return r.Warn(ctx, core.Problem{Code: string(fault.CodeOf(err)), Object: "watch", Detail: err.Error()})
	}
	defer now.generation.Close()
	n := watchNight{
		Run: r, now: now, began: time.Now(), found: core.Watched{Questions: len(questions)}, keys: map[core.Digest]bool{},
		next: artifact.LastWatch{Manifest: current.Manifest, Behind: map[string]string{}},
	}
	if err := n.ask(ctx, questions, last); err != nil {
		return err
	}
	if n.found.Asked < len(questions) { // the ledger keeps the vectors of those that were not asked
		for _, key := range last.Keys {
			n.keys[key] = true
		}
	}
	return n.save(ctx)
}

// watchNight asks the standing questions of an index for one run.
type watchNight struct {
	*Run
	now   *asker // of the published generation
	began time.Time
	found core.Watched
	next  artifact.LastWatch
	lines []byte // all changes

	mu   sync.Mutex
	keys map[core.Digest]bool // of vectors in the ledger
}

// save keeps what was found, and last of all that it was: an attempt that ends before asks again.
func (n *watchNight) save(ctx context.Context) error {
	if err := n.GuardLease(ctx); err != nil {
		return err
	}
	n.found.Failed += len(n.next.Behind)
	n.found.Seconds = time.Since(n.began).Seconds()
	if len(n.lines) > 0 {
		n.found.Path = n.Index.GenerationKey(n.Generation, artifact.WatchedName)
		if _, err := blob.Write(ctx, n.Index.Store, n.found.Path, n.lines, blob.Cond{}); err != nil {
			return err
		}
	}
	if err := n.changeReport(ctx, func(report *core.Report) {
		report.Watched = &n.found
		report.NoteProblem(core.Problem{Code: n.found.Code, Object: "watch", Detail: n.found.Problem})
	}); err != nil {
		return err
	}
	n.next.Keys = slices.SortedFunc(maps.Keys(n.keys), func(a, b core.Digest) int { return bytes.Compare(a[:], b[:]) })
	return n.Index.WriteLastWatch(ctx, n.next)
}

// ask asks all questions, each together with those that are compared with the same generation.
func (n *watchNight) ask(ctx context.Context, questions []core.Question, last artifact.LastWatch) error {
	ctx = ledger.WithNote(ctx, func(task string, key core.Digest) {
		if n.mu.Lock(); task == ledger.Embed {
			n.keys[key] = true
		}
		n.mu.Unlock()
	})
	groups := map[string][]core.Question{}
	for _, question := range questions {
		base := cmp.Or(last.Behind[question.ID], last.Manifest, n.now.generation.Manifest.Parent)
		if base != "" { // else there is nothing to compare with
			groups[base] = append(groups[base], question)
			n.next.Behind[question.ID] = base
		}
	}
	for _, base := range slices.Sorted(maps.Keys(groups)) {
		failed := n.compareWith(ctx, base, groups[base])
		if err := n.noteFailure(ctx, failed, ""); err != nil {
			return err
		}
		if failed != nil && fault.KindOf(failed) == fault.Transient { // the others would wait for the same
			break
		}
	}
	return nil
}

// noteFailure notes why questions are not compared, unless another reason is noted. It returns an error that says that
// the run is not to go on.
func (n *watchNight) noteFailure(ctx context.Context, err error, which string) error {
	if err == nil || mustStop(ctx, err) {
		return err
	}
	n.Log.Warn("standing questions not asked", "run_id", n.Name(), "code", string(fault.CodeOf(err)))
	if n.found.Code == "" {
		n.found.Code, n.found.Problem = string(fault.CodeOf(err)), which+err.Error()
	}
	return nil
}

// compareWith asks questions of a generation and of the published one. Those that an error keeps from being asked stay
// behind.
func (n *watchNight) compareWith(ctx context.Context, base string, questions []core.Question) error {
	before, err := n.openBase(ctx, base)
	if err != nil && fault.KindOf(err) != fault.Transient && !mustStop(ctx, err) {
		n.found.Failed += len(questions)
		for _, question := range questions { // the next night compares with this one
			delete(n.next.Behind, question.ID)
		}
		return n.noteFailure(ctx, err, fmt.Sprintf("%d questions are not compared, and what changed for them is not known: "+
			"the generation that they were asked of last cannot be read: ", len(questions)))
	}
	if err != nil {
		return err
	}
	defer before.generation.Close()
	since := before.generation.Manifest.Generation
	n.found.Since = min(cmp.Or(n.found.Since, since), since)
	slices.SortStableFunc(questions, func(a, b core.Question) int { return slices.Compare(a.Labels, b.Labels) })
	same := map[[2]string]bool{}
	for batch := range slices.Chunk(questions, watchBatch) {
		if limit := cmp.Or(n.WatchTime, watchTime); time.Since(n.began) > limit {
			return fault.Timeout.At("ask standing questions of", n.Index.Name).
				Because("it took more than " + limit.String() + ": the next night that publishes asks the rest")
		}
		due, err := n.chooseDue(ctx, batch, before, same)
		if err == nil && len(due) > 0 {
			err = n.compareBatch(ctx, due, before)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openBase opens a generation to compare with. What is left on this machine of one that was deleted is not read.
func (n *watchNight) openBase(ctx context.Context, sha string) (*asker, error) {
	manifest, err := n.Index.Manifest(ctx, sha)
	if err != nil {
		return nil, err
	}
	ref, err := artifact.Index{Store: n.Index.Store, Name: manifest.Index}.GenerationRef(ctx, manifest.Generation)
	if err == nil && ref.Manifest != sha {
		err = fault.NotFound.At("open generation", manifest.Generation).Because("it was collected")
	}
	if err != nil {
		return nil, err
	}
	return n.openAsker(ctx, sha, n.now.chunks)
}

// chooseDue returns the questions whose answers may have changed: not those of a reader who sees the same in both
// generations. same remembers what readers see.
func (n *watchNight) chooseDue(
	ctx context.Context, questions []core.Question, before *asker, same map[[2]string]bool,
) (due []core.Question, err error) {
	if !before.generation.HasLabels() || !n.now.generation.HasLabels() {
		return questions, nil
	}
	for _, question := range questions {
		readers := core.ReadersOf(question.Labels)
		was, err := before.generation.View(ctx, readers)
		var is *retrieve.Generation
		if err == nil {
			is, err = n.now.generation.View(ctx, readers)
		}
		if err != nil {
			return nil, err
		}
		n.Progress.Touch()
		pair := [2]string{was.ViewKey(), is.ViewKey()}
		if _, known := same[pair]; !known {
			digest := was.SeenDigest()
			n.Progress.Touch()
			same[pair] = digest == is.SeenDigest()
		}
		if same[pair] {
			n.found.Same++
			delete(n.next.Behind, question.ID)
		} else {
			due = append(due, question)
		}
	}
	return due, nil
}

// compareBatch asks both generations and notes what changed.
func (n *watchNight) compareBatch(ctx context.Context, questions []core.Question, before *asker) error {
	is, err := n.now.askEach(ctx, questions)
	if err != nil {
		return err
	}
	was, err := before.askEach(ctx, questions)
	if err != nil {
		return err
	}
	for i, question := range questions {
		failed := cmp.Or(is[i].err, was[i].err)
		if failed == nil && !slices.EqualFunc(was[i].found.Chunks, is[i].found.Chunks, isSameChunk) {
			failed = n.noteChange(ctx, question, was[i], is[i])
		}
		if failed == nil {
			n.found.Asked++
			delete(n.next.Behind, question.ID)
		}
		which := fmt.Sprintf("question %s (%.100s): ", question.ID, question.Question)
		if err := n.noteFailure(ctx, failed, which); err != nil {
			return err
		}
	}
	return nil
}

// isSameChunk reports whether two generations have a passage in common: its id follows from document and text. One of
// the same title and text is the same also where the document has another key: it was renamed.
func isSameChunk(a, b retrieve.Chunk) bool {
	return a.Live.ID == b.Live.ID || a.Live.Digest == b.Live.Digest
}

// noteChange notes a question whose passages changed, from what to what, and why. Nothing is shown of a document that
// the former generation let who asks read and that they may not read any more. So is one that is gone since documents
// had labels, if they have none now: everybody may read reports then.
func (n *watchNight) noteChange(ctx context.Context, question core.Question, was, is answered) (err error) {
	whole := n.now.generation
	hidden := func(document string) bool {
		return is.view.Live.FindDocument(document) < 0 &&
			(whole.Live.FindDocument(document) >= 0 || was.view.HasLabels() && !whole.HasLabels())
	}
	change := core.WatchedChange{Question: question, Because: addCauses([]core.Change{}, was, is, "removed", hidden)}
	change.Because = addCauses(change.Because, is, was, "added", hidden)
	if change.Before, err = n.describeAnswer(ctx, question.Question, was, hidden); err != nil {
		return err
	}
	if change.After, err = n.describeAnswer(ctx, question.Question, is, hidden); err != nil {
		return err
	}
	raw, err := json.Marshal(change)
	if err != nil {
		return fault.Internal.At("encode change of question", question.ID).Because(err)
	}
	if n.found.Changed++; n.found.Changed <= core.ShownWatched {
		n.found.Listed = append(n.found.Listed, change)
	}
	n.lines = append(append(n.lines, raw...), '\n')
	return nil
}

// addCauses adds the documents of passages which one answer has and the other does not, as far as the other side lacks
// these passages themselves: missing is what a document is that the other side lacks as a whole.
func addCauses(
	out []core.Change, has, lacks answered, missing string, hidden func(document string) bool,
) []core.Change {
	for _, chunk := range has.found.Chunks {
		renamed := func(other retrieve.Chunk) bool { return isSameChunk(chunk, other) }
		if lacks.view.Live.FindChunk(chunk.Live.ID) != nil || slices.ContainsFunc(lacks.found.Chunks, renamed) {
			continue
		}
		key, change := has.view.Live.Key(int(chunk.Live.Document)), "changed"
		switch {
		case hidden(key):
			key, change = "", "hidden"
		case lacks.view.Live.FindDocument(key) < 0:
			change = missing
		}
		if !slices.ContainsFunc(out, func(known core.Change) bool { return known.Object == key }) {
			out = append(out, core.Change{Change: change, Object: key})
		}
	}
	return out
}

// describeAnswer returns the passages that a generation found, and the sentences that answer, of documents that are not
// hidden.
func (n *watchNight) describeAnswer(
	ctx context.Context, question string, from answered, hidden func(document string) bool,
) (core.WatchedAnswer, error) {
	out := core.WatchedAnswer{Passages: []core.Citation{}, Reason: from.found.Reason}
	keyOf := func(chunk retrieve.Chunk) string { return from.view.Live.Key(int(chunk.Live.Document)) }
	from.found.Chunks = slices.DeleteFunc(slices.Clone(from.found.Chunks), func(chunk retrieve.Chunk) bool {
		return hidden(keyOf(chunk))
	})
	for _, chunk := range from.found.Chunks[:min(len(from.found.Chunks), shownPassages)] {
		out.Passages = append(out.Passages, core.Citation{
			Document: keyOf(chunk), Chunk: chunk.Live.ID.String(), Start: int(chunk.Live.Start), End: int(chunk.Live.End),
		})
	}
	quote, err := n.Quote(ctx, from.view, question, from.found)
	out.Quote = strings.ToValidUTF8(quote[:min(len(quote), shownQuote)], "")
	return out, err
}
