package middleware

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/access/pki"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

func bearer(key string) func(*http.Request) {
	return func(request *http.Request) { request.Header.Set("Authorization", "Bearer "+key) }
}

// Promises: 140.
func TestWhoMayAskByWhatAddressAServerHas(t *testing.T) {
	local, open := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, &net.TCPAddr{IP: net.IPv4(0, 0, 0, 0)}
	for name, c := range map[string]struct {
		auth, hosts              string
		public                   bool
		listens                  net.Addr
		required, anyHost, fails bool
	}{
		"this machine":                     {"auto", "", false, local, false, false, false},
		"every machine":                    {"auto", "", false, open, true, true, false},
		"every machine, by a name":         {"auto", "docs.example", false, open, true, false, false},
		"this machine, behind a proxy":     {"auto", "docs.example", false, local, true, false, false},
		"this machine, by its own name":    {"auto", "localhost", false, local, false, false, false},
		"this machine, with keys":          {"required", "", false, local, true, false, false},
		"every machine without keys":       {"none", "", false, open, false, true, true},
		"every machine, as was said twice": {"none", "", true, open, false, true, false},
		"every machine, with keys":         {"required", "", false, open, true, true, false},
		"every machine, public":            {"auto", "", true, open, true, true, false},
		"this machine without keys":        {"none", "", false, local, false, false, false},
	} {
		settings := config.Default().QueryAPI
		settings.Auth, settings.Public = c.auth, c.public
		if c.hosts != "" {
			settings.Hosts = []string{c.hosts}
		}
		policy, err := NewPolicy(settings, c.listens, nil)
		assert.True(t, fault.Is(err, fault.BadConfig) == c.fails && (err != nil) == c.fails, "%s: %v", name, err)
		assert.True(t, policy.Required == c.required && policy.AnyHost == c.anyHost, "%s: %+v", name, policy)
	}
}

// What a proxy passes on comes from this machine and is of anybody.
func TestWhatAProxyPassesOnNeedsAKey(t *testing.T) {
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	for auth, header := range map[string]string{"auto": "X-Forwarded-For", "none": "Forwarded", "auto ": ""} {
		settings := config.Default().QueryAPI
		settings.Auth = strings.TrimSpace(auth)
		policy, err := NewPolicy(settings, local, nil)
		require.NoError(t, err)
		var refused error
		guard := New(policy, func(_ http.ResponseWriter, _ *http.Request, err error) { refused = err })
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/indexes", http.NoBody)
		if header != "" {
			request.Header.Set(header, "for=203.0.113.9")
		}
		served := false
		guard.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }),
			func(*http.Request) bool { return false }).ServeHTTP(httptest.NewRecorder(), request)
		needs := auth == "auto" // it was not said that none is needed
		assert.True(t, served != needs && fault.Is(refused, fault.Unauthorized) == needs, "%s %s: %v", auth, header, refused)
	}
}

// Where no key is required, one that cannot be looked up is no proof, and the error says why.
func TestAKeyThatCannotBeLookedUpIsNoProof(t *testing.T) {
	ring := access.NewRing(blobmemory.New(), slog.New(slog.DiscardHandler), nil) // which has not read its store
	for key, want := range map[string]fault.Code{"uw_some": fault.KeysUnknown, "": fault.Unauthorized} {
		caller := CallerOf(t.Context())
		fail := func(_ http.ResponseWriter, _ *http.Request, err error) { t.Error(err) }
		guard := New(Policy{AnyHost: true, Keys: ring}, fail)
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://docs.example/v1/indexes", http.NoBody)
		bearer(key)(request)
		guard.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			caller = CallerOf(request.Context())
		}), func(*http.Request) bool { return false }).ServeHTTP(httptest.NewRecorder(), request)
		assert.True(t, caller.MayRead("docs") && fault.CodeOf(caller.NeedProof()) == want, "%q: %v", key, caller.NeedProof())
	}
	nobody := CallerOf(t.Context())
	assert.False(t, nobody.MayRead("docs") || nobody.RequireScope(access.Query) == nil, "no guard was passed")
}

