package signon

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/unweaver/unweaver/internal/config"
)

const (
	// mostAnswer bounds what the issuer may answer, in bytes.
	mostAnswer = 1 << 20
	// answerTimeout bounds one request to the issuer, from connecting to the last byte.
	answerTimeout = 10 * time.Second
)

// newClient returns the client of requests to the issuer. It follows no redirect: the addresses are those that the
// configuration and the issuer's discovery document name.
func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 64 << 10
	return &http.Client{
		Transport:     bounded{transport},
		Timeout:       answerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded refuses addresses that others can read along, and cuts answers that are too large.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	if !config.IsSafeURL(request.URL) {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("the issuer names an address without https: %s", request.URL.Host)
	}
	response, err := b.next.RoundTrip(request)
	if err == nil {
		response.Body = &boundedBody{response.Body, mostAnswer}
	}
	return response, err
}

// cutCause returns a cause as the log takes it: not long, and without secrets.
func cutCause(text string, secrets ...string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text[:min(len(text), 300)]
}

var errTooLarge = errors.New("the issuer's answer is larger than 1 MiB")

// boundedBody fails where a body has more bytes than are left.
type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
