// Package classmerge makes one class from its mentions: its name, its text and its counts. Package reduce writes the
// result, and an audit compares it with what was written. Memory is bounded, whatever the size of the class.
package classmerge

import (
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sort"
	"strconv"

	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/text/names"
)

// RecipeVersion returns the version of how a class text is made from its mentions.
// text/1: name, colon, sampled descriptions in chunk order, joined by spaces; of names seen equally often the first.
// text/2: descriptions in the order of the hash that samples them, of names seen equally often the least. Neither
// depends on what documents are called, so that a document that moved leaves the texts of its classes as they are.
func RecipeVersion(parity bool) string {
	if parity {
		return "text/1"
	}
	return "text/2"
}

// sampled is a mention that the class text may use.
type sampled struct {
	hash core.Digest
	at   int64 // place in chunk order
	text string
}

// sampleHeap keeps the largest hash on top.
type sampleHeap []sampled

func (h sampleHeap) Len() int           { return len(h) }
func (h sampleHeap) Less(i, j int) bool { return string(h[i].hash[:]) > string(h[j].hash[:]) }
func (h sampleHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *sampleHeap) Push(x any)        { *h = append(*h, x.(sampled)) }
func (h *sampleHeap) Pop() any {
	o := *h
	x := o[len(o)-1]
	*h = o[:len(o)-1]
	return x
}

// surface is how often a form was seen, and at which mention first.
type surface struct {
	count int64
	first int64
}

// maxSurfaces bounds the surface forms that are counted. Forms of one key differ in case and signs only, so more than
// this is an attack, not a corpus.
const maxSurfaces = 4096

// Class is the state of the class that streams by.
type Class struct {
	ID       core.ID
	out      rows.Reduced
	members  hash.Hash
	chunk    core.ID // the chunk whose mentions are being counted
	count    int64
	sample   sampleHeap
	limit    int // of the sample; 0 = all
	parity   bool
	labelled bool    // documents have labels
	seed     core.ID // of the hashes of the sample
	surfaces map[string]surface
	types    map[string]int64 // mentions of each; nil: none has one
}

// BeginClass begins a class, under the settings that decide of its name and text.
func BeginClass(id core.ID, spec core.Spec) *Class {
	limit := spec.Shortening.Sample
	if spec.Parity {
		limit = 0
	}
	return &Class{
		ID: id, members: sha256.New(), limit: limit, parity: spec.Parity, labelled: spec.ReadAs().Labels.IsOn(), seed: id,
		surfaces: map[string]surface{},
	}
}

// Add takes the next mention of the class. They come in chunk order.
func (c *Class) Add(m rows.Mention) {
	if c.count == 0 || c.chunk != m.Chunk {
		c.flushChunk()
		c.chunk = m.Chunk
		c.out.ChunkTotal++
	}
	if c.labelled && c.out.Mentions == 0 { // what a label is called decides of no text, so that another name costs nothing
		c.seed = core.ClassID(names.Key(m.Surface, c.parity))
	}
	c.count++
	if seen, ok := c.surfaces[m.Surface]; ok || len(c.surfaces) < maxSurfaces {
		if !ok {
			seen.first = c.out.Mentions
		}
		seen.count++
		c.surfaces[m.Surface] = seen
	}
	if m.Type != "" {
		if c.types == nil {
			c.types = map[string]int64{}
		}
		c.types[m.Type]++
	}
	if m.Description != "" {
		s := sampled{
			core.Sum(c.seed.String(), m.Description, strconv.Itoa(m.Position)),
			c.out.Mentions,
			m.Description,
		}
		switch {
		case c.limit == 0 || len(c.sample) < c.limit:
			heap.Push(&c.sample, s)
		case string(s.hash[:]) < string(c.sample[0].hash[:]):
			c.sample[0] = s
			heap.Fix(&c.sample, 0)
		}
	}
	c.out.Mentions++
}

// flushChunk puts the finished chunk into the members digest.
func (c *Class) flushChunk() {
	if c.count == 0 {
		return
	}
	c.members.Write(c.chunk[:])
	c.members.Write(binary.BigEndian.AppendUint64(nil, uint64(c.count)))
	c.count = 0
}

// chooseName returns the most frequent surface form, then the least in byte order; for parity the one seen first.
func (c *Class) chooseName() string {
	best, name := surface{}, ""
	for form, seen := range c.surfaces {
		before := form < name
		if c.parity {
			before = seen.first < best.first
		}
		if seen.count > best.count || (seen.count == best.count && before) {
			best, name = seen, form
		}
	}
	return name
}

// chooseType returns the type of most mentions that have one, then the least in byte order.
func (c *Class) chooseType() (best string) {
	for name, count := range c.types {
		if most := c.types[best]; count > most || count == most && name < best {
			best = name
		}
	}
	return best
}

// sortSample puts the sample in the order of its hashes; for parity in chunk order.
func (c *Class) sortSample() []sampled {
	sort.Slice(c.sample, func(i, j int) bool {
		if c.parity {
			return c.sample[i].at < c.sample[j].at
		}
		return string(c.sample[i].hash[:]) < string(c.sample[j].hash[:])
	})
	return c.sample
}

// End gives the class that streamed by; nothing may be added any more.
func (c *Class) End() rows.Reduced {
	c.flushChunk()
	c.out.Name, c.out.Type = c.chooseName(), c.chooseType()
	c.members.Sum(c.out.Members[:0])
	fields := []string{RecipeVersion(c.parity), c.out.Name}
	for _, s := range c.sortSample() {
		c.out.Descriptions = append(c.out.Descriptions, s.text)
		fields = append(fields, s.text)
	}
	c.out.Text = core.Sum(fields...)
	return c.out
}

// Content returns a class's entry of the content hash.
func Content(id core.ID, reduced rows.Reduced) core.Digest {
	fields := []string{"class", id.String(), reduced.Name, reduced.Members.String(), reduced.Text.String()}
	if reduced.Type != "" {
		fields = append(fields, reduced.Type)
	}
	return core.Sum(fields...)
}
