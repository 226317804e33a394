package activities_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/activities"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/telemetry/webhook"
	"github.com/unweaver/unweaver/workflows"
)

// Who stops a process because a run ended must not take its notice with them.
func TestANoticeIsDueFromTheEndOfARunUntilItWasTried(t *testing.T) {
	for name, status := range map[string]int{"taken": http.StatusOK, "refused": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			reported := 0
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				reported++
				w.WriteHeader(status)
			}))
			defer receiver.Close()
			p := newPlant(t)
			p.Due = &activities.Due{}
			p.Notify = func(string) webhook.Hook {
				return webhook.Hook{URL: receiver.URL, Secret: "a secret to sign with", On: []string{config.OnFailed}}
			}
			end := workflows.End{Build: p.build, Status: core.StatusFailed, Reason: "internal"}
			if _, err := p.env.ExecuteActivity(workflows.EndBuild, end); err != nil {
				t.Fatal(err)
			}
			none, cancel := context.WithCancel(t.Context())
			cancel()
			require.False(t, p.Due.Wait(none), "nothing is due after the end of a run that a webhook asks for")
			_, err := p.env.ExecuteActivity(workflows.SendNotice, workflows.Notice{
				Build: p.build, ID: "r-1", RunID: "r", Status: core.StatusFailed, Reason: "internal", At: time.Now(),
			})
			assert.True(t, (err == nil) == (status == http.StatusOK) && reported == 1, "reported %d times, %v", reported, err)
			assert.True(t, p.Due.Wait(none), "it is due still")
		})
	}
}

func TestAnEndThatIsNotRecordedOrThatNobodyIsToldOfOwesNothing(t *testing.T) {
	p := newPlant(t)
	p.Due = &activities.Due{}
	none, cancel := context.WithCancel(t.Context())
	cancel()
	end := workflows.End{Build: p.build, Status: core.StatusFailed, Reason: "internal"}
	_, err := p.env.ExecuteActivity(workflows.EndBuild, end)
	assert.True(t, err == nil && p.Due.Wait(none), "no webhook is configured: %v", err)
	p.Notify = func(string) webhook.Hook {
		return webhook.Hook{URL: "http://127.0.0.1:1", Secret: "a secret to sign with", On: []string{config.OnFailed}}
	}
	p.store.down.Store(true)
	end.Attempt++
	if _, err := p.env.ExecuteActivity(workflows.EndBuild, end); err == nil || !p.Due.Wait(none) {
		t.Errorf("the end is not recorded: %v", err)
	}
}
