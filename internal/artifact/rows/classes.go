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
	Number      int64 // the chunk's number in chunk order of the shard (scratch) or of the generation (segment)
	Document    string
	Ordinal     int
	Position    int
	Surface     string
	Description string
	Fallback    bool
}

// Encode gives the row's bytes.
func (m Mention) Encode() []byte {
	enc := start()
	putID(&enc, m.Chunk)
	enc.I(m.Number)
	enc.S(m.Document)
	enc.U(uint64(m.Ordinal))
	enc.I(int64(m.Position))
	enc.S(m.Surface)
	enc.S(m.Description)
	f := uint64(0)
	if m.Fallback {
		f = 1
	}
	enc.U(f)
	return enc.B
}

// DecodeMention reads one.
func DecodeMention(b []byte) (Mention, error) {
	dec := rowfile.Dec{B: b}
	if err := begin(&dec, "mention"); err != nil {
		return Mention{}, err
	}
	m := Mention{
		Chunk:       id(&dec),
		Number:      dec.I(),
		Document:    dec.S(),
		Ordinal:     int(dec.U()),
		Position:    int(dec.I()),
		Surface:     dec.S(),
		Description: dec.S(),
		Fallback:    dec.U() == 1,
	}
	return m, dec.End()
}

// MaxRecordChunks is how many chunk ids a class record lists; the mentions segment has all.
const MaxRecordChunks = 10_000

// Reduced is a class before its text is final, keyed by the 16 bytes of its id.
type Reduced struct {
	Name         string
	Descriptions []string // sampled, in the order of the class's text
	Members      core.Digest
	Text         core.Digest
	Mentions     int64
	ChunkTotal   int64
	Chunks       []core.ID // the first MaxRecordChunks
	FirstChunk   int64     // number of the chunk of the first mention
	FirstPos     int
}

// Encode gives the row's bytes.
func (r Reduced) Encode() []byte {
	enc := start()
	enc.S(r.Name)
	enc.U(uint64(len(r.Descriptions)))
	for _, d := range r.Descriptions {
		enc.S(d)
	}
	putDigest(&enc, r.Members)
	putDigest(&enc, r.Text)
	enc.U(uint64(r.Mentions))
	enc.U(uint64(r.ChunkTotal))
	enc.U(uint64(len(r.Chunks)))
	for _, c := range r.Chunks {
		putID(&enc, c)
	}
	enc.U(uint64(r.FirstChunk))
	enc.I(int64(r.FirstPos))
	return enc.B
}

// reducedSame is the version that programs of before gave to a class whose text was the parent's.
const reducedSame = version + 1

// DecodeReduced reads one.
func DecodeReduced(b []byte) (Reduced, error) {
	dec := rowfile.Dec{B: b}
	if _, err := beginUpTo(&dec, "reduced class", reducedSame); err != nil {
		return Reduced{}, err
	}
	reduced := Reduced{Name: dec.S()}
	for range dec.U() {
		reduced.Descriptions = append(reduced.Descriptions, dec.S())
		if dec.Err != nil {
			return reduced, dec.Err
		}
	}
	reduced.Members, reduced.Text = digest(&dec), digest(&dec)
	reduced.Mentions, reduced.ChunkTotal = int64(dec.U()), int64(dec.U())
	for range dec.U() {
		reduced.Chunks = append(reduced.Chunks, id(&dec))
		if dec.Err != nil {
			return reduced, dec.Err
		}
	}
	reduced.FirstChunk, reduced.FirstPos = int64(dec.U()), int(dec.I())
	return reduced, dec.End()
}

// Short is the final text of a class that was too long, keyed by the 16 bytes of its id.
type Short struct {
	Text string
	Keys []core.Digest // of the ledger
}

// Encode gives the row's bytes.
func (s Short) Encode() []byte {
	enc := start()
	enc.S(s.Text)
	enc.U(uint64(len(s.Keys)))
	for _, k := range s.Keys {
		putDigest(&enc, k)
	}
	return enc.B
}

// DecodeShort reads one.
func DecodeShort(b []byte) (Short, error) {
	dec := rowfile.Dec{B: b}
	if err := begin(&dec, "short text"); err != nil {
		return Short{}, err
	}
	short := Short{Text: dec.S()}
	for range dec.U() {
		short.Keys = append(short.Keys, digest(&dec))
		if dec.Err != nil {
			break
		}
	}
	return short, dec.End()
}

