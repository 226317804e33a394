package rows

import (
	"sort"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact/rowfile"
	"github.com/unweaver/unweaver/internal/core"
)

// HeadingAt returns the path of headings over what lies at a place of the text, the highest first. Headings that begin
// at the place, one behind the other, count: a chunk that begins with its heading is under it.
func (x Document) HeadingAt(place int) []string {
	var over []core.Heading
	for _, heading := range x.Headings {
		if heading.Start > place {
			break
		}
		place = max(place, heading.End)
		for len(over) > 0 && over[len(over)-1].Level >= heading.Level {
			over = over[:len(over)-1]
		}
		over = append(over, heading)
	}
	var path []string
	for _, heading := range over {
		path = append(path, heading.Text)
	}
	return path
}

// PagesOf returns the first and the last page, counted from 1, on which text from start to end (not included) stands; 0
// and 0 where the document has no pages.
func (x Document) PagesOf(start, end int) (first, last int) {
	on := func(place int) int {
		return sort.Search(len(x.Pages), func(i int) bool { return x.Pages[i] > place })
	}
	return on(start), on(max(start, end-1))
}

// IsTranscribed reports whether one of the pages from first to last is among those that the metadata lists as
// transcribed.
func (x Document) IsTranscribed(first, last int) bool {
	for pages := range strings.SplitSeq(x.Meta[core.MetaTranscribed], ", ") {
		from, to, ranged := strings.Cut(pages, "-")
		low, err := strconv.Atoi(from)
		high := low
		if ranged && err == nil {
			high, err = strconv.Atoi(to)
		}
		if err == nil && low <= last && first <= high {
			return true
		}
	}
	return false
}

func putOutline(enc *rowfile.Enc, headings []core.Heading, pages []int) {
	enc.U(uint64(len(headings)))
	for _, heading := range headings {
		enc.U(uint64(heading.Start))
		enc.U(uint64(heading.End))
		enc.U(uint64(heading.Level))
		enc.S(heading.Text)
	}
	enc.U(uint64(len(pages)))
	for _, start := range pages {
		enc.U(uint64(start))
	}
}

func readOutline(dec *rowfile.Dec) (headings []core.Heading, pages []int) {
	headings = readAtMost(dec, core.MaxHeadings, func() core.Heading {
		return core.Heading{Start: int(dec.U()), End: int(dec.U()), Level: int(dec.U()), Text: dec.S()}
	})
	return headings, readList(dec, func() int { return int(dec.U()) })
}
