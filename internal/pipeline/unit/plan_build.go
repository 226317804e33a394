package unit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/stage/publish"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Planned is what the rest of the run is steered by.
type Planned struct {
	Unchanged bool
	Status    string // of an unchanged night: completed, or with errors while problems stand
	Rebuild   bool   // Job.Rebuild of everything that follows
	Held      string
	Repair    int // parts to verify and rewrite, of all kept generations
	Units     int
	Documents int64
	Spec      string // digest by which the run goes on; empty: its own
}

// Plan lists the corpus, compares it with the parent and fixes what the rest of the run depends on.
func (r *Run) Plan(ctx context.Context) (Planned, error) {
	fixed, err := run.MakeOnce(ctx, r.BaseRun(), run.PlanFile, r.planBuild)
	if err != nil {
		return Planned{}, err
	}
	out := Planned{
		Unchanged: fixed.Plan.Unchanged, Held: fixed.Held, Rebuild: fixed.Rebuild,
		Units: len(fixed.Plan.Units), Documents: fixed.Plan.Made, Spec: fixed.Spec,
	}
	if out.Unchanged {
		if out.Status, err = r.ReadQuietStatus(ctx, fixed); err != nil {
			return out, err
		}
		if fixed.Plan.ProblemCount+fixed.Plan.Untagged.Documents+fixed.Plan.Unlabelled.Documents > 0 {
			if err := r.KeepProblems(ctx, 0); err != nil {
				return out, err
			}
		}
	}
	if out.Held != "" {
		return out, run.HeldFile.Write(ctx, r.Scratch, run.Failure{Code: fixed.Held, Text: fixed.HeldDetail})
	}
	if fixed.Repair {
		parts, err := run.MakeOnce(ctx, r.BaseRun(), run.RepairFile, r.ListParts)
		if err != nil {
			return out, err
		}
		out.Repair = len(parts)
	}
	return out, nil
}

// ReadQuietStatus returns how a night ends that has nothing to do: problems are reported as long as they stand.
func (r *Run) ReadQuietStatus(ctx context.Context, fixed run.Plan) (string, error) {
	parent, err := r.ReadParent(ctx, fixed.Parent)
	if err != nil {
		return "", err
	}
	if fixed.Plan.Unreadable+fixed.Plan.Lost+parent.Counts.Failed+parent.Counts.DeadLetters > 0 {
		return core.StatusErrors, nil
	}
	return core.StatusCompleted, nil
}

// admitBuild refuses a run before it reads anything of the corpus, and finds whose segments it shares.
func (r *Run) admitBuild(ctx context.Context, fixed *run.Plan) error {
	if why := r.Settings.CheckLabels(); why != "" {
		return fault.BadConfig.At("build", r.Job.Index).Because(why).Advise("correct indexes." + r.Job.Index +
			".documents.labels (docs/guides/labels.md)")
	}
	if err := publish.CheckUnused(ctx, r.Index, r.Generation); err != nil { // two starters may have used one name
		return err
	}
	if err := run.RefusePulled(ctx, r.Index); err != nil {
		return err
	}
	if _, err := r.ReadProbes(ctx); err != nil {
		return err
	}
	return r.ReadLineage(ctx, fixed)
}

