// Package page is the web page that query-api serves at /: its files, built from the sources in src by build.mjs and
// committed, so that building the program needs no node. It holds no data; what it shows it asks for, as any other
// client does, with the key that it is given.
//
//	src        TypeScript and CSS
//	dist       what build.mjs makes of it
//	e2e.mjs    the page in a browser
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
)

//go:embed dist
var dist embed.FS

// file of the page, as it is served.
type file struct {
	content []byte
	kind    string
	tag     string // of its content, so that a browser asks for it once
}

// files by path. Those of middleware.Open are the same.
var files = map[string]file{
	"/":               loadFile("index.html", "text/html; charset=utf-8"),
	"/page/app.js":    loadFile("app.js", "text/javascript; charset=utf-8"),
	"/page/style.css": loadFile("style.css", "text/css; charset=utf-8"),
	"/page/icon.svg":  loadFile("icon.svg", "image/svg+xml"),
}

// Paths returns the paths where Serve is to be mounted.
func Paths() []string {
	return []string{"/{$}", "/page/app.js", "/page/style.css", "/page/icon.svg"}
}

// policy lets the page run its own files and ask its own server, and nothing else. Text never becomes markup: what
// would make some of it is refused by trusted types.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

func loadFile(name, kind string) file {
	content, err := dist.ReadFile("dist/" + name)
	if err != nil {
		panic(err) // it was embedded, or the program would not have been built
	}
	sum := sha256.Sum256(content)
	return file{content, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// Serve answers a request for a file of the page.
func Serve(w http.ResponseWriter, request *http.Request) {
	found, ok := files[request.URL.Path]
	if !ok {
		http.NotFound(w, request)
		return
	}
	header := w.Header()
	header.Set("Content-Type", found.kind)
	header.Set("Content-Security-Policy", policy)
	// An address of the page asks a question, which may cost money: who opened it has no hold on it to ask more.
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache") // asked for again each time, sent where it changed
	header.Set("ETag", found.tag)
	if request.Header.Get("If-None-Match") == found.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(found.content) // the caller may have gone
}
