// Package postingstest writes sides for tests as they were written before they were packed.
package postingstest

import (
	"maps"
	"slices"

	"github.com/unweaver/unweaver/internal/index/postings"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

type list struct {
	docs   []uint32
	counts []uint8
}

// WriteFlat writes the sections of a side of documents of terms, in the format of version 1 of split, classrun and
// search.
func WriteFlat(writer *mapped.Writer, prefix string, documents [][]string) postings.Stats {
	stats := postings.Stats{Documents: uint32(len(documents))}
	lists := map[string]*list{}
	var lengths []uint32
	for doc, terms := range documents {
		counts := map[string]int{}
		for _, term := range terms {
			counts[term]++
		}
		for term, count := range counts {
			if lists[term] == nil {
				lists[term] = &list{}
			}
			lists[term].docs = append(lists[term].docs, uint32(doc))
			lists[term].counts = append(lists[term].counts, uint8(min(count, 255)))
		}
		lengths = append(lengths, uint32(len(terms)))
		stats.Terms += uint64(len(terms))
	}
	var text []byte
	var ends []uint64
	var docs []uint32
	var counts []uint8
	var largest []float32
	post, block := []uint64{0}, []uint64{0}
	average := postings.Average(stats)
	for _, term := range slices.Sorted(maps.Keys(lists)) {
		one := lists[term]
		text = append(text, term...)
		ends = append(ends, uint64(len(text)))
		for i, doc := range one.docs {
			if i%postings.BlockSize == 0 {
				largest = append(largest, 0)
			}
			last := &largest[len(largest)-1]
			*last = max(*last, postings.Weight(one.counts[i], lengths[doc], average))
		}
		docs, counts = append(docs, one.docs...), append(counts, one.counts...)
		post, block = append(post, uint64(len(docs))), append(block, uint64(len(largest)))
	}
	section := func(name string) { writer.Section(prefix + name) }
	section("terms")
	mapped.Put(writer, text)
	section("term_end")
	mapped.Put(writer, ends)
	section("post")
	mapped.Put(writer, post)
	section("block")
	mapped.Put(writer, block)
	section("doc")
	mapped.Put(writer, docs)
	section("tf")
	mapped.Put(writer, counts)
	section("max")
	mapped.Put(writer, largest)
	section("len")
	mapped.Put(writer, lengths)
	return stats
}
