// Package docling asks a docling-serve for the Markdown of files: a file is posted as a task, the task is polled, and
// its result is fetched. The server is believed no more than a document: its answers are bounded, and it is followed
// nowhere else.
package docling

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	"github.com/unweaver/unweaver/internal/fault/retry"
)

// Form names what a request asks for, and how its answer is read: a result is of one form.
const Form = "docling/1"

// Client implements document.Converter.
type Client struct {
	BaseURL string
	APIKey  string        // empty: none is sent
	Timeout time.Duration // of all of a file
}

const (
	// pageBreak is what the server writes between pages.
	pageBreak = "<!-- unweaver: end of page -->"
	picture   = "<!-- image -->"
	// waits is how many seconds the server may hold a poll.
	waits = "5"
	// pollEvery is how long a poll is waited for that was answered at once, and the shortest wait for a busy server.
	pollEvery = 500 * time.Millisecond
	// busyFor is, in seconds, the wait for a server that has too much to do and names no time; longestBusy, the longest
	// that it may name: the time for a file is at most ten minutes.
	busyFor, longestBusy = 5, 600
	// shortAnswer bounds, in bytes, answers that hold no document.
	shortAnswer = 1 << 20
	// longAnswer bounds, in bytes, the answer that holds one.
	longAnswer = 64 << 20
)

// ErrFile is in the error of a file that the server could not parse, while it serves. ErrDown is in that of a server
// which no file can be sent to.
var (
	ErrFile = errors.New("it could not parse the file")
	ErrDown = errors.New("docling-serve cannot be used")

	errLong = errors.New("its answer is too long")
)

// client follows no redirect: the key and the file belong to the address that was configured.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// results has a place for the one result that this process holds at a time.
var results = make(chan struct{}, 1)

// task is what is read of an answer about a task.
type task struct {
	ID     string `json:"task_id"`
	Status string `json:"task_status"`
}

// conversion is the conversion of one file.
type conversion struct {
	*Client
	onWait func()
}