func (r *Run) planBuild(ctx context.Context) (run.Plan, error) {
	fixed := run.Plan{Started: time.Now().UTC(), Rebuild: r.Rebuild}
	if err := r.admitBuild(ctx, &fixed); err != nil {
		return fixed, err
	}
	parent, reasons, err := r.findParent(ctx, &fixed)
	if err != nil {
		return fixed, err
	}
	language, err := r.FindLanguage(ctx, parent)
	if err == nil && language != r.Settings.Retrieval.Language {
		fixed.Spec, err = r.StoreLanguage(ctx, language)
	}
	if err != nil {
		return fixed, err
	}
	domains, moved := r.CompareTrust(parent)
	fixed.Trust, reasons = domains, append(reasons, moved...)
	fixed.Rebuild = fixed.Rebuild || domains.Moved
	models, err := r.ModelSet()
	if err != nil {
		return fixed, err
	}
	if parent != nil {
		if fixed.Foreign, err = r.IsForeign(ctx, parent); err != nil {
			return fixed, err
		}
		if fixed.Damage, err = r.checkParent(ctx, parent); err != nil {
			return fixed, err
		}
		fixed.Rebuild = fixed.Rebuild || len(fixed.Damage) > 0
		reasons = append(reasons, run.ReasonsOf(fixed.Damage)...)
	}
	if fixed.Class, fixed.Chunk, err = r.FindFingerprints(ctx, models, parent, true); err != nil {
		return fixed, err
	}
	if parent != nil {
		changes, err := r.ListReasons(ctx, parent, fixed.Frozen)
		if err != nil {
			return fixed, err
		}
		reasons = append(reasons, changes...)
		if fixed.Repair, err = r.storesChanged(ctx, parent); err != nil {
			return fixed, err
		}
	}
	if err := r.planPurges(ctx, &fixed); err != nil {
		return fixed, err
	}
	reasons = append(reasons, r.FixExtraction(&fixed, parent)...)
	err = r.CompareCorpus(ctx, &fixed, parent, reasons, nil)
	if parent != nil && artifact.IsDamage(err) { // no hash saw it: of none of its documents is anything known
		var found []run.Damage
		for _, segment := range parent.Segments.Documents {
			found = append(found, run.Damage{Kind: "documents", Object: segment.SHA256, Why: "no list of documents"})
		}
		fixed.Damage, fixed.Rebuild = append(fixed.Damage, found...), true
		reasons = append(reasons, run.ReasonsOf(found)...)
		err = r.CompareCorpus(ctx, &fixed, parent, reasons, nil)
	}
	if err != nil {
		return fixed, err
	}
	due, err := r.ListDue(ctx, fixed, parent, models)
	if err == nil && core.IsHinted(r.Generation) && len(due) > 0 {
		err = r.leaveToNight(due)
	}
	if err != nil {
		return fixed, err
	}
	reasons = append(reasons, due...) // they are no reason to make anything else again
	none := len(fixed.Pending) == 0 && len(due) == 0
	fixed.Plan.Unchanged, fixed.Plan.Again = fixed.Plan.Unchanged && none, fixed.Plan.Again && none
	fixed.Plan.Reasons = reasons // also of a build whose parent cannot be read at all
	fixed.Held, fixed.HeldDetail, err = r.checkRemoval(ctx, fixed)
	return fixed, err
}

// CompareCorpus plans what the corpus has beside what can be read of the parent's documents. decided takes what is
// decided of each document; nil: nothing does.
func (r *Run) CompareCorpus(
	ctx context.Context, fixed *run.Plan, parent *core.Manifest, reasons []string, decided func(plan.Decision),
) error {
	documents, err := r.OpenDocuments(ctx)
	if err != nil {
		return err
	}
	fixed.Part = r.IsPartial(*fixed, parent, reasons)
	hinted, err := r.readHinted(ctx, *fixed, reasons)
	if err != nil {
		return err
	}
	retry, err := r.Refused(ctx, *fixed, parent)
	if err != nil {
		return err
	}
	renamed, err := r.FixAliases(ctx, fixed, parent)
	if err != nil {
		return err
	}
	read := dropUnreadable(parent, fixed.Damage)
	dead, release, err := r.OpenTombs(ctx, read)
	defer release()
	if err != nil {
		return err
	}
	chosen, leave, err := r.ChooseBackfills(ctx, *fixed, reasons)
	if err != nil {
		return err
	}
	untranscribed, err := r.leastUntranscribed(ctx, *fixed)
	if err != nil {
		return err
	}
	fixed.Plan, err = plan.Run(ctx, plan.In{
		Spec: r.Settings, Corpus: documents, Artifacts: r.Index, Scratch: r.Scratch.Prefix, Limits: r.Limits,
		Parser: r.Parser,
		Parent: read, Dead: dead, Part: fixed.Part, Retry: retry, Renamed: renamed,
		Untranscribed: untranscribed,
		Only:          fixed.Part && (r.Attempt > 0 || fixed.Purge != ""),
		Chosen:        chosen, Hinted: hinted, Leave: leave, Purged: PurgedOf(fixed.Excluded), Foreign: fixed.Foreign,
		Reasons:    reasons,
		OnProgress: r.Progress.SetDone, OnBytes: r.Progress.Touch, OnDecision: decided,
	})
	return err
}

