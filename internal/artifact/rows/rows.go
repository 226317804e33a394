// Package rows fixes the bytes of the rows that stages hand to each other and keep in segments. Every row starts with
// its version; a reader refuses versions it does not know.
package rows

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
)

const (
	version      = 1
	typedVersion = 2 // of a row that ends with the types, or labels, of what it is about
)

// readVersion reads the version of a row.
func readVersion(dec *rowfile.Dec, what string) error {
	if got := dec.U(); got != version {
		return fault.SegmentDamage.At("decode "+what+" row", "").
			Because(fmt.Sprintf("version %d is unknown", got)).
			Advise("update this program")
	}
	return dec.Err
}

func startRow() rowfile.Enc {
	var enc rowfile.Enc
	enc.U(version)
	return enc
}

// startTyped begins a row that may end with a type. A row without one is what it was before there were types.
func startTyped(typed bool) rowfile.Enc {
	if !typed {
		return startRow()
	}
	var enc rowfile.Enc
	enc.U(typedVersion)
	return enc
}

// endTyped ends a row that startTyped began.
func endTyped(enc rowfile.Enc, name string) []byte {
	if name != "" {
		enc.S(name)
	}
	return enc.B
}

// readTyped reads the version of a row that may end with a type, and reports whether it does.
func readTyped(dec *rowfile.Dec, what string) (bool, error) {
	if len(dec.B) > 0 && dec.B[0] == typedVersion {
		dec.U()
		return true, nil
	}
	return false, readVersion(dec, what)
}

// readType reads what endTyped wrote.
func readType(dec *rowfile.Dec, typed bool) string {
	if !typed {
		return ""
	}
	name := dec.S()
	refuseUntyped(dec, name != "")
	return name
}

// refuseUntyped refuses a row that could end with a type, and has none: no writer makes it.
func refuseUntyped(dec *rowfile.Dec, typed bool) {
	if dec.Err == nil && !typed {
		dec.Err = fault.SegmentDamage.At("decode row", "").Because("it has an empty type")
	}
}

func isTyped(one Entity) bool { return one.Type != "" }

func putID(e *rowfile.Enc, id core.ID)        { e.Raw(id[:]) }
func putDigest(e *rowfile.Enc, x core.Digest) { e.Raw(x[:]) }

// KeysOf gives ids as keys of rows.
func KeysOf(ids []core.ID) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range ids {
			if !yield(string(ids[i][:])) {
				return
			}
		}
	}
}

func readID(d *rowfile.Dec) core.ID { return core.ID(d.Raw(16)) }

func readDigest(d *rowfile.Dec) core.Digest { return core.Digest(d.Raw(32)) }

func putDigests(enc *rowfile.Enc, list []core.Digest) {
	enc.U(uint64(len(list)))
	for _, one := range list {
		putDigest(enc, one)
	}
}

func readDigests(dec *rowfile.Dec) []core.Digest {
	return readList(dec, func() core.Digest { return readDigest(dec) })
}

func putBool(enc *rowfile.Enc, set bool) {
	if set {
		enc.U(1)
	} else {
		enc.U(0)
	}
}

// readList reads a list whose length stands before it; nil where it is empty.
func readList[T any](dec *rowfile.Dec, read func() T) (out []T) {
	return readAtMost(dec, math.MaxInt64, read)
}

// readAtMost refuses a longer list, which takes far more memory than bytes: no writer makes it.
func readAtMost[T any](dec *rowfile.Dec, most int, read func() T) (out []T) {
	count := dec.U()
	if dec.Err == nil && count > uint64(most) {
		dec.Err = fault.SegmentDamage.At("decode row", "").
			Because(fmt.Sprintf("it has a list of %d, and at most %d are written", count, most)).
			Advise("restore the generation")
		return nil
	}
	for range count {
		one := read()
		if dec.Err != nil {
			return nil
		}
		out = append(out, one)
	}
	return out
}

func putMeta(enc *rowfile.Enc, m map[string]string) {
	enc.U(uint64(len(m)))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		enc.S(k)
		enc.S(m[k])
	}
}

func readMeta(dec *rowfile.Dec) map[string]string {
	n := dec.U()
	if n == 0 {
		return nil
	}
	m := map[string]string{}
	for range n {
		k := dec.S()
		m[k] = dec.S()
		if dec.Err != nil {
			return nil
		}
	}
	return m
}

// Plan is one document to be built, keyed by its document key. Record holds the canonical record of a row.
type Plan struct {
	Object   string
	Kind     string
	Gzip     bool
	Version  core.Digest
	ETag     string
	Size     int64
	Modified time.Time
	Line     int
	Record   []byte
	Part     string // name of an attachment of the object; empty: it is none
	Problem  string // a code, where plan found that the document cannot be used
	Archived string // blob.Info.Archived of the object
	Beside   string // ETag of the file of metadata beside the object; empty: there is none
}

