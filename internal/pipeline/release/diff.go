package release

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/segments"
	"github.com/unweaver/unweaver/internal/stream/extsort"
	"github.com/unweaver/unweaver/internal/stream/merge"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

// listedChanges is how many changes of a kind are listed.
const listedChanges = 20

// CompareGenerations says what changed from a generation to another. Without to it is the current one, without from
// what to was made from; where only one is named and it is not served, it is compared with what is.
func CompareGenerations(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, from, to string,
) (core.Difference, error) {
	out := core.Difference{Index: index.Name}
	c := comparison{index: index, out: &out}
	if err := c.readSides(ctx, from, to); err != nil {
		return out, err
	}
	var err error
	if c.before, c.after, err = segments.OpenDiffering(ctx, cache, index, c.manifests[0], c.manifests[1]); err != nil {
		return out, err
	}
	defer c.before.Release()
	defer c.after.Release()
	steps := []func(context.Context) error{c.compareDocuments, c.compareChunks, c.compareClasses}
	return out, parallel.RunTogether(ctx, steps...)
}

type comparison struct {
	index         artifact.Index
	manifests     [2]*core.Manifest
	before, after *segments.Table
	out           *core.Difference
}

// readSides reads the manifests of the two generations.
func (c *comparison) readSides(ctx context.Context, from, to string) error {
	current, _, err := c.index.ReadPointer(ctx)
	if err != nil {
		return err
	}
	refs, _, err := c.index.ReadableRefs(ctx)
	if err != nil {
		return err
	}
	if to == "" {
		to = current.Generation
	}
	artifact.LayPointer(refs, current)
	family, _, err := c.index.ListFamily(ctx)
	if err != nil {
		return err
	}
	served := map[string]string{} // indexes that were named, and what they serve
	read := func(name string) (*core.Manifest, error) {
		ref, there := refs[name]
		if !there { // a branch, or its base: what that serves
			for _, member := range family {
				if member.Name != name {
					continue
				}
				pointer, _, err := member.ReadPointer(ctx)
				if err != nil {
					return nil, err
				}
				if pointer.Manifest != "" {
					ref, there = core.GenerationRef{Manifest: pointer.Manifest, Seq: pointer.Seq, State: "current"}, true
					refs[name], served[name] = ref, pointer.Generation
				}
			}
		}
		if !there {
			return nil, fault.UnknownGen.At("compare generation", fault.QuoteName(name)).
				Because("index " + c.index.Name + " has no generation of that name").
				Advise("to list them: unweaver generations " + c.index.Name)
		}
		return c.index.Manifest(ctx, ref.Manifest)
	}
	if c.manifests[1], err = read(to); err != nil {
		return err
	}
	if from == "" {
		from = current.Generation
		if to == current.Generation {
			from = ""
			for name, ref := range refs {
				if ref.Manifest == c.manifests[1].Parent {
					from = name
				}
			}
		}
	}
	if from == "" {
		return nothingBefore(c.index.Name, to, c.manifests[1])
	}
	if c.manifests[0], err = read(from); err != nil {
		return err
	}
	side := func(name string, manifest *core.Manifest) core.DifferenceSide {
		state := refs[name].State
		if name == current.Generation {
			state = "current"
		}
		out := core.DifferenceSide{
			Generation: name, State: state, Counts: manifest.Counts, Tokens: manifest.Tokens, Cost: manifest.Cost,
		}
		if generation, named := served[name]; named {
			out.Index, out.Generation = name, generation
		}
		// The manifest is written before probes are paid for.
		report, err := artifact.New(c.index.Store, manifest.Index).ReadReport(ctx, manifest.Generation)
		if err == nil && core.IsTerminal(report.Status) {
			out.Tokens, out.Cost = report.Tokens, report.Cost
		}
		return out
	}
	c.out.From, c.out.To = side(from, c.manifests[0]), side(to, c.manifests[1])
	return nil
}

