package signon

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/unweaver/unweaver/internal/fault"
)

// signInTime is how long a person has at the identity provider.
const signInTime = 10 * time.Minute

// signIn is what the browser keeps, sealed, while a person is at the identity provider.
type signIn struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // of PKCE
	Expires  int64  `json:"e"`
}

// clientOf returns this server as a client of the issuer.
func (s *Service) clientOf(said *issuer) *oauth2.Config {
	endpoint := said.provider.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default of OpenID Connect
	if s.secret == "" || slices.Contains(said.methods, "client_secret_post") {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: s.settings.ClientID, ClientSecret: s.secret, Endpoint: endpoint,
		RedirectURL: s.url + CallbackPath, Scopes: s.settings.ClientScopes,
	}
}

// beginSignIn sends the browser to the identity provider.
func (s *Service) beginSignIn(w http.ResponseWriter, request *http.Request) error {
	said, err := s.keys.current(request.Context())
	if err != nil {
		return err
	}
	begun := signIn{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Expires: s.now().Add(signInTime).Unix(),
	}
	s.setCookie(w, signInCookie, s.seal.sealValue(signInCookie, begun), signInTime)
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(begun.Verifier), oidc.Nonce(begun.Nonce)}
	redirect(w, s.clientOf(said).AuthCodeURL(begun.State, options...))
	return nil
}

// redirect sends the browser to an address.
func redirect(w http.ResponseWriter, address string) {
	w.Header().Set("Location", address)
	w.WriteHeader(http.StatusFound)
}

// refuseSignIn returns the error of a sign-in that failed.
func (s *Service) refuseSignIn(why string) error {
	return fault.Unauthorized.At("sign in", "").Because(why).Advise("sign in again at " + s.url + LoginPath)
}

// endSignIn takes the answer of the identity provider and begins a session. It always leads to the page of this server:
// no request says where to.
func (s *Service) endSignIn(w http.ResponseWriter, request *http.Request) error {
	var begun signIn
	known := s.readCookie(request, signInCookie, &begun)
	given := request.URL.Query()
	switch {
	case !known || s.now().Unix() >= begun.Expires:
		return s.refuseSignIn("this browser began no sign-in here in the last ten minutes")
	case subtle.ConstantTimeCompare([]byte(given.Get("state")), []byte(begun.State)) != 1:
		return s.refuseSignIn("the answer belongs to another sign-in")
	}
	end, err := s.codes.begin(begun, s.now())
	if err != nil { // the cookie stays, as the browser may try again
		return err
	}
	defer end()
	s.setCookie(w, signInCookie, "", 0)
	switch {
	case given.Get("iss") != "" && given.Get("iss") != s.settings.Issuer:
		return s.refuseSignIn("the answer is of another issuer")
	case given.Get("error") != "" || given.Get("code") == "":
		return s.refuseSignIn("the identity provider refused: " + fault.QuoteName(given.Get("error")))
	}
	token, err := s.exchange(request.Context(), given.Get("code"), begun)
	if err != nil {
		return err
	}
	found, err := s.identify(token)
	if err != nil {
		return err
	}
	now := s.now()
	expires := found.expires
	if latest := now.Add(mostSession); latest.Before(expires) {
		expires = latest
	}
	value := s.seal.sealValue(sessionCookie, session{found.subject, found.groups, expires.Unix()})
	if len(value) > mostCookie { // with fewer groups the person reads fewer documents that have labels
		value = s.seal.sealValue(sessionCookie, session{found.subject, s.grantedOf(found.groups), expires.Unix()})
	}
	if len(value) > mostCookie {
		return fault.Forbidden.At("sign in", "").Because("too many groups of the person have access: no cookie holds them").
			Advise("map fewer groups in query_api.oidc.groups, or send a token instead")
	}
	s.setCookie(w, sessionCookie, value, max(time.Second, expires.Sub(now)))
	redirect(w, s.url+"/")
	return nil
}

// exchange gets the token of a person for the code that the browser brought.
func (s *Service) exchange(ctx context.Context, code string, begun signIn) (*oidc.IDToken, error) {
	said, err := s.keys.current(ctx)
	if err != nil {
		return nil, err
	}
	asking := oidc.ClientContext(ctx, s.keys.client)
	got, err := s.clientOf(said).Exchange(asking, code, oauth2.VerifierOption(begun.Verifier))
	if err != nil {
		return nil, s.refuseExchange(err, code, begun.Verifier, s.secret)
	}
	raw, _ := got.Extra("id_token").(string)
	if raw == "" {
		return nil, s.refuseSignIn("the identity provider gave no ID token")
	}
	token, err := s.verify(ctx, raw)
	if err != nil {
		return nil, err
	}
	var claims struct {
		Party string `json:"azp"`
	}
	if err := token.Claims(&claims); err != nil {
		return nil, s.refuseSignIn("the claims of the ID token are malformed")
	}
	if why := s.explainClient(token.Audience, claims.Party); why != "" {
		return nil, s.refuseSignIn(why)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(begun.Nonce)) != 1 {
		return nil, s.refuseSignIn("the ID token belongs to another sign-in")
	}
	return token, nil
}

// explainClient says why an ID token is not for this client, or nothing. party is its claim azp.
func (s *Service) explainClient(audience []string, party string) string {
	switch {
	case !slices.Contains(audience, s.settings.ClientID) || party != "" && party != s.settings.ClientID:
		return "the ID token is for another client"
	case len(audience) > 1 && party == "":
		return "the ID token has several audiences, and does not name its client (azp)"
	}
	return ""
}

// refuseExchange returns the error of a code that brought no token. The issuer's answer may hold secrets: the log has
// its error code and status alone, or why there is no answer, without the secrets that were sent.
func (s *Service) refuseExchange(err error, secrets ...string) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		s.log.Warn("the token endpoint of query_api.oidc.issuer gives no answer that can be read", "error",
			cutCause(err.Error(), secrets...))
		return fault.KeysUnknown.At("sign in", "").Because("the identity provider does not answer").Advise("try again later")
	}
	status := 0
	if refused.Response != nil {
		status = refused.Response.StatusCode
	}
	s.log.Warn("query_api.oidc.issuer gave no token for a code", "status", status,
		"error", fault.QuoteName(refused.ErrorCode))
	return s.refuseSignIn("the identity provider gave no token")
}

// signOut ends the session of the browser.
func (s *Service) signOut(w http.ResponseWriter, request *http.Request) error {
	if !s.isOwnPage(request) {
		return fault.Forbidden.At("sign out", "").Because("another page sent the request").
			Advise("sign out at the page of this server")
	}
	s.setCookie(w, sessionCookie, "", 0)
	w.WriteHeader(http.StatusNoContent)
	return nil
}
