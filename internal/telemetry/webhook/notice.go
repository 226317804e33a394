// Package webhook notifies a webhook how runs end, or that they need a person. Requests are signed as Standard Webhooks
// (standardwebhooks.com) says: HMAC-SHA256 over "id.timestamp.body", so that its libraries verify them.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/core/version"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/redact"
	shown "github.com/unweaver/unweaver/internal/pipeline/report"
)

// Headers of a request, those of Standard Webhooks.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

// patience is how long one request may take; longestAnswer bounds what is read of what comes back.
const (
	patience      = 10 * time.Second
	longestAnswer = 4 << 10
)

// Hook is where an index's notices go. The zero value is nowhere.
type Hook struct {
	URL    string
	Secret string
	On     []string // events
	Page   string   // address of query-api for people; empty: none is known

	Named map[string]string // URLs of further webhooks, with the same secret
}

// ReadHooks gives the webhook of each index, of the configuration of this process alone. A webhook whose secret is not
// in the environment is fault.BadConfig.
func ReadHooks(settings *config.Config) (func(index string) Hook, error) {
	of := func(index string) Hook {
		notify := settings.NotifyOf(index)
		return Hook{
			URL: notify.Webhook, Secret: notify.Secret(), On: notify.On, Page: notify.Page, Named: notify.NamedWebhooks(),
		}
	}
	for _, index := range append(slices.Sorted(maps.Keys(settings.Indexes)), "") {
		hook := of(index)
		if hook.URL == "" && len(hook.Named) == 0 {
			continue
		}
		variable := settings.NotifyOf(index).SecretEnv
		if hook.Secret == "" {
			return nil, fault.BadConfig.At("use notify.webhook", hostOf(hook.URL)).
				Because("variable " + variable + ", which notify.secret_env names, is empty").
				Advise("set it to the secret with which the receiver verifies signatures")
		}
		redact.Register(hook.Secret)
	}
	return of, nil
}

// WantsEvent says whether the webhook is to be called for a run's status, and the name of that event. A pause that a
// person asked for is no news to them.
func (h Hook) WantsEvent(status, reason string) (event string, wanted bool) {
	switch status {
	case core.StatusFailed:
		event = config.OnFailed
	case core.StatusHeld:
		event = config.OnHeld
	case core.StatusErrors:
		event = config.OnErrors
	case core.StatusCompleted:
		event = config.OnCompleted
	case core.StatusPaused:
		event = config.OnPaused
		if reason == string(fault.Paused) {
			return event, false
		}
	}
	return event, h.URL != "" && event != "" && slices.Contains(h.On, event)
}

// MostQuestions is how many standing questions a notice lists, and MostBytes what these may be long together.
const (
	MostQuestions = 100
	MostBytes     = 512 << 10
)

// ForQuestions returns where changes of standing questions go that name a webhook; empty: the index's own, if it asks
// for them. Without a URL they go nowhere.
func (h Hook) ForQuestions(name string) Hook {
	if name != "" {
		return Hook{URL: h.Named[name], Secret: h.Secret, Page: h.Page}
	}
	if !slices.Contains(h.On, config.OnWatched) {
		return Hook{}
	}
	return h
}

// Body is what is sent (docs/reference/formats.md, Webhooks). It holds names, codes and counts, and no text or keys of
// documents but in Questions.
type Body struct {
	ID         string    `json:"id"` // the same in every attempt
	Event      string    `json:"event"`
	Time       time.Time `json:"time"` // when the run ended or paused
	Index      string    `json:"index"`
	Run        string    `json:"run"`
	RunID      string    `json:"run_id"`
	Generation string    `json:"generation"`
	Status     string    `json:"status"`
	Reason     string    `json:"reason,omitempty"` // a code
	Command    string    `json:"command"`          // to do or to look at next
	Link       string    `json:"link,omitempty"`   // to the run on the page of query-api

	Summary         string      `json:"summary,omitempty"` // one sentence
	Published       bool        `json:"published"`
	Documents       int64       `json:"documents"`
	Chunks          int64       `json:"chunks"`
	Classes         int64       `json:"classes"`
	DeadLetters     int64       `json:"dead_letters"`
	DocumentsFailed int64       `json:"documents_failed"`
	ChunksFailed    int64       `json:"chunks_failed"`
	ProblemsTotal   int64       `json:"problems_total"`
	Calls           core.Calls  `json:"calls"`
	Tokens          core.Tokens `json:"tokens"`
	Cost            float64     `json:"cost"` // in the money of models.*.price
	Seconds         float64     `json:"seconds"`

	QuestionsChanged int                  `json:"questions_changed,omitempty"` // standing ones
	Questions        []core.WatchedChange `json:"questions,omitempty"`         // the first of them
}

