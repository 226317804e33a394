package modeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// BatchFaults is what a server's Batch API does wrong; the zero value is a good one. Numbers count down.
type BatchFaults struct {
	LoseCreate int    // creations that are done, and whose answer does not arrive
	CutCreate  int    // creations that are not done, as the connection breaks before
	LateFile   int    // creations that do not find their file yet
	Limited    int    // creations that are refused with a 429: too many an hour
	Down       int    // downloads that are refused with a 500
	Expire     int    // requests that are not served in time
	Busy       int    // requests whose line in the error file is a 500
	Drop       int    // requests that are not served and have no line
	Reject     string // requests with this text have a 400 in the error file
	Tokens     int64  // prompt tokens that may wait; a batch beyond them is created, and fails later; 0 = any number
	Stuck      bool   // batches go on until they are cancelled
}

// batches are the files and batches of a server. All batches get on by a state with every look at one.
type batches struct {
	mu     sync.Mutex
	faults BatchFaults
	files  map[string][]byte
	kept   int // files, ever
	all    []*batchJob
	pushed int
}

type batchJob struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Status   string            `json:"status"`
	Input    string            `json:"input_file_id"`
	Output   *string           `json:"output_file_id"`
	Errors   *string           `json:"error_file_id"`
	Metadata map[string]string `json:"metadata"`
	Failure  any               `json:"errors"`

	tokens int64
}

// SetBatchFaults changes how the Batch API fails.
func (s *Server) SetBatchFaults(faults BatchFaults) {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	s.batches.faults = faults
}

// Batches says how many batches were created, and how many of them failed as too many tokens waited.
func (s *Server) Batches() (created, pushed int) {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	return len(s.batches.all), s.batches.pushed
}

// Files says how many files lie at the server.
func (s *Server) Files() int {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	return len(s.batches.files)
}

func take(counter *int) bool {
	if *counter == 0 {
		return false
	}
	*counter--
	return true
}

func ofBatches(path string) bool {
	return strings.HasPrefix(path, "/v1/files") || strings.HasPrefix(path, "/v1/batches")
}

// batch answers a request to the Files and Batches endpoints.
func (s *Server) batch(w http.ResponseWriter, request *http.Request) {
	b := &s.batches
	b.mu.Lock()
	defer b.mu.Unlock()
	path := strings.Split(strings.TrimPrefix(request.URL.Path, "/v1/"), "/")
	switch {
	case request.Method == http.MethodPost && len(path) == 1 && path[0] == "files":
		b.upload(w, request)
	case request.Method == http.MethodGet && len(path) == 3 && path[0] == "files":
		raw, ok := b.files[path[1]]
		switch {
		case !ok:
			refuse(w, http.StatusNotFound, "not_found", "No such File object", 0)
		case take(&b.faults.Down):
			refuse(w, http.StatusInternalServerError, "server_error", "injected", 0)
		default:
			_, _ = w.Write(raw) // the caller may have gone
		}
	case request.Method == http.MethodDelete && len(path) == 2 && path[0] == "files":
		delete(b.files, path[1])
		tell(w, map[string]any{"id": path[1], "object": "file", "deleted": true})
	case request.Method == http.MethodPost && len(path) == 1:
		b.create(w, request)
	case len(path) == 1:
		b.list(w, request)
	default:
		i := slices.IndexFunc(b.all, func(job *batchJob) bool { return job.ID == path[1] })
		if i < 0 {
			refuse(w, http.StatusNotFound, "not_found", "No such batch", 0)
			return
		}
		if len(path) == 3 {
			if status := b.all[i].Status; status != "validating" && status != "in_progress" && status != "cancelling" {
				refuse(w, http.StatusConflict, "invalid_request_error", "Cannot cancel a batch with status "+status, 0)
				return
			}
			b.all[i].Status = "cancelling"
		} else {
			for _, job := range b.all { // one that no client asks about gets on as well, and is charged
				s.advance(job)
			}
		}
		tell(w, b.all[i])
	}
}

func tell(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the caller may have gone
}

func (b *batches) keep(raw []byte) string {
	if b.files == nil {
		b.files = map[string][]byte{}
	}
	b.kept++
	id := fmt.Sprintf("file-%d", b.kept)
	b.files[id] = raw
	return id
}

func (b *batches) upload(w http.ResponseWriter, request *http.Request) {
	file, _, err := request.FormFile("file")
	if err != nil || request.FormValue("purpose") != "batch" {
		refuse(w, http.StatusBadRequest, "bad_request", "a file of purpose batch is wanted", 0)
		return
	}
	raw, err := io.ReadAll(file)
	if err != nil || len(raw) > 200_000_000 || strings.Count(string(raw), "\n") > 50_000 {
		refuse(w, http.StatusBadRequest, "invalid_request_error", "File is too large", 0)
		return
	}
	tell(w, map[string]string{"id": b.keep(raw), "object": "file", "purpose": "batch"})
}