// Encode gives the row's bytes.
func (p Plan) Encode() []byte {
	enc := startRow()
	enc.S(p.Object)
	enc.S(p.Kind)
	putBool(&enc, p.Gzip)
	putDigest(&enc, p.Version)
	enc.S(p.ETag)
	enc.I(p.Size)
	enc.I(p.Modified.UnixMilli())
	enc.U(uint64(p.Line))
	enc.S(string(p.Record))
	enc.S(p.Problem)
	enc.S(p.Archived)
	enc.S(p.Part)
	enc.S(p.Beside)
	return enc.B
}

// Mark returns the ETag that a document's row has: that of the object, and that of the file of metadata beside it, so
// that the next run sees a change of either. It is empty where the object must be opened again.
func (p Plan) Mark() string {
	if p.ETag == "" || p.Beside == "" {
		return p.ETag
	}
	return p.ETag + "\n" + p.Beside
}

// IsNested reports whether the document is a row of its object, or attached to it.
func (p Plan) IsNested() bool { return p.Line > 0 || p.Part != "" }

// DecodePlan reads one.
func DecodePlan(b []byte) (Plan, error) {
	dec := rowfile.Dec{B: b}
	if err := readVersion(&dec, "plan"); err != nil {
		return Plan{}, err
	}
	p := Plan{
		Object:   dec.S(),
		Kind:     dec.S(),
		Gzip:     dec.U() == 1,
		Version:  readDigest(&dec),
		ETag:     dec.S(),
		Size:     dec.I(),
		Modified: time.UnixMilli(dec.I()).UTC(),
		Line:     int(dec.U()),
	}
	p.Record = append([]byte(nil), dec.Bytes()...)
	p.Problem, p.Archived, p.Part, p.Beside = dec.S(), dec.S(), dec.S(), dec.S()
	return p, dec.End()
}

// Chunk is one chunk of a part, keyed by document key, in chunk order.
type Chunk struct {
	ID         core.ID
	Ordinal    int
	Start, End int
	Tokens     int
	Frame      int // of the piece it starts in
	Title      string
	Labels     core.LabelSet // of its document
}

// Encode gives the row's bytes.
func (c Chunk) Encode() []byte {
	enc := startTyped(c.Labels != core.Everybody)
	putID(&enc, c.ID)
	enc.U(uint64(c.Ordinal))
	enc.U(uint64(c.Start))
	enc.U(uint64(c.End))
	enc.U(uint64(c.Tokens))
	enc.U(uint64(c.Frame))
	enc.S(c.Title)
	return endTyped(enc, string(c.Labels))
}

// DecodeChunk reads one.
func DecodeChunk(b []byte) (Chunk, error) {
	dec := rowfile.Dec{B: b}
	labelled, err := readTyped(&dec, "chunk")
	if err != nil {
		return Chunk{}, err
	}
	c := Chunk{
		ID: readID(&dec), Ordinal: int(dec.U()), Start: int(dec.U()), End: int(dec.U()), Tokens: int(dec.U()),
		Frame: int(dec.U()), Title: dec.S(),
	}
	c.Labels = core.LabelSet(readType(&dec, labelled))
	return c, dec.End()
}

// Entity is one extracted (name, description) with its places in the chunk.
type Entity struct {
	Name        string
	Description string
	Spans       [][2]int // code points of the chunk, half open; none: not located
	Type        string   // of those of the index; empty: none
}

// Extract is what a model said about a chunk, keyed by chunk id, in chunk order.
type Extract struct {
	Key      core.Digest // of the ledger; zero for models that are not paid
	Rung     string      // how the output was read
	Fallback string      // a reason, where the chunk has a fallback mention only
	Entities []Entity
}

// Encode gives the row's bytes.
func (x Extract) Encode() []byte {
	typed := slices.ContainsFunc(x.Entities, isTyped)
	enc := startTyped(typed)
	putDigest(&enc, x.Key)
	enc.S(x.Rung)
	enc.S(x.Fallback)
	enc.U(uint64(len(x.Entities)))
	for _, entity := range x.Entities {
		enc.S(entity.Name)
		enc.S(entity.Description)
		enc.U(uint64(len(entity.Spans)))
		for _, s := range entity.Spans {
			enc.U(uint64(s[0]))
			enc.U(uint64(s[1] - s[0]))
		}
	}
	for i := 0; typed && i < len(x.Entities); i++ {
		enc.S(x.Entities[i].Type)
	}
	return enc.B
}

// DecodeExtract reads one.
func DecodeExtract(b []byte) (Extract, error) {
	dec := rowfile.Dec{B: b}
	typed, err := readTyped(&dec, "extract")
	if err != nil {
		return Extract{}, err
	}
	extract := Extract{Key: readDigest(&dec), Rung: dec.S(), Fallback: dec.S()}
	span := func() [2]int {
		s := int(dec.U())
		return [2]int{s, s + int(dec.U())}
	}
	extract.Entities = readAtMost(&dec, core.MaxEntities, func() Entity {
		return Entity{Name: dec.S(), Description: dec.S(), Spans: readList(&dec, span)}
	})
	for i := 0; typed && i < len(extract.Entities); i++ {
		extract.Entities[i].Type = dec.S()
	}
	refuseUntyped(&dec, !typed || slices.ContainsFunc(extract.Entities, isTyped))
	return extract, dec.End()
}