// nothingBefore says why a generation cannot be compared with what it was made from.
func nothingBefore(index, generation string, manifest *core.Manifest) error {
	missing := fault.UnknownGen.At("compare generation", generation)
	with := "unweaver diff " + index + " GEN " + generation
	if manifest.Parent == "" {
		return missing.Because("it has no parent to compare it with").
			Advise("run it again after the next run, or name one: " + with)
	}
	return missing.Because("its parent no longer exists").Advise("name a generation to compare it with: " + with)
}

// joinSequences goes through two ordered sequences at once: of each thing the one or the other is nil, where it is
// missing.
func joinSequences[T any](
	compare func(a, b T) int, one, other iter.Seq2[T, error], each func(was, is *T) error,
) error {
	nextOne, stopOne := merge.Pull(one)
	defer stopOne()
	nextOther, stopOther := merge.Pull(other)
	defer stopOther()
	was, hasWas, err := nextOne()
	if err != nil {
		return err
	}
	is, hasIs, err := nextOther()
	for err == nil && (hasWas || hasIs) {
		order := 0
		switch {
		case !hasIs:
			order = -1
		case !hasWas:
			order = 1
		default:
			order = compare(was, is)
		}
		left, right := &was, &is
		if order < 0 {
			right = nil
		} else if order > 0 {
			left = nil
		}
		if err = each(left, right); err != nil {
			return err
		}
		if left != nil {
			if was, hasWas, err = nextOne(); err != nil {
				return err
			}
		}
		if right != nil {
			is, hasIs, err = nextOther()
		}
	}
	return err
}

// What PairMoves finds behind a content: of one content those that went come first.
const (
	WentMark = 'a'
	CameMark = 'b'
)

func (c *comparison) compareDocuments(ctx context.Context) error {
	var contents extsort.Sorter
	defer contents.Close()
	found := &c.out.Documents
	byKey := func(a, b segments.DocumentLeft) int { return strings.Compare(a.Key, b.Key) }
	changed := limited{}
	err := joinSequences(byKey,
		c.before.DocumentsApart(ctx, c.index, c.manifests[0].Segments.Documents, c.after),
		c.after.DocumentsApart(ctx, c.index, c.manifests[1].Segments.Documents, c.before),
		func(was, is *segments.DocumentLeft) error {
			was, is = dropUnserved(was), dropUnserved(is)
			switch {
			case was == nil && is == nil:
			case is == nil:
				contents.Add(append(was.Version[:], WentMark), []byte(was.Key))
			case was == nil:
				contents.Add(append(is.Version[:], CameMark), []byte(is.Key))
			case was.Version != is.Version || was.Stale != is.Stale:
				found.Changed++
				changed.add(core.Change{Change: "changed", Object: is.Key})
			}
			return nil
		})
	if err != nil {
		return err
	}
	added, moved, removed := limited{}, limited{}, limited{}
	into := map[string]*limited{"added": &added, "moved": &moved, "removed": &removed}
	if err := PairMoves(&contents, func(change string, _ core.Digest, key, from []byte) {
		into[change].add(core.Change{Change: change, Object: string(key), From: string(from)})
	}); err != nil {
		return err
	}
	found.Added, found.Moved, found.Removed = added.count, moved.count, removed.count
	found.Listed = slices.Concat(added.listChanges(), changed.listChanges(), moved.listChanges(), removed.listChanges())
	return nil
}

// dropUnserved returns a document of which something is served; nil: what stands in the corpus never was one, or is
// none any more.
func dropUnserved(document *segments.DocumentLeft) *segments.DocumentLeft {
	if document != nil && document.Problem != "" && !document.Stale {
		return nil
	}
	return document
}

