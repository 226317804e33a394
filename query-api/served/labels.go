package served

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/query-api/middleware"
)

// NeedAllDocuments returns the error of a caller who may not read every document of an index whose documents have
// labels. Where it cannot be found out whether they have, the error says why.
func (s *Set) NeedAllDocuments(ctx context.Context, name string) error {
	return s.needNamed(ctx, name, "")
}

// needNamed returns the error of NeedAllDocuments unless the caller asks for the generation that is published.
func (s *Set) needNamed(ctx context.Context, name, wanted string) error {
	caller := middleware.CallerOf(ctx)
	if caller.Readers().All || !core.ValidIndex(name) {
		return nil
	}
	generation, labelled, err := s.readLabelled(ctx, name)
	switch {
	case err != nil || wanted == "" && !labelled || wanted != "" && generation == wanted:
		return err
	case wanted == "":
		return caller.NeedAllDocuments(name)
	}
	other := fault.Forbidden.At("open generation", wanted).
		Because("it is not the current generation: an earlier one has labels of its time, or none").
		Advise("omit generation; or ask with a key that may read every document: unweaver keys create --labels '*'")
	if labelled {
		return other
	}
	return s.refuseLabelledRun(ctx, name, other) // any may have had labels, or come to nothing when they were turned off
}

// NeedNamedCaller returns the error of a caller without a key who asks for what tells of all documents of an index
// whose documents have labels, or had or will have them in any run.
func (s *Set) NeedNamedCaller(ctx context.Context, name string) error {
	proof := middleware.CallerOf(ctx).NeedProof()
	if proof == nil || !core.ValidIndex(name) {
		return nil
	}
	if _, labelled, err := s.readLabelled(ctx, name); err != nil || labelled {
		return proof
	}
	return s.refuseLabelledRun(ctx, name, proof)
}

// NeedAllRuns returns the error of NeedAllDocuments also where any run of the index was started with labels.
func (s *Set) NeedAllRuns(ctx context.Context, name string) error {
	refusal := middleware.CallerOf(ctx).NeedAllDocuments(name)
	if refusal == nil || !core.ValidIndex(name) {
		return nil
	}
	if err := s.NeedAllDocuments(ctx, name); err != nil {
		return err
	}
	return s.refuseLabelledRun(ctx, name, refusal)
}

// refuseLabelledRun returns a refusal where any run of an index was started with labels, or one's configuration is
// damaged.
func (s *Set) refuseLabelledRun(ctx context.Context, name string, refusal error) error {
	labelled, err := s.hasLabelledRun(ctx, name)
	if labelled && (err == nil || artifact.IsDamage(err)) {
		return refusal
	}
	return err
}

// hasLabelledRun reports whether any run of an index was started with labels: also one that goes on, was held or
// failed. A run stores its configuration before it starts, and a configuration stays as long as the index. Of an index
// that is served each configuration is read once, and they are listed once a poll.
func (s *Set) hasLabelledRun(ctx context.Context, name string) (bool, error) {
	s.mu.Lock()
	x := s.indexes[name]
	s.mu.Unlock()
	began := time.Now()
	plain, known := x.knownSpecs(began)
	if known {
		return false, nil
	}
	specs := map[string]bool{}
	prefix := artifact.Index{Name: name}.SpecsPrefix()
	for info, err := range s.Artifacts.List(ctx, prefix, "") {
		var spec core.Spec
		if err == nil && !plain[info.Key] && strings.HasSuffix(info.Key, ".json") {
			_, err = blob.ReadJSON(ctx, s.Artifacts, info.Key, &spec)
		}
		if err != nil || spec.ReadAs().Labels.IsOn() { // also of branches, which may be promoted
			return true, err
		}
		specs[info.Key] = true
	}
	x.learnSpecs(specs, began)
	return false, nil
}

// readLabelled returns which generation of an index is published, and whether its documents have labels: what was read
// a moment ago, or is read now. Of an index of which nothing is published, any generation with labels counts. What
// cannot be read is an error. Names without a published index leave no trace.
func (s *Set) readLabelled(ctx context.Context, name string) (generation string, labelled bool, err error) {
	s.mu.Lock()
	x := s.indexes[name]
	s.mu.Unlock()
	if x != nil {
		if generation, labelled, known := x.knownLabelled(); known {
			return generation, labelled, nil
		}
	}
	of := artifact.Index{Store: s.Artifacts, Name: name}
	var pointer core.Pointer
	if x != nil {
		err = s.readCurrent(ctx, name, x)
		pointer = x.lastPointer()
	} else {
		began := time.Now()
		if pointer, _, err = of.ReadPointer(ctx); err == nil && pointer.Manifest != "" {
			x = s.ensureIndex(name)
			x.learnPointer(pointer, core.Pointer{}, began)
		}
	}
	if err != nil {
		return "", false, err
	}
	if pointer.Manifest == "" {
		labelled, err = hasLabelled(ctx, of)
		return "", labelled, err
	}
	labelled, err = s.isLabelled(ctx, name, x, pointer)
	return pointer.Generation, labelled, err
}

