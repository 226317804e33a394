package page

import (
	"html/template"
	"net/http"
)

// failure is what a person sees who could not sign in. Its links are relative to addresses below /oidc/.
var failure = template.Must(template.New("failure").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Not signed in - UnWeaver</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="../page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../page/style.css">
</head>
<body>
<main>
<h1>You are not signed in</h1>
<p>Reason: {{.Why}}.</p>
{{with .Advice}}<p>{{.}}.</p>
{{end}}<p><a href="login">Sign in again</a> or <a href="../">go to the start page</a>.</p>
</main>
</body>
</html>
`))

// WriteFailure writes the page of a sign-in that failed: why, what to do, and a link to sign in again.
func WriteFailure(w http.ResponseWriter, status int, why, advice string) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", policy)
	w.WriteHeader(status)
	_ = failure.Execute(w, struct{ Why, Advice string }{why, advice}) // the caller may have gone
}
