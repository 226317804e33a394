package rows

import (
	"crypto/sha256"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/wire"
)

// TitlePosition is the position of a document's title among the mentions of a chunk.
const TitlePosition = -1

// Mention is one row of the mentions segment, keyed by the 16 bytes of its class id; rows of one class are in chunk order.
type Mention struct {
	Chunk       corpus.ID
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
	e := start()
	putID(&e, m.Chunk)
	e.I(m.Number)
	e.S(m.Document)
	e.U(uint64(m.Ordinal))
	e.I(int64(m.Position))
	e.S(m.Surface)
	e.S(m.Description)
	f := uint64(0)
	if m.Fallback {
		f = 1
	}
	e.U(f)
	return e.B
}

// DecodeMention reads one.
func DecodeMention(b []byte) (Mention, error) {
	d := wire.Dec{B: b}
	if err := begin(&d, "mention"); err != nil {
		return Mention{}, err
	}
	m := Mention{Chunk: id(&d), Number: d.I(), Document: d.S(), Ordinal: int(d.U()), Position: int(d.I()), Surface: d.S(), Description: d.S(), Fallback: d.U() == 1}
	return m, d.Err
}

// MaxRecordChunks is how many chunk ids a class record lists; the mentions segment has all.
const MaxRecordChunks = 10_000

// Reduced is a class before its text is final, keyed by the 16 bytes of its id.
type Reduced struct {
	Name         string
	Descriptions []string // sampled, in chunk order
	Members      corpus.Digest
	Text         corpus.Digest
	Mentions     int64
	ChunkTotal   int64
	Chunks       []corpus.ID // the first MaxRecordChunks
	FirstChunk   int64       // number of the chunk of the first mention
	FirstPos     int
}

// Encode gives the row's bytes.
func (r Reduced) Encode() []byte {
	e := start()
	e.S(r.Name)
	e.U(uint64(len(r.Descriptions)))
	for _, d := range r.Descriptions {
		e.S(d)
	}
	putDigest(&e, r.Members)
	putDigest(&e, r.Text)
	e.U(uint64(r.Mentions))
	e.U(uint64(r.ChunkTotal))
	e.U(uint64(len(r.Chunks)))
	for _, c := range r.Chunks {
		putID(&e, c)
	}
	e.U(uint64(r.FirstChunk))
	e.I(int64(r.FirstPos))
	return e.B
}

// DecodeReduced reads one.
func DecodeReduced(b []byte) (Reduced, error) {
	d := wire.Dec{B: b}
	if err := begin(&d, "reduced class"); err != nil {
		return Reduced{}, err
	}
	r := Reduced{Name: d.S()}
	for range d.U() {
		r.Descriptions = append(r.Descriptions, d.S())
		if d.Err != nil {
			return r, d.Err
		}
	}
	r.Members, r.Text = digest(&d), digest(&d)
	r.Mentions, r.ChunkTotal = int64(d.U()), int64(d.U())
	for range d.U() {
		r.Chunks = append(r.Chunks, id(&d))
		if d.Err != nil {
			return r, d.Err
		}
	}
	r.FirstChunk, r.FirstPos = int64(d.U()), int(d.I())
	return r, d.Err
}

// Short is the final text of a class that was too long, keyed by the 16 bytes of its id.
type Short struct {
	Text string
	Keys []corpus.Digest // of the ledger
}

// Encode gives the row's bytes.
func (s Short) Encode() []byte {
	e := start()
	e.S(s.Text)
	e.U(uint64(len(s.Keys)))
	for _, k := range s.Keys {
		putDigest(&e, k)
	}
	return e.B
}

// DecodeShort reads one.
func DecodeShort(b []byte) (Short, error) {
	d := wire.Dec{B: b}
	if err := begin(&d, "short text"); err != nil {
		return Short{}, err
	}
	s := Short{Text: d.S()}
	for range d.U() {
		s.Keys = append(s.Keys, digest(&d))
		if d.Err != nil {
			break
		}
	}
	return s, d.Err
}

// Record is a class as queries read it: the canonical bytes that the store of classes holds.
type Record struct {
	ID         corpus.ID
	Name       string
	Text       string
	Mentions   int64
	Members    corpus.Digest
	ChunkTotal int64
	Chunks     []corpus.ID
}

// Encode gives the canonical bytes.
func (r Record) Encode() []byte {
	e := start()
	putID(&e, r.ID)
	e.S(r.Name)
	e.S(r.Text)
	e.U(uint64(r.Mentions))
	putDigest(&e, r.Members)
	e.U(uint64(r.ChunkTotal))
	e.U(uint64(len(r.Chunks)))
	for _, c := range r.Chunks {
		putID(&e, c)
	}
	return e.B
}

// DecodeRecord reads one.
func DecodeRecord(b []byte) (Record, error) {
	d := wire.Dec{B: b}
	if err := begin(&d, "class record"); err != nil {
		return Record{}, err
	}
	r := Record{ID: id(&d), Name: d.S(), Text: d.S(), Mentions: int64(d.U()), Members: digest(&d), ChunkTotal: int64(d.U())}
	n := int(d.U())
	if n > len(d.B)/16 {
		return r, d.Err
	}
	r.Chunks = make([]corpus.ID, n)
	for i := range r.Chunks {
		r.Chunks[i] = id(&d)
	}
	return r, d.Err
}

// RecordDigest is the identity of canonical bytes.
func RecordDigest(b []byte) corpus.Digest { return sha256.Sum256(b) }

// Class is a row of the classes segment, keyed by the 16 bytes of the class id.
type Class struct {
	Record     []byte // canonical bytes
	Vector     corpus.Digest
	Text       corpus.Digest
	Keys       []corpus.Digest // of the ledger
	FirstChunk int64
	FirstPos   int
}

// Encode gives the row's bytes.
func (c Class) Encode() []byte {
	e := start()
	e.S(string(c.Record))
	putDigest(&e, c.Vector)
	putDigest(&e, c.Text)
	e.U(uint64(c.FirstChunk))
	e.I(int64(c.FirstPos))
	e.U(uint64(len(c.Keys)))
	for _, k := range c.Keys {
		putDigest(&e, k)
	}
	return e.B
}

// DecodeClass reads one.
func DecodeClass(b []byte) (Class, error) {
	d := wire.Dec{B: b}
	if err := begin(&d, "class"); err != nil {
		return Class{}, err
	}
	c := Class{Record: append([]byte(nil), d.Bytes()...), Vector: digest(&d), Text: digest(&d), FirstChunk: int64(d.U()), FirstPos: int(d.I())}
	for range d.U() {
		c.Keys = append(c.Keys, digest(&d))
		if d.Err != nil {
			break
		}
	}
	return c, d.Err
}