func (b *batches) create(w http.ResponseWriter, request *http.Request) {
	var asked struct {
		Input    string            `json:"input_file_id"`
		Metadata map[string]string `json:"metadata"`
	}
	if json.NewDecoder(request.Body).Decode(&asked) != nil || len(asked.Metadata) > 16 {
		refuse(w, http.StatusBadRequest, "bad_request", "not a batch", 0)
		return
	}
	for name, value := range asked.Metadata {
		if len(name) > 64 || len(value) > 512 {
			refuse(w, http.StatusBadRequest, "bad_request", "metadata is too long", 0)
			return
		}
	}
	raw, ok := b.files[asked.Input]
	switch {
	case take(&b.faults.CutCreate):
		panic(http.ErrAbortHandler)
	case take(&b.faults.Limited):
		refuse(w, http.StatusTooManyRequests, "rate_limit_exceeded", "2,000 batches an hour", time.Second)
		return
	case !ok || take(&b.faults.LateFile):
		refuse(w, http.StatusBadRequest, "invalid_request_error", "Cannot find file "+asked.Input, 0)
		return
	}
	job := &batchJob{
		ID: fmt.Sprintf("batch_%d", len(b.all)+1), Object: "batch", Status: "validating",
		Input: asked.Input, Metadata: asked.Metadata, tokens: int64(len(raw) / 4),
	}
	b.all = append(b.all, job)
	if take(&b.faults.LoseCreate) {
		panic(http.ErrAbortHandler)
	}
	tell(w, job)
}

// list gives batches from the newest on, a few a page.
func (b *batches) list(w http.ResponseWriter, request *http.Request) {
	newest := slices.Clone(b.all)
	slices.Reverse(newest)
	after := request.URL.Query().Get("after")
	if i := slices.IndexFunc(newest, func(job *batchJob) bool { return job.ID == after }); i >= 0 {
		newest = newest[i+1:]
	}
	page := newest[:min(2, len(newest))]
	tell(w, map[string]any{"object": "list", "data": page, "has_more": len(page) < len(newest)})
}

// advance takes a batch to its next state.
func (s *Server) advance(job *batchJob) {
	b := &s.batches
	waiting := int64(0)
	for _, other := range b.all {
		if other.Status == "in_progress" {
			waiting += other.tokens
		}
	}
	switch job.Status {
	case "validating":
		job.Status = "in_progress"
		if b.faults.Tokens > 0 && waiting+job.tokens > b.faults.Tokens {
			job.Status = "failed"
			b.pushed++
			job.Failure = map[string]any{"data": []any{
				map[string]string{"code": "token_limit_exceeded", "message": "Enqueued token limit reached"},
			}}
		}
	case "in_progress":
		if !b.faults.Stuck {
			job.Status = "completed"
			s.serve(job, false)
		}
	case "cancelling":
		job.Status = "cancelled"
		s.serve(job, true)
	}
}

// serve answers the requests of a batch, the last first; of one that was cancelled half of them.
func (s *Server) serve(job *batchJob, half bool) {
	b := &s.batches
	var output, failures []byte
	line := func(into *[]byte, id string, status int, body, failure any) {
		var response any
		if status != 0 {
			response = map[string]any{"status_code": status, "request_id": "req", "body": body}
		}
		raw, _ := json.Marshal(map[string]any{ // plain values always marshal
			"id": "batch_req", "custom_id": id, "response": response, "error": failure,
		})
		*into = append(append(*into, raw...), '\n')
	}
	lines := strings.Split(strings.TrimSpace(string(b.files[job.Input])), "\n")
	slices.Reverse(lines)
	if half {
		lines = lines[:len(lines)/2]
	}
	for _, raw := range lines {
		var asked struct {
			ID   string      `json:"custom_id"`
			Body chatRequest `json:"body"`
		}
		if json.Unmarshal([]byte(raw), &asked) != nil {
			continue
		}
		refused := func(code, message string) any {
			return map[string]any{"error": map[string]string{"code": code, "message": message}}
		}
		switch {
		case take(&b.faults.Drop):
		case take(&b.faults.Expire):
			job.Status = "expired"
			line(&failures, asked.ID, 0, nil, map[string]string{"code": "batch_expired", "message": "not in time"})
		case take(&b.faults.Busy):
			line(&failures, asked.ID, http.StatusInternalServerError, refused("server_error", "injected"), nil)
		case b.faults.Reject != "" && strings.Contains(raw, b.faults.Reject):
			line(&failures, asked.ID, http.StatusBadRequest, refused("content_filter", "content policy"), nil)
		default:
			line(&output, asked.ID, http.StatusOK, s.complete(asked.Body), nil)
		}
	}
	for _, file := range []struct {
		raw []byte
		id  **string
	}{{output, &job.Output}, {failures, &job.Errors}} {
		if len(file.raw) > 0 {
			id := b.keep(file.raw)
			*file.id = &id
		}
	}
}

// complete answers and books one request of a batch.
func (s *Server) complete(asked chatRequest) any {
	task, user, parts, size := asked.read()
	content := s.content(task, user)
	cost := Cost{Prompt: int64(size / 4), Completion: int64(len(content) / 4)}
	prompt := digest(parts...)
	s.book.chat(task, prompt, user, cost, false)
	return completion(prompt, asked.Model, content, cost)
}
