package core

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math/bits"
	"strconv"
	"strings"
)

// ID is the 16-byte identity of a chunk or a class (32 hex digits in text).
type ID [16]byte

// String is the lower-case hex form.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText writes hex, so that IDs read well in JSON.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads 32 hex digits.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := ParseID(string(b))
	*id = v
	return err
}

// ParseID reads 32 hex digits.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 32 {
		return id, fmt.Errorf("id %q: want 32 hex digits", s)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return id, fmt.Errorf("id %q: %w", s, err)
	}
	return id, nil
}

// Digest is a sha256.
type Digest [32]byte

// String is the lower-case hex form.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Short returns the first n hex digits.
func (d Digest) Short(n int) string { return d.String()[:n] }

// DigestPrefix is the first 8 bytes of a digest: as much as keys of class vectors hold.
type DigestPrefix [8]byte

// Prefix gives it.
func (d Digest) Prefix() DigestPrefix { return DigestPrefix(d[:8]) }

// String is the lower-case hex form.
func (p DigestPrefix) String() string { return hex.EncodeToString(p[:]) }

// IsZero reports whether a digest is unset.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText writes hex.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 64 hex digits.
func (d *Digest) UnmarshalText(raw []byte) error {
	if len(raw) != 64 {
		return fmt.Errorf("digest %q: want 64 hex digits", raw)
	}
	_, err := hex.Decode(d[:], raw)
	return err
}

// Sum hashes fields so that no two different lists of fields share an encoding: each field is preceded by its length.
func Sum(fields ...string) Digest {
	var small [1 << 10]byte // most lists fit, and take no memory then
	encoded := small[:0]
	for _, f := range fields {
		encoded = binary.BigEndian.AppendUint64(encoded, uint64(len(f)))
		encoded = append(encoded, f...)
	}
	return sha256.Sum256(encoded)
}

// Summing gives the Sum of fields that come one after another and are too many for a list.
type Summing struct{ hash hash.Hash }

// NewSumming begins with no field.
func NewSumming() *Summing { return &Summing{sha256.New()} }

// Add takes further fields.
func (s *Summing) Add(fields ...string) {
	for _, f := range fields {
		_, _ = s.hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f)))) // a hash takes everything
		_, _ = io.WriteString(s.hash, f)
	}
}

// Digest returns the Sum of what came.
func (s *Summing) Digest() Digest { return Digest(s.hash.Sum(nil)) }

// ChunkID returns sha256(document key, 0x00, text, 0x00, n) cut to 16 bytes; n counts earlier identical texts in the
// document (docs/reference/formats.md, Identity). A chunk keeps its id when text around it changes.
func ChunkID(document, text string, n int) ID {
	d := sha256.Sum256([]byte(document + "\x00" + text + "\x00" + strconv.Itoa(n)))
	return ID(d[:16])
}

// ClassID returns sha256(class key) cut to 16 bytes.
func ClassID(key string) ID {
	d := sha256.Sum256([]byte(key))
	return ID(d[:16])
}

// SetHash is a hash of a set that can be updated: the sum modulo 2^256 of the digests of its entries. A night subtracts
// what left and adds what came (docs/reference/formats.md, Identity). The zero value is the empty set.
type SetHash [4]uint64 // little-endian words

// Add puts an entry in.
func (s *SetHash) Add(d Digest) { s.Merge(toWords(d)) }

// Sub takes an entry out.
func (s *SetHash) Sub(d Digest) { s.Subtract(toWords(d)) }

// Merge adds all entries of another set.
func (s *SetHash) Merge(o SetHash) {
	var c uint64
	for i := range 4 {
		s[i], c = bits.Add64(s[i], o[i], c)
	}
}

// Subtract takes all entries of another set out.
func (s *SetHash) Subtract(o SetHash) {
	var c uint64
	for i := range 4 {
		s[i], c = bits.Sub64(s[i], o[i], c)
	}
}

