package proxy_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/testkit/storm/proxy"
)

// behind starts a server that counts its requests, and a proxy before it; each request has a connection of its own.
func behind(t *testing.T, body string) (p *proxy.Proxy, get func() (string, error), served *atomic.Int64) {
	t.Helper()
	served = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	p, err := proxy.New(strings.TrimPrefix(server.URL, "http://"), 7)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	client := &http.Client{
		Timeout: 5 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
	}
	return p, func() (string, error) {
		// A POST is never sent again by the transport itself.
		response, err := client.Post("http://"+p.Address, "text/plain", strings.NewReader("x"))
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		raw, err := io.ReadAll(response.Body)
		return string(raw), err
	}, served
}

func TestGoodWeatherChangesNothing(t *testing.T) {
	want := strings.Repeat("row ", 50_000)
	_, get, served := behind(t, want)
	for range 3 {
		if got, err := get(); err != nil || got != want {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	assert.Equal(t, int64(3), served.Load(), "served")
}

func TestALostReplyWasARequestThatArrived(t *testing.T) {
	p, get, served := behind(t, "done")
	p.Set(proxy.Weather{Lose: 1})
	if got, err := get(); err == nil {
		t.Fatalf("a reply came: %q", got)
	}
	if served.Load() != 1 || p.Counts().Lost != 1 {
		t.Errorf("served %d, %+v", served.Load(), p.Counts())
	}
}

func TestACutReplyIsAnErrorAndNeverAShorterAnswer(t *testing.T) {
	p, get, served := behind(t, strings.Repeat("row ", 1000))
	p.Set(proxy.Weather{Cut: 1})
	if got, err := get(); err == nil {
		t.Fatalf("%d bytes came as a whole answer", len(got))
	}
	if served.Load() != 1 || p.Counts().Cut != 1 {
		t.Errorf("served %d, %+v", served.Load(), p.Counts())
	}
}

func TestARefusedConnectionReachesNoServer(t *testing.T) {
	p, get, served := behind(t, "done")
	p.Set(proxy.Weather{Refuse: 1})
	if _, err := get(); err == nil || served.Load() != 0 || p.Counts().Refused == 0 {
		t.Errorf("%v, served %d, %+v", err, served.Load(), p.Counts())
	}
}

func TestABlackHoleHoldsWhatIsSentAndLetsItGoAfter(t *testing.T) {
	p, get, _ := behind(t, "done")
	const lasts = 300 * time.Millisecond
	begun := time.Now()
	p.BlackHole(lasts)
	if got, err := get(); err != nil || got != "done" {
		t.Fatal(got, err)
	}
	if took := time.Since(begun); took < lasts-20*time.Millisecond {
		t.Errorf("the answer came after %s", took)
	}
}

func TestDroppedConnectionsBreakAndNewOnesAreMade(t *testing.T) {
	p, get, _ := behind(t, "done")
	conn, err := net.Dial("tcp", p.Address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: behind\r\n\r\n")
	require.NoError(t, err)
	if _, err := conn.Read(make([]byte, 1)); err != nil { // an answer: its other half is made
		t.Fatal(err)
	}
	p.Drop()
	var timeout net.Error
	if _, err := io.Copy(io.Discard, conn); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the connection stands, or ended as if all were well: %v", err)
	}
	if got, err := get(); err != nil || got != "done" {
		t.Error(got, err)
	}
}

func TestTheSameSeedMakesTheSameWeather(t *testing.T) {
	var outcomes [2]string
	for i := range outcomes {
		p, get, _ := behind(t, "done")
		p.Set(proxy.Weather{Lose: 0.3, Refuse: 0.2})
		for range 40 {
			if _, err := get(); err != nil {
				outcomes[i] += "x"
			} else {
				outcomes[i] += "."
			}
		}
	}
	if outcomes[0] != outcomes[1] || !strings.Contains(outcomes[0], "x") || !strings.Contains(outcomes[0], ".") {
		t.Errorf("%s\n%s", outcomes[0], outcomes[1])
	}
}
