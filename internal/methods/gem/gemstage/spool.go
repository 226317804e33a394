package gemstage

import (
	"iter"
	"slices"

	"github.com/unweaver/unweaver/internal/methods/gem"
	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// spool holds chunks in the order of their ids, each once, with their texts in a temporary file.
type spool struct {
	places []place
	column mapped.Column
	texts  []byte // of the column; valid until close
}

// place is a chunk without its text, and where that lies.
type place struct {
	Chunk
	from, to int
}

// newSpool reads chunks, whatever order they come in. Close it; on an error nothing is left.
func newSpool(chunks iter.Seq2[Chunk, error]) (*spool, error) {
	s := &spool{}
	end := 0
	for chunk, err := range chunks {
		if err == nil {
			err = s.column.Put([]byte(chunk.Text))
		}
		if err != nil {
			s.close()
			return nil, err
		}
		from := end
		end += len(chunk.Text)
		chunk.Text = ""
		s.places = append(s.places, place{chunk, from, end})
	}
	slices.SortStableFunc(s.places, func(a, b place) int { return slices.Compare(a.ID[:], b.ID[:]) })
	s.places = slices.CompactFunc(s.places, func(a, b place) bool { return a.ID == b.ID })
	var err error
	if s.texts, err = mapped.ViewRecords[byte](&s.column); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *spool) close() { s.column.Close() }

// readChunk returns the chunk at a place, with its text.
func (s *spool) readChunk(i int) Chunk {
	out := s.places[i].Chunk
	out.Text = string(s.texts[s.places[i].from:s.places[i].to])
	return out
}

func (s *spool) readChunks(from, to int) []Chunk {
	out := make([]Chunk, 0, to-from)
	for i := from; i < to; i++ {
		out = append(out, s.readChunk(i))
	}
	return out
}

// columns are the two vectors of each chunk, in temporary files.
type columns struct{ base, mean mapped.Column }

func (c *columns) put(base, mean []float32) error {
	if err := mapped.PutRecords(&c.base, base); err != nil {
		return err
	}
	return mapped.PutRecords(&c.mean, mean)
}

// viewNodes views what was put; valid until close.
func (c *columns) viewNodes(dimension int) (gem.Nodes, error) {
	base, err := mapped.ViewRecords[float32](&c.base)
	if err != nil {
		return gem.Nodes{}, err
	}
	mean, err := mapped.ViewRecords[float32](&c.mean)
	return gem.Nodes{Base: gem.Rows{Dim: dimension, Data: base}, Mean: gem.Rows{Dim: dimension, Data: mean}}, err
}

func (c *columns) close() {
	c.base.Close()
	c.mean.Close()
}
