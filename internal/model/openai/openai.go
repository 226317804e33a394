// Package openai is the llm adapter for OpenAI-compatible endpoints, on openai-go. Client retries are off: the engine
// owns them. Embeddings are put in order by index, since some servers answer in another order without an error.
package openai

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	oa "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// Config of one endpoint.
type Config struct {
	BaseURL   string
	APIKey    string
	Model     string
	Dimension int           // embeddings: 0 = take it from the first answer
	Timeout   time.Duration // of one call; 0 = 5 minutes
}

// Client implements model.Chat and, through Embedder, model.Embedder.
type Client struct {
	cfg Config
	c   oa.Client
}

var transport = &http.Transport{
	Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
	MaxIdleConns: 1024, MaxIdleConnsPerHost: 512, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
}

// New makes a client; it talks to no one yet.
func New(cfg Config) *Client {
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Minute
	}
	opts := []option.RequestOption{
		option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: transport}),
		option.WithRequestTimeout(cfg.Timeout),
		option.WithAPIKey(cfg.APIKey),
	}
	if cfg.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(strings.TrimSuffix(cfg.BaseURL, "/")+"/"))
	}
	return &Client{cfg: cfg, c: oa.NewClient(opts...)}
}

// Info implements model.Chat.
func (c *Client) Info() model.Info {
	return model.Info{
		Provider:   "openai",
		Model:      c.cfg.Model,
		Endpoint:   c.cfg.BaseURL,
		Parameters: "temperature=0",
		Paid:       true,
	}
}

// Complete implements model.Chat.
func (c *Client) Complete(ctx context.Context, call model.Call) (model.Reply, error) {
	params := oa.ChatCompletionNewParams{Model: c.cfg.Model, Temperature: oa.Float(0)}
	if call.System != "" {
		params.Messages = append(params.Messages, oa.SystemMessage(call.System))
	}
	params.Messages = append(params.Messages, oa.UserMessage(call.User))
	if call.Schema != nil {
		params.ResponseFormat = oa.ChatCompletionNewParamsResponseFormatUnion{
			OfJSONSchema: &oa.ResponseFormatJSONSchemaParam{
				JSONSchema: oa.ResponseFormatJSONSchemaJSONSchemaParam{
					Name:   call.Task,
					Schema: call.Schema,
					Strict: oa.Bool(true),
				},
			},
		}
	}
	completion, err := c.c.Chat.Completions.New(ctx, params)
	if err != nil {
		return model.Reply{}, c.classify(ctx, "call chat model", err)
	}
	if len(completion.Choices) == 0 {
		return model.Reply{}, fault.ModelUnavailable.At("call chat model", c.cfg.Model).
			Because("the answer holds no choice")
	}
	ch := completion.Choices[0]
	out := model.Reply{
		Text: ch.Message.Content, Truncated: ch.FinishReason == "length",
		Usage: model.Usage{Prompt: completion.Usage.PromptTokens, Completion: completion.Usage.CompletionTokens},
	}
	if ch.FinishReason == "content_filter" || (out.Text == "" && ch.Message.Refusal != "") {
		return out, fault.ModelRejected.At("call chat model", c.cfg.Model).Because("the model refused the text")
	}
	return out, nil
}

// classify maps transport and status errors to faults (DESIGN §8).
func (c *Client) classify(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	at := c.cfg.BaseURL + " model " + c.cfg.Model
	var api *oa.Error
	if !errors.As(err, &api) {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fault.ModelUnavailable.At(op, at).
			Because(err).
			Advise("check that the server runs and that models.*.base_url is right")
	}
	text := api.Message
	if text == "" {
		text = http.StatusText(api.StatusCode)
	}
	cause := fmt.Sprintf("%d %s", api.StatusCode, text)
	lower := strings.ToLower(api.Code + " " + api.Type + " " + api.Message)
	switch s := api.StatusCode; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return fault.ModelAuth.At(op, at).
			Because(cause).
			Advise("set the key in the variable that models.*.api_key_env names, then resume")
	case s == http.StatusNotFound:
		return fault.ModelUnknown.At(op, at).Because(cause).Advise("check models.*.model and models.*.base_url")
	case s == http.StatusPaymentRequired || (s == http.StatusTooManyRequests && (strings.Contains(lower, "insufficient_quota") || strings.Contains(lower, "billing"))):
		return fault.ModelQuota.At(op, at).Because(cause).Advise("raise the quota, then resume")
	case s == http.StatusTooManyRequests:
		e := fault.ModelRateLimited.At(op, at).Because(cause)
		e.RetryAfter = retryAfter(api.Response)
		return e
	case s == http.StatusBadRequest && strings.Contains(lower, "response_format"):
		return fault.BadConfig.At(op, at).
			Because(cause).
			Advise("the server lacks structured output: use another server or model")
	case s == http.StatusBadRequest && strings.Contains(lower, "model") && (strings.Contains(lower, "not exist") || strings.Contains(lower, "not found") || strings.Contains(lower, "unknown")):
		return fault.ModelUnknown.At(op, at).Because(cause).Advise("check models.*.model")
	case s >= 500 || s == http.StatusRequestTimeout || s == http.StatusConflict:
		e := fault.ModelUnavailable.At(op, at).Because(cause)
		e.RetryAfter = retryAfter(api.Response)
		return e
	}
	return fault.ModelRejected.At(op, at).Because(cause)
}

