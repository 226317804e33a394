package artifact

import (
	"context"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
)

// Generation is a generation as lists show it.
type Generation struct {
	Generation  string    `json:"generation"`
	Seq         int64     `json:"seq"`
	State       string    `json:"state"` // current | published | held | discarded | damaged
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
	Tags        []string  `json:"tags,omitempty"`      // that keep it from being collected
	Collected   bool      `json:"collected,omitempty"` // no reader opens it any more, and a grace later it is deleted
}

// ListIndexes lists the indexes of a store: its folders but those of the program, such as the ledger's.
func ListIndexes(ctx context.Context, store blob.Store) ([]string, error) {
	folders, err := store.ListFolders(ctx)
	return slices.DeleteFunc(folders, func(name string) bool { return !core.ValidIndex(name) }), err
}

// IsDamage reports whether an artifact is lost or cannot be read, rather than that the store does not answer.
func IsDamage(err error) bool {
	return fault.Is(err, fault.SegmentDamage) || fault.Is(err, fault.NotFound) || fault.Is(err, fault.UnknownGen)
}

// ListRefs gives every generation that has a manifest, by name. A reference that is damaged is an error.
func (x Index) ListRefs(ctx context.Context) (map[string]core.GenerationRef, error) {
	refs, damaged, err := x.ReadableRefs(ctx)
	if err == nil && len(damaged) > 0 {
		_, err = x.GenerationRef(ctx, damaged[0])
	}
	return refs, err
}

// ReadableRefs gives every generation whose reference can be read, and names those whose reference is damaged, in
// order.
func (x Index) ReadableRefs(ctx context.Context) (map[string]core.GenerationRef, []string, error) {
	found, err := x.listGenerations(ctx)
	return found.refs, found.damaged, err
}

// listing is what lies in the folders of generations.
type listing struct {
	refs    map[string]core.GenerationRef
	damaged []string        // references that cannot be read, in order
	marked  map[string]bool // collected, or about to be
}

func (x Index) listGenerations(ctx context.Context) (listing, error) {
	prefix := x.GenerationKey("", "") + "/"
	out := listing{refs: map[string]core.GenerationRef{}, marked: map[string]bool{}}
	for info, err := range x.Store.List(ctx, prefix, "") {
		if err != nil {
			return listing{}, err
		}
		gen, file, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		if file == "collected" {
			out.marked[gen] = true
		}
		if file != "manifest.json" {
			continue
		}
		ref, err := x.GenerationRef(ctx, gen)
		switch {
		case err == nil:
			out.refs[gen] = ref
		case fault.Is(err, fault.SegmentDamage):
			out.damaged = append(out.damaged, gen)
		case !IsDamage(err): // one that went since it was listed is no generation any more
			return listing{}, err
		}
	}
	return out, nil
}

// ListGenerations lists what has a manifest: the current one first, then the newest first. One whose manifest cannot be
// read is listed with the state damaged and what its reference says; a current one that cannot be read is an error.
func (x Index) ListGenerations(ctx context.Context) ([]Generation, error) {
	current, _, err := x.ReadPointer(ctx)
	if err != nil {
		return nil, err
	}
	found, err := x.listGenerations(ctx)
	if err != nil {
		return nil, err
	}
	tags, err := x.Tags(ctx)
	if err != nil {
		return nil, err
	}
	refs, damaged := found.refs, found.damaged
	if current.Generation != "" { // the pointer is the authority, whatever became of the reference
		refs[current.Generation] = core.GenerationRef{Manifest: current.Manifest, Seq: current.Seq, State: "current"}
	}
	out := []Generation{}
	for _, gen := range damaged {
		if gen == current.Generation {
			continue
		}
		out = append(out, Generation{Generation: gen, State: Damaged})
	}
	for gen, ref := range refs {
		manifest, err := x.Manifest(ctx, ref.Manifest)
		if err == nil && gen == current.Generation {
			err = x.CheckPointer(current, manifest)
		}
		switch {
		case err == nil:
		case gen == current.Generation || !IsDamage(err):
			return nil, err
		default:
			out = append(out, Generation{Generation: gen, Seq: ref.Seq, State: Damaged, Manifest: ref.Manifest})
			continue
		}
		out = append(out, DescribeGeneration(gen, ref, manifest))
	}
	for i := range out {
		name := out[i].Generation
		out[i].Tags, out[i].Collected = tags[name], found.marked[name] && name != current.Generation
	}
	sort.Slice(out, func(i, j int) bool {
		if first := out[i].State == "current"; first != (out[j].State == "current") {
			return first
		}
		if out[i].Seq != out[j].Seq {
			return out[i].Seq > out[j].Seq
		}
		return out[i].Generation < out[j].Generation
	})
	return out, nil
}

// Damaged is the state of a generation whose manifest cannot be read.
const Damaged = "damaged"

// DescribeGeneration returns a generation as lists show it.
func DescribeGeneration(gen string, ref core.GenerationRef, manifest *core.Manifest) Generation {
	return Generation{
		Generation:  gen,
		Seq:         ref.Seq,
		State:       ref.State,
		Created:     manifest.Created,
		Documents:   manifest.Counts.Documents,
		Chunks:      manifest.Counts.Chunks,
		Classes:     manifest.Counts.Classes,
		DeadLetters: manifest.Counts.DeadLetters,
		ContentHash: manifest.Hashes.Content.Digest().String(),
		TextHash:    manifest.Hashes.Text.Digest().String(),
		VectorHash:  manifest.Hashes.Vector.Digest().String(),
		Manifest:    ref.Manifest,
		Models:      manifest.Models.Chat,
	}
}
