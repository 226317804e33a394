package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/live"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/rows"
)

// browse runs a handler over the generation that the request means.
func (s *Server) browse(w http.ResponseWriter, r *http.Request, f func(context.Context, *retrieve.Generation) (any, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), s.Timeout)
	defer cancel()
	g, err := s.pin(ctx, r.PathValue("index"), r.URL.Query().Get("generation"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer g.Close()
	v, err := f(ctx, g)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, v)
}

// IndexInfo is one index of the list.
type IndexInfo struct {
	Index       string              `json:"index"`
	Generation  string              `json:"generation"`
	Release     int64               `json:"release"`
	Documents   int64               `json:"documents"`
	Chunks      int64               `json:"chunks"`
	Classes     int64               `json:"classes"`
	ContentHash string              `json:"content_hash"`
	Models      corpus.ModelSummary `json:"models"`
}

func (s *Server) listIndexes(w http.ResponseWriter, r *http.Request) {
	names, err := s.names(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	out := []IndexInfo{}
	for _, n := range names {
		art := artifact.Index{Store: s.Artifacts, Name: n}
		p, _, err := art.Current(r.Context())
		if err == nil && p.Manifest == "" {
			continue
		}
		var m *corpus.Manifest
		if err == nil {
			m, err = art.Manifest(r.Context(), p.Manifest)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		out = append(out, IndexInfo{n, p.Generation, p.Epoch, m.Counts.Documents, m.Counts.Chunks, m.Counts.Classes, m.Hashes.Content.Digest().String(), m.Models})
	}
	writeJSON(w, map[string]any{"indexes": out})
}

func (s *Server) listGenerations(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("index")
	if !corpus.ValidSlug(name) {
		s.fail(w, r, unknownIndex(name))
		return
	}
	gens, err := artifact.Index{Store: s.Artifacts, Name: name}.Generations(r.Context())
	if err == nil && len(gens) == 0 {
		err = unknownIndex(name)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeJSON(w, map[string]any{"index": name, "generations": gens})
}

func limitOf(r *http.Request) (int, error) {
	v := r.URL.Query().Get("limit")
	if v == "" {
		return 50, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 1000 {
		return 0, invalid("read request", "limit", "want 1 to 1000, got "+v, "")
	}
	return n, nil
}

func entityOf(rec rows.Record) map[string]any {
	return map[string]any{"id": rec.ID, "name": rec.Name, "description": rec.Text, "mentions": rec.Mentions, "chunk_total": rec.ChunkTotal}
}

func (s *Server) listEntities(w http.ResponseWriter, r *http.Request) {
	s.browse(w, r, func(ctx context.Context, g *retrieve.Generation) (any, error) {
		n, err := limitOf(r)
		if err != nil {
			return nil, err
		}
		recs, err := s.searcher().Records(ctx, g, g.Named(r.URL.Query().Get("prefix"), n))
		if err != nil {
			return nil, err
		}
		out := []map[string]any{}
		for _, rec := range recs {
			out = append(out, map[string]any{"id": rec.ID, "name": rec.Name, "chunk_total": rec.ChunkTotal})
		}
		return map[string]any{"index": g.Manifest.Index, "generation": g.Manifest.Generation, "entities": out}, nil
	})
}

func (s *Server) searcher() retrieve.Searcher {
	return retrieve.Searcher{Vectors: s.Vectors, Classes: s.Classes}
}

// entity reads the record of the entity that the path names.
func (s *Server) entity(ctx context.Context, r *http.Request, g *retrieve.Generation) (rows.Record, error) {
	id, err := corpus.ParseID(r.PathValue("id"))
	var c *live.Class
	if err == nil {
		c = g.Live.Class(id)
	}
	if c == nil {
		return rows.Record{}, notFound("entity", r.PathValue("id"), g)
	}
	recs, err := s.searcher().Records(ctx, g, []*live.Class{c})
	if err != nil {
		return rows.Record{}, err
	}
	return recs[0], nil
}

func notFound(what, id string, g *retrieve.Generation) error {
	return fault.New(fault.NotFound, fault.Bad, "find "+what, id, "generation "+g.Manifest.Generation+" has none of that id", "")
}

func (s *Server) getEntity(w http.ResponseWriter, r *http.Request) {
	s.browse(w, r, func(ctx context.Context, g *retrieve.Generation) (any, error) {
		rec, err := s.entity(ctx, r, g)
		if err != nil {
			return nil, err
		}
		out := entityOf(rec)
		out["index"], out["generation"] = g.Manifest.Index, g.Manifest.Generation
		return out, nil
	})
}

func (s *Server) entityChunks(w http.ResponseWriter, r *http.Request) {
	s.browse(w, r, func(ctx context.Context, g *retrieve.Generation) (any, error) {
		n, err := limitOf(r)
		if err != nil {
			return nil, err
		}
		rec, err := s.entity(ctx, r, g)
		if err != nil {
			return nil, err
		}
		at := 0
		if c := r.URL.Query().Get("cursor"); c != "" {
			if at, err = strconv.Atoi(c); err != nil || at < 0 {
				return nil, invalid("read request", "cursor", "want the cursor of an earlier answer, got "+c, "")
			}
		}
		at = min(at, len(rec.Chunks))
		end := min(at+n, len(rec.Chunks))
		out := []Chunk{}
		for _, id := range rec.Chunks[at:end] {
			c := g.Live.Chunk(id)
			if c == nil {
				continue
			}
			x, err := s.chunk(ctx, g, c)
			if err != nil {
				return nil, err
			}
			out = append(out, x)
		}
		next := ""
		if end < len(rec.Chunks) {
			next = strconv.Itoa(end)
		}
		return map[string]any{"index": g.Manifest.Index, "generation": g.Manifest.Generation, "chunks": out, "cursor": next, "chunk_total": rec.ChunkTotal}, nil
	})
}

// Mention is an entity as a chunk's extraction has it; spans are code points of the document.
type Mention struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Spans       [][2]int `json:"spans"`
	Located     bool     `json:"located"`
}

func (s *Server) getChunk(w http.ResponseWriter, r *http.Request) {
	s.browse(w, r, func(ctx context.Context, g *retrieve.Generation) (any, error) {
		id, err := corpus.ParseID(r.PathValue("id"))
		var c *live.Chunk
		if err == nil {
			c = g.Live.Chunk(id)
		}
		if c == nil {
			return nil, notFound("chunk", r.PathValue("id"), g)
		}
		x, err := s.chunk(ctx, g, c)
		if err != nil {
			return nil, err
		}
		ms, fallback, err := mentions(ctx, g, c)
		if err != nil {
			return nil, err
		}
		return map[string]any{"index": g.Manifest.Index, "generation": g.Manifest.Generation, "chunk": x, "mentions": ms, "fallback": fallback}, nil
	})
}

// mentions reads what was extracted from a chunk, with places in the document.
func mentions(ctx context.Context, g *retrieve.Generation, c *live.Chunk) ([]Mention, bool, error) {
	e, err := g.Extraction(ctx, c)
	if err != nil {
		return nil, false, err
	}
	ms := []Mention{}
	for _, m := range e.Entities {
		v := Mention{m.Name, m.Description, [][2]int{}, len(m.Spans) > 0}
		for _, sp := range m.Spans {
			v.Spans = append(v.Spans, [2]int{int(c.Start) + sp[0], int(c.Start) + sp[1]})
		}
		ms = append(ms, v)
	}
	return ms, e.Fallback != "", nil
}

// documentText answers GET …/documents/{key}/text; keys hold slashes, so the route takes the rest of the path.
func (s *Server) documentText(w http.ResponseWriter, r *http.Request) {
	s.browse(w, r, func(ctx context.Context, g *retrieve.Generation) (any, error) {
		key, ok := strings.CutSuffix(r.PathValue("rest"), "/text")
		if !ok {
			return nil, fault.New(fault.NotFound, fault.Bad, "find", r.PathValue("rest"), "no such page", "a document's text is at /documents/{key}/text")
		}
		i := g.Live.Document(key)
		if i < 0 {
			return nil, notFound("document", key, g)
		}
		d, err := g.Document(ctx, i)
		if err != nil {
			return nil, err
		}
		if v := r.URL.Query().Get("version"); v != "" && v != d.Version.String() {
			return nil, notFound("version of document "+key, v, g)
		}
		start, end, err := rangeOf(r.URL.Query(), d.Runes)
		if err != nil {
			return nil, err
		}
		t, err := g.DocumentText(ctx, i, start, end)
		return map[string]any{"index": g.Manifest.Index, "generation": g.Manifest.Generation, "document": key, "version": d.Version, "title": d.Title,
			"start": start, "end": end, "length": d.Runes, "text": t}, err
	})
}

// maxTextRunes of one answer.
const maxTextRunes = 1 << 20

func rangeOf(q url.Values, length int) (start, end int, err error) {
	end = length
	for name, p := range map[string]*int{"start": &start, "end": &end} {
		if v := q.Get(name); v != "" {
			if *p, err = strconv.Atoi(v); err != nil || *p < 0 {
				return 0, 0, invalid("read request", name, "want a number of code points, got "+v, "")
			}
		}
	}
	end = min(end, length)
	if start > end {
		return 0, 0, invalid("read request", "start", "it lies behind the end", "")
	}
	return start, min(end, start+maxTextRunes), nil
}
