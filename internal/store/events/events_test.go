package events

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func TestAMessageSaysWhichObjectsItIsAboutOrIsStrange(t *testing.T) {
	record := func(bucket, key string) string {
		return fmt.Sprintf(`{"s3":{"bucket":{"name":%q},"object":{"key":%q}}}`, bucket, key)
	}
	event := func(records ...string) string { return `{"Records":[` + strings.Join(records, ",") + `]}` }
	wrapped := func(body string) string {
		return string(musttest.Get(json.Marshal(map[string]string{"Type": "Notification", "Message": body}))(t))
	}
	for body, want := range map[string][]string{
		event(record("b", "a+b%20%C3%BC%2B.md")):           {"s3://b/a b ü+.md"},
		event(record("b", "one"), record("c", "two/2%2F")): {"s3://b/one", "s3://c/two/2/"},
		wrapped(event(record("b", "one"))):                 {"s3://b/one"},
		wrapped(wrapped(event(record("b", "one")))):        {"s3://b/one"},
		`{"Service":"Amazon S3","Event":"s3:TestEvent"}`:   {},
		wrapped(`{"Event":"s3:TestEvent","Bucket":"b"}`):   {},
		event():                    nil,
		event(record("", "one")):   nil,
		event(record("b", "")):     nil,
		event(record("b", "100%")): nil,
		event(record("b", "one"), record("b", "%zz")):       nil, // no part of a message is taken
		event(record("b", "one")) + event(record("b", "2")): nil,
		wrapped("not JSON"): nil,
		wrapped(""):         nil,
		"":                  nil, "not JSON": nil, "[]": nil, `{"Records":"none"}`: nil, `{"Records":[null]}`: nil,
	} {
		objects, known := parseS3(body)
		assert.Equal(t, want != nil, known, body)
		assert.Equal(t, fmt.Sprint(want), fmt.Sprint(objects), body)
	}
}

// queueOf is a client of a queue whose requests are answered by a function.
func queueOf(t *testing.T, answer http.HandlerFunc) *Queue {
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	place := "sqs://" + strings.TrimPrefix(server.URL, "http://") + "/000000000000/corpus"
	return musttest.Get(Open(t.Context(), place, "us-east-1"))(t)
}

func TestAFailureOfAQueueSaysWhatToDo(t *testing.T) {
	musttest.Refuse(Open(t.Context(), "sqs://host:port/queue", "us-east-1"))(t, fault.BadConfig, "sqs://host:port/queue")
	asked := 0
	for name, c := range map[string]struct {
		status int
		body   string
		want   fault.Code
		says   string
	}{
		"no such queue": {400, `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"no"}`, fault.BadConfig, "no"},
		"denied":        {403, `{"__type":"com.amazonaws.sqs#AccessDenied","message":"no"}`, fault.StoreDenied, "AccessDenied: no"},
		"another error": {400, `{"__type":"com.amazonaws.sqs#Other","message":"no"}`, fault.StoreDenied, "Other: no"},
		"throttled":     {429, `{"__type":"com.amazonaws.sqs#Slow","message":"no"}`, fault.StoreDown, "Slow: no"},
		"broken":        {503, `{"__type":"com.amazonaws.sqs#Down","message":"no"}`, fault.StoreDown, "Down: no"},
		"a proxy":       {502, `<html>`, fault.StoreDown, ""},
		"no JSON":       {200, `<html>`, fault.StoreDown, ""},
	} {
		queue := queueOf(t, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		for _, err := range []error{musttest.Err(queue.Receive(t.Context())), queue.Delete(t.Context(), []string{"r"})} {
			assert.True(t, fault.Is(err, c.want) && strings.Contains(err.Error(), queue.URI), "%s: %v", name, err)
			assert.ErrorContains(t, err, c.says, name)
		}
	}
	assert.Equal(t, 14, asked, "the client repeats no request by itself")
	queue := queueOf(t, func(http.ResponseWriter, *http.Request) {})
	assert.ErrorIs(t, musttest.Err(queue.Receive(musttest.EndedContext(t))), context.Canceled)
}

// What a queue could not delete is an error, so that the same messages are asked for again.
func TestMessagesThatStayAreReported(t *testing.T) {
	queue := queueOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		fmt.Fprint(w, `{"Successful":[{"Id":"0"}],"Failed":[{"Id":"1","Code":"Busy","Message":"later","SenderFault":false}]}`)
	})
	musttest.Fail(t, queue.Delete(t.Context(), []string{"a", "b"}), fault.StoreDown, "Busy: later")
	require.NoError(t, queue.Delete(t.Context(), nil), "nothing is asked")
}
