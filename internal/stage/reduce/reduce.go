// Package reduce groups mentions into classes. One activity owns one partition: a range of class ids, so a class has
// one writer. Steps:
//
//  1. Merge the shards' mention files, which are sorted by class id; shards are in chunk order, so equal ids come in
//     chunk order. Many shards are merged into runs on local disk first.
//  2. Stream each class once: the mentions segment row by row; members digest, sample, surface forms, the first chunk
//     ids. What is held is bounded whatever the size of a class.
//  3. Write reduced-<partition>.rows.
package reduce

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"iter"
	"sort"
	"strconv"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/lang/classtext"
	"github.com/unweaver/unweaver/internal/store/artifact"
)

// Recipe is the version of how a class text is made from its mentions.
// text/1: name, colon, sampled descriptions in chunk order, joined by spaces; of names seen equally often the first.
// text/2: descriptions in the order of the hash that samples them, of names seen equally often the least. Neither
// depends on what documents are called, so that a document that moved leaves the texts of its classes as they are.
func Recipe(parity bool) string {
	if parity {
		return "text/1"
	}
	return "text/2"
}

// Shard is one sorted mention file; Base is the number of the shard's first chunk.
type Shard struct {
	Key  string
	Base int64
}

// In is what one partition works on. OnProgress is told of classes done.
type In struct {
	Spec       corpus.Spec
	Artifacts  artifact.Index
	Scratch    string
	Shards     []Shard
	Partition  int
	Partitions int // a power of two, at most 256
	OnProgress func(classes int64)
}

// Result is reduced-<partition>.json.
type Result struct {
	Mentions corpus.Segment `json:"mentions"`
	Fresh    bool           `json:"fresh"`
	Counts   corpus.Counts  `json:"counts"`
	Content  corpus.SetHash `json:"content"` // the classes' part of the content hash
	Long     int64          `json:"long"`    // classes over the threshold

	Rows string `json:"rows,omitempty"` // name of the file at Key; see artifact.ScratchKey
}

// Key is the scratch file of a partition.
func Key(scratch string, partition int) string {
	return fmt.Sprintf("%s/reduced-%03d.rows", scratch, partition)
}

// Bounds gives the ids of a partition as raw keys: from is inclusive, to exclusive; an empty to means the end.
func Bounds(partition, partitions int) (from, to string) {
	step := 256 / partitions
	from = string([]byte{byte(partition * step)})
	if partition+1 < partitions {
		to = string([]byte{byte((partition + 1) * step)})
	}
	return from, to
}

// Run does one partition.
func Run(ctx context.Context, in In) (Result, error) {
	r := &reducer{In: in}
	var err error
	if r.seg, err = artifact.NewRows(); err != nil {
		return r.res, err
	}
	defer r.seg.Discard()
	if r.out, err = artifact.NewRows(); err != nil {
		return r.res, err
	}
	defer r.out.Discard()
	for m, err := range mentions(ctx, in) {
		if err != nil {
			return r.res, err
		}
		if r.cur == nil || r.cur.id != m.id {
			r.end()
			r.cur = r.begin(m.id)
		}
		r.cur.add(m.Mention)
		r.seg.Append(string(m.id[:]), m.Encode())
		r.res.Counts.Mentions++
	}
	r.end()
	if r.res.Mentions, r.res.Fresh, err = r.seg.Segment(ctx, in.Artifacts, in.Partition); err != nil {
		return r.res, err
	}
	r.res.Rows, err = r.out.PutScratch(ctx, in.Artifacts, Key(in.Scratch, in.Partition))
	return r.res, err
}

type reducer struct {
	In
	seg, out *artifact.Rows
	cur      *class
	res      Result
}

// mention is one row of the merge.
type mention struct {
	id corpus.ID
	rows.Mention
}

