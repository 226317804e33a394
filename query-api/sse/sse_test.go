package sse_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/query-api/sse"
)

func TestEventsAreWrittenAsReadersOfStreamsTakeThem(t *testing.T) {
	recorder := httptest.NewRecorder()
	events := sse.New(recorder)
	assert.True(t, !events.HasBegun() && recorder.Header().Get("Content-Type") == "", "it began before the first event")
	for _, err := range []error{
		events.JSON("delta", map[string]string{"text": "a\n<b> & c"}), events.JSON("", []int{1}),
		events.SendText("", "[DONE]"),
	} {
		require.NoError(t, err)
	}
	events.Close()
	want := "event: delta\ndata: {\"text\":\"a\\n<b> & c\"}\n\ndata: [1]\n\ndata: [DONE]\n\n"
	got := recorder.Body.String()
	assert.True(t, got == want && events.HasBegun() && recorder.Flushed, "%q", got)
	header := recorder.Header()
	assert.True(t, header.Get("Content-Type") == "text/event-stream" &&
		header.Get("Cache-Control") == "no-store, no-transform", "%v", header)
	err := events.SendText("", "late")
	assert.True(t, err != nil && recorder.Body.String() == want, "behind the end: %v, %q", err, recorder.Body)
}

func TestWhatIsNoJSONBeginsNothing(t *testing.T) {
	recorder := httptest.NewRecorder()
	events := sse.New(recorder)
	defer events.Close()
	err := events.JSON("", func() {})
	assert.True(t, err != nil && !events.HasBegun() && recorder.Body.Len() <= 0, "%v, %q", err, recorder.Body)
}

func TestAQuietStreamIsKeptAliveUntilItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := httptest.NewRecorder()
		events := sse.New(recorder)
		require.NoError(t, events.SendText("", "x"))
		time.Sleep(25 * time.Second)
		events.Close()
		time.Sleep(time.Minute)
		want := "data: x\n\n: waiting\n\n: waiting\n\n"
		assert.True(t, recorder.Body.String() == want, "%q", recorder.Body)
	})
}

// gone is a client that went away.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAClientThatWentAwayIsToldAsACancelledRequest(t *testing.T) {
	events := sse.New(gone{httptest.NewRecorder()})
	defer events.Close()
	for range 2 {
		assert.ErrorIs(t, events.SendText("", "x"), context.Canceled)
	}
}
