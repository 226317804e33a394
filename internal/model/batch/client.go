package batch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
)

// States of a batch that it does not leave.
const (
	Completed = "completed"
	Failed    = "failed"
	Over      = "expired" // what was answered in time is delivered, and charged
	Cancelled = "cancelled"
)

// TooManyTokens is the error of a batch that was created and failed later, as too many tokens wait to be answered. Not
// one request of it was served.
const TooManyTokens = "token_limit_exceeded"

// PartName is the key of a batch's metadata that says which part it is.
const PartName = "unweaver_part"

// Batch is a batch as the server reports it. Files that it did not make, or not yet, are empty: one whose every
// request failed is completed without an output file.
type Batch struct {
	ID       string            `json:"id"`
	Status   string            `json:"status"`
	Input    string            `json:"input_file_id"`
	Output   string            `json:"output_file_id"`
	Errors   string            `json:"error_file_id"`
	Metadata map[string]string `json:"metadata"`
	Failure  struct {
		Data []reason `json:"data"`
	} `json:"errors"`
}

// HasEnded reports whether nothing more comes of it.
func (b Batch) HasEnded() bool {
	return b.Status == Completed || b.Status == Failed || b.Status == Over || b.Status == Cancelled
}

// IsPushedBack reports whether it failed as too many tokens wait: back-pressure, and no failure of its requests.
func (b Batch) IsPushedBack() bool {
	for _, failure := range b.Failure.Data {
		if failure.Code == TooManyTokens {
			return b.Status == Failed
		}
	}
	return false
}

// Server has files of requests answered. Errors: those of model.Chat; fault.NotFound for a file or batch that it does
// not have.
type Server interface {
	// Upload gives the id of a new file with these lines.
	Upload(ctx context.Context, name string, lines []byte) (string, error)
	// Create starts a batch of an uploaded file. After an error that leaves it open whether it was created, ask Find.
	Create(ctx context.Context, file, part string) (Batch, error)
	// Get says how a batch stands.
	Get(ctx context.Context, id string) (Batch, error)
	// Cancel has a batch end; what it answered by then is delivered, and charged.
	Cancel(ctx context.Context, id string) error
	// Find gives the batches of the wanted parts.
	Find(ctx context.Context, wanted map[string]bool) (map[string][]Batch, error)
	// Content gives the bytes of a file about so many requests.
	Content(ctx context.Context, file string, requests int) ([]byte, error)
	// Delete has a file forgotten.
	Delete(ctx context.Context, file string) error
}

var _ Server = (*Client)(nil)

// Client talks to the Files and Batches endpoints of one server. It repeats nothing. Errors: those of model.Chat;
// fault.NotFound for a file or batch that the server does not have.
type Client struct {
	base string
	key  string
	http *http.Client
}

// plain has nothing packed: a few bytes could become a gigabyte.
var plain = newPlain()

func newPlain() *http.Transport {
	out := http.DefaultTransport.(*http.Transport).Clone()
	out.DisableCompression = true
	return out
}

