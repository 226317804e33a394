package purges

import (
	"crypto/sha256"
	"math/bits"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// markBytes is the length of a passage that is searched for. Passages of it hardly ever stand in another text by
// chance.
const markBytes = 24

// Mark is a passage of a text, known by sums alone, so that what is searched for is not stored by searching for it.
type Mark struct {
	Rolling uint64  `json:"r"`
	Sum     core.ID `json:"s"`
}

// rollingBase is odd, so that no byte's weight vanishes; what is equal by the rolling sum is compared by the other one.
const rollingBase = 0x9E3779B97F4A7C15

// leaving is the weight of the byte that leaves a passage.
var leaving = func() uint64 {
	weight := uint64(1)
	for range markBytes {
		weight *= rollingBase
	}
	return weight
}()

func markOf(passage string) Mark {
	var out Mark
	for i := range markBytes {
		out.Rolling = out.Rolling*rollingBase + uint64(passage[i]) + 1
	}
	sum := sha256.Sum256([]byte(passage))
	copy(out.Sum[:], sum[:])
	return out
}

// escaped are bytes that JSON writes otherwise than they are.
const escaped = "\"\\<>&"

// marksOf chooses up to most passages of a text, evenly. Those are left out that JSON would write in another form, so
// that one sum finds a passage wherever it is stored, and those of next to no content.
func marksOf(text string, most int) (out []Mark) {
	plain := func(passage string) bool {
		var seen [4]uint64
		for i := range len(passage) {
			if passage[i] < ' ' || strings.IndexByte(escaped, passage[i]) >= 0 {
				return false
			}
			seen[passage[i]>>6] |= 1 << (passage[i] & 63)
		}
		kinds := 0
		for _, some := range seen {
			kinds += bits.OnesCount64(some)
		}
		return kinds >= 8 // a ruler of dashes stands everywhere
	}
	step := max(1, (len(text)-markBytes)/most)
	for at := 0; at+markBytes <= len(text); {
		if passage := text[at : at+markBytes]; plain(passage) {
			out = append(out, markOf(passage))
			at += step
			continue
		}
		at++
	}
	return out
}

// Seeker finds marks in bytes. It is safe for concurrent use.
type Seeker struct {
	marks  map[uint64][]int
	sums   []core.ID
	filter [1 << 10]uint64 // of the upper bits of rolling sums: most bytes cost one look into it
}

// NewSeeker looks for these.
func NewSeeker(marks []Mark) *Seeker {
	s := &Seeker{marks: map[uint64][]int{}}
	for i, mark := range marks {
		s.marks[mark.Rolling] = append(s.marks[mark.Rolling], i)
		s.sums = append(s.sums, mark.Sum)
		s.filter[mark.Rolling>>54] |= 1 << (mark.Rolling >> 48 & 63)
	}
	return s
}

// Seeking is one run over bytes, however they are cut.
type Seeking struct {
	*Seeker
	Found func(mark int) // called for each place
	last  [markBytes]byte
	count int
	sum   uint64
}

// Over begins a run.
func (s *Seeker) Over(found func(mark int)) *Seeking { return &Seeking{Seeker: s, Found: found} }

// Write never fails.
func (s *Seeking) Write(raw []byte) (int, error) {
	at, sum := s.count%markBytes, s.sum
	for i, b := range raw {
		sum = sum*rollingBase + uint64(b) + 1
		if s.count+i >= markBytes {
			sum -= leaving * (uint64(s.last[at]) + 1)
		}
		s.last[at] = b
		if at++; at == markBytes {
			at = 0
		}
		if s.filter[sum>>54]&(1<<(sum>>48&63)) != 0 && s.count+i+1 >= markBytes {
			s.compare(sum, at)
		}
	}
	s.count += len(raw)
	s.sum = sum
	return len(raw), nil
}

// compare looks whether the bytes that were seen last, of which the first is at a place of the ring, are a mark.
func (s *Seeking) compare(sum uint64, first int) {
	candidates := s.marks[sum]
	if len(candidates) == 0 {
		return
	}
	passage := append(append(make([]byte, 0, markBytes), s.last[first:]...), s.last[:first]...)
	full := sha256.Sum256(passage)
	for _, mark := range candidates {
		if core.ID(full[:16]) == s.sums[mark] {
			s.Found(mark)
		}
	}
}

// apart ends a piece: what follows is not a part of the same bytes.
func (s *Seeking) apart() { s.count, s.sum = 0, 0 }
