package webhook_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

var everything = []string{"failed", "held", "paused", "errors", "completed"}

// receiver notes what it is sent and answers with a status.
type receiver struct {
	mu      sync.Mutex
	status  int
	headers []http.Header
	bodies  []string
	url     string
}

func receive(t *testing.T, status int) *receiver {
	t.Helper()
	r := &receiver{status: status}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		raw, _ := io.ReadAll(request.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.headers, r.bodies = append(r.headers, request.Header), append(r.bodies, string(raw))
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(r.status)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL + "/secret-path"
	return r
}

// Promises: 108.
func TestANoticeIsSignedAndHoldsCounts(t *testing.T) {
	r := receive(t, http.StatusNoContent)
	body := webhook.Body{
		ID: "run-1", Event: "held", Index: "docs", Run: "docs/g1", Generation: "g1", Status: "held", Reason: "mass_deletion",
		Time: time.Date(2026, 3, 1, 2, 3, 4, 0, time.UTC),
	}
	body.Fill(core.Report{
		Documents: 10, Chunks: 20, Calls: core.Calls{Extract: 3}, Cost: 0.25, Seconds: 12,
		Problems: []core.Problem{{Code: "unreadable_document", Object: "secret/name.pdf", Detail: "its text"}},
	})
	hook := webhook.Hook{URL: r.url, Secret: "s3cret", On: everything, Page: "https://search.example/"}
	body.Advise(hook)
	require.NoError(t, webhook.Send(t.Context(), hook, body))
	header, raw := r.headers[0], r.bodies[0]
	at, err := strconv.ParseInt(header.Get(webhook.HeaderTimestamp), 10, 64)
	assert.True(t, err == nil && time.Since(time.Unix(at, 0)).Abs() <= time.Minute &&
		header.Get(webhook.HeaderID) == "run-1", "header %v: %v", header, err)
	want := webhook.Sign("s3cret", "run-1", header.Get(webhook.HeaderTimestamp), []byte(raw))
	assert.Equal(t, want, header.Get(webhook.HeaderSignature), "signature")
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(raw), &got))
	assert.True(t, got["documents"] == 10.0 && got["cost"] == 0.25 && got["command"] == "unweaver status docs/g1" &&
		got["summary"] == "10 documents, 0 changed; 3 calls, 0 tokens, cost 0.2500; 12.0 s" &&
		got["reason"] == "mass_deletion" && got["seconds"] == 12.0 && got["link"] == "https://search.example/#/docs/runs/g1",
		"body %s", raw)
	assert.True(t, !strings.Contains(raw, "name.pdf") && !strings.Contains(raw, "its text"),
		"the body names documents: %s", raw)
}

// The vector of the specification of Standard Webhooks.
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	got := webhook.Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
		[]byte(`{"test": 2432232314}`))
	assert.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", got)
}

func TestAnyOtherAnswerIsTriedAgainAndARedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 307, 400, 404, 429, 500} {
		r := receive(t, status)
		err := webhook.Send(t.Context(), webhook.Hook{URL: r.url, Secret: "s", On: everything}, webhook.Body{ID: "1"})
		assert.True(t, fault.Is(err, fault.WebhookDown) && fault.KindOf(err) == fault.Transient && len(r.bodies) == 1,
			"%d: %v after %d requests", status, err, len(r.bodies))
		assert.True(t, err == nil || !strings.Contains(err.Error(), "secret-path"),
			"the error has the path of the webhook: %v", err)
	}
	err := webhook.Send(t.Context(), webhook.Hook{URL: "http://127.0.0.1:1/secret-path", Secret: "s"}, webhook.Body{ID: "1"})
	assert.True(t, fault.Is(err, fault.WebhookDown) && !strings.Contains(err.Error(), "secret-path"), "%v", err)
}

func TestWhichEventsAWebhookIsToldOf(t *testing.T) {
	for _, c := range []struct {
		status, reason, event string
		wanted                bool
	}{
		{"failed", "lease_held", "failed", true},
		{"held", "mass_deletion", "held", true},
		{"completed_with_errors", "", "errors", true},
		{"completed", "", "completed", false},
		{"paused", "model_auth", "paused", true},
		{"paused", "paused", "paused", false}, // a person did it
		{"waiting", "store_full", "", false},
		{"cancelled", "cancelled", "", false},
	} {
		hook := webhook.Hook{URL: "https://ops.example", Secret: "s", On: config.Default().Notify.On}
		event, wanted := hook.WantsEvent(c.status, c.reason)
		assert.True(t, event == c.event && wanted == c.wanted, "%s (%s): %q, %v", c.status, c.reason, event, wanted)
		_, wanted = (webhook.Hook{On: everything}).WantsEvent(c.status, c.reason)
		assert.False(t, wanted, "%s: no event is chosen", c.status)
	}
}

func TestAnIndexMayHaveAWebhookOfItsOwn(t *testing.T) {
	t.Setenv("GENERAL_SECRET", "general")
	t.Setenv("OWN_SECRET", "own")
	settings := musttest.Get(config.Load(config.Source{Set: []string{
		"notify.webhook=https://general.example", "notify.page=https://page.example", "notify.secret_env=GENERAL_SECRET",
		"indexes.own.notify.webhook=https://own.example", "indexes.own.notify.secret_env=OWN_SECRET",
		"indexes.own.notify.on=failed", "indexes.paged.notify.page=https://paged.example",
	}}))(t)
	of := musttest.Get(webhook.ReadHooks(settings))(t)
	hook := of("own")
	assert.True(t, hook.URL == "https://own.example" && hook.Secret == "own" && len(hook.On) == 1 &&
		hook.Page == "https://page.example", "%+v", hook)
	assert.Equal(t, "https://paged.example", of("paged").Page)
	hook = of("any")
	assert.True(t, hook.URL == "https://general.example" && hook.Secret == "general" && len(hook.On) == 4, "%+v", hook)
	t.Setenv("OWN_SECRET", "")
	if _, err := webhook.ReadHooks(settings); !fault.Is(err, fault.BadConfig) || !strings.Contains(err.Error(), "OWN_SECRET") {
		t.Errorf("a webhook without a secret: %v", err)
	}
}

func TestANoticeOfDriftNamesTheRepair(t *testing.T) {
	body := webhook.Body{Event: "failed", Index: "docs", Run: "docs/audit-1", Status: "failed", Reason: "drift"}
	body.Advise(webhook.Hook{})
	assert.True(t, body.Link == "" && body.Command == "unweaver audit docs --repair --wait", "%v", body.Command)
}
