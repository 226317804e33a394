package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/unweaver/unweaver/internal/answer/extract"
	"github.com/unweaver/unweaver/internal/artifact/rows"
	"github.com/unweaver/unweaver/internal/retrieve"
)

// listDocuments answers GET …/documents: documents in the order of their keys.
func listDocuments(
	ctx context.Context, request *http.Request, generation *retrieve.Generation, place int,
) (any, error) {
	n, err := limitOf(request)
	if err != nil {
		return nil, err
	}
	from, to, after := generation.DocumentsFrom(request.URL.Query().Get("prefix"), place, n)
	found, err := generation.ReadDocuments(ctx, from, to)
	if err != nil {
		return nil, err
	}
	out := Documents{Source: sourceOf(generation), Items: []DocumentSummary{}}
	out.NextCursor = nextCursor(request, out.Generation, after)
	for i, document := range found {
		out.Items = append(out.Items, documentSummary(generation, from+i, document))
	}
	return out, nil
}

// documentSummary returns document i as lists show it.
func documentSummary(generation *retrieve.Generation, i int, document rows.Document) DocumentSummary {
	out := DocumentSummary{
		Document: generation.Live.Key(i),
		Version:  document.Version.String(),
		Stale:    document.Stale,
		Title:    document.Title,
		Type:     document.Kind,
		Metadata: document.Meta,
		Length:   document.Runes,
		Problem:  document.Problem,
		Chunks:   int(generation.Live.DocumentAt(i).Count),
	}
	if out.Metadata == nil {
		out.Metadata = map[string]string{}
	}
	if !document.Modified.IsZero() {
		out.Modified = &document.Modified
	}
	return out
}

// getDocument answers GET …/documents/{key}. A key that ends in /text has that slash written %2F.
func getDocument(
	ctx context.Context, request *http.Request, generation *retrieve.Generation, _ int,
) (any, error) {
	key := request.PathValue("rest")
	i := generation.Live.FindDocument(key)
	if i < 0 {
		return nil, notFound("document", key, generation)
	}
	document, err := generation.ReadDocument(ctx, i)
	if err != nil {
		return nil, err
	}
	return DocumentDetail{
		Source: sourceOf(generation), DocumentSummary: documentSummary(generation, i, document),
		Object: document.Object, Bytes: document.Size, Found: foundOf(document),
	}, nil
}

// foundOf returns the version of what a stale document is in the corpus now, where it could be read.
func foundOf(document rows.Document) string {
	found := document.Found.String()
	if strings.Trim(found, "0") == "" {
		return ""
	}
	return found
}

// documentText answers GET …/documents/{key}/text: a part of a document's text.
func documentText(
	ctx context.Context, request *http.Request, generation *retrieve.Generation, _ int,
) (any, error) {
	key, parameters := request.PathValue("rest"), request.URL.Query()
	i := generation.Live.FindDocument(key)
	if i < 0 {
		return nil, notFound("document", key, generation)
	}
	document, err := generation.ReadDocument(ctx, i)
	if err != nil {
		return nil, err
	}
	if v := parameters.Get("version"); v != "" && v != document.Version.String() {
		return nil, notFound("version of document "+key, v, generation)
	}
	out := DocumentText{
		Source: sourceOf(generation), Document: key, Version: document.Version.String(), Stale: document.Stale,
		Title: document.Title, Metadata: document.Meta, Length: document.Runes,
	}
	if out.Start, out.End, err = rangeOf(parameters, document.Runes); err == nil {
		out.Text, err = generation.DocumentText(ctx, i, out.Start, out.End)
		places := extract.FindMarkup(out.Text)
		out.Markup = places[:min(len(places), mostMarks)]
	}
	return out, err
}

func rangeOf(q url.Values, length int) (start, end int, err error) {
	if start, err = readNumber(q, "start", 0, maxRunes, 0); err != nil {
		return 0, 0, err
	}
	if end, err = readNumber(q, "end", 0, maxRunes, length); err != nil {
		return 0, 0, err
	}
	end = min(end, length)
	if start > end {
		return 0, 0, newFault("read request", "start", "it is greater than end", "")
	}
	return start, min(end, start+maxTextRunes), nil
}