// PairMoves finds, among documents that went and came, those of equal content: they moved. Keys of contents are a
// version and a mark. found receives what was added, moved or removed, with its value and, where it moved, that of what
// went.
func PairMoves(contents *extsort.Sorter, found func(change string, version core.Digest, value, from []byte)) error {
	var version core.Digest
	var went [][]byte // of one content
	flush := func() {
		for _, value := range went {
			found("removed", version, value, nil)
		}
		went = went[:0]
	}
	for row, err := range contents.StreamSorted() {
		if err != nil {
			return err
		}
		if content := core.Digest(row[0]); content != version {
			flush()
			version = content
		}
		switch {
		case row[0][len(version)] == WentMark:
			went = append(went, row[1])
		case len(went) > 0:
			found("moved", version, row[1], went[0])
			went = went[1:]
		default:
			found("added", version, row[1], nil)
		}
	}
	flush()
	return nil
}

// limited counts changes and keeps the first of them in the order of their objects.
type limited struct {
	count int64
	kept  []core.Change
}

func (l *limited) add(change core.Change) {
	l.count++
	at, _ := slices.BinarySearchFunc(l.kept, change, byObject)
	if at >= listedChanges {
		return
	}
	l.kept = slices.Insert(l.kept, at, change)
	l.kept = l.kept[:min(len(l.kept), listedChanges)]
}

func (l *limited) listChanges() []core.Change { return l.kept }

func byObject(a, b core.Change) int { return strings.Compare(a.Object, b.Object) }

func (c *comparison) compareChunks(context.Context) error {
	byID := func(a, b segments.ChunkLeft) int { return bytes.Compare(a.ID[:], b.ID[:]) }
	return joinSequences(byID, c.before.ChunksApart(c.after), c.after.ChunksApart(c.before),
		func(was, is *segments.ChunkLeft) error {
			if is == nil {
				c.out.Chunks.Removed++
			} else if was == nil {
				c.out.Chunks.Added++
			}
			return nil
		})
}

func (c *comparison) compareClasses(ctx context.Context) error {
	found := &c.out.Classes
	var born, changed, died []core.ID
	note := func(list *[]core.ID, count *int64, id core.ID) {
		if *count++; len(*list) < listedChanges {
			*list = append(*list, id)
		}
	}
	byID := func(a, b segments.ClassLeft) int { return bytes.Compare(a.ID[:], b.ID[:]) }
	err := joinSequences(byID, c.before.ClassesApart(c.after), c.after.ClassesApart(c.before),
		func(was, is *segments.ClassLeft) error {
			switch {
			case is == nil:
				note(&died, &found.Died, was.ID)
			case was == nil:
				note(&born, &found.Born, is.ID)
			case was.Class != is.Class:
				note(&changed, &found.Changed, is.ID)
			}
			return nil
		})
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		change string
		ids    []core.ID
		table  *segments.Table
		of     *core.Manifest
	}{
		{"born", born, c.after, c.manifests[1]}, {"changed", changed, c.after, c.manifests[1]},
		{"died", died, c.before, c.manifests[0]},
	} {
		listed, err := c.nameClasses(ctx, kind.change, kind.ids, kind.table, kind.of)
		if err != nil {
			return err
		}
		found.Listed = append(found.Listed, listed...)
	}
	return nil
}

// nameClasses gives classes with their names.
func (c *comparison) nameClasses(
	ctx context.Context, change string, ids []core.ID, table *segments.Table, manifest *core.Manifest,
) ([]core.Change, error) {
	names := map[core.ID]string{}
	if len(ids) > 0 {
		for row, err := range table.ClassRows(ctx, c.index, manifest.Segments.Classes, ids) {
			if err != nil {
				return nil, err
			}
			record, err := rows.DecodeRecord(row.Record)
			if err != nil {
				return nil, err
			}
			names[row.ID] = record.Name
		}
	}
	out := make([]core.Change, len(ids))
	for i, id := range ids {
		out[i] = core.Change{Change: change, Object: names[id], ID: id.String()}
	}
	return out, nil
}
