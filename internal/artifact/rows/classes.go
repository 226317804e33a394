package rows

import (
	"crypto/sha256"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/core"
)

// TitlePosition is the position of a document's title among the mentions of a chunk.
const TitlePosition = -1

// Mention is one row of the mentions segment, keyed by the 16 bytes of its class id; rows of one class are in chunk
// order.
type Mention struct {
	Chunk       core.ID
	Number      int64 // the chunk's number in chunk order of the shard
	Document    string
	Ordinal     int
	Position    int
	Surface     string
	Description string
	Fallback    bool
	Type        string // of those of the index; empty: none
}

// Encode gives the row's bytes.
func (m Mention) Encode() []byte {
	enc := startTyped(m.Type != "")
	putID(&enc, m.Chunk)
	enc.I(m.Number)
	enc.S(m.Document)
	enc.U(uint64(m.Ordinal))
	enc.I(int64(m.Position))
	enc.S(m.Surface)
	enc.S(m.Description)
	putBool(&enc, m.Fallback)
	return endTyped(enc, m.Type)
}

// DecodeMention reads one.
func DecodeMention(b []byte) (Mention, error) {
	dec := rowfile.Dec{B: b}
	typed, err := readTyped(&dec, "mention")
	if err != nil {
		return Mention{}, err
	}
	m := Mention{
		Chunk:       readID(&dec),
		Number:      dec.I(),
		Document:    dec.S(),
		Ordinal:     int(dec.U()),
		Position:    int(dec.I()),
		Surface:     dec.S(),
		Description: dec.S(),
		Fallback:    dec.U() == 1,
	}
	m.Type = readType(&dec, typed)
	return m, dec.End()
}

// Reduced is a class before its text is final, keyed by the 16 bytes of its id.
type Reduced struct {
	Name         string
	Descriptions []string // sampled, in the order of the class's text
	Members      core.Digest
	Text         core.Digest
	Mentions     int64
	ChunkTotal   int64
	Type         string // that most mentions have; empty: none has one
}

// Encode gives the row's bytes.
func (r Reduced) Encode() []byte {
	enc := startTyped(r.Type != "")
	enc.S(r.Name)
	enc.U(uint64(len(r.Descriptions)))
	for _, d := range r.Descriptions {
		enc.S(d)
	}
	putDigest(&enc, r.Members)
	putDigest(&enc, r.Text)
	enc.U(uint64(r.Mentions))
	enc.U(uint64(r.ChunkTotal))
	return endTyped(enc, r.Type)
}

// DecodeReduced reads one.
func DecodeReduced(b []byte) (Reduced, error) {
	dec := rowfile.Dec{B: b}
	typed, err := readTyped(&dec, "reduced class")
	if err != nil {
		return Reduced{}, err
	}
	reduced := Reduced{Name: dec.S(), Descriptions: readList(&dec, dec.S)}
	reduced.Members, reduced.Text = readDigest(&dec), readDigest(&dec)
	reduced.Mentions, reduced.ChunkTotal = int64(dec.U()), int64(dec.U())
	reduced.Type = readType(&dec, typed)
	return reduced, dec.End()
}

// Short is the final text of a class that was too long, keyed by the 16 bytes of its id.
type Short struct {
	Text string
	Keys []core.Digest // of the ledger
}

// Encode gives the row's bytes.
func (s Short) Encode() []byte {
	enc := startRow()
	enc.S(s.Text)
	putDigests(&enc, s.Keys)
	return enc.B
}

// DecodeShort reads one.
func DecodeShort(b []byte) (Short, error) {
	dec := rowfile.Dec{B: b}
	if err := readVersion(&dec, "short text"); err != nil {
		return Short{}, err
	}
	short := Short{Text: dec.S(), Keys: readDigests(&dec)}
	return short, dec.End()
}

// Record is a class as queries read it: the canonical bytes that the store of classes holds. It changes only where its
// name, its text or its type does: which chunks mention it is in the tables of splits.
type Record struct {
	ID   core.ID
	Name string
	Text string
	Type string // empty: it has none
}

// Encode gives the canonical bytes.
func (r Record) Encode() []byte {
	enc := startTyped(r.Type != "")
	putID(&enc, r.ID)
	enc.S(r.Name)
	enc.S(r.Text)
	return endTyped(enc, r.Type)
}

// DecodeRecord reads one.
func DecodeRecord(b []byte) (Record, error) {
	dec := rowfile.Dec{B: b}
	typed, err := readTyped(&dec, "class record")
	if err != nil {
		return Record{}, err
	}
	record := Record{ID: readID(&dec), Name: dec.S(), Text: dec.S(), Type: readType(&dec, typed)}
	return record, dec.End()
}

// RecordDigest returns the identity of canonical bytes.
func RecordDigest(b []byte) core.Digest { return sha256.Sum256(b) }

// Class is a row of the classes segment, keyed by the 16 bytes of the class id.
type Class struct {
	Record []byte // canonical bytes
	Vector core.Digest
	Text   core.Digest
	Keys   []core.Digest // of the ledger

	// Mentions and the chunks that they are of, as they were when the row was written. More may have come since, or
	// fewer be left: they are good for estimates alone.
	Mentions, Chunks int64
}

// Encode gives the row's bytes.
func (c Class) Encode() []byte {
	enc := startRow()
	enc.S(string(c.Record))
	putDigest(&enc, c.Vector)
	putDigest(&enc, c.Text)
	enc.U(uint64(c.Mentions))
	enc.U(uint64(c.Chunks))
	putDigests(&enc, c.Keys)
	return enc.B
}

// DecodeClass reads one.
func DecodeClass(b []byte) (Class, error) {
	dec := rowfile.Dec{B: b}
	if err := readVersion(&dec, "class"); err != nil {
		return Class{}, err
	}
	class := Class{Record: append([]byte(nil), dec.Bytes()...), Vector: readDigest(&dec), Text: readDigest(&dec)}
	class.Mentions, class.Chunks, class.Keys = int64(dec.U()), int64(dec.U()), readDigests(&dec)
	return class, dec.End()
}
