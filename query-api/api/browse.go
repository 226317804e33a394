package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/unweaver/unweaver/internal/answer"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/liveset"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/stream/parallel"
	"github.com/unweaver/unweaver/query-api/middleware"
	"github.com/unweaver/unweaver/query-api/served"
)

// Limits of lists and texts.
const (
	defaultLimit = 50
	maxLimit     = 1000
	maxTextRunes = 1 << 20
	mostMarks    = 20_000    // places of markup that a text comes with
	maxRunes     = 1<<31 - 1 // of a document
	readWidth    = 16        // chunks that are read at once for one page of a list
)

// answerPinned returns a handler that reads from the generation that a request means. What it answers depends on that
// and on the address alone, so that clients may keep it.
func (s *Server) answerPinned(
	read func(ctx context.Context, request *http.Request, generation *retrieve.Generation, place int) (any, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
		defer cancel()
		wanted, err := wantedOf(request)
		if err != nil {
			s.writeError(w, request, err)
			return
		}
		generation, err := s.served.Pin(ctx, request.PathValue("index"), wanted.generation)
		if err != nil {
			s.writeError(w, request, wanted.mapGone(err))
			return
		}
		defer generation.Close()
		tag := tagOf(request, generation)
		// What a caller may read changes with its key, and with whether the documents have labels when it asks again.
		readers := middleware.CallerOf(ctx).Readers()
		labelled := generation.HasLabels() || len(readers.Labels) > 0
		keep := func() {
			s.answerKept(w, request, tag, wanted.generation != "" && !labelled, s.Policy.Required || labelled)
		}
		if hasTag(request.Header.Values("If-None-Match"), tag) {
			keep()
			return
		}
		out, err := read(ctx, request, generation, wanted.place)
		if err != nil {
			s.writeError(w, request, err)
			return
		}
		keep()
		writeJSON(w, out)
	}
}

// answerTagged returns a handler that reads from other sources, and answers with a tag from the answer itself.
func (s *Server) answerTagged(read func(ctx context.Context, request *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		ctx, cancel := context.WithTimeout(request.Context(), s.Timeout)
		defer cancel()
		out, err := read(ctx, request)
		if err != nil {
			s.writeError(w, request, err)
			return
		}
		if !s.answerUnchanged(w, request, tagAnswer(out)) {
			writeJSON(w, out)
		}
	}
}

// listIndexes answers GET /v1/indexes.
func (s *Server) listIndexes(ctx context.Context, request *http.Request) (any, error) {
	found, err := s.served.ListPublished(ctx)
	if err != nil {
		return nil, err
	}
	var out Indexes
	out.Items, out.NextCursor, err = namedPage(request, found, func(info served.IndexInfo) string { return info.Index })
	return out, err
}

// listGenerations answers GET …/generations.
func (s *Server) listGenerations(ctx context.Context, request *http.Request) (any, error) {
	name := request.PathValue("index")
	if err := s.served.NeedAllRuns(ctx, name); err != nil {
		return nil, err
	}
	list, err := artifact.Index{Store: s.Artifacts, Name: name}.ListGenerations(ctx)
	if err == nil && len(list) == 0 {
		err = served.UnknownIndex(name)
	}
	if err != nil {
		return nil, err
	}
	out := Generations{Index: name}
	out.Items, out.NextCursor, err = namedPage(request, list, func(g artifact.Generation) string { return g.Generation })
	return out, err
}

func limitOf(r *http.Request) (int, error) {
	return readNumber(r.URL.Query(), "limit", 1, maxLimit, defaultLimit)
}

func summaryOf(class *liveset.Class, record rows.Record) EntitySummary {
	return EntitySummary{
		ID: class.ID.String(), Name: record.Name, Type: record.Type, ChunkTotal: int64(class.Chunks),
	}
}

