package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
)

var errPlain = errors.New("an error without a class")

func wishing(wait time.Duration) error {
	err := fault.ModelRateLimited.At("ask", "model")
	err.RetryAfter = wait
	return err
}

// Time is the test's own: waits take none, and can be measured exactly.
func TestACallIsRepeatedWhileItMayHeal(t *testing.T) {
	down, quota := fault.ModelUnavailable.At("ask", "model"), fault.ModelQuota.At("ask", "model")
	nonsense := fault.ModelUnreadable.At("ask", "model")
	const once = 300 * time.Millisecond // the first wait, at least; twice that at most
	for name, c := range map[string]struct {
		answers     []error // one a call; the last repeats
		calls       int
		least, most time.Duration
		want        error
	}{
		"at once":              {[]error{nil}, 1, 0, 0, nil},
		"after one failure":    {[]error{down, nil}, 2, once, 2 * once, nil},
		"for ever down":        {[]error{down}, 4, 2100 * time.Millisecond, 4200 * time.Millisecond, down},
		"content":              {[]error{fault.BadOutput.At("", "")}, 1, 0, 0, fault.BadOutput.At("", "")},
		"fatal":                {[]error{fault.ModelAuth.At("", "")}, 1, 0, 0, fault.ModelAuth.At("", "")},
		"then fatal":           {[]error{down, quota}, 2, once, 2 * once, quota},
		"nonsense":             {[]error{nonsense}, 3, 900 * time.Millisecond, 1800 * time.Millisecond, nonsense},
		"nonsense, then sense": {[]error{nonsense, nil}, 2, once, 2 * once, nil},
		"unclassified":         {[]error{errPlain}, 1, 0, 0, errPlain},
		"a deadline of a call": {[]error{context.DeadlineExceeded, nil}, 2, once, 2 * once, nil},
		"the server's wish":    {[]error{wishing(10 * time.Second), nil}, 2, 10 * time.Second, 10300 * time.Millisecond, nil},
		"a wish too long":      {[]error{wishing(time.Hour)}, 1, 0, 0, wishing(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, calls := time.Now(), 0
				err := retry.Do(t.Context(), func(context.Context) error {
					calls++
					return c.answers[min(calls, len(c.answers))-1]
				})
				took := time.Since(start)
				assert.True(t, calls == c.calls && fault.CodeOf(err) == fault.CodeOf(c.want) && took >= c.least && took <= c.most,
					"%d calls in %s: %v; want %d in %s to %s: %v", calls, took, err, c.calls, c.least, c.most, c.want)
			})
		})
	}
}

func TestAStopEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start, calls := time.Now(), 0
		err := retry.Do(ctx, func(context.Context) error { calls++; return wishing(20 * time.Second) })
		assert.True(t, errors.Is(err, context.DeadlineExceeded) && calls == 1 && time.Since(start) == time.Second,
			"%d calls in %s: %v", calls, time.Since(start), err)
		calls = 0
		if err := retry.Do(ctx, func(context.Context) error {
			calls++
			return fault.StoreDown.At("", "")
		}); calls != 1 || !fault.Is(err, fault.StoreDown) {
			t.Errorf("after the stop: %d calls, %v", calls, err)
		}
	})
}
