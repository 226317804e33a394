package api

import (
	"compress/gzip"
	"mime"
	"net/http"
	"slices"

	"github.com/klauspost/compress/gzhttp"
)

// minCompressed is the size from which an answer is worth packing: below it fits one packet anyway.
const minCompressed = 1400

// packed are the kinds of answers that are worth packing. A stream of events is not: each must arrive at once.
var packed = []string{
	"application/json", "application/problem+json", "text/html", "text/plain", "text/markdown", "text/css",
	"text/javascript", "application/javascript", "image/svg+xml",
}

// compressAnswers packs answers with gzip for clients that accept it. Lengths of packed answers tell of secrets only
// where an answer holds one beside what an attacker can choose; ours hold none: keys come in headers and are never sent
// back, and no page of another origin can have a browser send one.
func compressAnswers(handler http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.MinSize(minCompressed), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false),
		gzhttp.ContentTypeFilter(func(kind string) bool {
			plain, _, err := mime.ParseMediaType(kind)
			return err == nil && slices.Contains(packed, plain)
		}),
	)
	if err != nil {
		panic("api: compress: " + err.Error()) // the options are constants: the first test meets it
	}
	return wrap(handler)
}
