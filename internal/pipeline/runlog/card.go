package runlog

import (
	"context"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/pipeline/hints"
	"github.com/unweaver/unweaver/internal/pipeline/run"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// States of an index.
const (
	StatePublished = "published"
	StateEmpty     = "not published" // it was built, and nothing of it is served
	StateDamaged   = "damaged"
	StateDeleting  = "deletion unfinished"
	StateDeleted   = "deleted branch" // runs of its base delete its files; lists leave it out
)

// Card is an index as lists show it. Bytes are those of its current generation's segments, which older generations may
// share.
type Card struct {
	Index      string            `json:"index"`
	State      string            `json:"state"`
	Detail     string            `json:"detail,omitempty"` // of one that is damaged, or being deleted
	Generation string            `json:"generation,omitempty"`
	Release    int64             `json:"release,omitempty"`
	Published  *time.Time        `json:"published,omitempty"`
	AgeSeconds float64           `json:"age_seconds,omitempty"` // since it was published
	Documents  int64             `json:"documents"`
	Chunks     int64             `json:"chunks"`
	Classes    int64             `json:"classes"`
	Bytes      int64             `json:"bytes"`
	Stale      int64             `json:"stale"`
	Problems   int64             `json:"problems"` // of the run that ended last
	Models     core.ModelSummary `json:"models"`
	LastRun    *Summary          `json:"last_run,omitempty"`
	Running    *Summary          `json:"running,omitempty"`
	Freshness  *core.Freshness   `json:"freshness,omitempty"` // of one that follows hints
}

// ListCards lists the indexes, by name.
func (s Source) ListCards(ctx context.Context) ([]Card, error) {
	names, err := artifact.ListIndexes(ctx, s.Artifacts)
	if err != nil {
		return nil, err
	}
	cards := make([]Card, len(names))
	err = parallel.Each(ctx, len(names), listWidth, func(ctx context.Context, i int) error {
		var err error
		cards[i], err = s.ReadCard(ctx, names[i])
		return err
	})
	return slices.DeleteFunc(cards, func(card Card) bool { return card.State == StateDeleted }), err
}

// ReadCard describes an index. One that is damaged has a card that says so; an error is of a store that does not
// answer.
func (s Source) ReadCard(ctx context.Context, name string) (Card, error) {
	index := artifact.Index{Store: s.Artifacts, Name: name}
	card := Card{Index: name, State: StatePublished}
	if err := index.Check(); err != nil {
		return card, err
	}
	var runs []Summary
	err := parallel.RunTogether(ctx,
		func(ctx context.Context) (err error) { runs, err = s.list(ctx, name, 3, false); return err },
		func(ctx context.Context) error { return s.fillServed(ctx, index, &card) },
		func(ctx context.Context) (err error) { card.Freshness, err = hints.Read(ctx, index); return err },
	)
	if err != nil {
		return card, err
	}
	for i := range runs {
		switch over := core.IsTerminal(runs[i].Status) || runs[i].Status == Damaged; {
		case !over && card.Running == nil:
			card.Running = &runs[i]
		case over && card.LastRun == nil && !core.IsHinted(runs[i].Generation) && runs[i].Kind == KindBuild:
			card.LastRun, card.Problems = &runs[i], runs[i].Problems
		}
	}
	if card.Freshness != nil && card.Running != nil && card.Running.Run == card.Freshness.Run {
		card.Freshness.Status = card.Running.Status
	}
	return card, nil
}

// fillServed fills in what is published.
func (s Source) fillServed(ctx context.Context, index artifact.Index, card *Card) error {
	current, manifest, err := index.ReadServed(ctx)
	if err == nil && manifest == nil {
		return s.fillUnserved(ctx, index, card)
	}
	if artifact.IsDamage(err) {
		card.State, card.Detail, card.Generation = StateDamaged, err.Error(), current.Generation
		return nil
	}
	if err != nil {
		return err
	}
	var info blob.Info
	if info, err = s.Artifacts.Stat(ctx, index.CurrentKey()); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	published := info.Modified
	card.Generation, card.Release, card.Published = current.Generation, current.Epoch, &published
	card.AgeSeconds = max(0, time.Since(published).Seconds())
	card.Documents, card.Chunks, card.Classes = manifest.Counts.Documents, manifest.Counts.Chunks, manifest.Counts.Classes
	card.Stale, card.Models = manifest.Counts.Stale, manifest.Models
	for _, segment := range manifest.Segments.All() {
		card.Bytes += segment.Bytes
	}
	return nil
}

// fillUnserved fills in why nothing is published.
func (s Source) fillUnserved(ctx context.Context, index artifact.Index, card *Card) error {
	base, err := index.FindBase(ctx)
	if err != nil {
		return err
	}
	card.State = StateEmpty
	if run.RefuseDeleted(ctx, index) != nil { // a branch goes with its base
		card.State, card.Detail = StateDeleting, "run it again: unweaver delete "+base.Name
		return nil
	}
	branch, _, err := base.ReadBranch(ctx, index.Name)
	if err == nil && branch.State == core.BranchDeleted {
		card.State = StateDeleted
	}
	return nil // a record that cannot be read is for commands about branches
}