// NewClient makes a client of the server at base, with /v1; key empty: none is sent. timeout is of one request; 0: ten
// minutes, as a file of 200 MB takes.
func NewClient(base, key string, timeout time.Duration) *Client {
	return &Client{base: base, key: key, http: &http.Client{
		Transport:     plain,
		Timeout:       cmp.Or(timeout, 10*time.Minute),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Upload gives the id of a new file with these lines. Servers delete it after 30 days.
func (c *Client) Upload(ctx context.Context, name string, lines []byte) (string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	err := form.WriteField("purpose", "batch")
	if err == nil {
		var file io.Writer
		if file, err = form.CreateFormFile("file", name); err == nil {
			_, err = file.Write(lines)
		}
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return "", fault.Internal.At("write a form for", name).Because(err)
	}
	var made struct {
		ID string `json:"id"`
	}
	err = c.doRequest(ctx, http.MethodPost, form.FormDataContentType(), &body, &made, "files")
	return made.ID, err
}

// Create starts a batch of an uploaded file. It knows no idempotency key: after an error that leaves it open whether
// the batch was created, ask Find.
func (c *Client) Create(ctx context.Context, file, part string) (Batch, error) {
	raw, err := json.Marshal(map[string]any{
		"input_file_id": file, "endpoint": Endpoint, "completion_window": "24h",
		"metadata": map[string]string{PartName: part},
	})
	if err != nil {
		return Batch{}, fault.Internal.At("create a batch of", file).Because(err)
	}
	var made Batch
	err = c.doRequest(ctx, http.MethodPost, "application/json", bytes.NewReader(raw), &made, "batches")
	return made, err
}

// Get says how a batch stands.
func (c *Client) Get(ctx context.Context, id string) (Batch, error) {
	var got Batch
	err := c.doRequest(ctx, http.MethodGet, "", nil, &got, "batches", id)
	return got, err
}

// Cancel has a batch end; what it answered by then is delivered, and charged.
func (c *Client) Cancel(ctx context.Context, id string) error {
	return c.doRequest(ctx, http.MethodPost, "", nil, nil, "batches", id, "cancel")
}

// Find lists the batches of the wanted parts. One that has several, as two made it at once, gives them all.
func (c *Client) Find(ctx context.Context, wanted map[string]bool) (map[string][]Batch, error) {
	found := map[string][]Batch{}
	after := ""
	for range mostPages {
		query := url.Values{"limit": {"100"}}
		if after != "" {
			query.Set("after", after)
		}
		var page struct {
			Data []Batch `json:"data"`
			More bool    `json:"has_more"`
		}
		if err := c.doRequest(ctx, http.MethodGet, "", nil, &page, "batches?"+query.Encode()); err != nil {
			return nil, err
		}
		for _, batch := range page.Data {
			part := batch.Metadata[PartName]
			switch known := found[part]; {
			case !wanted[part]:
			case len(known) == mostTwins: // the eldest is the last
				known[len(known)-1] = batch
			default:
				found[part] = append(known, batch)
			}
		}
		if !page.More || len(page.Data) == 0 {
			return found, nil
		}
		after = page.Data[len(page.Data)-1].ID
	}
	return nil, fault.ModelUnavailable.At("list batches", c.base).
		Because(fmt.Sprintf("the list has more than %d pages", mostPages)).
		Advise("check that models.chat.base_url is the address of a server with a Batch API")
}

// Content gives the bytes of a file about so many requests.
func (c *Client) Content(ctx context.Context, file string, requests int) ([]byte, error) {
	var content []byte
	most := min(mostContent, longest+int64(requests)*mostLine)
	take := func(raw []byte) error { content = raw; return nil }
	err := c.exchange(ctx, http.MethodGet, "", nil, most, take, "files", file, "content")
	return content, err
}

// Delete has a file forgotten.
func (c *Client) Delete(ctx context.Context, file string) error {
	return c.doRequest(ctx, http.MethodDelete, "", nil, nil, "files", file)
}

// Bounds of what is read, in bytes.
const (
	longest     = 2 << 20   // of an answer: a list of a hundred batches
	mostLine    = 128 << 10 // of a file for each request, on average
	mostContent = 1 << 30   // of a file
	mostPages   = 1000      // of the list of batches
	mostTwins   = 16        // batches of a part that are kept
)

// doRequest sends a request and reads its answer as JSON; nil: dropped.
func (c *Client) doRequest(ctx context.Context, method, kind string, body io.Reader, answer any, path ...string) error {
	take := func(raw []byte) error {
		if answer == nil {
			return nil
		}
		return json.Unmarshal(raw, answer)
	}
	return c.exchange(ctx, method, kind, body, longest, take, path...)
}

// exchange sends a request and hands its answer, of at most so many bytes, to take.
func (c *Client) exchange(
	ctx context.Context, method, kind string, body io.Reader, most int64, take func([]byte) error, path ...string,
) error {
	for i := 1; i < len(path); i++ {
		path[i] = url.PathEscape(path[i])
	}
	address := strings.TrimSuffix(c.base, "/") + "/" + strings.Join(path, "/")
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return fault.BadConfig.At("send to", c.base).Because(err)
	}
	object := method + " " + request.URL.Redacted()
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	down := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if transport, ok := errors.AsType[*url.Error](err); ok {
			err = transport.Err
		}
		return fault.ModelUnavailable.At("use the Batch API", object).Because(err).
			Advise("check that models.chat.base_url is the address of a server with a Batch API")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return down(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return c.newStatusFault(object, response)
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("the answer has more than %d MiB", most>>20)
	}
	if err == nil {
		err = take(raw)
	}
	if err != nil {
		return down(err)
	}
	return nil
}

// newStatusFault returns the fault of an answer with another status than 200.
func (c *Client) newStatusFault(object string, response *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(response.Body, 64<<10)) // what can be read is enough
	var got struct {
		Error reason `json:"error"`
	}
	text := string(raw)
	if json.Unmarshal(raw, &got) == nil && got.Error.Message != "" {
		text = got.Error.Message
	}
	if len(c.key) >= 8 {
		text = strings.ReplaceAll(text, c.key, redact.Mark)
	}
	cause := fmt.Sprintf("%d %s", response.StatusCode, redact.Text(text))
	at := func(code fault.Code) *fault.Error { return code.At("use the Batch API", object).Because(cause) }
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return at(fault.ModelAuth).Advise("set the key in the variable that models.chat.api_key_env names, then resume")
	case status == http.StatusNotFound, // some servers see a file late, and say so in a 400
		status == http.StatusBadRequest && strings.Contains(strings.ToLower(text), "cannot find file"):
		return at(fault.NotFound).Advise("check that the server has a Batch API")
	case status == http.StatusPaymentRequired, got.Error.Code == "insufficient_quota":
		return at(fault.ModelQuota).Advise("raise the quota at the provider, then resume the run")
	case status == http.StatusTooManyRequests:
		limited := at(fault.ModelRateLimited)
		limited.RetryAfter = time.Duration(max(0, seconds)) * time.Second
		return limited
	case status >= 500 || status == http.StatusRequestTimeout || status == http.StatusConflict:
		return at(fault.ModelUnavailable).Advise("check the log of the model server")
	}
	return at(fault.ModelRefused).Advise("check the server's message about the file")
}