// Convert returns the Markdown of a file, with a form feed on a line of its own behind each page of several.
func (c *Client) Convert(ctx context.Context, name string, raw []byte, onWait func()) (string, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it was not done within %s", c.Timeout))
	defer cancel()
	said, err := conversion{c, onWait}.convertFile(bounded, name, raw)
	if err == nil {
		return said, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if bounded.Err() != nil {
		err = context.Cause(bounded)
	}
	return "", fault.Unreadable.At("parse with docling", "").Because(err).
		Advise("check documents.parser.base_url and the log of docling-serve")
}

func (c conversion) convertFile(ctx context.Context, name string, raw []byte) (string, error) {
	form, err := newForm(name, raw)
	if err != nil {
		return "", err
	}
	var at task
	if err := c.exchange(ctx, form, shortAnswer, &at, "v1", "convert", "file", "async"); err != nil {
		return "", err
	}
	if at.ID == "" {
		return "", errors.New("it named no task")
	}
	for id := at.ID; at.Status != "success"; {
		switch at.Status {
		case "failure", "skipped", "partial_success":
			return "", fmt.Errorf("%w: its task ended with %s", ErrFile, at.Status)
		}
		begun := time.Now()
		if err := c.exchange(ctx, nil, shortAnswer, &at, "v1", "status", "poll", id); err != nil {
			return "", err
		}
		if at.Status != "success" && time.Since(begun) < pollEvery {
			if err := retry.Wait(ctx, pollEvery); err != nil {
				return "", err
			}
		}
		at.ID = id
	}
	return c.fetchResult(ctx, at.ID)
}

// fetchResult returns the text of a task that is done.
func (c conversion) fetchResult(ctx context.Context, id string) (string, error) {
	select {
	case results <- struct{}{}:
		defer func() { <-results }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	var result struct {
		Status   string `json:"status"`
		Document struct {
			Markdown *string `json:"md_content"`
		} `json:"document"`
		Errors []struct {
			Message string `json:"error_message"`
		} `json:"errors"`
	}
	err := c.exchange(ctx, nil, longAnswer, &result, "v1", "result", id)
	switch {
	case errors.Is(err, errLong):
		return "", fmt.Errorf("%w: %w", ErrFile, err)
	case err != nil:
		return "", err
	case result.Status != "success" || result.Document.Markdown == nil:
		why := ""
		if len(result.Errors) > 0 {
			why = ": " + redact.Text(result.Errors[0].Message)
		}
		return "", fmt.Errorf("%w: its result is %s%.200s", ErrFile, cmp.Or(result.Status, "none"), why)
	}
	return toPages(redact.HideKnown(*result.Document.Markdown)), nil // it may repeat the key that it was sent
}

// form is what a file is sent in; the file is not copied.
type form struct {
	kind       string
	head, tail []byte
	raw        []byte
}

func newForm(name string, raw []byte) (*form, error) {
	var body bytes.Buffer
	to := multipart.NewWriter(&body)
	for _, field := range [][2]string{
		{"to_formats", "md"}, {"image_export_mode", "placeholder"}, {"md_page_break_placeholder", pageBreak},
		{"abort_on_error", "false"},
	} {
		_ = to.WriteField(field[0], field[1]) // a buffer takes all
	}
	_, err := to.CreateFormFile("files", path.Base(name))
	head := body.Len()
	if err := errors.Join(err, to.Close()); err != nil {
		return nil, err
	}
	return &form{
		kind: to.FormDataContentType(), head: body.Bytes()[:head], raw: raw, tail: body.Bytes()[head:],
	}, nil
}

// attachTo makes the form the body of a request.
func (f *form) attachTo(request *http.Request) {
	request.Method = http.MethodPost
	request.Header.Set("Content-Type", f.kind)
	request.ContentLength = int64(len(f.head) + len(f.raw) + len(f.tail))
	request.Body = io.NopCloser(
		io.MultiReader(bytes.NewReader(f.head), bytes.NewReader(f.raw), bytes.NewReader(f.tail)))
}

// exchange sends a form, or asks where there is none, and reads the answer. It waits for a server that is busy.
func (c conversion) exchange(ctx context.Context, sent *form, longest int64, into any, to ...string) error {
	for {
		c.onWait()
		again, err := c.send(ctx, sent, longest, into, to)
		if err != nil || again == 0 {
			return err
		}
		if err := retry.Wait(ctx, again); err != nil {
			return err
		}
	}
}

// send does an exchange once. Again is when a server that is busy is to be asked; 0: it is not.
func (c conversion) send(
	ctx context.Context, sent *form, longest int64, into any, to []string,
) (again time.Duration, err error) {
	address, err := url.Parse(c.BaseURL)
	if err != nil {
		return 0, err
	}
	steps := make([]string, len(to))
	for i, step := range to {
		steps[i] = url.PathEscape(step)
	}
	address = address.JoinPath(steps...)
	if sent == nil {
		address.RawQuery = "wait=" + waits
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return 0, err
	}
	if sent != nil {
		sent.attachTo(request)
	}
	if c.APIKey != "" {
		request.Header.Set("X-Api-Key", c.APIKey)
	}
	response, err := client.Do(request)
	if err != nil {
		var network *net.OpError
		if errors.As(err, &network) && network.Op == "dial" { // not where it breaks: that may be for the file
			return 0, fmt.Errorf("%w: %s", ErrDown, describeConnection(err))
		}
		return 0, errors.New(describeConnection(err))
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, longest+1))
	switch {
	case err != nil:
		return 0, errors.New(describeConnection(err))
	case response.StatusCode != http.StatusOK:
		return c.readRefusal(response, "/"+strings.Join(to, "/"), answer, sent != nil)
	case int64(len(answer)) > longest:
		return 0, fmt.Errorf("%w: above %d MiB", errLong, longest>>20)
	}
	return 0, json.Unmarshal(answer, into)
}

// readRefusal returns what follows from an answer that is no success.
func (c conversion) readRefusal(
	response *http.Response, asked string, answer []byte, posted bool,
) (again time.Duration, err error) {
	err = fmt.Errorf("%s answered %s: %.200s", asked, response.Status, redact.Text(string(answer)))
	seconds, unnamed := strconv.Atoi(response.Header.Get("Retry-After"))
	switch code := response.StatusCode; {
	case code == http.StatusTooManyRequests && unnamed != nil:
		return busyFor * time.Second, nil
	case (code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable) && unnamed == nil:
		return max(pollEvery, time.Duration(min(seconds, longestBusy))*time.Second), nil
	case code == http.StatusUnauthorized, code == http.StatusForbidden,
		code == http.StatusNotFound && posted: // else the server lost a task
		return 0, fmt.Errorf("%w: %w", ErrDown, err)
	}
	return 0, err
}

// describeConnection says what is wrong with a connection, without the server's address: problems are shown to many.
func describeConnection(err error) string {
	var name *net.DNSError
	if errors.As(err, &name) {
		return name.Err
	}
	var network *net.OpError
	if errors.As(err, &network) {
		return network.Err.Error()
	}
	var sent *url.Error
	if errors.As(err, &sent) {
		return sent.Err.Error()
	}
	return err.Error()
}

// toPages returns Markdown as texts of documents are: pages end in a form feed, and what Markdown escapes is as it is
// shown.
func toPages(markdown string) string {
	markdown = strings.NewReplacer("\f", "", picture, "", `\_`, "_").Replace(html.UnescapeString(markdown))
	var out strings.Builder
	for page := range strings.SplitSeq(markdown, pageBreak) {
		out.WriteString(strings.TrimSpace(page) + "\n\f\n")
	}
	return out.String()
}