// Fill takes the counts of a report.
func (b *Body) Fill(report core.Report) {
	b.Summary = shown.Summarize(report)
	b.Published, b.Documents, b.Chunks, b.Classes = report.Published, report.Documents, report.Chunks, report.Classes
	b.DeadLetters, b.DocumentsFailed = report.DeadLetters, report.DocumentsFailed
	b.ChunksFailed, b.ProblemsTotal = report.ChunksFailed, report.ProblemsTotal
	b.Calls, b.Tokens, b.Cost, b.Seconds = report.Calls, report.Tokens, report.Cost, report.Seconds
}

// Advise fills in the command that a person would give next, and the page to look at.
func (b *Body) Advise(hook Hook) {
	if hook.Page != "" {
		b.Link = strings.TrimRight(hook.Page, "/") + "/#/" + url.PathEscape(b.Index) + "/runs/" + url.PathEscape(b.Generation)
	}
	switch {
	case b.Event == config.OnPaused && b.Reason == string(fault.BudgetSpent):
		b.Command = "unweaver resume " + b.Run + " --budget-calls N"
	case b.Event == config.OnPaused:
		b.Command = "unweaver resume " + b.Run
	case b.Reason == string(fault.Drift):
		b.Command = "unweaver audit " + b.Index + " --repair --wait"
	default:
		b.Command = "unweaver status " + b.Run
	}
}

var client = &http.Client{
	Timeout:       patience,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// Send posts a notice once. Any answer but 2xx is fault.WebhookDown, which may be tried again: a receiver finds
// repeated notices by their id.
func Send(ctx context.Context, hook Hook, body Body) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fault.Internal.At("encode notice", body.ID).Because(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, hook.URL, bytes.NewReader(raw))
	if err != nil {
		return fault.BadConfig.At("use notify.webhook", hostOf(hook.URL)).Because("it is not a URL")
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "unweaver/"+version.String())
	request.Header.Set(HeaderID, body.ID)
	request.Header.Set(HeaderTimestamp, timestamp)
	request.Header.Set(HeaderSignature, Sign(hook.Secret, body.ID, timestamp, raw))
	response, err := client.Do(request)
	if err != nil {
		return newDownError(hook, withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, longestAnswer)) // the connection may be used again
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return newDownError(hook, fmt.Errorf("it answered %d", response.StatusCode))
	}
	return nil
}

func newDownError(hook Hook, cause error) error {
	return fault.WebhookDown.At("post to notify.webhook", hostOf(hook.URL)).Because(cause).
		Advise("delivery is retried for a day; check the log of the receiver")
}

// withoutURL returns the cause of a failed request: the URL may hold a secret in its path.
func withoutURL(err error) error {
	if transport, ok := err.(*url.Error); ok { //nolint:errorlint // as http.Client gives it
		return transport.Err
	}
	return err
}

// hostOf returns the host of a URL.
func hostOf(webhook string) string {
	parsed, err := url.Parse(webhook)
	if err != nil {
		return "unnamed"
	}
	return parsed.Host
}

// Sign returns the value of HeaderSignature. A secret that begins with whsec_ is base64, any other is taken as it is.
func Sign(secret, id, timestamp string, body []byte) string {
	key := []byte(secret)
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if decoded, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			key = decoded
		}
	}
	sum := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(sum, "%s.%s.", id, timestamp) // a hash takes everything
	_, _ = sum.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
}