// Record is a class as queries read it: the canonical bytes that the store of classes holds. It changes only where its
// name or its text does: which chunks mention it is in the tables of splits.
type Record struct {
	ID     core.ID
	Name   string
	Text   string
	Listed *Membership // in records of a generation with a live segment, and of manifests up to format 2; nil: not here
}

// Membership is what mentions a class.
type Membership struct {
	Mentions   int64
	Members    core.Digest
	ChunkTotal int64
	Chunks     []core.ID // the first MaxRecordChunks
}

// recordAlone is the version of a record without a membership; the first has one.
const recordAlone = version + 1

// Encode gives the canonical bytes.
func (r Record) Encode() []byte {
	var enc rowfile.Enc
	if r.Listed == nil {
		enc.U(recordAlone)
	} else {
		enc.U(version)
	}
	putID(&enc, r.ID)
	enc.S(r.Name)
	enc.S(r.Text)
	if r.Listed == nil {
		return enc.B
	}
	enc.U(uint64(r.Listed.Mentions))
	putDigest(&enc, r.Listed.Members)
	enc.U(uint64(r.Listed.ChunkTotal))
	enc.U(uint64(len(r.Listed.Chunks)))
	for _, c := range r.Listed.Chunks {
		putID(&enc, c)
	}
	return enc.B
}

// DecodeRecord reads one.
func DecodeRecord(b []byte) (Record, error) {
	dec := rowfile.Dec{B: b}
	got, err := beginUpTo(&dec, "class record", recordAlone)
	if err != nil {
		return Record{}, err
	}
	record := Record{ID: id(&dec), Name: dec.S(), Text: dec.S()}
	if got == recordAlone {
		return record, dec.End()
	}
	record.Listed = &Membership{Mentions: int64(dec.U()), Members: digest(&dec), ChunkTotal: int64(dec.U())}
	total := dec.U()
	record.Listed.Chunks = make([]core.ID, 0, min(total, uint64(len(dec.B)/len(core.ID{}))))
	for range total {
		record.Listed.Chunks = append(record.Listed.Chunks, id(&dec))
		if dec.Err != nil {
			break
		}
	}
	return record, dec.End()
}

// RecordDigest is the identity of canonical bytes.
func RecordDigest(b []byte) core.Digest { return sha256.Sum256(b) }

// Class is a row of the classes segment, keyed by the 16 bytes of the class id.
type Class struct {
	Record []byte // canonical bytes
	Vector core.Digest
	Text   core.Digest
	Keys   []core.Digest // of the ledger
	First  *First        // of a generation with a live segment; nil: splits tell

	// Mentions and the chunks that they are of, as they were when the row was written. More may have come since, or
	// fewer be left: they are good for estimates alone.
	Mentions, Chunks int64
}

// First is where the first mention of a class is.
type First struct {
	Chunk int64 // its number
	Pos   int
}

// classAlone is the version of a class row without a first mention; the first has one, and no counts.
const classAlone = version + 1

// Encode gives the row's bytes.
func (c Class) Encode() []byte {
	var enc rowfile.Enc
	if c.First == nil {
		enc.U(classAlone)
	} else {
		enc.U(version)
	}
	enc.S(string(c.Record))
	putDigest(&enc, c.Vector)
	putDigest(&enc, c.Text)
	if c.First == nil {
		enc.U(uint64(c.Mentions))
		enc.U(uint64(c.Chunks))
	} else {
		enc.U(uint64(c.First.Chunk))
		enc.I(int64(c.First.Pos))
	}
	enc.U(uint64(len(c.Keys)))
	for _, k := range c.Keys {
		putDigest(&enc, k)
	}
	return enc.B
}

// DecodeClass reads one. Counts of a row with a first mention are in its record.
func DecodeClass(b []byte) (Class, error) {
	dec := rowfile.Dec{B: b}
	got, err := beginUpTo(&dec, "class", classAlone)
	if err != nil {
		return Class{}, err
	}
	class := Class{Record: append([]byte(nil), dec.Bytes()...), Vector: digest(&dec), Text: digest(&dec)}
	if got == classAlone {
		class.Mentions, class.Chunks = int64(dec.U()), int64(dec.U())
	} else {
		class.First = &First{Chunk: int64(dec.U()), Pos: int(dec.I())}
	}
	for range dec.U() {
		class.Keys = append(class.Keys, digest(&dec))
		if dec.Err != nil {
			break
		}
	}
	return class, dec.End()
}