// readHinted returns the objects that the run is to look at; nil: it lists the corpus. A run that hints began is
// refused where everything would be made again.
func (r *Run) readHinted(ctx context.Context, fixed run.Plan, reasons []string) ([]string, error) {
	switch {
	case !core.IsHinted(r.Generation):
		return nil, nil
	case !fixed.Part:
		return nil, r.leaveToNight(reasons)
	}
	return hints.ReadKeys(ctx, r.BaseRun())
}

// leaveToNight returns the error of a run that hints began and that only a night may do.
func (r *Run) leaveToNight(reasons []string) error {
	return fault.PlanMoved.At("follow hints of", r.Job.Index).
		Because("more than the hinted objects must be built: " +
			cmp.Or(strings.Join(reasons, "; "), "there is no generation to compare with")).
		Advise("the next night does it; or now: unweaver index --index " + r.Job.Index)
}

// leastUntranscribed returns which documents with pages that no model transcribed are made again: by a round of
// retry-failed for whatever failed, by a night those that failed for no reason of theirs, by a purge and by a
// round for chosen chunks none.
func (r *Run) leastUntranscribed(ctx context.Context, fixed run.Plan) (int, error) {
	all, err := r.RetriesAll(ctx)
	switch {
	case err != nil || fixed.Purge != "" || r.Settings.VisionBy() == nil && !r.Settings.ReadAs().Parser.IsOn():
		return 0, err
	case all:
		return 1, nil
	case r.Attempt > 0:
		return 0, nil
	}
	return 2, nil
}

// checkRemoval applies the gate of mass deletion. Documents of the parent that cannot be read count as gone where the
// corpus has not as many that the rest of the parent does not know. Builds of hints count together since a night.
func (r *Run) checkRemoval(ctx context.Context, fixed run.Plan) (held, detail string, err error) {
	removed, before := fixed.Plan.Diff.Removed, fixed.Plan.ParentListed
	unread := slices.ContainsFunc(fixed.Damage, func(found run.Damage) bool {
		return found.Kind == "documents" || found.Kind == "tomb"
	})
	if unread {
		removed += max(0, fixed.ParentDocs-before-fixed.Plan.Diff.Added)
		before = fixed.ParentDocs
	}
	if core.IsHinted(r.Generation) && removed > 0 {
		night, err := r.LastPublished(ctx, func(name string, _ core.GenerationRef) bool { return core.IsHinted(name) })
		if err != nil {
			return "", "", err
		}
		manifest, err := r.ReadParent(ctx, night.Manifest)
		if err != nil {
			return "", "", err
		}
		if manifest != nil && manifest.Counts.Documents-fixed.ParentDocs > 0 {
			removed, before = removed+manifest.Counts.Documents-fixed.ParentDocs, manifest.Counts.Documents
		}
	}
	held, detail = publish.CheckRemoval(r.Settings, removed, 0, before, fixed.Plan.Reasons)
	if held != "" && unread {
		detail += "; which of them is unknown, because the document list of the parent generation is damaged"
	}
	return held, detail, nil
}

// findParent gives the generation that a build is compared with, and why everything is made again as far as that is
// known by then. A manifest that is gone leaves the newest published generation that can be read: the gates compare
// with it.
func (r *Run) findParent(ctx context.Context, fixed *run.Plan) (*core.Manifest, []string, error) {
	reasons, err := r.listReasons(ctx)
	if err != nil {
		return nil, nil, err
	}
	current, _, err := r.Index.ReadPointer(ctx)
	if err != nil {
		return nil, nil, err
	}
	fixed.Epoch = current.Epoch
	if current.Manifest != "" {
		if manifest, unread := r.Index.Manifest(ctx, current.Manifest); unread == nil {
			if err := r.Index.CheckPointer(current, manifest); err != nil {
				return nil, nil, err
			}
		}
		if err := r.mendReference(ctx, current); err != nil {
			return nil, nil, err
		}
	}
	parent, err := r.ReadParent(ctx, current.Manifest)
	if artifact.IsDamage(err) {
		if !r.Rebuild {
			return nil, nil, fault.SegmentDamage.At("read the manifest of generation", current.Generation).
				Because(err).
				Advise(r.Index.AdviseRebuild())
		}
		reasons = append(reasons, "the manifest of generation "+current.Generation+" is missing or damaged")
		current, err = r.LastPublished(ctx, func(_ string, ref core.GenerationRef) bool {
			return ref.Manifest == current.Manifest
		})
		if err != nil {
			return nil, nil, err
		}
		parent, err = r.ReadParent(ctx, current.Manifest)
	}
	if err != nil || parent == nil {
		return nil, reasons, err
	}
	fixed.Parent, fixed.ParentDocs = current.Manifest, parent.Counts.Documents
	fixed.ParentChunks = parent.Counts.Chunks
	return parent, reasons, nil
}

