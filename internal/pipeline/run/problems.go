package run

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/chunk"
	"github.com/unweaver/unweaver/internal/stage/extract"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// ProblemsKey returns where the list of all problems of the build lies; scratch goes, it stays with its generation.
func (r *Run) ProblemsKey() string { return r.Index.GenerationKey(r.Generation, plan.ProblemsName) }

// KeepProblems writes the list, one JSON object a line: those of plan, then those of the units in their order, then
// tags that are refused.
func (r *Run) KeepProblems(ctx context.Context, units int) error {
	file, err := artifact.NewFile()
	if err != nil {
		return err
	}
	defer file.Discard()
	fixed, err := ReadKept(ctx, r, PlanFile)
	if err != nil {
		return err
	}
	keys := []string{artifact.ScratchKey(plan.ProblemsKey(r.Scratch.Prefix), fixed.Plan.ProblemsFile)}
	unit, untagged, unlabelled := 0, fixed.Plan.Untagged, fixed.Plan.Unlabelled
	for chunked, err := range ReadEach(ctx, r, units, ChunkFile) {
		if err != nil {
			return err
		}
		untagged.Add(chunked.Untagged)
		unlabelled.Add(chunked.Unlabelled)
		if chunked.ProblemCount > 0 {
			keys = append(keys, artifact.ScratchKey(chunk.ProblemsKey(r.Scratch.Prefix, unit), chunked.ProblemsFile))
		}
		unit++
	}
	for _, key := range keys {
		if err := r.appendTo(ctx, file, key); err != nil {
			return err
		}
	}
	for _, problem := range listLacking(untagged, unlabelled) {
		if err := json.NewEncoder(file).Encode(plan.Problem{Problem: problem}); err != nil {
			return err
		}
	}
	return file.Put(ctx, r.Artifacts, r.ProblemsKey())
}

// appendTo copies a list of problems; one that is not there is empty.
func (r *Run) appendTo(ctx context.Context, file io.Writer, key string) error {
	body, _, err := r.Artifacts.Get(ctx, key, blob.All)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(file, body)
	return errors.Join(err, body.Close())
}

// listLacking returns one problem of all documents without tags, and one of those without labels.
func listLacking(untagged, unlabelled stage.Lacking) (problems []core.Problem) {
	if untagged.Documents > 0 {
		problems = append(problems, untagged.UntaggedProblem())
	}
	if unlabelled.Documents > 0 {
		problems = append(problems, unlabelled.UnlabelledProblem())
	}
	return problems
}

// AddChunked adds what the units of chunk found to what plan reported. What they cannot use was not added.
func (r *Run) AddChunked(ctx context.Context, report *core.Report, planned plan.Result) {
	failed, empty, untagged, unlabelled := planned.Kept.Failed, planned.Kept.Empty, planned.Untagged, planned.Unlabelled
	read := func(ctx context.Context, unit int) (*chunk.Result, error) {
		chunked, err := ChunkFile(unit).Read(ctx, r.Scratch)
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // it did not come to that
		}
		return &chunked, nil
	}
	for chunked, err := range parallel.MapOrdered(ctx, readWidth, parallel.Numbers(len(planned.Units)), read) {
		if err != nil {
			break
		}
		if chunked == nil {
			continue
		}
		report.Problems = plan.OrderProblems(append(report.Problems, chunked.Problems...))
		report.ProblemsTotal += chunked.ProblemCount
		failed += chunked.Failed
		empty += chunked.Empty
		untagged.Add(chunked.Untagged)
		unlabelled.Add(chunked.Unlabelled)
		report.Diff.Added = max(0, report.Diff.Added-chunked.Unadded)
	}
	for _, problem := range listLacking(untagged, unlabelled) { // no list of others pushes it out
		report.Problems = plan.OrderProblems(slices.Insert(report.Problems, 0, problem))
		report.ProblemsTotal++
	}
	report.DocumentsFailed = max(report.DocumentsFailed, failed)
	report.DocumentsEmpty = max(report.DocumentsEmpty, empty)
}

// FailedChunks adds the chunks from which nothing was extracted, the first of them by name: those of this run, or of
// the generation that still stands. What cannot be read now is reported by its code alone, or is left out.
func (r *Run) FailedChunks(ctx context.Context, report *core.Report, manifest *core.Manifest) {
	if manifest.Counts.DeadLetters == 0 {
		return
	}
	var letters []extract.DeadLetter
	if parts, err := PartitionsFile.Read(ctx, r.Scratch); err == nil && manifest.Generation == r.Generation {
		for _, failed := range parts.Failed {
			letters = append(letters, extract.DeadLetter{
				Chunk: failed.Chunk, Document: failed.Document, Ordinal: failed.Ordinal, Reason: failed.Reason,
			})
		}
	} else {
		letters = r.standingLetters(ctx, manifest.Generation)
	}
	_ = parallel.Each(ctx, len(letters), lettersWidth, func(ctx context.Context, i int) error {
		var found extract.DeadLetter
		key := extract.DeadLetterKey(r.Index, manifest.Generation, letters[i].Chunk)
		if _, err := blob.ReadJSON(ctx, r.Artifacts, key, &found); err == nil {
			letters[i] = found
		}
		return nil
	})
	for _, letter := range letters {
		if letter.Document != "" {
			report.Problems = append(report.Problems, letter.Problem())
		}
	}
	report.Problems = plan.OrderProblems(report.Problems)
	report.ProblemsTotal += manifest.Counts.DeadLetters
}

// lettersWidth is how many dead letters are read at once.
const lettersWidth = 16

// standingLetters returns the first dead letters of a generation, by the ids of their chunks alone.
func (r *Run) standingLetters(ctx context.Context, generation string) (letters []extract.DeadLetter) {
	folder := extract.DeadLetterKey(r.Index, generation, "")
	for info, err := range r.Artifacts.List(ctx, folder, "") {
		if err != nil || len(letters) == plan.MaxProblems {
			break
		}
		chunk := strings.TrimSuffix(strings.TrimPrefix(info.Key, folder), ".json")
		letters = append(letters, extract.DeadLetter{Chunk: chunk})
	}
	return letters
}

// unshown are problems of runs that could not be written down where status reads them: of each run the last of a unit.
type unshown struct {
	mu    sync.Mutex
	byRun map[string]map[string]core.Problem
}

// Set keeps a problem in memory, or forgets it because it was written down.
func (u *unshown) Set(run, key string, problem core.Problem, keep bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !keep {
		delete(u.byRun[run], key)
		return
	}
	if u.byRun == nil {
		u.byRun = map[string]map[string]core.Problem{}
	}
	if u.byRun[run] == nil {
		u.byRun[run] = map[string]core.Problem{}
	}
	u.byRun[run][key] = problem
}

func (u *unshown) forgetRun(run string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.byRun, run)
}

// ListProblems says what keeps a run from going on in this process and may be written down nowhere, since the store
// that is full, or away, is the one to write it to.
func (p *Ports) ListProblems(run string) []core.Problem {
	var out []core.Problem
	if p.Ledger != nil {
		if err := p.Ledger.FindTrouble(); err != nil {
			out = append(out, core.Problem{
				Code: string(fault.CodeOf(err)), Object: "ledger",
				Detail: "paid results stay in memory until they can be stored: " + err.Error(),
			})
		}
	}
	p.Unshown.mu.Lock()
	defer p.Unshown.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(p.Unshown.byRun[run])) {
		out = append(out, p.Unshown.byRun[run][key])
	}
	return out
}
