package signon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

const (
	// RefreshAfter is how old the issuer's keys may be before a request has them fetched again: a key that the issuer
	// withdraws ends within that time.
	RefreshAfter = 10 * time.Minute
	// patience is how long a request waits for that where known keys may go on.
	patience = 2 * time.Second
	// mostPatience is how long a request waits for a key that is not known.
	mostPatience = 3 * time.Second
	// StaleAfter is how long known keys go on while the issuer does not answer; then no token is taken.
	StaleAfter = time.Hour
	// AskEvery is how often, at most, the issuer is asked, whatever tokens come.
	AskEvery = 5 * time.Second
	// mostKeys of an issuer are looked at.
	mostKeys = 100
	// mostTries is how many keys are tried for a token that names none.
	mostTries = 10
)

// issuer is what the issuer says of itself, never changed.
type issuer struct {
	provider *oidc.Provider
	methods  []string // of clients that ask for tokens
	keys     []jose.JSONWebKey
	at       time.Time // when it was fetched
}

// keySet holds what the issuer says, and asks again when that is old or a token names an unknown key.
type keySet struct {
	name       string
	algorithms []jose.SignatureAlgorithm
	client     *http.Client
	log        *slog.Logger
	now        func() time.Time
	asking     singleflight.Group

	mu     sync.Mutex
	known  *issuer   // nil: never fetched
	asked  time.Time // last
	failed error     // of the last asking
}

func newKeySet(settings config.QueryOIDC, log *slog.Logger, now func() time.Time) *keySet {
	k := &keySet{name: settings.Issuer, client: newClient(), log: log, now: now}
	for _, algorithm := range settings.Algorithms {
		k.algorithms = append(k.algorithms, jose.SignatureAlgorithm(algorithm))
	}
	return k
}

// current returns what the issuer says, not older than StaleAfter.
func (k *keySet) current(ctx context.Context) (*issuer, error) {
	k.mu.Lock()
	known, failed := k.known, k.failed
	k.mu.Unlock()
	if known == nil || k.now().Sub(known.at) > StaleAfter {
		return k.refresh(ctx)
	}
	if k.now().Sub(known.at) < RefreshAfter {
		return known, nil
	}
	if failed != nil { // no one waits for an issuer that was away a moment ago
		k.begin()
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if fresh, err := k.refresh(ctx); err == nil {
		return fresh, nil
	}
	return known, nil
}

// refresh asks the issuer, or returns the outcome of an asking less than AskEvery ago. A request that waits too long
// gets an error, and the asking goes on.
func (k *keySet) refresh(ctx context.Context) (*issuer, error) {
	ctx, cancel := context.WithTimeout(ctx, mostPatience)
	defer cancel()
	select {
	case result := <-k.begin():
		found, _ := result.Val.(*issuer)
		return found, result.Err
	case <-ctx.Done():
		return nil, newUnavailable("the identity provider does not answer in time")
	}
}

// begin asks the issuer beside requests; all who wait share one asking.
func (k *keySet) begin() <-chan singleflight.Result {
	return k.asking.DoChan("", func() (any, error) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if began := k.now(); k.asked.IsZero() || began.Sub(k.asked) >= AskEvery {
			k.mu.Unlock()
			found, err := k.fetch(began)
			k.mu.Lock()
			k.note(began, found, err)
		}
		if k.failed != nil {
			return nil, k.failed
		}
		return k.known, nil
	})
}

// note keeps the outcome of an asking. The log says when the issuer falls silent and when it answers again.
func (k *keySet) note(began time.Time, found *issuer, err error) {
	k.asked = began
	if err != nil {
		if k.failed == nil {
			k.log.Warn("cannot read the keys of query_api.oidc.issuer; known keys stay valid for a while",
				"error", err.Error(), "minutes", StaleAfter.Minutes())
		}
		k.failed = newUnavailable("the keys of the identity provider cannot be read")
		return
	}
	if k.failed != nil {
		k.log.Info("the keys of query_api.oidc.issuer are read again")
	}
	k.known, k.failed = found, nil
}

// newUnavailable returns the error of keys that cannot be had now.
func newUnavailable(why string) error {
	unavailable := fault.KeysUnknown.At("check the token", "").Because(why).
		Advise("try again later; the operator should check that this server reaches query_api.oidc.issuer")
	unavailable.RetryAfter = AskEvery
	return unavailable
}

// fetch reads the issuer's discovery document and the keys that it names.
func (k *keySet) fetch(at time.Time) (*issuer, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(context.Background(), k.client), k.name) // the client ends it
	if err != nil {
		return nil, errors.New("discovery: " + cutCause(err.Error())) // the whole answer may be in it
	}
	var document struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&document); err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	keys, err := k.fetchKeys(document.Keys)
	if err != nil {
		return nil, fmt.Errorf("jwks_uri: %w", err)
	}
	return &issuer{provider: provider, methods: document.Methods, keys: keys, at: at}, nil
}

// fetchKeys reads public keys for signatures. Keys of other kinds are left out.
func (k *keySet) fetchKeys(address string) ([]jose.JSONWebKey, error) {
	response, err := k.client.Get(address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		return nil, err
	}
	if len(set.Keys) > mostKeys {
		return nil, fmt.Errorf("it has %d keys, more than %d", len(set.Keys), mostKeys)
	}
	var out []jose.JSONWebKey
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			out = append(out, key)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no public key for signatures")
	}
	return out, nil
}

// verify returns what a token says if one of the keys signed it; known: a key has the id that the token names.
func (i *issuer) verify(token *jose.JSONWebSignature) (payload []byte, known bool) {
	header, tries := token.Signatures[0].Header, 0
	for n := range i.keys {
		key := &i.keys[n]
		if header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			continue
		}
		if tries++; header.KeyID == "" && tries > mostTries {
			break
		}
		known = known || header.KeyID != ""
		if payload, err := token.Verify(key); err == nil {
			return payload, true
		}
	}
	return nil, known
}

// attempt is the key set as one verification uses it, with its outcome: the library wraps no errors.
type attempt struct {
	keys     *keySet
	err      error // why the keys could not be had
	unsigned bool  // none of them signed the token
}

var errSignature = errors.New("no key of the issuer signed it")

// VerifySignature implements oidc.KeySet. A token that names an unknown key has the issuer asked once more.
func (a *attempt) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	token, err := jose.ParseSignedCompact(text, a.keys.algorithms)
	if err != nil || len(token.Signatures) != 1 {
		return nil, errSignature
	}
	said, err := a.keys.current(ctx)
	if err != nil {
		a.err = err
		return nil, err
	}
	payload, known := said.verify(token)
	if payload == nil && !known {
		if said, err = a.keys.refresh(ctx); err != nil {
			a.err = err
			return nil, err
		}
		payload, _ = said.verify(token)
	}
	if payload == nil {
		a.unsigned = true
		return nil, errSignature
	}
	return payload, nil
}
