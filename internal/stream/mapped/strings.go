package mapped

import "sort"

// Strings is a table of sorted strings: their bytes one after another, and where each ends.
type Strings struct {
	bytes []byte
	ends  []uint64
}

// StringsOf views two sections as a table.
func StringsOf(f *File, bytes, ends string) Strings {
	return Strings{f.Bytes(bytes), ViewSection[uint64](f, ends)}
}

// Len returns the number of strings.
func (s Strings) Len() int { return len(s.ends) }

// At returns the i-th string.
func (s Strings) At(i int) string {
	lo := uint64(0)
	if i > 0 {
		lo = s.ends[i-1]
	}
	return string(s.bytes[lo:s.ends[i]])
}

// FindFrom returns the place of the first string that is not less than t.
func (s Strings) FindFrom(t string) int {
	return sort.Search(len(s.ends), func(i int) bool { return s.At(i) >= t })
}

// Find returns the place of t, or -1.
func (s Strings) Find(t string) int {
	if i := s.FindFrom(t); i < len(s.ends) && s.At(i) == t {
		return i
	}
	return -1
}
