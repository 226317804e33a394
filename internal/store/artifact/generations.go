package artifact

import (
	"context"
	"sort"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
)

// Generation is a generation as lists show it.
type Generation struct {
	Generation  string    `json:"generation"`
	Seq         int64     `json:"seq"`
	State       string    `json:"state"` // current | published | held
	Created     time.Time `json:"created"`
	Documents   int64     `json:"documents"`
	Chunks      int64     `json:"chunks"`
	Classes     int64     `json:"classes"`
	DeadLetters int64     `json:"dead_letters"`
	ContentHash string    `json:"content_hash"`
	TextHash    string    `json:"text_hash"`
	VectorHash  string    `json:"vector_hash"`
	Manifest    string    `json:"manifest"`
	Models      string    `json:"models"`
}

// Refs gives every generation that has a manifest, by name.
func (x Index) Refs(ctx context.Context) (map[string]corpus.GenerationRef, error) {
	prefix := x.Name + "/generations/"
	out := map[string]corpus.GenerationRef{}
	for in, err := range x.Store.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		gen, ok := strings.CutSuffix(strings.TrimPrefix(in.Key, prefix), "/manifest.json")
		if !ok || strings.Contains(gen, "/") {
			continue
		}
		if out[gen], err = x.GenerationRef(ctx, gen); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Generations lists what has a manifest, the newest first.
func (x Index) Generations(ctx context.Context) ([]Generation, error) {
	cur, _, err := x.Current(ctx)
	if err != nil {
		return nil, err
	}
	refs, err := x.Refs(ctx)
	if err != nil {
		return nil, err
	}
	out := []Generation{}
	for gen, ref := range refs {
		manifest, err := x.Manifest(ctx, ref.Manifest)
		if err != nil {
			return nil, err
		}
		generation := Generation{
			gen,
			ref.Seq,
			ref.State,
			manifest.Created,
			manifest.Counts.Documents,
			manifest.Counts.Chunks,
			manifest.Counts.Classes,
			manifest.Counts.DeadLetters,
			digest(
				manifest.Hashes.Content,
			),
			digest(manifest.Hashes.Text),
			digest(manifest.Hashes.Vector),
			ref.Manifest,
			manifest.Models.Chat,
		}
		if gen == cur.Generation {
			generation.State = "current"
		}
		out = append(out, generation)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Seq > out[j].Seq })
	return out, nil
}

func digest(s corpus.SetHash) string { return s.Digest().String() }
