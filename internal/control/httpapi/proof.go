package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// A process that died may leave a dev.json behind, and another program may have its port since. Before a client sends
// its token, its key or anything else to an address, the server there proves that it has the token: it gives the
// HMAC-SHA256 under it of a number that was made for this question, and of the address that was asked.
const (
	proofPath     = Prefix + "proof"
	challengeSize = 32 // bytes
)

var proofDeadline = 10 * time.Second

func proofOf(token, address string, challenge []byte) []byte {
	mac := hmac.New(sha256.New, []byte(token))
	_, _ = io.WriteString(mac, "unweaver proof of a token\x00"+address+"\x00") // never fails, nor does the next
	_, _ = mac.Write(challenge)
	return mac.Sum(nil)
}

// answerChallenge answers a challenge. It is open to everybody: the answer says nothing of the token.
func (a Access) answerChallenge(w http.ResponseWriter, request *http.Request) {
	challenge, err := hex.DecodeString(request.URL.Query().Get("challenge"))
	if err != nil || len(challenge) != challengeSize || a.Token == "" {
		http.NotFound(w, request)
		return
	}
	_, _ = io.WriteString(w, hex.EncodeToString(proofOf(a.Token, request.Host, challenge))) // the caller may have gone
}

// HasToken reports whether the server at base (http://host:port) has a token, without telling it the token. The error
// is of an address where somebody listens and does not answer in time.
func HasToken(ctx context.Context, base, token string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, proofDeadline)
	defer cancel()
	challenge := make([]byte, challengeSize)
	_, _ = rand.Read(challenge) // never fails
	url := base + proofPath + "?challenge=" + hex.EncodeToString(challenge)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, nil //nolint:nilerr // an invalid base has no token
	}
	response, err := strict.Do(request)
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return false, err
		}
		return false, nil // nothing listens there
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 2*sha256.Size+1))
	if err != nil {
		return false, nil //nolint:nilerr // an answer that breaks off proves nothing
	}
	got, err := hex.DecodeString(string(text))
	return err == nil && response.StatusCode == http.StatusOK &&
		hmac.Equal(got, proofOf(token, request.Host, challenge)), nil
}

// strict goes nowhere else than it is asked to.
var strict = &http.Client{
	Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
