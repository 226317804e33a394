package batch_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model/batch"
)

func TestCutIsByContent(t *testing.T) {
	given := requests(25)
	first, err := batch.Cut(given, batch.Limits{Requests: 10})
	require.True(t, err == nil && len(first) == 3, "%d parts: %v", len(first), err)
	again := append(slices.Clone(given), given[3])
	slices.Reverse(again)
	second, err := batch.Cut(again, batch.Limits{Requests: 10})
	assert.True(t, err == nil && reflect.DeepEqual(first, second), "another order gives other parts: %v", err)
}

func TestCutKeepsLimits(t *testing.T) {
	given := requests(25)
	one, err := batch.Encode(given[:1])
	require.NoError(t, err)
	most := int64(3*len(one) + 20)
	cut, err := batch.Cut(given, batch.Limits{Bytes: most})
	require.NoError(t, err)
	held := 0
	for _, part := range cut {
		lines, err := batch.Encode(part.Requests)
		assert.True(t, err == nil && int64(len(lines)) <= most, "%d bytes of %d: %v", len(lines), most, err)
		held += len(part.Requests)
	}
	byTokens, err := batch.Cut(given, batch.Limits{Tokens: 120})
	assert.True(t, err == nil && len(byTokens) == 13 && held == 25,
		"%d parts of two, %d requests: %v", len(byTokens), held, err)
	_, err = batch.Cut(given, batch.Limits{Bytes: 10})
	assert.True(t, fault.Is(err, fault.TooLarge), "a request that fits no file: %v", err)
}

func TestRead(t *testing.T) {
	output := []byte(`{"custom_id":"b","response":{"status_code":200,"body":{"x":1}},"error":null}
{"custom_id":"a","response":{"status_code":200,"body":{}},"error":null}
no line
{"custom_id":"foreign","response":{"status_code":200,"body":{}}}
`)
	failures := []byte(`{"custom_id":"c","response":null,"error":{"code":"batch_expired","message":"late"}}
{"custom_id":"a","response":{"status_code":500,"body":{}},"error":null}
`)
	got := batch.Read(map[string]bool{"a": true, "b": true, "c": true, "d": true}, output, failures)
	assert.True(t, len(got.Answers) == 3 && got.Foreign == 1 && got.Broken == 1, "%+v", got)
	assert.True(t, got.Answers["a"].IsAnswered() && string(got.Answers["b"].Body) == `{"x":1}`, "%+v", got.Answers)
	expired := got.Answers["c"]
	assert.True(t, expired.Code == batch.Expired && expired.CanRetry() && !expired.IsAnswered(), "%+v", expired)
}
