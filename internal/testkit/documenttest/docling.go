package documenttest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// Docling is a docling-serve for tests, with the paths and fields of its version 1: a file is a task that is done at
// the second poll, and its Markdown is Answer of its bytes.
type Docling struct {
	Key    string
	Answer func(raw string) (markdown, status string) // status success, or what the task ends with; never: it never ends
	Posts  atomic.Int64
	said   atomic.Value
	polls  atomic.Int64
}

// ServeHTTP implements http.Handler.
func (d *Docling) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Header.Get("X-Api-Key") != d.Key {
		http.Error(w, `{"detail":"Unauthorized"}`, http.StatusUnauthorized)
		return
	}
	write := func(value map[string]any) { _ = json.NewEncoder(w).Encode(value) }
	markdown, status := "", ""
	if said, ok := d.said.Load().([2]string); ok {
		markdown, status = said[0], said[1]
	}
	switch path := request.URL.Path; {
	case request.Method == http.MethodPost && path == "/v1/convert/file/async":
		file, _, err := request.FormFile("files")
		if err != nil || request.FormValue("to_formats") != "md" || request.FormValue("image_export_mode") != "placeholder" {
			http.Error(w, `{"detail":"a form with files"}`, http.StatusUnprocessableEntity)
			return
		}
		raw, _ := io.ReadAll(file)
		d.Posts.Add(1)
		d.polls.Store(0)
		markdown, status = d.Answer(string(raw))
		markdown = strings.ReplaceAll(markdown, "\f", request.FormValue("md_page_break_placeholder"))
		d.said.Store([2]string{markdown, status})
		write(map[string]any{"task_id": "t-1", "task_type": "convert", "task_status": "pending", "task_position": 1})
	case path == "/v1/status/poll/t-1":
		if d.polls.Add(1) == 1 || status == "never" {
			status = "started"
		}
		write(map[string]any{"task_id": "t-1", "task_type": "convert", "task_status": status, "task_position": nil})
	case path == "/v1/result/t-1":
		write(map[string]any{
			"document": map[string]any{"filename": "a", "md_content": markdown, "json_content": nil},
			"status":   status, "errors": []any{}, "processing_time": 0.1, "timings": map[string]any{},
		})
	default:
		http.NotFound(w, request)
	}
}
