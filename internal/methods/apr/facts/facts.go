// Package facts is the file of what the chunks of a generation say as triples: a codebook with its runs
// (internal/methods/apr), and the vectors of its entities, relations and edges, each paid for once.
//
//	codebook         as apr.Codebook.Marshal writes it; sources name chunks by their ids, 16 bytes
//	entity_scales    f32, one for each entity; entity_ends, u64: where its codes end; entity_codes: as apr.Table has them
//	relation_...     the same of relations
//	edge_...         the same of edges, of their texts
//	keys             of the ledger, in order: what the triples were paid for under, 32 bytes each
package facts

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/unweaver/unweaver/internal/artifact/vector"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// Kind and Version of the file, and how indexes.*.enrich names what makes it.
const (
	Kind       = "facts"
	Version    = 1
	Enrichment = "facts"
)

// Names of sections: of what, and which part of its tables.
const (
	entities, relations, edges = "entity", "relation", "edge"
	scales, ends, codes        = "_scales", "_ends", "_codes"
)

// Of says what the vectors are.
type Of = vector.Of

// Facts is what the file holds.
type Facts struct {
	Book                       *apr.Codebook
	Entities, Relations, Lines apr.Table // of the codebook's entities, relations and edges
	Keys                       []core.Digest
}

// File is an open file. It may be read by many at once until it is closed; its tables are valid until then.
type File struct {
	Facts
	file *mapped.File
	of   Of
}

// Open maps a file and checks that its sections fit each other. Errors are those of mapped.Open and of apr.Unmarshal;
// vectors of another embedder or dimension are fault.FormatUnknown.
func Open(path string, of Of) (*File, error) {
	file, err := mapped.Open(path, Kind, Version)
	if err != nil {
		return nil, err
	}
	f := &File{file: file}
	if err := f.read(path, of); err != nil {
		file.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) read(path string, asked Of) (err error) {
	ok := false
	if f.of, ok, err = vector.Read(f.file, path, asked); !ok {
		return f.file.UnfitError("its dimension or embedder is none")
	}
	if err != nil {
		return err
	}
	if f.Book, err = apr.Unmarshal(f.file.Bytes("codebook")); err != nil {
		return errors.Join(f.file.UnfitError("its codebook cannot be read"), err)
	}
	table := func(name string) apr.Table {
		return apr.Table{
			Dim: f.of.Dimension, Scales: mapped.ViewSection[float32](f.file, name+scales),
			Ends: mapped.ViewSection[uint64](f.file, name+ends), Codes: f.file.Bytes(name + codes),
		}
	}
	f.Entities, f.Relations, f.Lines = table(entities), table(relations), table(edges)
	f.Keys = slices.Clone(mapped.ViewSection[core.Digest](f.file, "keys"))
	return nil
}

// DescribeVectors says what the vectors are.
func (f *File) DescribeVectors() Of { return f.of }

// Close unmaps it.
func (f *File) Close() { f.file.Close() }

// checkFit says what does not fit, if anything.
func (f *Facts) checkFit(of Of) string {
	for _, one := range []struct {
		name  string
		table apr.Table
		count int
	}{
		{"entities", f.Entities, len(f.Book.Entities)}, {"relations", f.Relations, len(f.Book.Relations)},
		{"edges", f.Lines, len(f.Book.Edges)},
	} {
		if one.table.Len() != one.count || one.count > 0 && one.table.Dim != of.Dimension {
			return "it has another number of vectors than of " + one.name
		}
		if slices.ContainsFunc(one.table.Scales, func(scale float32) bool { return scale-scale != 0 }) {
			return "a vector of its " + one.name + " holds what is no finite number"
		}
	}
	for _, sources := range f.Book.Sources {
		for _, source := range sources {
			if len(source.Chunk) != len(core.ID{}) {
				return "a source names no chunk"
			}
		}
	}
	for i := 1; i < len(f.Keys); i++ {
		if bytes.Compare(f.Keys[i-1][:], f.Keys[i][:]) >= 0 {
			return "its keys are out of order"
		}
	}
	return ""
}

// Write writes the file. Equal facts are equal bytes. fault.Internal: what does not fit each other.
func Write(writer io.Writer, of Of, f Facts) error {
	why := of.FindMistake()
	if why == "" {
		why = f.checkFit(of)
	}
	if why != "" {
		return fault.Internal.At("write", "the facts of chunks").Because(why).
			Advise("this is a fault of the program: report it with this text")
	}
	out := mapped.NewWriter(writer, Kind, Version, of.Meta())
	out.BeginSection("codebook")
	if _, err := out.Write(f.Book.Marshal()); err != nil {
		return err
	}
	for _, section := range []struct {
		name  string
		table apr.Table
	}{{entities, f.Entities}, {relations, f.Relations}, {edges, f.Lines}} {
		out.BeginSection(section.name + scales)
		mapped.Put(out, section.table.Scales)
		out.BeginSection(section.name + ends)
		mapped.Put(out, section.table.Ends)
		out.BeginSection(section.name + codes)
		if _, err := out.Write(section.table.Codes); err != nil {
			return err
		}
	}
	out.BeginSection("keys")
	mapped.Put(out, f.Keys)
	return out.Close()
}