// retryAfter reads Retry-After: seconds or a date (RFC 9110 §10.2.3).
func retryAfter(response *http.Response) time.Duration {
	if response == nil {
		return 0
	}
	v := response.Header.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 {
		return time.Duration(s * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}

// Embedder implements model.Embedder.
type Embedder struct {
	Client
	dim atomic.Int64
}

var (
	_ model.Chat     = (*Client)(nil)
	_ model.Embedder = (*Embedder)(nil)
)

// NewEmbedder makes one.
func NewEmbedder(cfg Config) *Embedder {
	e := &Embedder{Client: *New(cfg)}
	e.dim.Store(int64(cfg.Dimension))
	return e
}

// Info implements model.Embedder.
func (e *Embedder) Info() model.Info {
	return model.Info{Provider: "openai", Model: e.cfg.Model, Endpoint: e.cfg.BaseURL, Paid: true}
}

// Dimension implements model.Embedder.
func (e *Embedder) Dimension() int { return int(e.dim.Load()) }

type embedding struct {
	Data []struct {
		Index     *int            `json:"index"`
		Embedding json.RawMessage `json:"embedding"`
	} `json:"data"`
	Usage struct {
		Prompt int64 `json:"prompt_tokens"`
		Total  int64 `json:"total_tokens"`
	} `json:"usage"`
}

// Embed implements model.Embedder. It asks for base64 and takes either form.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, model.Usage, error) {
	var raw *http.Response
	err := e.c.Post(
		ctx,
		"embeddings",
		map[string]any{"model": e.cfg.Model, "input": texts, "encoding_format": "base64"},
		&raw,
	)
	if err != nil {
		return nil, model.Usage{}, e.classify(ctx, "call embedding model", err)
	}
	defer func() { _ = raw.Body.Close() }()
	b, err := io.ReadAll(raw.Body)
	if err != nil {
		return nil, model.Usage{}, e.classify(ctx, "call embedding model", err)
	}
	var r embedding
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, model.Usage{}, fault.ModelUnavailable.At("read embeddings of", e.cfg.Model).
			Because(err).
			Advise("the server sent no valid JSON")
	}
	usage := model.Usage{Prompt: r.Usage.Prompt}
	if usage.Prompt == 0 {
		usage.Prompt = r.Usage.Total
	}
	vs, err := e.order(r, len(texts))
	return vs, usage, err
}

func (e *Embedder) order(r embedding, n int) ([][]float32, error) {
	bad := func(why string, args ...any) error {
		return fault.BadEmbeddings.At("read embeddings of", e.cfg.Model).
			Because(fmt.Sprintf(why, args...)).
			Advise("the server breaks the contract of POST /embeddings: use another one")
	}
	if len(r.Data) != n {
		return nil, bad("%d vectors for %d texts", len(r.Data), n)
	}
	out := make([][]float32, n)
	for i, d := range r.Data {
		at := i
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= n || out[at] != nil {
			return nil, bad("index %d is out of range or comes twice", at)
		}
		vector, err := decode(d.Embedding)
		if err != nil {
			return nil, bad("vector %d: %v", at, err)
		}
		e.dim.CompareAndSwap(0, int64(len(vector)))
		if err := vectors.Check(vector, e.Dimension(), "embedding of "+e.cfg.Model); err != nil {
			return nil, err
		}
		vectors.Normalise(vector)
		out[at] = vector
	}
	return out, nil
}

func decode(raw json.RawMessage) ([]float32, error) {
	if len(raw) > 0 && raw[0] == '"' {
		b, err := base64.StdEncoding.DecodeString(string(raw[1 : len(raw)-1]))
		if err != nil {
			return nil, err
		}
		if len(b)%4 != 0 {
			return nil, errors.New("base64 of a length that is no multiple of 4")
		}
		vector := make([]float32, len(b)/4)
		for i := range vector {
			vector[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
		return vector, nil
	}
	var v []float32
	err := json.Unmarshal(raw, &v)
	return v, err
}
