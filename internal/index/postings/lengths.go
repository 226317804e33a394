package postings

// Lengths are those of the documents of a side, in terms. Sums look them up for every posting, here and there over all
// rows, and wait for memory: a byte a row stays in a processor's cache where four do not. Longer ones lie elsewhere.
type Lengths struct {
	short []uint8
	long  []uint32
}

// longer stands for a length that a byte does not hold.
const longer = 255

// LengthOf returns the length of a document.
func (l Lengths) LengthOf(doc uint32) uint32 {
	if length := l.short[doc]; length < longer {
		return uint32(length)
	}
	return l.long[doc]
}

// ShortLengths gives the lengths for sums. They are made when they are first asked for, and stay with the side: a byte
// a document.
func (s *Side) ShortLengths() Lengths {
	s.shortOnce.Do(func() {
		s.short = make([]uint8, len(s.Lengths))
		for doc, length := range s.Lengths {
			s.short[doc] = uint8(min(length, longer))
		}
	})
	return Lengths{s.short, s.Lengths}
}
