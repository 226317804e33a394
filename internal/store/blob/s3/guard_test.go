package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/s3"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// stall is the guard's time in these tests.
const stall = 150 * time.Millisecond

// long is more than anything takes, also on a machine that has much else to do.
const long = 5 * time.Minute

func TestMain(m *testing.M) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"} {
		if os.Getenv(name) == "" { // those of a real server stay
			_ = os.Setenv(name, value)
		}
	}
	os.Exit(m.Run())
}

// narrow accepts connections that hold little, so that a slow reader is felt by the writer.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		err = errors.Join(err, tcp.SetReadBuffer(64<<10))
	}
	return conn, err
}

// serving opens a store over a server that answers lists with nothing and everything else as handle does. Its guard is
// so short that a busy machine sets it off: who counts requests that are answered takes a long one (guarded).
func serving(t *testing.T, handle http.HandlerFunc) *s3.Store {
	return guarded(t, stall, handle)
}

func guarded(t *testing.T, limit time.Duration, handle http.HandlerFunc) *s3.Store {
	done := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("list-type") != "" {
			fmt.Fprint(w, `<ListBucketResult></ListBucketResult>`)
			return
		}
		handle(w, r.WithContext(context.WithValue(r.Context(), endKey{}, done)))
	}))
	server.Listener = narrow{server.Listener}
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(done) }) // first: hanging handlers end
	config := at(server.URL, "p")
	config.Stall = limit
	return musttest.Get(s3.Open(t.Context(), config))(t)
}

type endKey struct{}

// hang waits until the test ends.
func hang(r *http.Request) { <-r.Context().Value(endKey{}).(chan struct{}) }

// within calls f and fails when it hangs.
func within(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(long):
		t.Fatal("it hangs")
		return nil
	}
}

func stalls(t *testing.T, err error) {
	t.Helper()
	if !fault.Is(err, fault.StoreDown) || fault.KindOf(err) != fault.Transient ||
		!strings.Contains(err.Error(), "no byte moved") {
		t.Errorf("got %v, want a transient fault that says so", err)
	}
}

func TestADownloadThatMovesNoByteFailsTransiently(t *testing.T) {
	t.Parallel()
	store := serving(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(make([]byte, 100))
		w.(http.Flusher).Flush()
		hang(r)
	})
	stalls(t, within(t, func() error {
		body, _, err := store.Get(t.Context(), "k", blob.All)
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		n, err := io.Copy(io.Discard, body)
		assert.Equal(t, int64(100), n)
		return err
	}))
}

func TestAStoreThatNeverAnswersFailsTransiently(t *testing.T) {
	t.Run("a read", func(t *testing.T) {
		t.Parallel()
		store := serving(t, func(_ http.ResponseWriter, r *http.Request) { hang(r) })
		stalls(t, within(t, func() error {
			_, err := store.Stat(t.Context(), "k")
			return err
		}))
	})
	t.Run("a conditional write, which is sent once", func(t *testing.T) {
		t.Parallel()
		var arrived atomic.Int64
		store := serving(t, func(_ http.ResponseWriter, r *http.Request) {
			arrived.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
			hang(r)
		})
		stalls(t, within(t, func() error {
			_, err := blob.Write(t.Context(), store, "k", []byte("x"), blob.Cond{Absent: true})
			return err
		}))
		if arrived.Load() > 1 { // none, where the server did not come to it in time
			t.Errorf("it was sent %d times", arrived.Load())
		}
	})
}

func TestAnUploadThatMovesNoByteFailsTransiently(t *testing.T) {
	t.Parallel()
	store := serving(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 1000))
		hang(r) // the rest is never read: what the line holds fills up
	})
	stalls(t, within(t, func() error {
		_, err := store.Put(t.Context(), "k", bytes.NewReader(make([]byte, 7<<20)), 7<<20, blob.Cond{Absent: true})
		return err
	}))
}

// Slow is not stalled: each of these takes several times the guard's time, and moves all the while. A busy machine may
// stand still for longer than the shortest of these times.
func TestWhatMovesSlowlyIsLeftAlone(t *testing.T) {
	t.Parallel()
	patiently(t, movesSlowly)
}

func TestAReaderThatIsSlowItselfIsLeftAlone(t *testing.T) {
	t.Parallel()
	patiently(t, readsSlowly)
}

// patiently gives a test a longer time as long as it fails: what the guard should not count fails with each.
func patiently(t *testing.T, test func(t *testing.T, limit time.Duration) error) {
	t.Helper()
	var err error
	for _, limit := range []time.Duration{600 * time.Millisecond, 4 * time.Second, 16 * time.Second} {
		if err = test(t, limit); err == nil {
			return
		}
	}
	t.Error(err)
}

func movesSlowly(t *testing.T, limit time.Duration) error {
	const pieces, size = 28, 256 << 10
	wait := limit / 12
	var received atomic.Int64
	store := guarded(t, limit, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			buf := make([]byte, size)
			for range pieces {
				n, _ := io.ReadFull(r.Body, buf)
				received.Add(int64(n))
				time.Sleep(wait)
			}
			n, _ := io.Copy(io.Discard, r.Body)
			received.Add(n)
			return
		}
		for range pieces {
			_, _ = w.Write(make([]byte, size))
			w.(http.Flusher).Flush()
			time.Sleep(wait)
		}
	})
	_, err := blob.Write(t.Context(), store, "k", make([]byte, 7<<20), blob.Cond{})
	if err != nil || received.Load() != 7<<20 {
		return fmt.Errorf("the upload ended after %d bytes: %w", received.Load(), err)
	}
	if raw, _, err := blob.Read(t.Context(), store, "k"); err != nil || len(raw) != pieces*size {
		return fmt.Errorf("the download ended after %d bytes: %w", len(raw), err)
	}
	return nil
}

func readsSlowly(t *testing.T, limit time.Duration) error {
	store := guarded(t, limit, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 8<<20)) })
	body, _, err := store.Get(t.Context(), "k", blob.All)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if _, err := io.ReadFull(body, make([]byte, 1000)); err != nil {
		return err
	}
	time.Sleep(3 * limit)
	if n, err := io.Copy(io.Discard, body); err != nil || n != 8<<20-1000 {
		return fmt.Errorf("%d bytes more, %w", n, err)
	}
	return nil
}

func TestACallersOwnEndIsNoStall(t *testing.T) {
	t.Parallel()
	store := guarded(t, long, func(_ http.ResponseWriter, r *http.Request) { hang(r) })
	ctx, cancel := context.WithTimeout(t.Context(), stall)
	defer cancel()
	err := within(t, func() error {
		_, err := store.Stat(ctx, "k")
		return err
	})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}
