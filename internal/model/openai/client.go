// Package openai is the model adapter for OpenAI-compatible endpoints, on openai-go. Client retries are off: the engine
// owns them. Every request has a deadline, and a body that stops coming ends it earlier. Errors name the address and
// what came back; those of requests that the server answered are model.AnsweredErrors, with the usage beside them.
package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	oa "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/model"
)

// Defaults of Config.
const (
	DefaultTimeout = time.Duration(corpus.DefaultModelTimeout)
	DefaultStall   = 2 * time.Minute
)

// Config of one endpoint.
type Config struct {
	BaseURL   string
	APIKey    string // empty: none is sent
	Model     string
	Dimension int           // embeddings: 0 = take it from the first answer
	MaxTokens int           // chat: the longest answer, reasoning included; 0 = by the request (DefaultMaxTokens)
	Domain    string        // model.Info.Domain
	Timeout   time.Duration // of one request, from sending to the last byte of its answer; 0 = DefaultTimeout
	Stall     time.Duration // longest wait for the next bytes of a body that has begun; 0 = DefaultStall
}

// Client implements model.Chat and, through Embedder, model.Embedder.
type Client struct {
	cfg Config
	c   oa.Client
}

var transport = &http.Transport{
	Proxy:               http.ProxyFromEnvironment,
	DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
	MaxIdleConns:        1024,
	MaxIdleConnsPerHost: 512,
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

// New makes a client; it talks to no one yet.
func New(cfg Config) *Client {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Stall == 0 {
		cfg.Stall = DefaultStall
	}
	opts := []option.RequestOption{
		option.WithMaxRetries(0),
		option.WithHTTPClient(client),
		option.WithAPIKey(cfg.APIKey),
	}
	if cfg.APIKey == "" { // the library would send one of its own variables
		opts = append(opts, option.WithHeaderDel("Authorization"))
	}
	if cfg.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(strings.TrimSuffix(cfg.BaseURL, "/")+"/"))
	}
	return &Client{cfg: cfg, c: oa.NewClient(opts...)}
}

// request is one request to a path of the endpoint: what errors say of it.
type request struct {
	client   *Client
	op       string
	path     string
	longest  int64    // body of an answer, in bytes
	answered bool     // the server gave a 200
	refused  *refusal // the server gave another status

	events func(response *http.Response) error // reads a body in place of send; nil: send does
}

// object is the address and the model, without secrets.
func (r *request) object() string {
	base := r.client.cfg.BaseURL
	if parsed, err := url.Parse(base); err == nil {
		base = parsed.Redacted()
	}
	return strings.TrimSuffix(base, "/") + "/" + r.path + " model " + r.client.cfg.Model
}

// send posts params and decodes the answer into answer. Its errors are faults, marked where the server answered, or
// ctx's own.
func (r *request) send(ctx context.Context, params, answer any) error {
	cfg := r.client.cfg
	bounded, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("no whole answer within %s", cfg.Timeout))
	defer cancel()
	bounded, stop := context.WithCancelCause(bounded)
	defer stop(nil)
	guard := func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		response, err := next(req)
		if err != nil {
			return response, err
		}
		model.TellQuota(ctx, quota(response.Header))
		response.Body = &guarded{body: response.Body, stall: cfg.Stall, stop: stop, longest: r.longest, left: r.longest}
		if r.answered = response.StatusCode == http.StatusOK; !r.answered {
			r.refused = readRefusal(response)
		}
		return response, nil
	}
	var response *http.Response
	err := r.client.c.Post(bounded, r.path, params, &response, option.WithMiddleware(guard))
	if err == nil {
		defer func() { _ = response.Body.Close() }()
	}
	if err != nil || r.refused != nil {
		return r.classify(ctx, bounded, err)
	}
	if response.ContentLength > r.longest {
		return r.classify(ctx, bounded, tooLong(r.longest))
	}
	if r.events != nil && isEvents(response) {
		if err := r.events(response); err != nil {
			return r.classify(ctx, bounded, err)
		}
		return nil
	}
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return r.classify(ctx, bounded, err)
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return r.unreadable(response, raw, err)
	}
	return nil
}

// mark says that the server answered the request behind err, where it did.
func (r *request) mark(err error) error {
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
	longest int64 // bytes
	left    int64 // of them
}

func tooLong(longest int64) error {
	return fmt.Errorf("the answer is longer than %d KiB, which is more than can have been asked for", longest>>10)
}

// Read implements io.Reader.
func (g *guarded) Read(p []byte) (int, error) {
	timer := time.AfterFunc(g.stall, func() {
		g.stop(fmt.Errorf("no byte of the answer came for %s", g.stall))
	})
	defer timer.Stop()
	n, err := g.body.Read(p)
	if g.left -= int64(n); g.left < 0 {
		return 0, tooLong(g.longest)
	}
	return n, err
}

// Close implements io.Closer.
func (g *guarded) Close() error { return g.body.Close() }
