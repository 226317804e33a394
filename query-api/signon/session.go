package signon

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
)

const (
	// leastKey is the size of a session key, in bytes.
	leastKey = 32
	// mostSession bounds a session, whatever the token's life is.
	mostSession = 12 * time.Hour
	// mostCookie bounds the value of a cookie: browsers drop longer ones.
	mostCookie = 3800
)

// session is what the cookie of a person holds, sealed. What its groups allow is looked up at each request.
type session struct {
	Subject string   `json:"s"`
	Groups  []string `json:"g"`
	Expires int64    `json:"e"` // in seconds since 1970
}

// sealer encrypts and authenticates what cookies hold.
type sealer struct {
	aead cipher.AEAD
	bind string // what was sealed for another server, client or issuer does not open
}

// newSealer makes the sealer of a configuration.
func newSealer(settings config.QueryOIDC) (*sealer, error) {
	raw := make([]byte, leastKey)
	_, _ = rand.Read(raw) // never fails
	if settings.SessionKeyFile != "" {
		text, err := readSecret("session_key_file", settings.SessionKeyFile)
		if err != nil {
			return nil, err
		}
		if raw = []byte(text); len(raw) < leastKey {
			return nil, fault.BadConfig.At("read query_api.oidc.session_key_file", settings.SessionKeyFile).
				Because("it is shorter than 32 bytes").Advise("write one with: head -c 32 /dev/urandom | base64 > FILE")
		}
	}
	key, err := hkdf.Key(sha256.New, raw, nil, "unweaver query-api session 1", 32)
	if err != nil {
		return nil, fault.Internal.At("derive", "the session key").Because(err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fault.Internal.At("derive", "the session key").Because(err)
	}
	aead, err := cipher.NewGCM(block)
	return &sealer{aead, settings.Issuer + "\n" + settings.ClientID + "\n" + settings.PublicURL()}, err
}

// readSecret reads the file that a key of the configuration names. White space around text is left out; random bytes
// stay as they are.
func readSecret(key, path string) (string, error) {
	raw, err := os.ReadFile(path)
	secret := string(raw)
	if utf8.Valid(raw) {
		secret = strings.TrimSpace(secret)
	}
	if err == nil && secret == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fault.BadConfig.At("read query_api.oidc."+key, path).Because(err)
	}
	return secret, nil
}

// sealValue returns a value as a cookie for a purpose holds it.
func (s *sealer) sealValue(purpose string, value any) string {
	raw, _ := json.Marshal(value) // texts and numbers always marshal
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(raw)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, raw, []byte(purpose+"\n"+s.bind)))
}

// openValue reads what sealValue wrote for the same purpose.
func (s *sealer) openValue(purpose, text string, value any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > mostCookie || len(raw) < s.aead.NonceSize() {
		return false
	}
	nonce, sealed := raw[:s.aead.NonceSize()], raw[s.aead.NonceSize():]
	plain, err := s.aead.Open(nil, nonce, sealed, []byte(purpose+"\n"+s.bind))
	return err == nil && json.Unmarshal(plain, value) == nil
}

// Names of cookies, which are the purposes of what they hold too.
const (
	sessionCookie = "unweaver"
	signInCookie  = "unweaver-signin"
)

// isSecure reports whether browsers reach this server over TLS.
func (s *Service) isSecure() bool { return strings.HasPrefix(s.url, "https://") }

// cookieName returns the name of a cookie. Over TLS no other host can set one of that name.
func (s *Service) cookieName(purpose string) string {
	if s.isSecure() {
		return "__Host-" + purpose
	}
	return purpose
}

// setCookie sets a cookie for a time; an empty value ends it.
func (s *Service) setCookie(w http.ResponseWriter, purpose, value string, age time.Duration) {
	cookie := &http.Cookie{
		Name: s.cookieName(purpose), Value: value, Path: "/", MaxAge: int(age / time.Second),
		HttpOnly: true, Secure: s.isSecure(), SameSite: http.SameSiteLaxMode,
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// readCookie reads what a cookie of a request holds.
func (s *Service) readCookie(request *http.Request, purpose string, value any) bool {
	cookie, err := request.Cookie(s.cookieName(purpose))
	return err == nil && s.seal.openValue(purpose, cookie.Value, value)
}

// isOwnPage reports whether a request shows that the page of this server sent it: a browser adds cookies to requests of
// other pages too.
func (s *Service) isOwnPage(request *http.Request) bool {
	if site := request.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	return request.Header.Get("Origin") == s.url
}

// CheckSession implements middleware.SignOn.
func (s *Service) CheckSession(request *http.Request) *access.Person {
	var found session
	if s.seal == nil || !s.isOwnPage(request) || !s.readCookie(request, sessionCookie, &found) ||
		s.now().Unix() >= found.Expires {
		return nil
	}
	person := s.personOf(&identity{subject: found.Subject, groups: found.Groups})
	if len(person.Grants) == 0 { // the configuration names these groups no more
		return nil
	}
	return person
}