// shardPart gives one shard's mentions of ids in [from, to), with the chunk numbers of the whole generation.
func shardPart(ctx context.Context, in In, shard Shard, from, to string) iter.Seq2[mention, error] {
	return func(yield func(mention, error) bool) {
		reader, err := artifact.OpenRows(ctx, in.Artifacts.Store, shard.Key)
		if err != nil {
			yield(mention{}, err)
			return
		}
		first := max(0, reader.Find(from))
		for first > 0 && reader.Frames[first].First >= from { // equal ids may begin in the frame before
			first--
		}
		end := first
		for end < len(reader.Frames) && (to == "" || reader.Frames[end].First < to) {
			end++
		}
		for row, err := range reader.Scan(ctx, first, end) {
			if err != nil {
				yield(mention{}, err)
				return
			}
			if string(row.Key) < from {
				continue
			}
			if to != "" && string(row.Key) >= to {
				return
			}
			decoded, err := rows.DecodeMention(row.Value)
			decoded.Number += shard.Base
			if !yield(mention{corpus.ID(row.Key), decoded}, err) || err != nil {
				return
			}
		}
	}
}

// openWidth is how many shards are opened at once.
const openWidth = 64

// sampled is a mention that the class text may use.
type sampled struct {
	hash corpus.Digest
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

// class is the state of the class that streams by.
type class struct {
	id       corpus.ID
	out      rows.Reduced
	members  hash.Hash
	chunk    corpus.ID // the chunk whose mentions are being counted
	count    int64
	sample   sampleHeap
	limit    int // of the sample; 0 = all
	parity   bool
	surfaces map[string]surface
}

func (r *reducer) begin(id corpus.ID) *class {
	limit := r.Spec.Shortening.Sample
	if r.Spec.Parity {
		limit = 0
	}
	return &class{id: id, members: sha256.New(), limit: limit, parity: r.Spec.Parity, surfaces: map[string]surface{}}
}

func (c *class) add(m rows.Mention) {
	if c.out.Mentions == 0 {
		c.out.FirstChunk, c.out.FirstPos = m.Number, m.Position
	}
	if c.count == 0 || c.chunk != m.Chunk {
		c.flush()
		c.chunk = m.Chunk
		c.out.ChunkTotal++
		if len(c.out.Chunks) < rows.MaxRecordChunks {
			c.out.Chunks = append(c.out.Chunks, m.Chunk)
		}
	}
	c.count++
	if seen, ok := c.surfaces[m.Surface]; ok || len(c.surfaces) < maxSurfaces {
		if !ok {
			seen.first = c.out.Mentions
		}
		seen.count++
		c.surfaces[m.Surface] = seen
	}
	if m.Description != "" {
		s := sampled{
			corpus.Sum(c.id.String(), m.Description, strconv.Itoa(m.Position)),
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

// flush puts the finished chunk into the members digest.
func (c *class) flush() {
	if c.count == 0 {
		return
	}
	c.members.Write(c.chunk[:])
	c.members.Write(binary.BigEndian.AppendUint64(nil, uint64(c.count)))
	c.count = 0
}

// name is the most frequent surface form, then the least in byte order; for parity the one seen first.
func (c *class) name() string {
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

// sorted puts the sample in the order of its hashes; for parity in chunk order.
func (c *class) sorted() []sampled {
	sort.Slice(c.sample, func(i, j int) bool {
		if c.parity {
			return c.sample[i].at < c.sample[j].at
		}
		return string(c.sample[i].hash[:]) < string(c.sample[j].hash[:])
	})
	return c.sample
}

// end writes the class that streamed by.
func (r *reducer) end() {
	c := r.cur
	if c == nil {
		return
	}
	c.flush()
	c.out.Name = c.name()
	c.members.Sum(c.out.Members[:0])
	fields := []string{Recipe(c.parity), c.out.Name}
	for _, s := range c.sorted() {
		c.out.Descriptions = append(c.out.Descriptions, s.text)
		fields = append(fields, s.text)
	}
	c.out.Text = corpus.Sum(fields...)
	r.res.Counts.Classes++
	r.res.Counts.Edges += c.out.ChunkTotal
	r.res.Content.Add(corpus.Sum("class", c.id.String(), c.out.Name, c.out.Members.String(), c.out.Text.String()))
	if classtext.Long(c.out.Name, c.out.Descriptions, r.Spec.Shortening.Threshold, r.Spec.Parity) {
		r.res.Long++
	}
	r.out.Append(string(c.id[:]), c.out.Encode())
	if r.res.Counts.Classes%256 == 0 {
		r.OnProgress(r.res.Counts.Classes)
	}
	r.cur = nil
}
