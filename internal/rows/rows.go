// Package rows fixes the bytes of the rows that stages hand to each other and keep in segments. Every row starts with
// its version; a reader refuses versions it does not know.
package rows

import (
	"sort"
	"time"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/wire"
)

const version = 1

func begin(d *wire.Dec, what string) error {
	if v := d.U(); v != version {
		return fault.New(fault.SegmentDamage, fault.Fatal, "decode "+what+" row", "", "unknown version", "update this program")
	}
	return d.Err
}

func start() wire.Enc {
	var e wire.Enc
	e.U(version)
	return e
}

func putID(e *wire.Enc, id corpus.ID)        { e.Raw(id[:]) }
func putDigest(e *wire.Enc, x corpus.Digest) { e.Raw(x[:]) }

// ID reads an identity.
func id(d *wire.Dec) corpus.ID { return corpus.ID(d.Raw(16)) }

func digest(d *wire.Dec) corpus.Digest { return corpus.Digest(d.Raw(32)) }

func putMeta(e *wire.Enc, m map[string]string) {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	e.U(uint64(len(keys)))
	for _, k := range keys {
		e.S(k)
		e.S(m[k])
	}
}

func meta(d *wire.Dec) map[string]string {
	n := d.U()
	if n == 0 {
		return nil
	}
	m := map[string]string{}
	for range n {
		k := d.S()
		m[k] = d.S()
		if d.Err != nil {
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
	Version  corpus.Digest
	ETag     string
	Size     int64
	Modified time.Time
	Line     int
	Record   []byte
}

// Encode gives the row's bytes.
func (p Plan) Encode() []byte {
	e := start()
	e.S(p.Object)
	e.S(p.Kind)
	g := uint64(0)
	if p.Gzip {
		g = 1
	}
	e.U(g)
	putDigest(&e, p.Version)
	e.S(p.ETag)
	e.I(p.Size)
	e.I(p.Modified.UnixMilli())
	e.U(uint64(p.Line))
	e.S(string(p.Record))
	return e.B
}

// DecodePlan reads one.
func DecodePlan(b []byte) (Plan, error) {
	d := wire.Dec{B: b}
	if err := begin(&d, "plan"); err != nil {
		return Plan{}, err
	}
	p := Plan{Object: d.S(), Kind: d.S(), Gzip: d.U() == 1, Version: digest(&d), ETag: d.S(), Size: d.I(), Modified: time.UnixMilli(d.I()).UTC(), Line: int(d.U())}
	p.Record = append([]byte(nil), d.Bytes()...)
	return p, d.Err
}

// Place is a chunk's place in its document, in code points.
type Place struct {
	ID         corpus.ID
	Start, End int
}

// Document is a row of the documents segment, keyed by document key.
type Document struct {
	Object   string
	Version  corpus.Digest
	ETag     string
	Size     int64
	Modified time.Time
	Title    string
	Kind     string
	Meta     map[string]string
	Chunks   []Place
	Runes    int
	Frame    int    // of its first piece in the text segment of the same part
	Problem  string // a code, where the document could not be used
}

// Encode gives the row's bytes.
func (x Document) Encode() []byte {
	e := start()
	e.S(x.Object)
	putDigest(&e, x.Version)
	e.S(x.ETag)
	e.I(x.Size)
	e.I(x.Modified.UnixMilli())
	e.S(x.Title)
	e.S(x.Kind)
	putMeta(&e, x.Meta)
	e.U(uint64(x.Runes))
	e.U(uint64(x.Frame))
	e.S(x.Problem)
	e.U(uint64(len(x.Chunks)))
	for _, c := range x.Chunks {
		putID(&e, c.ID)
		e.U(uint64(c.Start))
		e.U(uint64(c.End))
	}
	return e.B
}

// DecodeDocument reads one.
func DecodeDocument(b []byte) (Document, error) {
	d := wire.Dec{B: b}
	if err := begin(&d, "document"); err != nil {
		return Document{}, err
	}
	x := Document{Object: d.S(), Version: digest(&d), ETag: d.S(), Size: d.I(), Modified: time.UnixMilli(d.I()).UTC(), Title: d.S(), Kind: d.S(),
		Meta: meta(&d), Runes: int(d.U()), Frame: int(d.U()), Problem: d.S()}
	for range d.U() {
		x.Chunks = append(x.Chunks, Place{id(&d), int(d.U()), int(d.U())})
		if d.Err != nil {
			break
		}
	}
	return x, d.Err
}

// Chunk is one chunk of a part, keyed by document key, in chunk order.
type Chunk struct {
	ID         corpus.ID
	Ordinal    int
	Start, End int
	Tokens     int
	Frame      int // of the piece it starts in
	Title      string
}

// Encode gives the row's bytes.
func (c Chunk) Encode() []byte {
	e := start()
	putID(&e, c.ID)
	e.U(uint64(c.Ordinal))
	e.U(uint64(c.Start))
	e.U(uint64(c.End))
	e.U(uint64(c.Tokens))
	e.U(uint64(c.Frame))
	e.S(c.Title)
	return e.B
}

// DecodeChunk reads one.
func DecodeChunk(b []byte) (Chunk, error) {
	d := wire.Dec{B: b}
	if err := begin(&d, "chunk"); err != nil {
		return Chunk{}, err
	}
	c := Chunk{id(&d), int(d.U()), int(d.U()), int(d.U()), int(d.U()), int(d.U()), d.S()}
	return c, d.Err
}

// Entity is one extracted (name, description) with its places in the chunk.
type Entity struct {
	Name        string
	Description string
	Spans       [][2]int // code points of the chunk, half open; none: not located
}

// Extract is what a model said about a chunk, keyed by chunk id, in chunk order.
type Extract struct {
	Key      corpus.Digest // of the ledger; zero for models that are not paid
	Rung     string        // how the output was read
	Fallback string        // a reason, where the chunk has a fallback mention only
	Entities []Entity
}

// Encode gives the row's bytes.
func (x Extract) Encode() []byte {
	e := start()
	putDigest(&e, x.Key)
	e.S(x.Rung)
	e.S(x.Fallback)
	e.U(uint64(len(x.Entities)))
	for _, m := range x.Entities {
		e.S(m.Name)
		e.S(m.Description)
		e.U(uint64(len(m.Spans)))
		for _, s := range m.Spans {
			e.U(uint64(s[0]))
			e.U(uint64(s[1] - s[0]))
		}
	}
	return e.B
}

// DecodeExtract reads one.
func DecodeExtract(b []byte) (Extract, error) {
	d := wire.Dec{B: b}
	if err := begin(&d, "extract"); err != nil {
		return Extract{}, err
	}
	x := Extract{Key: digest(&d), Rung: d.S(), Fallback: d.S()}
	for range d.U() {
		m := Entity{Name: d.S(), Description: d.S()}
		for range d.U() {
			s := int(d.U())
			m.Spans = append(m.Spans, [2]int{s, s + int(d.U())})
			if d.Err != nil {
				break
			}
		}
		x.Entities = append(x.Entities, m)
		if d.Err != nil {
			break
		}
	}
	return x, d.Err
}