// piped is a writer of answers over a pipe.
type piped struct {
	http.ResponseWriter
	conn net.Conn
}

func (p piped) SetReadDeadline(at time.Time) error { return p.conn.SetReadDeadline(at) }

// An upload may take its time at the least rate; one that drips, or takes more than an hour, is let go.
func TestAnUploadThatDripsIsLetGo(t *testing.T) {
	for name, c := range map[string]struct {
		part, parts int // one every ten seconds
		late        bool
	}{"steady": {170 << 10, 300, false}, "dripping": {1, 2, true}, "over an hour": {170 << 10, 400, true}} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			upload := &body{ReadCloser: here, timeout: 15 * time.Second, large: true,
				control: http.NewResponseController(piped{httptest.NewRecorder(), here})}
			go func() {
				err := error(nil)
				for i := 0; i < c.parts && err == nil; i++ {
					time.Sleep(10 * time.Second)
					_, err = there.Write(make([]byte, c.part))
				}
				_ = there.Close()
			}()
			_, err := io.Copy(io.Discard, upload)
			assert.Equal(t, c.late, fault.Is(err, fault.BodyTimeout), "%s: %v", name, err)
			_ = here.Close()
			synctest.Wait()
			time.Sleep(10 * time.Second) // the sender notices
		})
	}
}

func TestMoneyOfADayIsSpentOnce(t *testing.T) {
	all := newLimits(access.Limits{MoneyPerDay: 1})
	key := &access.Key{ID: "one"}
	caller := Caller{account: all.ofKey(key)}
	caller.Spend(0, 0.6)
	require.NoError(t, caller.AdmitAnswer(t.Context(), 0, 0))
	caller.Spend(0, 0.6)
	err := (&Caller{account: all.ofKey(key)}).AdmitAnswer(t.Context(), 0, 0)
	assert.True(t, fault.Is(err, fault.BudgetSpent) && fault.RetryAfter(err) > 0, "%v", err)
	assert.NoError(t, (&Caller{account: all.ofKey(&access.Key{ID: "two"})}).AdmitAnswer(t.Context(), 0, 0), "another key pays for it")
	key.Limits.RequestsPerSecond = 5 // another limit forgets nothing
	err = (&Caller{account: all.ofKey(key)}).AdmitAnswer(t.Context(), 0, 0)
	assert.True(t, fault.Is(err, fault.BudgetSpent), "%v", err)
	key.Limits.MoneyPerDay = 2
	assert.NoError(t, (&Caller{account: all.ofKey(key)}).AdmitAnswer(t.Context(), 0, 0), "a higher limit of the key's own")
}

func TestOnlySoManyRequestsRunAtOnce(t *testing.T) {
	caller := Caller{account: newAccount(access.Limits{Concurrency: 2})}
	first := musttest.Get(caller.enterRequest(nil))(t)
	musttest.Get(caller.enterRequest(nil))(t)
	_, err := caller.enterRequest(nil)
	assert.True(t, fault.Is(err, fault.RateLimited) && fault.RetryAfter(err) > 0, "a third: %v", err)
	first()
	_, err = caller.enterRequest(nil)
	assert.NoError(t, err, "after one has ended")
}

