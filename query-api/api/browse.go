package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/format/live"
	"github.com/unweaver/unweaver/internal/format/rows"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/stream/par"
	"github.com/unweaver/unweaver/query-api/guard"
)

// Limits of lists and texts.
const (
	defaultLimit = 50
	maxLimit     = 1000
	maxTextRunes = 1 << 20
	maxRunes     = 1<<31 - 1 // of a document
	maxCursor    = 999_999_999
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

func (s *Server) listIndexes(w http.ResponseWriter, request *http.Request) {
	ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
	defer cancel()
	names, err := artifact.Names(ctx, s.Artifacts)
	if err != nil {
		s.fail(w, request, err)
		return
	}
	caller := guard.Of(ctx)
	names = slices.DeleteFunc(names, func(name string) bool { return !caller.May(name) })
	found := make([]IndexInfo, len(names))
	if err := par.Each(ctx, len(names), listWidth, func(ctx context.Context, i int) (err error) {
		found[i], err = s.indexInfo(ctx, names[i])
		return err
	}); err != nil {
		s.fail(w, request, err)
		return
	}
	out := Indexes{Indexes: []IndexInfo{}}
	for _, info := range found {
		if info.Index != "" {
			out.Indexes = append(out.Indexes, info)
		}
	}
	writeJSON(w, out)
}

// indexInfo reads what is published under a name; nothing is no error, and no name. What cannot be read of one index is
// told of it, and hides no other.
func (s *Server) indexInfo(ctx context.Context, name string) (IndexInfo, error) {
	index := artifact.Index{Store: s.Artifacts, Name: name}
	pointer, _, err := index.Current(ctx)
	if err == nil && pointer.Manifest == "" {
		return IndexInfo{}, nil
	}
	var manifest *corpus.Manifest
	if err == nil {
		manifest, err = index.Pointed(ctx, pointer)
	}
	if artifact.IsDamage(err) {
		return IndexInfo{Index: name, Generation: pointer.Generation, Release: pointer.Epoch, State: "damaged"}, nil
	}
	if err != nil {
		return IndexInfo{}, err
	}
	return IndexInfo{
		Index:       name,
		State:       "published",
		Generation:  pointer.Generation,
		Release:     pointer.Epoch,
		Documents:   manifest.Counts.Documents,
		Chunks:      manifest.Counts.Chunks,
		Classes:     manifest.Counts.Classes,
		ContentHash: manifest.Hashes.Content.Digest().String(),
		Models:      manifest.Models,
	}, nil
}

func (s *Server) listGenerations(w http.ResponseWriter, request *http.Request) {
	name := request.PathValue("index")
	if !corpus.ValidIndex(name) {
		s.fail(w, request, unknownIndex(name))
		return
	}
	ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
	defer cancel()
	list, err := artifact.Index{Store: s.Artifacts, Name: name}.Generations(ctx)
	if err == nil && len(list) == 0 {
		err = unknownIndex(name)
	}
	if err != nil {
		s.fail(w, request, err)
		return
	}
	writeJSON(w, Generations{name, list})
}

func limitOf(r *http.Request) (int, error) {
	return number(r.URL.Query(), "limit", 1, maxLimit, defaultLimit)
}

func summaryOf(record rows.Record) EntitySummary {
	return EntitySummary{record.ID.String(), record.Name, record.ChunkTotal}
}

func (s *Server) listEntities(w http.ResponseWriter, request *http.Request) {
	s.browse(w, request, func(ctx context.Context, generation *retrieve.Generation) (any, error) {
		n, err := limitOf(request)
		if err != nil {
			return nil, err
		}
		classes := generation.Named(request.URL.Query().Get("prefix"), n)
		records, err := s.searcher().ClassRecords(ctx, generation, classes)
		if err != nil {
			return nil, err
		}
		out := Entities{Source: sourceOf(generation), Entities: []EntitySummary{}}
		for _, record := range records {
			out.Entities = append(out.Entities, summaryOf(record))
		}
		return out, nil
	})
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
	records, err := s.searcher().ClassRecords(ctx, generation, []*live.Class{class})
	if err != nil {
		return rows.Record{}, err
	}
	return records[0], nil
}

func notFound(what, id string, g *retrieve.Generation) error {
	return fault.NotFound.At("find "+what, id).Because("generation " + g.Manifest.Generation + " has none of that id")
}

func (s *Server) getEntity(w http.ResponseWriter, request *http.Request) {
	s.browse(w, request, func(ctx context.Context, generation *retrieve.Generation) (any, error) {
		record, err := s.entity(ctx, request, generation)
		if err != nil {
			return nil, err
		}
		return EntityDetail{sourceOf(generation), summaryOf(record), record.Text, record.Mentions}, nil
	})
}

func (s *Server) entityChunks(w http.ResponseWriter, request *http.Request) {
	s.browse(w, request, func(ctx context.Context, generation *retrieve.Generation) (any, error) {
		n, err := limitOf(request)
		if err != nil {
			return nil, err
		}
		record, err := s.entity(ctx, request, generation)
		if err != nil {
			return nil, err
		}
		at, err := number(request.URL.Query(), "cursor", 0, maxCursor, 0)
		if err != nil {
			return nil, err
		}
		at = min(at, len(record.Chunks))
		end := min(at+n, len(record.Chunks))
		out := EntityChunks{Source: sourceOf(generation), Chunks: []Chunk{}, ChunkTotal: record.ChunkTotal}
		for _, id := range record.Chunks[at:end] {
			row := generation.Live.Chunk(id)
			if row == nil {
				continue
			}
			chunk, err := chunkOf(ctx, generation, row)
			if err != nil {
				return nil, err
			}
			out.Chunks = append(out.Chunks, chunk)
		}
		if end < len(record.Chunks) {
			out.Cursor = strconv.Itoa(end)
		}
		return out, nil
	})
}

func (s *Server) getChunk(w http.ResponseWriter, request *http.Request) {
	s.browse(w, request, func(ctx context.Context, generation *retrieve.Generation) (any, error) {
		id, err := corpus.ParseID(request.PathValue("id"))
		var row *live.Chunk
		if err == nil {
			row = generation.Live.Chunk(id)
		}
		if row == nil {
			return nil, notFound("chunk", request.PathValue("id"), generation)
		}
		out := ChunkDetail{Source: sourceOf(generation)}
		if out.Chunk, err = chunkOf(ctx, generation, row); err != nil {
			return nil, err
		}
		out.Mentions, out.Fallback, err = mentions(ctx, generation, row)
		return out, err
	})
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
		text, err := generation.DocumentText(ctx, i, start, end)
		return DocumentText{
			Source:   sourceOf(generation),
			Document: key,
			Version:  document.Version.String(),
			Stale:    document.Stale,
			Title:    document.Title,
			Start:    start,
			End:      end,
			Length:   document.Runes,
			Text:     text,
		}, err
	})
}

func rangeOf(q url.Values, length int) (start, end int, err error) {
	if start, err = number(q, "start", 0, maxRunes, 0); err != nil {
		return 0, 0, err
	}
	if end, err = number(q, "end", 0, maxRunes, length); err != nil {
		return 0, 0, err
	}
	end = min(end, length)
	if start > end {
		return 0, 0, invalid("read request", "start", "it lies behind the end", "")
	}
	return start, min(end, start+maxTextRunes), nil
}
