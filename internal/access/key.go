// Package access is who may ask query-api what: API keys, what they allow, and where they are kept
// (docs/reference/formats.md, HTTP). A key is shown once, when it is made; the store holds the sha256 of it alone.
//
//	key.go   a key: its form, scope, indexes and limits
//	book.go  making, listing, replacing and revoking keys, by conditional writes of one object
//	ring.go  the keys as a serving process knows them, refreshed beside requests
package access

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"hash/crc32"
	"slices"
	"strings"
	"time"
)

// Scope is what a key allows; a later one of Scopes allows what the earlier ones do.
type Scope string

// The scopes.
const (
	Query   Scope = "query"   // reading the indexes that match the key's pattern
	Operate Scope = "operate" // and readiness, metrics, full texts of errors, control of builds
	Admin   Scope = "admin"   // and the keys themselves
)

// Scopes from the narrowest to the widest.
var Scopes = []Scope{Query, Operate, Admin}

// Includes reports whether who has this scope may do what needs the other.
func (s Scope) Includes(other Scope) bool {
	have, need := slices.Index(Scopes, s), slices.Index(Scopes, other)
	return need >= 0 && have >= need
}

// Limits bound what the holder of one key, or an address without one, may ask of one process. Zero is no bound; in a
// Key it is what the configuration says.
type Limits struct {
	RequestsPerSecond float64 `json:"requests_per_second,omitempty"`
	Burst             int     `json:"burst,omitempty"`       // requests at once after a pause
	Concurrency       int     `json:"concurrency,omitempty"` // requests that run at once
	AnswersPerMinute  float64 `json:"answers_per_minute,omitempty"`
	MoneyPerDay       float64 `json:"money_per_day,omitempty"` // answers, questions; a day of UTC
}

// WithDefaults gives these limits, with others where these say nothing.
func (l Limits) WithDefaults(others Limits) Limits {
	if l.RequestsPerSecond == 0 {
		l.RequestsPerSecond = others.RequestsPerSecond
		l.Burst = cmp.Or(l.Burst, others.Burst)
	}
	l.Concurrency = cmp.Or(l.Concurrency, others.Concurrency)
	l.AnswersPerMinute = cmp.Or(l.AnswersPerMinute, others.AnswersPerMinute)
	l.MoneyPerDay = cmp.Or(l.MoneyPerDay, others.MoneyPerDay)
	return l
}

// Key is what is stored of an API key. It holds nothing that lets one ask with it.
type Key struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Digest  string     `json:"sha256,omitempty"` // of the whole key, in hex; only in the store
	Scope   Scope      `json:"scope"`
	Index   string     `json:"index"` // glob over names of indexes
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Revoked *time.Time `json:"revoked,omitempty"`
	Limits  Limits     `json:"limits"`
	// Labels of documents that the holder may read, besides core.PublicLabel; core.AnyLabel is every document.
	Labels []string `json:"labels,omitempty"`
}

// Grant returns what the key allows.
func (k *Key) Grant() Grant { return Grant{Scope: k.Scope, Index: k.Index} }

// StateAt returns the state of the key at a time: valid, expired or revoked.
func (k *Key) StateAt(now time.Time) string {
	switch {
	case k.Revoked != nil && !now.Before(*k.Revoked):
		return "revoked"
	case k.Expires != nil && !now.Before(*k.Expires):
		return "expired"
	}
	return "valid"
}

// toPublic returns what may be shown of the key.
func (k Key) toPublic() Key {
	k.Digest = ""
	return k
}

// A key is uwk_ID_SECRETCHECK: the prefix is for scanners that look for secrets in other people's files, ID is public,
// SECRET has 256 bits, and CHECK lets a scanner tell a key from what only looks like one.
const (
	prefix      = "uwk_"
	idLength    = 8
	secretRunes = 43 // of 62 letters: 256.03 bits
	checkRunes  = 6
	keyLength   = len(prefix) + idLength + 1 + secretRunes + checkRunes
	letters     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// drawLetters letters, each as likely as any other.
func drawLetters(n int) string {
	out := make([]byte, 0, n)
	raw := make([]byte, 64)
	for len(out) < n {
		_, _ = rand.Read(raw) // never fails
		for _, b := range raw {
			if limit := 256 / len(letters) * len(letters); int(b) < limit && len(out) < n {
				out = append(out, letters[int(b)%len(letters)])
			}
		}
	}
	return string(out)
}

func checksumOf(text string) string {
	sum := crc32.ChecksumIEEE([]byte(text))
	out := make([]byte, checkRunes)
	for i := range out {
		out[checkRunes-1-i] = letters[sum%uint32(len(letters))]
		sum /= uint32(len(letters))
	}
	return string(out)
}

// drawKey makes the text of a new key.
func drawKey(id string) string {
	body := prefix + id + "_" + drawLetters(secretRunes)
	return body + checksumOf(body)
}

// WellFormed reports whether a text has the form of a key, its checksum included.
func WellFormed(text string) bool {
	if len(text) != keyLength || !strings.HasPrefix(text, prefix) || text[len(prefix)+idLength] != '_' {
		return false
	}
	at := len(text) - checkRunes
	return checksumOf(text[:at]) == text[at:]
}

// idOf returns the id of a well-formed key.
func idOf(text string) string { return text[len(prefix) : len(prefix)+idLength] }

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// matchesDigest compares in a time that does not depend on where two digests differ.
func (k *Key) matchesDigest(digest string) bool {
	return subtle.ConstantTimeCompare([]byte(k.Digest), []byte(digest)) == 1
}
