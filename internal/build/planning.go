package build

import (
	"context"
	"fmt"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/plan"
	"github.com/unweaver/unweaver/internal/stage/publish"
)

// Plan is what is fixed for the rest of the run before its first stage.
type Plan struct {
	Parent     string      `json:"parent"` // sha256 of the manifest; empty: none
	ParentDocs int64       `json:"parent_documents"`
	Epoch      int64       `json:"epoch"`
	Plan       plan.Result `json:"plan"`
	Reasons    []string    `json:"reasons,omitempty"` // why documents that did not change are built again
	Repair     bool        `json:"repair,omitempty"`  // a store lost its memory: everything live is verified and rewritten
	Held       string      `json:"held,omitempty"`    // gate that is known already
	HeldDetail string      `json:"held_detail,omitempty"`
	Started    time.Time   `json:"started"`
	Frozen                 // fingerprints here, the rest once the chunks are there: frozenFile
}

// Planned is what the rest of the run is steered by.
type Planned struct {
	Unchanged bool
	Repair    int // parts to verify and rewrite, of all kept generations
	Held      string
	Units     int
	Documents int64
}

// Plan lists the corpus, compares it with the parent and fixes what the rest of the run depends on.
func (r *Run) Plan(ctx context.Context) (Planned, error) {
	fixed, err := once(ctx, r, planFile, r.plan)
	if err != nil {
		return Planned{}, err
	}
	out := Planned{
		Unchanged: fixed.Unchanged(), Held: fixed.Held,
		Units: len(fixed.Plan.Units), Documents: fixed.Plan.Documents,
	}
	if out.Held != "" {
		return out, heldFile.Write(ctx, r.Scratch, Failure{Code: fixed.Held, Text: fixed.HeldDetail})
	}
	if fixed.Repair {
		parts, err := once(ctx, r, repairFile, r.parts)
		if err != nil {
			return out, err
		}
		out.Repair = len(parts)
	}
	return out, nil
}

// Unchanged tells that the current generation is what this run would build.
func (p Plan) Unchanged() bool {
	return p.Parent != "" && len(p.Reasons) == 0 && p.Plan.Diff.Same == p.ParentDocs &&
		p.Plan.Documents == p.ParentDocs && p.Plan.Diff.Added == 0 && p.Plan.Diff.Changed == 0 && p.Plan.Diff.Removed == 0
}

func (r *Run) plan(ctx context.Context) (Plan, error) {
	fixed := Plan{Started: time.Now().UTC()}
	models, err := r.models()
	if err != nil {
		return fixed, err
	}
	current, _, err := r.Index.Current(ctx)
	if err != nil {
		return fixed, err
	}
	fixed.Epoch = current.Epoch
	parent, err := r.parent(ctx, current.Manifest)
	if err != nil {
		return fixed, err
	}
	if parent != nil {
		if err := r.sameCorpus(ctx, parent); err != nil {
			return fixed, err
		}
		fixed.Parent, fixed.ParentDocs = current.Manifest, parent.Counts.Documents
	}
	if fixed.Class, fixed.Chunk, err = r.fingerprints(ctx, models, parent); err != nil {
		return fixed, err
	}
	if parent != nil {
		if fixed.Reasons, err = r.reasons(ctx, parent, fixed.Frozen); err != nil {
			return fixed, err
		}
		if fixed.Repair, err = r.storesChanged(ctx, parent); err != nil {
			return fixed, err
		}
	}
	documents, err := r.Corpora(ctx, r.Settings.Corpus)
	if err != nil {
		return fixed, err
	}
	fixed.Plan, err = plan.Run(ctx, plan.In{
		Spec: r.Settings, Corpus: documents, Artifacts: r.Index, Scratch: r.Scratch.Prefix, Parent: parent,
		OnProgress: r.Progress.Done,
	})
	if err != nil {
		return fixed, err
	}
	fixed.Held, fixed.HeldDetail = publish.Removal(r.Settings, fixed.Plan.Diff.Removed, fixed.ParentDocs)
	return fixed, nil
}

// reasons names what the parent was built with that is different now; any of them has everything built again, from the
// ledger where its keys are the same.
func (r *Run) reasons(ctx context.Context, parent *corpus.Manifest, frozen Frozen) ([]string, error) {
	var reasons []string
	differs := func(what, was, is string) {
		if was != is {
			reasons = append(reasons, fmt.Sprintf("%s: %s, was %s", what, orNone(is), orNone(was)))
		}
	}
	made := MadeBy(r.Settings)
	differs("parser", parent.Made.Parser, made.Parser)
	differs("chunker", parent.Made.Chunker, made.Chunker)
	differs("rules of names", parent.Made.Names, made.Names)
	differs("rules of words", parent.Made.Analyser, made.Analyser)
	if parent.Config != r.Settings.ConfigDigest() {
		old, err := r.Index.Spec(ctx, parent.Spec)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, configReasons(old, r.Settings)...)
	}
	if parent.Class != frozen.Class {
		reasons = append(reasons, "embedder of classes: "+frozen.Class.Model+", was "+parent.Class.Model)
	}
	if parent.Chunk != frozen.Chunk {
		reasons = append(reasons, "embedder of chunks: "+frozen.Chunk.Model+", was "+parent.Chunk.Model)
	}
	return reasons, nil
}

func orNone(version string) string {
	if version == "" {
		return "not recorded"
	}
	return version
}

// configReasons names the settings of the config digest that changed.
func configReasons(old, now corpus.Spec) []string {
	var reasons []string
	add := func(changed bool, what string) {
		if changed {
			reasons = append(reasons, "configuration: "+what)
		}
	}
	add(old.Corpus != now.Corpus, "corpus")
	add(old.Chunking != now.Chunking, "chunking")
	add(old.Shortening != now.Shortening, "shortening")
	add(old.Parity != now.Parity, "parity")
	add(old.Retrieval.Language != now.Retrieval.Language, "retrieval.language")
	add(old.Chat.Provider != now.Chat.Provider || old.Chat.Model != now.Chat.Model, "models.chat")
	add(old.Embedding.Provider != now.Embedding.Provider || old.Embedding.Model != now.Embedding.Model ||
		old.Embedding.Dimension != now.Embedding.Dimension ||
		old.Embedding.MaxInputTokens != now.Embedding.MaxInputTokens ||
		old.Embedding.Classes != now.Embedding.Classes, "models.embedding")
	if len(reasons) == 0 {
		reasons = append(reasons, "configuration: digest")
	}
	return reasons
}

// sameCorpus refuses to replace an index by one of another corpus, unless asked to.
func (r *Run) sameCorpus(ctx context.Context, parent *corpus.Manifest) error {
	old, err := r.Index.Spec(ctx, parent.Spec)
	if err != nil || old.Corpus == r.Settings.Corpus || r.ReplaceCorpus {
		return err
	}
	return fault.CorpusChanged.At("build", r.Job.Index).
		Because(fmt.Sprintf("it was built from %s, not from %s", old.Corpus, r.Settings.Corpus)).
		Advise("choose another index name, or confirm with --replace-corpus")
}
