package mapped

import "sort"

// Strings is a table of sorted strings: their bytes one after another, and where each ends.
type Strings struct {
	bytes []byte
	ends  []uint64
}

// StringsOf views two sections as a table.
func StringsOf(f *File, bytes, ends string) Strings {
	return Strings{f.Bytes(bytes), Slice[uint64](f, ends)}
}

// Fits tells whether every string lies within the bytes, which they fill; At may be called only then.
func (s Strings) Fits() bool { return Ends(s.ends, len(s.bytes)) }

// Ends tells whether ends of records, one after another, never go back and end where their content of so many bytes
// does.
func Ends[T uint32 | uint64](ends []T, size int) bool {
	before := T(0)
	for _, end := range ends {
		if end < before {
			return false
		}
		before = end
	}
	return uint64(before) == uint64(size)
}

// Starts tells the same of offsets that begin with 0 and have one more than there are records.
func Starts[T uint32 | uint64](offsets []T, size int) bool {
	return len(offsets) > 0 && offsets[0] == 0 && Ends(offsets, size)
}

// Below tells whether all numbers are less than a limit: places in another section of so many records.
func Below(numbers []uint32, limit int) bool {
	largest := uint32(0)
	for _, number := range numbers {
		largest = max(largest, number)
	}
	return len(numbers) == 0 || int64(largest) < int64(limit)
}

// Rising tells whether the numbers between two offsets are each greater than the one before, for all offsets, which
// Starts has found right.
func Rising[T uint32 | uint64](numbers []uint32, offsets []T) bool {
	for i := 1; i < len(offsets); i++ {
		list := numbers[offsets[i-1]:offsets[i]]
		for j := 1; j < len(list); j++ {
			if list[j] <= list[j-1] {
				return false
			}
		}
	}
	return true
}

// Len is how many there are.
func (s Strings) Len() int { return len(s.ends) }

// At is the i-th.
func (s Strings) At(i int) string {
	lo := uint64(0)
	if i > 0 {
		lo = s.ends[i-1]
	}
	return string(s.bytes[lo:s.ends[i]])
}

// From is the place of the first that is not less than t.
func (s Strings) From(t string) int {
	return sort.Search(len(s.ends), func(i int) bool { return s.At(i) >= t })
}

// Find is the place of t, or -1.
func (s Strings) Find(t string) int {
	if i := s.From(t); i < len(s.ends) && s.At(i) == t {
		return i
	}
	return -1
}

// Bytes of the i-th, without a copy: they are valid until the file is closed.
func (s Strings) Bytes(i int) []byte {
	lo := uint64(0)
	if i > 0 {
		lo = s.ends[i-1]
	}
	return s.bytes[lo:s.ends[i]:s.ends[i]]
}
