package purges

import (
	"fmt"
	"strings"
	"testing"
)

// Marks are found wherever they begin, and however the bytes are cut that they stand in.
func TestMarksAreFoundHoweverBytesAreCut(t *testing.T) {
	text := "Marlene Quastenberg paid the ferryman in opals, and nobody asked her why she did so in the rain."
	marks := marksOf(text, 5)
	if len(marks) < 5 {
		t.Fatal(marks)
	}
	seeker := NewSeeker(marks)
	for before := range 2*markBytes + 1 {
		stored := strings.Repeat("x", before) + text + "tail"
		for _, cut := range []int{1, 7, markBytes, len(stored)} {
			found := map[int]bool{}
			over := seeker.Over(func(mark int) { found[mark] = true })
			for rest := stored; rest != ""; rest = rest[min(cut, len(rest)):] {
				fmt.Fprint(over, rest[:min(cut, len(rest))])
			}
			if len(found) != len(marks) {
				t.Fatalf("behind %d bytes, cut at %d: found %v of %d", before, cut, found, len(marks))
			}
		}
	}
	over := seeker.Over(func(int) { t.Error("found what is not there") })
	fmt.Fprint(over, text[:markBytes-1])
	over.apart()
	fmt.Fprint(over, text[markBytes-1:markBytes], strings.ReplaceAll(text, "a", "e"))
}

// Rulers say nothing, and what JSON writes otherwise would not be found in it.
func TestMarksAreOfPlainPassages(t *testing.T) {
	if marks := marksOf(strings.Repeat("-", 500)+strings.Repeat("\"quoted\"\n", 50), 8); len(marks) > 0 {
		t.Error(marks)
	}
}
