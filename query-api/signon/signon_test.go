package signon

import (
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/query-api/middleware"
)

func TestASignInAsksOnceAndFewAskAtOnce(t *testing.T) {
	now := time.Now()
	ask := func(codes *exchanges, times int, wait time.Duration, end bool) (taken int) {
		for range times {
			now = now.Add(wait)
			begun := signIn{State: rand.Text(), Expires: now.Add(time.Hour).Unix()}
			leave, err := codes.begin(begun, now)
			if err != nil {
				musttest.Code(t, err, fault.RateLimited)
				continue
			}
			if taken++; end {
				leave()
			}
			musttest.Code(t, musttest.Err(codes.begin(begun, now)), fault.Unauthorized)
		}
		return taken
	}
	assert.Equal(t, exchangesPerSecond, ask(newExchanges(), 100, 0, true), "in no time")
	assert.Equal(t, mostExchanges, ask(newExchanges(), 100, time.Second, false), "at once")
	codes := newExchanges()
	assert.Equal(t, mostUsed, ask(codes, mostUsed+9, 50*time.Millisecond, true), "remembered")
	now = now.Add(time.Hour)
	assert.Equal(t, 9, ask(codes, 9, time.Second, true), "after an hour")
}

type silence struct{}

func (silence) RoundTrip(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

func TestATokenWaitsThreeSecondsAndTriesTenKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings, began := config.QueryOIDC{Issuer: "https://login"}, time.Now()
		keys := newKeySet(settings, slog.New(slog.DiscardHandler), time.Now)
		keys.client.Transport = silence{}
		_, err := keys.current(t.Context())
		assert.True(t, fault.Is(err, fault.KeysUnknown) && time.Since(began) == mostPatience, "%v", err)
		time.Sleep(answerTimeout) // the asking ends
	})
	said := &issuer{}
	for range mostTries + 1 {
		public, private, _ := ed25519.GenerateKey(rand.Reader)
		said.keys = append(said.keys, jose.JSONWebKey{Key: public})
		signer := musttest.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: private}, nil))(t)
		payload, _ := said.verify(musttest.Get(signer.Sign([]byte("x")))(t))
		assert.Equal(t, len(said.keys) <= mostTries, payload != nil, "%d keys", len(said.keys))
	}
}

func TestASessionIsOfOneServerAndOnePerson(t *testing.T) {
	settings := config.QueryOIDC{Issuer: "https://login", Audience: "https://a", SessionKeyFile: t.TempDir() + "/key"}
	assert.NoError(t, os.WriteFile(settings.SessionKeyFile, []byte(strings.Repeat("\xff", 31)+"\n"), 0o600))
	var policy middleware.Policy
	assert.NoError(t, AddTo(&policy, settings, slog.New(slog.DiscardHandler)))
	assert.True(t, policy.Required, "nobody is asked for a token")
	cookie := musttest.Get(newSealer(settings))(t).sealValue("x", 1)
	for _, address := range []string{"https://a", "https://b"} {
		settings.URL = address
		opened := musttest.Get(newSealer(settings))(t).openValue("x", cookie, new(int))
		assert.Equal(t, address == "https://a", opened, "a session of https://a at %s", address)
	}
	client := &Service{settings: config.QueryOIDC{ClientID: "us"}}
	for given, taken := range map[string]bool{
		"us|": true, "us|us": true, "x us|us": true, "x us|": false, "us|x": false, "x|us": false, "x|": false,
	} {
		audience, party, _ := strings.Cut(given, "|")
		assert.Equal(t, taken, client.explainClient(strings.Fields(audience), party) == "", "%s", given)
	}
	forged := nameSubject("a b")
	assert.NotEqual(t, forged, nameSubject(forged), "two people share a name")
	cause := cutCause("code=hidden "+strings.Repeat("x", 1000), "hidden", "")
	assert.True(t, len(cause) == 300 && !strings.Contains(cause, "hidden"), "%s", cause)
}
