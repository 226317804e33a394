package pairstage

import (
	"context"
	"encoding/json"
	"io"
	"os"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/localfile"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/aliases"
)

// Kind of the file.
const Kind = "pairs"

// mostFile bounds what is read of a file: 100,000 classes and MostNear pairs have less.
const mostFile = 64 << 20

// File is what a generation keeps.
type File struct {
	Rules    string     `json:"rules"`
	Cosine   float64    `json:"cosine"` // the least of a pair that is listed
	Compared Compared   `json:"compared"`
	Decided  []Decision `json:"decided"`
}

// Compared is which classes were compared with each other, and those that are near.
type Compared struct {
	Classes []ComparedClass `json:"classes"` // the most mentioned first
	Near    []NearPair      `json:"near"`    // the nearest first
}

// ComparedClass is a class as it was compared.
type ComparedClass struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Vector string `json:"vector"` // digest
}

// NearPair is a pair by places in Classes.
type NearPair struct {
	A      int     `json:"a"`
	B      int     `json:"b"`
	Cosine float64 `json:"cosine"`
}

// Write writes a file.
func (f *File) Write(to io.Writer) error { return json.NewEncoder(to).Encode(f) }

// Read reads one; fault.SegmentDamage where it is none.
func Read(from io.Reader) (*File, error) {
	bad := func(why any) (*File, error) {
		return nil, fault.SegmentDamage.At("read", "pairs of names").Because(why)
	}
	var f File
	if err := json.NewDecoder(io.LimitReader(from, mostFile)).Decode(&f); err != nil {
		return bad(err)
	}
	for _, pair := range f.Compared.Near {
		if pair.A < 0 || pair.A >= pair.B || pair.B >= len(f.Compared.Classes) {
			return bad("a pair is of no class")
		}
	}
	return &f, nil
}

// listCompared returns what the search compared, for the file.
func (s *search) listCompared(near []aliases.Pair) Compared {
	out := Compared{Classes: make([]ComparedClass, len(s.classes)), Near: make([]NearPair, len(near))}
	for i, class := range s.classes {
		out.Classes[i] = ComparedClass{class.id.String(), class.name, class.vector.String()}
	}
	for i, pair := range near {
		out.Near[i] = NearPair{min(pair.A, pair.B), max(pair.A, pair.B), pair.Cosine}
	}
	return out
}

// findUnchanged says which classes are as they were when they were compared before, with the pairs of such. Where not
// all near pairs were kept, or others count as near now, nothing is known.
func (s *search) findUnchanged() ([]bool, []aliases.Pair) {
	known := make([]bool, len(s.classes))
	if s.Before == nil || s.Before.Rules != Rules || s.Before.Cosine != s.limits.Pair ||
		len(s.Before.Compared.Near) >= MostNear {
		return known, nil
	}
	place := map[ComparedClass]int{}
	for i, class := range s.classes {
		place[ComparedClass{class.id.String(), class.name, class.vector.String()}] = i
	}
	now := make([]int, len(s.Before.Compared.Classes)) // place of each class compared before; -1: it changed
	for i, class := range s.Before.Compared.Classes {
		now[i] = -1
		if at, same := place[class]; same {
			now[i], known[at] = at, true
		}
	}
	var pairs []aliases.Pair
	for _, pair := range s.Before.Compared.Near {
		if a, b := now[pair.A], now[pair.B]; a >= 0 && b >= 0 {
			pairs = append(pairs, aliases.Pair{A: min(a, b), B: max(a, b), Cosine: pair.Cosine})
		}
	}
	return known, pairs
}

// FileOf makes a file of a search and what was decided.
func FileOf(found Found, cosine float64, decided []Decision) *File {
	if cosine == 0 {
		cosine = aliases.DefaultLimits.Pair
	}
	if decided == nil {
		decided = []Decision{}
	}
	return &File{Rules: Rules, Cosine: cosine, Compared: found.Compared, Decided: decided}
}

// Hash returns a digest of what was compared and decided.
func (f *File) Hash() core.Digest {
	sum := core.NewSumming()
	sum.Add(f.Rules)
	for _, class := range f.Compared.Classes {
		sum.Add(class.ID)
		sum.Add(class.Vector)
	}
	for _, one := range f.Decided {
		sum.Add(one.Name)
		sum.Add(one.Of)
		sum.Add(one.Verdict)
	}
	return sum.Digest()
}

// Enrichment is how indexes.*.enrich names what makes the file.
const Enrichment = "aliases"

// LoadFile reads the file of a generation; nil: it has none.
func LoadFile(
	ctx context.Context, cache *localfile.Cache, index artifact.Index, manifest *core.Manifest,
) (*File, error) {
	listed := manifest.Segments.FilesOf(Enrichment, Kind)
	if len(listed) == 0 {
		return nil, nil
	}
	sha := listed[0].SHA256
	return localfile.Open(ctx, cache, index.Store, index.SegmentKey(sha), sha, func(path string) (*File, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, fault.SegmentDamage.At("read", path).Because(err)
		}
		defer func() { _ = file.Close() }()
		return Read(file)
	})
}
