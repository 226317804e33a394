package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/live"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/artifact"
)

// browse runs a handler over the generation that the request means.
func (s *Server) browse(
	w http.ResponseWriter,
	request *http.Request,
	f func(context.Context, *retrieve.Generation) (any, error),
) {
	ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
	defer cancel()
	generation, err := s.pin(ctx, request.PathValue("index"), request.URL.Query().Get("generation"))
	if err != nil {
		s.fail(w, request, err)
		return
	}
	defer generation.Close()
	v, err := f(ctx, generation)
	if err != nil {
		s.fail(w, request, err)
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

func (s *Server) listIndexes(w http.ResponseWriter, request *http.Request) {
	names, err := s.names(request.Context())
	if err != nil {
		s.fail(w, request, err)
		return
	}
	out := []IndexInfo{}
	for _, n := range names {
		art := artifact.Index{Store: s.Artifacts, Name: n}
		pointer, _, err := art.Current(request.Context())
		if err == nil && pointer.Manifest == "" {
			continue
		}
		var manifest *corpus.Manifest
		if err == nil {
			manifest, err = art.Manifest(request.Context(), pointer.Manifest)
		}
		if err != nil {
			s.fail(w, request, err)
			return
		}
		out = append(
			out,
			IndexInfo{
				n,
				pointer.Generation,
				pointer.Epoch,
				manifest.Counts.Documents,
				manifest.Counts.Chunks,
				manifest.Counts.Classes,
				manifest.Hashes.Content.Digest().String(),
				manifest.Models,
			},
		)
	}
	writeJSON(w, map[string]any{"indexes": out})
}

func (s *Server) listGenerations(w http.ResponseWriter, request *http.Request) {
	name := request.PathValue("index")
	if !corpus.ValidSlug(name) {
		s.fail(w, request, unknownIndex(name))
		return
	}
	gens, err := artifact.Index{Store: s.Artifacts, Name: name}.Generations(request.Context())
	if err == nil && len(gens) == 0 {
		err = unknownIndex(name)
	}
	if err != nil {
		s.fail(w, request, err)
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
	return map[string]any{
		"id":          rec.ID,
		"name":        rec.Name,
		"description": rec.Text,
		"mentions":    rec.Mentions,
		"chunk_total": rec.ChunkTotal,
	}
}

func (s *Server) listEntities(w http.ResponseWriter, request *http.Request) {
	s.browse(w, request, func(ctx context.Context, generation *retrieve.Generation) (any, error) {
		n, err := limitOf(request)
		if err != nil {
			return nil, err
		}
		recs, err := s.searcher().Records(ctx, generation, generation.Named(request.URL.Query().Get("prefix"), n))
		if err != nil {
			return nil, err
		}
		out := []map[string]any{}
		for _, rec := range recs {
			out = append(out, map[string]any{"id": rec.ID, "name": rec.Name, "chunk_total": rec.ChunkTotal})
		}
		return map[string]any{
			"index":      generation.Manifest.Index,
			"generation": generation.Manifest.Generation,
			"entities":   out,
		}, nil
	})
}

func (s *Server) searcher() retrieve.Searcher {
	return retrieve.Searcher{Vectors: s.Vectors, Classes: s.Records}
}

// entity reads the record of the entity that the path names.
func (s *Server) entity(
	ctx context.Context,
	request *http.Request,
	generation *retrieve.Generation,
) (rows.Record, error) {
	id, err := corpus.ParseID(request.PathValue("id"))
	var class *live.Class
	if err == nil {
		class = generation.Live.Class(id)
	}
	if class == nil {
		return rows.Record{}, notFound("entity", request.PathValue("id"), generation)
	}
	recs, err := s.searcher().Records(ctx, generation, []*live.Class{class})
	if err != nil {
		return rows.Record{}, err
	}
	return recs[0], nil
}

func notFound(what, id string, g *retrieve.Generation) error {
	return fault.NotFound.At("find "+what, id).Because("generation " + g.Manifest.Generation + " has none of that id")
}

func (s *Server) getEntity(w http.ResponseWriter, r *http.Request) {
	s.browse(w, r, func(ctx context.Context, generation *retrieve.Generation) (any, error) {
		rec, err := s.entity(ctx, r, generation)
		if err != nil {
			return nil, err
		}
		out := entityOf(rec)
		out["index"], out["generation"] = generation.Manifest.Index, generation.Manifest.Generation
		return out, nil
	})
}

func (s *Server) entityChunks(w http.ResponseWriter, request *http.Request) {
	s.browse(w, request, func(ctx context.Context, generation *retrieve.Generation) (any, error) {
		n, err := limitOf(request)
		if err != nil {
			return nil, err
		}
		rec, err := s.entity(ctx, request, generation)
		if err != nil {
			return nil, err
		}
		at := 0
		if c := request.URL.Query().Get("cursor"); c != "" {
			if at, err = strconv.Atoi(c); err != nil || at < 0 {
				return nil, invalid("read request", "cursor", "want the cursor of an earlier answer, got "+c, "")
			}
		}
		at = min(at, len(rec.Chunks))
		end := min(at+n, len(rec.Chunks))
		out := []Chunk{}
		for _, id := range rec.Chunks[at:end] {
			chunk := generation.Live.Chunk(id)
			if chunk == nil {
				continue
			}
			x, err := s.chunk(ctx, generation, chunk)
			if err != nil {
				return nil, err
			}
			out = append(out, x)
		}
		next := ""
		if end < len(rec.Chunks) {
			next = strconv.Itoa(end)
		}
		return map[string]any{
			"index":       generation.Manifest.Index,
			"generation":  generation.Manifest.Generation,
			"chunks":      out,
			"cursor":      next,
			"chunk_total": rec.ChunkTotal,
		}, nil
	})
}

// Mention is an entity as a chunk's extraction has it; spans are code points of the document.
type Mention struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Spans       [][2]int `json:"spans"`
	Located     bool     `json:"located"`
}

func (s *Server) getChunk(w http.ResponseWriter, request *http.Request) {
	s.browse(w, request, func(ctx context.Context, generation *retrieve.Generation) (any, error) {
		id, err := corpus.ParseID(request.PathValue("id"))
		var chunk *live.Chunk
		if err == nil {
			chunk = generation.Live.Chunk(id)
		}
		if chunk == nil {
			return nil, notFound("chunk", request.PathValue("id"), generation)
		}
		x, err := s.chunk(ctx, generation, chunk)
		if err != nil {
			return nil, err
		}
		ms, fallback, err := mentions(ctx, generation, chunk)
		if err != nil {
			return nil, err
		}
		return map[string]any{
			"index":      generation.Manifest.Index,
			"generation": generation.Manifest.Generation,
			"chunk":      x,
			"mentions":   ms,
			"fallback":   fallback,
		}, nil
	})
}

// mentions reads what was extracted from a chunk, with places in the document.
func mentions(ctx context.Context, g *retrieve.Generation, chunk *live.Chunk) ([]Mention, bool, error) {
	extract, err := g.Extraction(ctx, chunk)
	if err != nil {
		return nil, false, err
	}
	ms := []Mention{}
	for _, m := range extract.Entities {
		mention := Mention{m.Name, m.Description, [][2]int{}, len(m.Spans) > 0}
		for _, sp := range m.Spans {
			mention.Spans = append(mention.Spans, [2]int{int(chunk.Start) + sp[0], int(chunk.Start) + sp[1]})
		}
		ms = append(ms, mention)
	}
	return ms, extract.Fallback != "", nil
}

// documentText answers GET …/documents/{key}/text; keys hold slashes, so the route takes the rest of the path.
func (s *Server) documentText(w http.ResponseWriter, request *http.Request) {
	s.browse(w, request, func(ctx context.Context, generation *retrieve.Generation) (any, error) {
		key, ok := strings.CutSuffix(request.PathValue("rest"), "/text")
		if !ok {
			return nil, fault.NotFound.At("find", request.PathValue("rest")).
				Because("no such page").
				Advise("a document's text is at /documents/{key}/text")
		}
		i := generation.Live.Document(key)
		if i < 0 {
			return nil, notFound("document", key, generation)
		}
		document, err := generation.Document(ctx, i)
		if err != nil {
			return nil, err
		}
		if v := request.URL.Query().Get("version"); v != "" && v != document.Version.String() {
			return nil, notFound("version of document "+key, v, generation)
		}
		start, end, err := rangeOf(request.URL.Query(), document.Runes)
		if err != nil {
			return nil, err
		}
		t, err := generation.DocumentText(ctx, i, start, end)
		return map[string]any{
			"index":      generation.Manifest.Index,
			"generation": generation.Manifest.Generation,
			"document":   key,
			"version":    document.Version,
			"title":      document.Title,
			"start":      start,
			"end":        end,
			"length":     document.Runes,
			"text":       t,
		}, err
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
