package stall

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slow is a body whose parts come after a time each, unless its exchange ends before.
type slow struct {
	ctx   context.Context
	after []time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.after) == 0 {
		return 0, io.EOF
	}
	wait := time.After(s.after[0])
	s.after = s.after[1:]
	select {
	case <-wait:
		return copy(p, "x"), nil
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

func (*slow) Close() error { return nil }

// The limit is ten seconds. A time begins again with each byte; the store may think twice as long.
func TestAnExchangeEndsWhenNoByteMovesForTooLong(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		sent      []time.Duration // before each part of the request's body; nil: it has none
		thinks    time.Duration
		answered  []time.Duration
		pause     time.Duration // of who reads the answer, between two parts
		stalls    bool
		endsAfter time.Duration
	}{
		"all is well":                 {[]time.Duration{9 * s, 9 * s, 9 * s}, 19 * s, []time.Duration{9 * s, 9 * s}, 0, false, 64 * s},
		"nothing is sent":             {nil, 19 * s, nil, 0, false, 19 * s},
		"the reader of the answer":    {nil, 0, []time.Duration{s, s}, time.Hour, false, 2*time.Hour + 2*s},
		"the request stands still":    {[]time.Duration{s, 11 * s}, 0, nil, 0, true, 11 * s},
		"the store does not answer":   {[]time.Duration{s}, 21 * s, nil, 0, true, 21 * s},
		"a question gets no answer":   {nil, 21 * s, nil, 0, true, 20 * s},
		"the answer stands still":     {nil, s, []time.Duration{s, 11 * s}, 0, true, 12 * s},
		"a reader waits, then stalls": {nil, s, []time.Duration{s, 11 * s}, time.Hour, true, time.Hour + 12*s},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				guard := Guard{Limit: 10 * s, Send: func(request *http.Request) (*http.Response, error) {
					ctx := request.Context()
					if sending, ok := request.Body.(*sending); ok {
						sending.ReadCloser.(*slow).ctx = ctx
						if _, err := io.Copy(io.Discard, sending); err != nil {
							return nil, err
						}
					}
					select {
					case <-time.After(c.thinks):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
					return &http.Response{Body: &slow{ctx, c.answered}}, nil
				}}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://store/key", nil)
				require.NoError(t, err)
				if c.sent != nil {
					request.Body = &slow{after: c.sent}
				}
				response, err := guard.RoundTrip(request)
				for one := make([]byte, 1); err == nil; {
					if _, err = response.Body.Read(one); err == nil {
						time.Sleep(c.pause)
					}
				}
				assert.Equal(t, c.stalls, errors.Is(err, errStalled), "%v", err)
				assert.Equal(t, !c.stalls, errors.Is(err, io.EOF), "%v", err)
				assert.Equal(t, c.endsAfter, time.Since(began))
			})
		})
	}
}

// Another end of an exchange keeps its cause, and a closed body ends what still runs for it. A store that answered
// early may take the rest of the request whenever it likes.
func TestAnEndThatIsNoStallKeepsItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		var sent *http.Request
		guard := Guard{Limit: time.Minute, Send: func(request *http.Request) (*http.Response, error) {
			if sent = request; request.URL.Path == "/refused" {
				return nil, refused
			}
			return &http.Response{Body: io.NopCloser(strings.NewReader("x"))}, nil
		}}
		ask := func(path string) (*http.Response, error) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://store"+path, strings.NewReader("xyz"))
			require.NoError(t, err)
			return guard.Do(request)
		}
		_, err := ask("/refused")
		assert.Equal(t, refused, err)
		require.Error(t, sent.Context().Err(), "a refused exchange goes on")
		response, err := ask("/")
		require.NoError(t, err)
		_, err = sent.Body.Read(make([]byte, 1))
		time.Sleep(time.Hour)
		require.NoError(t, errors.Join(err, sent.Context().Err()))
		require.NoError(t, response.Body.Close())
		assert.Error(t, sent.Context().Err(), "a closed exchange goes on")
	})
}