// Digest gives the sum as a digest.
func (s SetHash) Digest() Digest {
	var digest Digest
	for i := range 4 {
		binary.BigEndian.PutUint64(digest[24-8*i:], s[i])
	}
	return digest
}

// MarshalText writes the digest.
func (s SetHash) MarshalText() ([]byte, error) { return s.Digest().MarshalText() }

// UnmarshalText reads a digest back.
func (s *SetHash) UnmarshalText(b []byte) error {
	var digest Digest
	if err := digest.UnmarshalText(b); err != nil {
		return err
	}
	*s = toWords(digest)
	return nil
}

// toWords returns the set of one entry.
func toWords(d Digest) (set SetHash) {
	for i := range set {
		set[i] = binary.BigEndian.Uint64(d[24-8*i:])
	}
	return set
}

// ValidSlug reports whether s may name an index or a generation: [a-z0-9][a-z0-9-]{0,62}.
func ValidSlug(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	}) < 0
}

// ValidIndex reports whether s may name an index: a slug that is no folder of the artifact store's own.
func ValidIndex(s string) bool { return ValidSlug(s) && s != "ledger" && s != "doctor" }

// RowKey returns the document key of a row: the object's key with '#' percent-encoded, '#', the row's id.
func RowKey(object, id string) string { return ObjectKey(object) + "#" + id }

// ObjectKey returns the document key of an object: '#' is kept for rows, so it is percent-encoded here, and '%' with it
// so that the mapping can be undone.
func ObjectKey(object string) string {
	return encoded.Replace(object)
}

// ObjectOf returns the object that the document of that key is of, or a row of: it undoes ObjectKey and RowKey.
func ObjectOf(document string) string {
	object, _, _ := strings.Cut(document, "#")
	return decoded.Replace(object)
}

var decoded = strings.NewReplacer("%23", "#", "%25", "%")

var encoded = strings.NewReplacer("%", "%25", "#", "%23") // making it costs more than using it

// ClassRow returns the key of a class vector row: <class id>-<16 hex of the vector digest>.
func ClassRow(id ID, vector Digest) string { return ClassRowOf(id, vector.Prefix()) }

// ClassRowOf returns what ClassRow does, for a vector digest of which no more is known than the key holds.
func ClassRowOf(id ID, vector DigestPrefix) string { return id.String() + "-" + vector.String() }

// ChunkRow returns the key of a chunk vector row: <chunk id>-<window>-<8 hex of the chunk digest>.
func ChunkRow(id ID, window int, chunk Digest) string {
	return id.String() + "-" + strconv.Itoa(window) + "-" + chunk.Short(8)
}

// RecordKey returns the key of a class record: <8 hex of store id>:c:<index>:<class id>:<record digest>.
func RecordKey(store, index string, id ID, record Digest) string {
	return RecordPrefix(store, index) + id.String() + ":" + record.String()
}

// RecordPrefix returns what the keys of all class records of an index start with.
func RecordPrefix(store, index string) string { return store[:8] + ":c:" + index + ":" }

// ImportRoot is what the keys of all copies for bulk import start with, in the bucket that the vector store reads.
const ImportRoot = "unweaver-import/"

// ImportPrefix returns what the keys of an installation's copies for bulk import start with:
// unweaver-import/<8 hex of store id>/. Behind it a copy has the key of its run's scratch.
func ImportPrefix(store string) string { return ImportRoot + store[:8] + "/" }

// NameCollection names a vector collection: uw_<8 hex of sha256(store id, index)>_<kind>_<8 hex of fingerprint>_<n>.
func NameCollection(store, index, kind string, fingerprint Digest, n int) string {
	return fmt.Sprintf("%s%s_%s_%d", CollectionPrefix(store, index), kind, fingerprint.Short(8), n)
}

// CollectionPrefix returns what the names of all collections of an index start with.
func CollectionPrefix(store, index string) string { return "uw_" + Sum(store, index).Short(8) + "_" }
