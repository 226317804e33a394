package signon

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/fault"
)

const (
	// mostToken bounds a token, in bytes.
	mostToken = 32 << 10
	// mostGroups bounds the groups of a person.
	mostGroups = 1000
	// leeway is by how much the clocks of the issuer and of this machine may differ.
	leeway = 30 * time.Second
	// mostSubject bounds the name of a person in the audit trail and the log, in bytes.
	mostSubject = 100
)

// identity is what a verified token says of a person.
type identity struct {
	subject string
	groups  []string // all, one of which the configuration names
	expires time.Time
}

// refuse returns the error of a token that proves nothing. why holds no part of the token.
func refuse(why string) error {
	return fault.Unauthorized.At("check the token", "").Because(why).
		Advise("get a new token from the identity provider for this server, and send it as Authorization: Bearer TOKEN")
}

// CheckToken implements middleware.SignOn.
func (s *Service) CheckToken(ctx context.Context, text string) (*access.Person, error) {
	token, err := s.verify(ctx, text)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(token.Audience, func(audience string) bool {
		return slices.Contains(s.accepted, trimSlash(audience))
	}) {
		return nil, refuse("the token is for another audience")
	}
	found, err := s.identify(token)
	if err != nil {
		return nil, err
	}
	return s.personOf(found), nil
}

// isCompact reports whether a text has the form of a signed token: three parts of base64url.
func isCompact(text string) bool {
	letter := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
	}
	return strings.Count(text, ".") == 2 && strings.IndexFunc(text, func(r rune) bool { return !letter(r) }) < 0
}

// verify checks the form, issuer, signature and times of a token. Its audience is the caller's to check.
func (s *Service) verify(ctx context.Context, text string) (*oidc.IDToken, error) {
	if len(text) > mostToken {
		return nil, refuse(fmt.Sprintf("the token is longer than %d bytes", mostToken))
	}
	if !isCompact(text) {
		return nil, refuse("the token is no signed JSON Web Token")
	}
	keys := &attempt{keys: s.keys}
	token, err := oidc.NewVerifier(s.settings.Issuer, keys, &oidc.Config{
		SupportedSigningAlgs: s.settings.Algorithms, SkipClientIDCheck: true, SkipExpiryCheck: true,
	}).Verify(ctx, text)
	switch {
	case keys.err != nil:
		return nil, keys.err
	case keys.unsigned:
		return nil, refuse("no key of the identity provider signed the token")
	case err != nil:
		return nil, refuse(s.explain(text))
	}
	var times struct {
		Expires   *float64 `json:"exp"`
		NotBefore *float64 `json:"nbf"`
	}
	now := s.now()
	switch err := token.Claims(&times); {
	case err != nil || times.Expires == nil:
		return nil, refuse("the token does not say until when it is valid")
	case !now.Before(token.Expiry.Add(leeway)):
		return nil, refuse("the token has expired")
	case times.NotBefore != nil && *times.NotBefore > float64(now.Add(leeway).Unix()):
		return nil, refuse("the token is not valid yet")
	}
	return token, nil
}

// explain says why a token does not verify, from what it claims: in words of this program, never of the token.
func (s *Service) explain(text string) string {
	parts := strings.Split(text, ".")
	var header struct {
		Algorithm string `json:"alg"`
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	for i, to := range []any{&header, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(raw, to) != nil {
			return "the token is no signed JSON Web Token"
		}
	}
	switch {
	case claims.Issuer != s.settings.Issuer:
		return "the token is of another issuer"
	case !slices.Contains(s.settings.Algorithms, header.Algorithm):
		return "the token is signed with an algorithm that is not allowed here"
	}
	return "the claims of the token are malformed"
}

// identify returns who a verified token names. Forbidden is the error of a person without a group that may ask.
func (s *Service) identify(token *oidc.IDToken) (*identity, error) {
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil || token.Subject == "" {
		return nil, refuse("the token names no subject")
	}
	groups, err := s.readGroups(claims)
	if err != nil {
		return nil, err
	}
	found := &identity{subject: nameSubject(token.Subject), expires: token.Expiry}
	for _, group := range groups {
		if !slices.Contains(found.groups, group) {
			found.groups = append(found.groups, group)
		}
	}
	if len(s.grantedOf(found.groups)) == 0 {
		return nil, fault.Forbidden.At("sign on", "").
			Because("no group of the token has access to this server").
			Advise("ask the operator to add one of your groups to query_api.oidc.groups, or you to a group that is there")
	}
	return found, nil
}

// readGroups returns the groups of a token: a list of texts, or one text.
func (s *Service) readGroups(claims map[string]json.RawMessage) ([]string, error) {
	bad := func(why, hint string) error { return fault.Forbidden.At("sign on", "").Because(why).Advise(hint) }
	name := s.settings.GroupsClaim
	raw, given := claims[name]
	if !given || string(raw) == "null" {
		var elsewhere map[string]string
		_ = json.Unmarshal(claims["_claim_names"], &elsewhere) // what is no such object names nothing
		if elsewhere[name] != "" {
			return nil, bad("the identity provider left the groups out of the token, as there are too many",
				"have the provider send only the groups that are assigned to this application")
		}
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var several []string
	if json.Unmarshal(raw, &several) != nil {
		return nil, bad("the groups of the token are no texts",
			"have the identity provider write them as a list of texts, or set query_api.oidc.groups_claim")
	}
	if len(several) > mostGroups {
		return nil, bad(fmt.Sprintf("the token has %d groups, more than %d", len(several), mostGroups),
			"have the identity provider send only the groups that are assigned to this application")
	}
	return several, nil
}

// grantedOf returns those of some groups that the configuration grants something.
func (s *Service) grantedOf(groups []string) []string {
	return slices.DeleteFunc(slices.Clone(groups), func(group string) bool { return s.grants[group] == nil })
}

// personOf returns a person with what the groups allow.
func (s *Service) personOf(found *identity) *access.Person {
	person := &access.Person{Subject: found.subject, Labels: found.groups}
	for _, group := range found.groups {
		if granted := s.grants[group]; len(granted) > 0 {
			person.Grants, person.Groups = append(person.Grants, granted...), append(person.Groups, group)
		}
	}
	slices.Sort(person.Groups)
	return person
}

// nameSubject returns a subject as logs and the audit trail take it. One that is long or has other characters is cut,
// and ends in ~ and a digest, as one with ~ does, so that two people never share a name.
func nameSubject(subject string) string {
	plain := func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return '_'
	}
	name := strings.Map(plain, subject)
	if name == subject && len(name) <= mostSubject && !strings.Contains(name, "~") {
		return name
	}
	sum := sha256.Sum256([]byte(subject))
	return name[:min(len(name), mostSubject-18)] + "~" + hex.EncodeToString(sum[:8])
}