// findEntity finds the entity that the path names, and reads its record.
func (s *Server) findEntity(
	ctx context.Context,
	request *http.Request,
	generation *retrieve.Generation,
) (*liveset.Class, rows.Record, error) {
	id, err := core.ParseID(request.PathValue("id"))
	var class *liveset.Class
	if err == nil {
		class = generation.Live.FindClass(id)
	}
	if class == nil {
		return nil, rows.Record{}, notFound("entity", request.PathValue("id"), generation)
	}
	records, err := s.searcher.ClassRecords(ctx, generation, []*liveset.Class{class})
	if err != nil {
		return nil, rows.Record{}, err
	}
	return class, records[0], nil
}

func notFound(what, id string, g *retrieve.Generation) error {
	hint := "send the generation that named it"
	if list := map[string]string{"document": "documents", "entity": "entities"}[what]; list != "" {
		hint = "list them: GET /v1/indexes/" + g.Manifest.Index + "/" + list
	}
	return fault.NotFound.At("find "+what, id).
		Because("generation " + g.Manifest.Generation + " has none of that id").
		Advise(hint)
}

func (s *Server) getEntity(
	ctx context.Context, request *http.Request, generation *retrieve.Generation, _ int,
) (any, error) {
	class, record, err := s.findEntity(ctx, request, generation)
	if err != nil {
		return nil, err
	}
	place := uint32(generation.Live.ClassPlace(class.ID))
	text, mentions := record.Text, generation.Live.Mentions(place)
	if rows := generation.Live.RowsOfClass(place); len(rows) > 1 {
		records, err := s.searcher.ClassRecords(ctx, generation, rows)
		if err != nil {
			return nil, err
		}
		text = ""
		for _, one := range records {
			text = strings.TrimPrefix(text+"\n"+one.Text, "\n")
		}
	}
	return EntityDetail{sourceOf(generation), summaryOf(class, record), text, mentions}, nil
}

func (s *Server) entityChunks(
	ctx context.Context, request *http.Request, generation *retrieve.Generation, place int,
) (any, error) {
	n, err := limitOf(request)
	if err != nil {
		return nil, err
	}
	class, _, err := s.findEntity(ctx, request, generation)
	if err != nil {
		return nil, err
	}
	numbers := generation.Live.Graph.ChunksOf(uint32(generation.Live.ClassPlace(class.ID)))
	place = min(place, len(numbers))
	end := min(place+n, len(numbers))
	out := EntityChunks{Source: sourceOf(generation), ChunkTotal: int64(class.Chunks)}
	var rows []*liveset.Chunk
	for _, number := range numbers[place:end] {
		rows = append(rows, generation.Live.ByNumber(int(number)))
	}
	if end < len(numbers) {
		out.NextCursor = nextCursor(request, out.Generation, end)
	}
	out.Items, err = chunksOf(ctx, generation, rows)
	return out, err
}

// chunksOf reads what a list says of chunks, side by side.
func chunksOf(ctx context.Context, generation *retrieve.Generation, rows []*liveset.Chunk) ([]answer.Passage, error) {
	out := make([]answer.Passage, len(rows))
	err := parallel.Each(ctx, len(rows), readWidth, func(ctx context.Context, i int) (err error) {
		out[i], err = answer.PassageOf(ctx, generation, rows[i])
		return err
	})
	return out, err
}

// getChunk answers GET …/chunks/{id}: a chunk and what was extracted from it.
func getChunk(
	ctx context.Context, request *http.Request, generation *retrieve.Generation, _ int,
) (any, error) {
	id := request.PathValue("id")
	var row *liveset.Chunk
	if parsed, err := core.ParseID(id); err == nil {
		row = generation.Live.FindChunk(parsed)
	}
	if row == nil {
		return nil, notFound("chunk", id, generation)
	}
	out := ChunkDetail{Source: sourceOf(generation)}
	var err error
	if out.Chunk, err = answer.PassageOf(ctx, generation, row); err == nil {
		out.Mentions, out.Fallback, err = answer.MentionsIn(ctx, generation, row)
	}
	return out, err
}
