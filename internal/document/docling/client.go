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
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
)

// Form names what a request asks for, and how its answer is read: a result is of one form.
const Form = "docling/1"

// Client implements document.Converter.
type Client struct {
	BaseURL string
	APIKey  string        // empty: none is sent
	Timeout time.Duration // of all of a file
	Longest int64         // Markdown of a file, in bytes
}

const (
	// pageBreak is what the server writes between pages.
	pageBreak = "<!-- unweaver: end of page -->"
	picture   = "<!-- image -->"
	// waits is how many seconds the server may hold a poll.
	waits = "5"
	// pollEvery is how long a poll is waited for that was answered at once.
	pollEvery = 500 * time.Millisecond
	// shortAnswer bounds, in bytes, answers that hold no document.
	shortAnswer = 1 << 20
	// escapedFactor is how many bytes JSON may have for one of a text.
	escapedFactor = 6
)

// ErrFile is in the error of a file that the server could not parse, while it serves.
var ErrFile = errors.New("it could not parse the file")

// client follows no redirect: the key and the file belong to the address that was configured.
var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// task is what is read of an answer about a task.
type task struct {
	ID     string `json:"task_id"`
	Status string `json:"task_status"`
}

// Convert returns the Markdown of a file, with a form feed on a line of its own behind each page of several.
func (c *Client) Convert(ctx context.Context, name string, raw []byte) (string, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it was not done within %s", c.Timeout))
	defer cancel()
	said, err := c.convertFile(bounded, name, raw)
	if err == nil {
		return said, nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if bounded.Err() != nil {
		err = context.Cause(bounded)
	}
	return "", fault.Unreadable.At("parse with docling", c.BaseURL).Because(err).
		Advise("check documents.parser.base_url and the log of docling-serve")
}

func (c *Client) convertFile(ctx context.Context, name string, raw []byte) (string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, field := range [][2]string{
		{"to_formats", "md"}, {"image_export_mode", "placeholder"}, {"md_page_break_placeholder", pageBreak},
		{"abort_on_error", "false"},
	} {
		_ = form.WriteField(field[0], field[1]) // a buffer takes all
	}
	part, err := form.CreateFormFile("files", path.Base(name))
	if err == nil {
		_, err = part.Write(raw)
	}
	if err := errors.Join(err, form.Close()); err != nil {
		return "", err
	}
	var at task
	err = c.exchange(ctx, http.MethodPost, []string{"v1", "convert", "file", "async"}, form.FormDataContentType(), &body,
		shortAnswer, &at)
	if err != nil {
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
		if err := c.getJSON(ctx, shortAnswer, &at, "v1", "status", "poll", id); err != nil {
			return "", err
		}
		if at.Status != "success" && time.Since(begun) < pollEvery {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(pollEvery):
			}
		}
		at.ID = id
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
	err = c.getJSON(ctx, escapedFactor*c.Longest+shortAnswer, &result, "v1", "result", at.ID)
	switch {
	case err != nil:
		return "", err
	case result.Status != "success" || result.Document.Markdown == nil:
		why := ""
		if len(result.Errors) > 0 {
			why = ": " + redact.Text(result.Errors[0].Message)
		}
		return "", fmt.Errorf("%w: its result is %s%.200s", ErrFile, cmp.Or(result.Status, "none"), why)
	case int64(len(*result.Document.Markdown)) > c.Longest:
		return "", fmt.Errorf("%w: its text is above limits.document.text", ErrFile)
	}
	return toPages(*result.Document.Markdown), nil
}

func (c *Client) getJSON(ctx context.Context, longest int64, into any, to ...string) error {
	return c.exchange(ctx, http.MethodGet, to, "", nil, longest, into)
}

// exchange sends a request and reads its answer.
func (c *Client) exchange(
	ctx context.Context, method string, to []string, kind string, body io.Reader, longest int64, into any,
) error {
	address, err := url.Parse(c.BaseURL)
	if err != nil {
		return err
	}
	for i, step := range to {
		to[i] = url.PathEscape(step)
	}
	address = address.JoinPath(to...)
	if method == http.MethodGet {
		address.RawQuery = "wait=" + waits
	}
	request, err := http.NewRequestWithContext(ctx, method, address.String(), body)
	if err != nil {
		return err
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	if c.APIKey != "" {
		request.Header.Set("X-Api-Key", c.APIKey)
	}
	response, err := client.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, longest+1))
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answered %s: %.200s", address.Path, response.Status, redact.Text(string(answer)))
	case int64(len(answer)) > longest:
		return fmt.Errorf("its answer is longer than %d KiB", longest>>10)
	}
	return json.Unmarshal(answer, into)
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
