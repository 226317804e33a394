// Package openai is the model adapter for OpenAI-compatible endpoints, on net/http. It repeats no request: the engine
// does. Every request has a deadline, and a body that stops coming ends it earlier. Errors name the address and what
// came back; those of requests that the server answered are marked by model.AnsweredError, with the usage beside them.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/batch"
)

// Defaults of Config.
const (
	DefaultTimeout = time.Duration(core.DefaultModelTimeout)
	DefaultStall   = 2 * time.Minute
)

// Config of one endpoint.
type Config struct {
	BaseURL   string // empty: OpenAI's
	APIKey    string // empty: none is sent
	Model     string
	Dimension int           // embeddings: 0 = take it from the first answer
	MaxTokens int           // chat: the longest answer, reasoning included; 0 = by the request (DefaultMaxTokens)
	Domain    string        // model.Info.Domain
	Timeout   time.Duration // of one request, from sending to the last byte of its answer; 0 = DefaultTimeout
	Batches   batch.Server  // who answers batches; nil: the Batch API at BaseURL
	Stall     time.Duration // longest wait for the next bytes of a body that has begun; 0 = DefaultStall
}

// Client implements model.Chat and, through Embedder, model.Embedder.
type Client struct {
	cfg    Config
	header http.Header // of every request
}

// mostIdle connections are kept to a server: as many as models.limits.concurrency can be, so that a burst does not
// close what the next one opens again. They close by themselves when they are not needed.
const mostIdle = 10_000

var transport = &http.Transport{
	Proxy:               http.ProxyFromEnvironment,
	DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
	MaxIdleConnsPerHost: mostIdle,
	IdleConnTimeout:     90 * time.Second,
	TLSHandshakeTimeout: 10 * time.Second,
	ForceAttemptHTTP2:   true,

	MaxResponseHeaderBytes: 256 << 10,
}

// client follows no redirect: the key and the text belong to the address that was configured.
var client = &http.Client{
	Transport:     transport,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

var userAgent = sync.OnceValue(func() string { return "unweaver/" + version.String() })

// New makes a client; it talks to no one yet.
func New(cfg Config) *Client {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, core.DefaultEndpoint)
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.Stall = cmp.Or(cfg.Stall, DefaultStall)
	header := http.Header{
		"Accept":       {"application/json"},
		"Content-Type": {"application/json"},
		"User-Agent":   {userAgent()},
	}
	if cfg.APIKey != "" {
		header.Set("Authorization", "Bearer "+cfg.APIKey)
	}
	if ofOpenAI(cfg.BaseURL) {
		for name, variable := range map[string]string{
			"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID",
		} {
			if value := os.Getenv(variable); value != "" {
				header.Set(name, value)
			}
		}
	}
	return &Client{cfg: cfg, header: header}
}

// ofOpenAI reports whether an address is OpenAI's own, the only one that gets whose bill a request is on.
func ofOpenAI(base string) bool {
	parsed, err := url.Parse(base)
	return err == nil && strings.HasSuffix("."+parsed.Hostname(), ".api.openai.com")
}

// request is one request to a path of the endpoint: what errors say of it.
type request struct {
	client   *Client
	op       string
	path     string
	longest  int64    // body of an answer, in bytes
	answered bool     // the server gave a 200
	refused  *refusal // the server gave another status
	pictures bool     // it has some

	events func(response *http.Response) error // reads a body in place of send; nil: send does
}

// objectName returns the address and the model, without secrets.
func (r *request) objectName() string {
	base := r.client.cfg.BaseURL
	if parsed, err := url.Parse(base); err == nil {
		base = parsed.Redacted()
	}
	return strings.TrimSuffix(base, "/") + "/" + r.path + " model " + r.client.cfg.Model
}

// postBody sends a body and gives the response. The error is that of the transport.
func (r *request) postBody(ctx context.Context, params any) (*http.Response, error) {
	address, err := url.Parse(r.client.cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer // of its own: a transport may still read it when the answer is there
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(params); err != nil {
		return nil, err
	}
	sent, err := http.NewRequestWithContext(
		ctx, http.MethodPost, address.JoinPath(r.path).String(), bytes.NewReader(body.Bytes()),
	)
	if err != nil {
		return nil, err
	}
	sent.Header = r.client.header.Clone()
	return client.Do(sent)
}

// sendRequest posts params and has read take the answer's body, which is gone when read returns. Its errors are faults,
// marked where the server answered, or ctx's own.
func (r *request) sendRequest(ctx context.Context, params any, read func(body []byte) error) error {
	cfg := r.client.cfg
	bounded, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("no whole answer within %s", cfg.Timeout))
	defer cancel()
	bounded, stop := context.WithCancelCause(bounded)
	defer stop(nil)
	response, err := r.postBody(bounded, params)
	if err != nil {
		return r.classifyError(ctx, bounded, err)
	}
	defer func() { _ = response.Body.Close() }()
	model.TellQuota(ctx, readQuota(response.Header))
	response.Body = &guarded{body: response.Body, stall: cfg.Stall, stop: stop, longest: r.longest, left: r.longest}
	if r.answered = response.StatusCode == http.StatusOK; !r.answered {
		r.refused = readRefusal(response)
		return r.classifyError(ctx, bounded, nil)
	}
	if response.ContentLength > r.longest {
		return r.classifyError(ctx, bounded, tooLong(r.longest))
	}
	if r.events != nil && isEvents(response) {
		if err := r.events(response); err != nil {
			return r.classifyError(ctx, bounded, err)
		}
		return nil
	}
	body := buffers.Get().(*bytes.Buffer)
	defer recycleBuffer(body)
	body.Grow(int(min(max(response.ContentLength, 0), believedBytes)) + bytes.MinRead)
	if _, err := body.ReadFrom(response.Body); err != nil {
		return r.classifyError(ctx, bounded, err)
	}
	if err := read(body.Bytes()); err != nil {
		return r.newUnreadableFault(response, body.Bytes(), err)
	}
	return nil
}

// Bodies are read into buffers that are used again.
const (
	believedBytes = 4 << 20  // that a server says are coming, before they came
	keptBytes     = 32 << 20 // of a buffer; that of a longer answer is given up
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func recycleBuffer(buffer *bytes.Buffer) {
	if buffer.Cap() <= keptBytes {
		buffer.Reset()
		buffers.Put(buffer)
	}
}

// markError says that the server answered the request behind err, where it did.
func (r *request) markError(err error) error {
	if !r.answered {
		return err
	}
	return model.AnsweredError(err)
}

// guarded ends a request whose body stops coming, or does not end.
type guarded struct {
	body    io.ReadCloser
	stall   time.Duration
	stop    context.CancelCauseFunc
	timer   *time.Timer // runs while a read waits
	longest int64       // bytes
	left    int64       // of them
}

func tooLong(longest int64) error {
	return fmt.Errorf("the answer is longer than %d KiB, the limit for this request", longest>>10)
}

// Read implements io.Reader.
func (g *guarded) Read(p []byte) (int, error) {
	if g.timer == nil {
		g.timer = time.AfterFunc(g.stall, func() {
			g.stop(fmt.Errorf("no byte of the answer came for %s", g.stall))
		})
	} else {
		g.timer.Reset(g.stall)
	}
	defer g.timer.Stop()
	n, err := g.body.Read(p)
	if g.left -= int64(n); g.left < 0 {
		return 0, tooLong(g.longest)
	}
	return n, err
}

// Close implements io.Closer.
func (g *guarded) Close() error { return g.body.Close() }