func TestAddressesAreBoundedAndThoseOfANetworkShareAnAccount(t *testing.T) {
	all := newLimits(access.Limits{RequestsPerSecond: 1, Burst: 1})
	first := func(account *account, _ *quota) *account { return account }
	ann := first(all.ofPerson("sub:ann", nil))
	one := all.ofAddress(netip.MustParseAddr("2001:db8::1"))
	assert.True(t, all.ofAddress(netip.MustParseAddr("2001:db8::ffff:2")) == one, "one network has two accounts")
	assert.True(t, all.ofAddress(netip.MustParseAddr("2001:db8:0:1::1")) != one, "two networks have one account")
	four := all.ofAddress(netip.MustParseAddr("::ffff:192.0.2.1"))
	assert.Same(t, four, all.ofAddress(netip.MustParseAddr("192.0.2.1")))
	for i := range 3 * maxAddresses {
		all.ofAddress(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	assert.True(t, len(all.addresses.known) <= maxAddresses && all.addresses.order.Len() <= maxAddresses, "too many")
	assert.Same(t, ann, first(all.ofPerson("sub:ann", nil)), "addresses had a person forgotten")
	ann.addSpent(1)
	for i := range 2 * maxAddresses {
		all.ofPerson("sub:"+strconv.Itoa(i), nil)
	}
	assert.Same(t, ann, first(all.ofPerson("sub:ann", nil)), "what she spent today is forgotten")
	assert.Len(t, all.people.known, maxAddresses)
}

func TestACertificateThatIsAwayOrBrokenIsToldOncePerChange(t *testing.T) {
	var logged bytes.Buffer
	folder := t.TempDir()
	files := &certificate{
		cert: filepath.Join(folder, "cert"), key: filepath.Join(folder, "key"), pair: &tls.Certificate{},
		tried: [2]time.Time{time.Unix(1, 0)},
		log:   slog.New(slog.NewTextHandler(&logged, nil)),
	}
	at := time.Now().Truncate(time.Second)
	write := func() {
		at = at.Add(time.Second)
		for _, path := range []string{files.cert, files.key} {
			require.NoError(t, os.WriteFile(path, []byte("no certificate"), 0o600))
			require.NoError(t, os.Chtimes(path, at, at))
		}
	}
	remove := func() { require.NoError(t, os.Remove(files.key)) }
	for i, change := range []func(){func() {}, write, write, remove, write} {
		change()
		logged.Reset()
		for range 3 {
			files.looked = time.Time{} // a second has passed
			pair, err := files.get(nil)
			assert.True(t, pair == files.pair && pair != nil && err == nil, "change %d: %v, %v", i, pair, err)
		}
		assert.Equal(t, 1, strings.Count(logged.String(), "cannot be read"), "change %d is logged", i)
	}
}

// Who speaks no newer version than TLS 1.1 is not answered.
// Promises: 140.
func TestNothingBelowTLS12IsSpoken(t *testing.T) {
	folder := t.TempDir()
	authority := musttest.Get(pki.New("test", time.Hour))(t)
	pair := musttest.Get(authority.IssueServer([]string{"localhost"}, time.Hour))(t)
	files := []pki.File{{Name: pki.ServerFile, Content: pair.Cert}, {Name: pki.ServerKeyFile, Content: pair.Key}}
	require.NoError(t, pki.Write(folder, files, false))
	var ofFiles, ofAuthority config.QueryTLS
	ofFiles.Cert, ofFiles.Key = filepath.Join(folder, pki.ServerFile), filepath.Join(folder, pki.ServerKeyFile)
	ofAuthority.ACME.Domains, ofAuthority.ACME.Cache = []string{"docs.example.org"}, folder
	for name, settings := range map[string]config.QueryTLS{"files": ofFiles, "an authority": ofAuthority} {
		serving, err := TLS(settings, slog.New(slog.DiscardHandler))
		assert.True(t,
			err == nil && serving.MinVersion >= tls.VersionTLS12 && NewProbeTLS(settings).MinVersion >= tls.VersionTLS12,
			"certificates of %s: %+v, %v", name, serving, err)
	}
	serving := musttest.Get(TLS(ofFiles, slog.New(slog.DiscardHandler)))(t)
	for most, spoken := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		here, there := net.Pipe()
		go func() { _ = errors.Join(tls.Server(there, serving).Handshake(), there.Close()) }()
		asking := tls.Client(here, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: most, InsecureSkipVerify: true})
		err := asking.Handshake()
		assert.True(t, (err == nil) == spoken, "a program that speaks at most %s: %v", tls.VersionName(most), err)
		_ = here.Close()
	}
}
