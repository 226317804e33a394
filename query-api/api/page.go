package api

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"regexp"
)

//go:embed page.html
var pageHTML []byte

// pagePolicy lets the page run the script and the style that it was built with, and nothing else: each is named by its
// hash. It holds no data; what it shows it asks for, with the key that it is given.
var pagePolicy = "default-src 'none'; script-src " + hashOf("script") + "; style-src " + hashOf("style") +
	"; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func hashOf(element string) string {
	found := regexp.MustCompile(`(?s)<` + element + `>(.*)</` + element + `>`).FindSubmatch(pageHTML)
	sum := sha256.Sum256(found[1])
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	_, _ = w.Write(pageHTML) // the caller may have gone
}
