package core

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Sample is part Part of Of equal parts of all ids and digests: those whose first eight bytes lie in its range. The
// parts 1 to Of hold each id exactly once.
type Sample struct {
	Part int `json:"part"`
	Of   int `json:"of"`
}

// Everything is the only part of one.
var Everything = Sample{Part: 1, Of: 1}

// mostParts bounds a sample: more parts than this would leave next to nothing of an index in each.
const mostParts = 10_000

// ParseSample reads "n/t".
func ParseSample(text string) (Sample, error) {
	var s Sample
	var rest string
	if n, _ := fmt.Sscanf(text, "%d/%d%s", &s.Part, &s.Of, &rest); n != 2 || !s.IsValid() {
		return Sample{}, fmt.Errorf(
			"%q is no part of a whole: want n/t, with n from 1 to t and t at most %d", text, mostParts)
	}
	return s, nil
}

// IsValid reports whether it is a part of a whole.
func (s Sample) IsValid() bool { return s.Part >= 1 && s.Part <= s.Of && s.Of <= mostParts }

// String writes "n/t".
func (s Sample) String() string { return fmt.Sprintf("%d/%d", s.Part, s.Of) }

// IsWhole reports whether nothing is left out.
func (s Sample) IsWhole() bool { return s.Of == 1 }

// Holds reports whether the part has an id or a digest.
func (s Sample) Holds(id []byte) bool {
	part, _ := bits.Mul64(binary.BigEndian.Uint64(id), uint64(s.Of))
	return part == uint64(s.Part-1)
}

// Bounds gives the part's ids as raw keys: from is inclusive, to exclusive; an empty to means the end.
func (s Sample) Bounds() (from, to string) {
	from = s.firstIDOf(s.Part)
	if s.Part < s.Of {
		to = s.firstIDOf(s.Part + 1)
	}
	return from, to
}

// firstIDOf returns the first id of a part, up to its first eight bytes.
func (s Sample) firstIDOf(part int) string {
	first, rest := bits.Div64(uint64(part-1), 0, uint64(s.Of))
	if rest > 0 {
		first++
	}
	return string(binary.BigEndian.AppendUint64(nil, first))
}

// What an audit can find to have drifted.
const (
	DriftSegment  = "segment"  // a file that the manifest names is missing, or its content differs from its name
	DriftClass    = "class"    // a class's row is not what its mentions come to
	DriftLive     = "live"     // what counts, by splits and class runs, is not what the rows say
	DriftDocument = "document" // the chunks of a document are not those that count
	DriftRecord   = "record"   // of a class, missing in its store or another than was written
	DriftVector   = "vector"   // the same of a row of the vector store
	DriftHash     = "hash"     // the content hash of everything is not the manifest's
)

// Audit is what an audit looked at, in one generation, and what had drifted.
type Audit struct {
	Generation string  `json:"generation" doc:"that is served"`
	Sample     string  `json:"sample" doc:"part n of t, as n/t"`
	Repair     bool    `json:"repair" doc:"what the stores lost was written again"`
	Checked    Audited `json:"checked"`
	Drift      []Drift `json:"drift" doc:"by kind; empty: everything is as it was written"`
	Left       int64   `json:"left" doc:"how much of it was not mended"`
	Findings   []Found `json:"findings" doc:"the first of each kind"`
}

// Audited counts what was looked at.
type Audited struct {
	Segments  int64 `json:"segments" doc:"files read whole, and compared with the sums that name them"`
	Bytes     int64 `json:"bytes" doc:"of these"`
	Classes   int64 `json:"classes" doc:"made again from their mentions"`
	Mentions  int64 `json:"mentions" doc:"of these"`
	Documents int64 `json:"documents"`
	Chunks    int64 `json:"chunks" doc:"of these"`
	Records   int64 `json:"records" doc:"compared byte by byte"`
	Vectors   int64 `json:"vectors" doc:"looked up by key, and some of them compared"`
}

// Add sums what parts of an audit looked at.
func (a *Audited) Add(part Audited) {
	a.Segments += part.Segments
	a.Bytes += part.Bytes
	a.Classes += part.Classes
	a.Mentions += part.Mentions
	a.Documents += part.Documents
	a.Chunks += part.Chunks
	a.Records += part.Records
	a.Vectors += part.Vectors
}

// Drift counts findings of one kind.
type Drift struct {
	Kind   string `json:"kind" enum:"segment,class,live,document,record,vector,hash"`
	Found  int64  `json:"found"`
	Mended int64  `json:"mended"`
}

// Found is one object that drifted.
type Found struct {
	Kind   string `json:"kind"`
	Object string `json:"object"`
	Why    string `json:"why"`
	Remedy string `json:"remedy" doc:"what to do; empty where it was mended"`
}