// listReasons returns why nothing is trusted from the beginning.
func (r *Run) listReasons(ctx context.Context) ([]string, error) {
	switch {
	case r.Anew != "":
		var failure run.Failure
		_, err := blob.ReadJSON(ctx, r.Artifacts, r.Anew, &failure)
		if err != nil && !artifact.IsDamage(err) {
			return nil, err
		}
		reason := "a segment that this run reused is damaged: everything is rebuilt"
		if failure.Code == string(fault.Outgrown) {
			return []string{"a part of it cannot be rebuilt alone: " + failure.Text}, nil
		}
		if failure.Text != "" {
			reason += ": " + failure.Text
		}
		return []string{reason}, nil
	case r.Rebuild:
		return []string{"requested with --rebuild"}, nil
	}
	return nil, nil
}

// ListReasons names what the parent was built with that is different now; any of them has everything built again, from
// the ledger where its keys are the same.
func (r *Run) ListReasons(ctx context.Context, parent *core.Manifest, frozen run.Frozen) ([]string, error) {
	reasons := run.MadeBy(r.Settings).ListChanges(parent.Made)
	if parent.Config != r.Settings.ConfigDigest() {
		old, err := r.Index.Spec(ctx, parent.Spec)
		if err != nil && !artifact.IsDamage(err) {
			return nil, err
		}
		if err == nil { // else it is damage, which is a reason
			reasons = append(reasons, plan.SpecChanges(old, r.Settings)...)
		}
	}
	if parent.Class != frozen.Class {
		reasons = append(reasons, "embedder of entities: "+frozen.Class.Model+", was "+parent.Class.Model)
	}
	if parent.Chunk != frozen.Chunk {
		reasons = append(reasons, "embedder of passages: "+frozen.Chunk.Model+", was "+parent.Chunk.Model)
	}
	return reasons, nil
}

// IsForeign reports whether the parent is of another corpus, which is refused unless it is asked for.
func (r *Run) IsForeign(ctx context.Context, parent *core.Manifest) (bool, error) {
	if parent.Config == r.Settings.ConfigDigest() { // which covers the corpus
		return false, nil
	}
	old, err := r.Index.Spec(ctx, parent.Spec)
	switch {
	case artifact.IsDamage(err) && r.ReplaceCorpus:
		return true, nil
	case artifact.IsDamage(err):
		return false, fault.CorpusChanged.At("build", r.Job.Index).
			Because(err).
			Advise("its corpus cannot be read from its settings; to confirm the new corpus, add --replace-corpus")
	case err != nil || old.Corpus == r.Settings.Corpus:
		return false, err
	}
	if r.ReplaceCorpus {
		return true, nil
	}
	return true, fault.CorpusChanged.At("build", r.Job.Index).
		Because(fmt.Sprintf("the index was built from %s, not from %s", old.Corpus, r.Settings.Corpus)).
		Advise("choose another index name, or add --replace-corpus")
}

// OpenDocuments opens the corpus of the index, with its links where its configuration says so. That of an image opens
// none.
func (r *Run) OpenDocuments(ctx context.Context) (blob.Store, error) {
	if err := run.RefuseImageSpec(r.Settings); err != nil {
		return nil, err
	}
	documents, err := r.Corpora(ctx, r.Settings.Corpus)
	if err != nil || !r.Settings.FollowLinks {
		return documents, err
	}
	return blob.FollowLinks(documents), nil
}