// isLabelled reports whether documents of the generation that a pointer names have labels. Its manifest is read once.
func (s *Set) isLabelled(ctx context.Context, name string, x *index, pointer core.Pointer) (bool, error) {
	if info := x.infoFor(pointer); info != nil {
		return info.labelled, nil
	}
	manifest, err := artifact.Index{Store: s.Artifacts, Name: name}.ManifestOf(ctx, pointer)
	if err != nil {
		return false, err
	}
	info := InfoOf(name, pointer, manifest)
	x.setInfo(pointer, &info)
	return manifest.Labelled, nil
}

// checkFormer returns the error of a caller who may not read every document, and may not be answered by the generation
// that was open before the published one: where documents have labels now, it must have them, too, and nothing may be
// wrong with the published one, which is being opened then.
func (s *Set) checkFormer(
	ctx context.Context, name string, x *index, pointer core.Pointer, former *retrieve.Generation, failed error,
) error {
	if middleware.CallerOf(ctx).Readers().All {
		return nil
	}
	labelled, err := s.isLabelled(ctx, name, x, pointer)
	if err != nil || !labelled || former.HasLabels() && failed == nil {
		return err
	}
	return cmp.Or(failed, newBusyError(pointer.Generation))
}

// knownLabelled returns the same of what is open, or was read less than a poll ago.
func (x *index) knownLabelled() (generation string, labelled, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch pointer := x.published; {
	case x.damaged != nil || pointer.Manifest == "":
	case x.current != nil && x.manifest == pointer.Manifest:
		return pointer.Generation, x.current.HasLabels(), true
	case x.info != nil && x.informed == pointer && time.Since(x.readAt) < pollEvery:
		return pointer.Generation, x.info.labelled, true
	}
	return "", false, false
}

// knownSpecs returns which configurations have no labels, and whether that was found out less than a poll before.
func (x *index) knownSpecs(now time.Time) (plain map[string]bool, known bool) {
	if x == nil {
		return nil, false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.plainSpecs, now.Sub(x.listedAt) < pollEvery
}

// learnSpecs takes what a listing that began then found: configurations without labels alone.
func (x *index) learnSpecs(plain map[string]bool, began time.Time) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.plainSpecs, x.listedAt = plain, began
}

// NeedUnlabelled returns an error unless it is known that no index of the store, or that is served, has documents with
// labels. Of each what was published when its pointer was last read counts, and what is open.
func (s *Set) NeedUnlabelled(ctx context.Context, refusal error) error {
	served := s.listServed()
	names := slices.Collect(maps.Keys(served))
	if listed, err := artifact.ListIndexes(ctx, s.Artifacts); err == nil { // else those that are served are counted
		names = append(names, listed...)
	}
	return parallel.Each(ctx, len(names), listWidth, func(ctx context.Context, i int) error {
		if labelled, err := s.lastLabelled(ctx, names[i], served[names[i]]); err != nil || labelled {
			return refusal
		}
		return nil
	})
}

// lastLabelled reports that of one index, x where it is served. Where it is not known what is published, any generation
// with labels counts.
func (s *Set) lastLabelled(ctx context.Context, name string, x *index) (labelled bool, err error) {
	if x == nil {
		_, labelled, err = s.readLabelled(ctx, name)
		return labelled, err
	}
	if !x.isKnown() {
		_ = s.readCurrent(ctx, name, x) // where it fails, nothing is known
	}
	x.mu.Lock()
	pointer := x.published
	shown := x.current != nil && x.current.HasLabels() || x.info != nil && x.info.labelled
	x.mu.Unlock()
	if shown {
		return true, nil
	}
	if pointer.Manifest != "" {
		if labelled, err = s.isLabelled(ctx, name, x, pointer); !artifact.IsDamage(err) {
			return labelled, err
		}
	}
	return hasLabelled(ctx, artifact.Index{Store: s.Artifacts, Name: name})
}

// hasLabelled reports whether an index has a generation whose documents have labels.
func hasLabelled(ctx context.Context, of artifact.Index) (bool, error) {
	refs, err := of.ListRefs(ctx)
	for _, ref := range refs {
		if err != nil {
			break
		}
		var manifest *core.Manifest
		if manifest, err = of.Manifest(ctx, ref.Manifest); err == nil && manifest.Labelled {
			return true, nil
		}
	}
	return false, err
}
