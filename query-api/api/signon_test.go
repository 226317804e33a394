package api_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/oauth2-proxy/mockoidc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/query-api/api"
	"github.com/unweaver/unweaver/query-api/signon"
)

// provider is an identity provider; a test changes its keys, and how it answers for them.
type provider struct {
	*mockoidc.MockOIDC
	t      testing.TB
	answer atomic.Value // func(http.ResponseWriter) in place of its keys
	asked  atomic.Int64 // for its keys
	after  atomic.Int64 // nanoseconds that have passed for the server that is tested
}

func startProvider(t testing.TB) *provider {
	p := &provider{MockOIDC: must(mockoidc.NewServer(nil))(t), t: t}
	p.answer.Store((func(http.ResponseWriter))(nil))
	require.NoError(t, p.AddMiddleware(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if request.URL.Path == mockoidc.JWKSEndpoint {
				p.asked.Add(1)
				if answer := p.answer.Load().(func(http.ResponseWriter)); answer != nil {
					answer(w)
					return
				}
			}
			if request.URL.Path == mockoidc.TokenEndpoint && request.FormValue("resource") != "" {
				p.grant(w, request, next)
				return
			}
			next.ServeHTTP(w, request)
		})
	}))
	require.NoError(t, p.Start(must(net.Listen("tcp", "127.0.0.1:0"))(t), nil))
	t.Cleanup(func() { _ = p.Shutdown() })
	return p
}

// grant gives an access token for the resource that is asked for (RFC 8707), which mockoidc does not.
func (p *provider) grant(w http.ResponseWriter, request *http.Request, next http.Handler) {
	recorder := httptest.NewRecorder()
	next.ServeHTTP(recorder, request)
	var given object
	if json.Unmarshal(recorder.Body.Bytes(), &given) == nil && given["access_token"] != nil {
		given["access_token"] = p.sign(func(_, claims object) { claims["aud"] = request.FormValue("resource") })
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(recorder.Code)
	_ = json.NewEncoder(w).Encode(given)
}

const resource = "https://search.example"

// sign signs a token of Ada's for the resource; edit changes it before.
func (p *provider) sign(edit func(header, claims object)) string {
	now := p.now()
	header := object{"alg": "RS256", "kid": must(p.Keypair.KeyID())(p.t)}
	claims := object{
		"iss": p.Issuer(), "aud": []string{resource}, "sub": "ada", "iat": now.Unix(), "groups": []string{"staff"},
		"exp": now.Add(5 * time.Minute).Unix(),
	}
	if edit != nil {
		edit(header, claims)
	}
	encode := func(part any) string {
		return base64.RawURLEncoding.EncodeToString(must(json.Marshal(part))(p.t))
	}
	text := encode(header) + "." + encode(claims)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	switch header["alg"] {
	case "HS256": // with the public key, which everybody knows
		mac := hmac.New(sha256.New, must(p.Keypair.JWKS())(p.t))
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	case "RS256":
		signature = must(rsa.SignPKCS1v15(rand.Reader, p.Keypair.PrivateKey, crypto.SHA256, sum[:]))(p.t)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func (p *provider) now() time.Time { return time.Now().Add(time.Duration(p.after.Load())) }

// settings are those of a server at an address.
func (p *provider) settings(address string) config.QueryOIDC {
	out := config.Default().QueryAPI.OIDC
	out.Issuer, out.Audience, out.URL = p.Issuer(), resource, address
	out.Groups = []config.OIDCGroup{
		{Group: "staff", Indexes: []string{"sam*"}, Scopes: []string{"query"}},
		{Group: "others", Indexes: []string{"other-*"}, Scopes: []string{"query", "operate"}},
		{Group: "operators", Indexes: []string{"*"}, Scopes: []string{"operate"}},
	}
	return out
}

// signOn returns a server that takes keys, and tokens of the provider.
func signOn(t testing.TB, p *provider, settings config.QueryOIDC, log io.Writer) *locked {
	return lock(t, func(_ *fixture, c *api.Config) {
		c.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Policy.SignOn = must(signon.New(settings, c.Log, p.now))(t)
	})
}

func claim(name string, value any) func(_, claims object) {
	return func(_, claims object) { claims[name] = value }
}

func inHeader(name string, value any) func(header, _ object) {
	return func(header, _ object) { header[name] = value }
}

// Promises: 160.
func TestATokenThatProvesNothingLetsNobodyIn(t *testing.T) {
	p := startProvider(t)
	var log bytes.Buffer
	l := signOn(t, p, p.settings(""), &log)
	another := must(mockoidc.RandomKeypair(2048))(t)
	forge := func(edit func(header, claims object)) string {
		own := p.Keypair
		defer func() { p.Keypair = own }()
		p.Keypair = another
		return p.sign(edit)
	}
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
	many := make([]string, 5000)
	for name, c := range map[string]struct {
		token  string
		status int
		says   string
	}{
		"another audience":      {p.sign(claim("aud", "https://other.example")), 401, "another audience"},
		"no audience":           {p.sign(claim("aud", nil)), 401, "another audience"},
		"a longer audience":     {p.sign(claim("aud", resource+".evil.example")), 401, "another audience"},
		"another issuer":        {p.sign(claim("iss", "https://evil.example")), 401, "another issuer"},
		"alg none":              {p.sign(inHeader("alg", "none")), 401, "algorithm"},
		"HS256, the public key": {p.sign(inHeader("alg", "HS256")), 401, "algorithm"},
		"another algorithm":     {p.sign(inHeader("alg", "PS512")), 401, "algorithm"},
		"expired":               {p.sign(claim("exp", ago(time.Minute))), 401, "expired"},
		"never expires":         {p.sign(func(_, claims object) { delete(claims, "exp") }), 401, "until when"},
		"an expiry of no time":  {p.sign(claim("exp", "never")), 401, "malformed"},
		"in the future":         {p.sign(claim("nbf", ago(-time.Hour))), 401, "not valid yet"},
		"an unknown key":        {p.sign(inHeader("kid", "another")), 401, "no key"},
		"forged":                {forge(inHeader("kid", must(p.Keypair.KeyID())(t))), 401, "no key"},
		"with its own key": {forge(func(header, _ object) {
			var set struct{ Keys []any }
			_ = json.Unmarshal(must(another.JWKS())(t), &set)
			header["jwk"] = set.Keys[0]
		}), 401, "no key"},
		"a key at an address":      {forge(inHeader("jku", "http://127.0.0.1:1/")), 401, "no key"},
		"no subject":               {p.sign(claim("sub", "")), 401, "no subject"},
		"100 KB":                   {p.sign(claim("sub", strings.Repeat("a", 75<<10))), 401, "longer than"},
		"garbage with dots":        {"a.b.c", 401, "no signed"},
		"dots":                     {"..", 401, "no signed"},
		"many dots":                {strings.Repeat(".", 1000), 401, "no signed"},
		"JSON":                     {`{"payload":".","signatures":"."}`, 401, "no signed"},
		"5,000 groups":             {p.sign(claim("groups", many)), 403, "5000 groups"},
		"a group like a pattern":   {p.sign(claim("groups", []string{"*", "sta*", "staff*"})), 403, "no group"},
		"a group in other letters": {p.sign(claim("groups", "Staff")), 403, "no group"},
		"no groups":                {p.sign(claim("groups", nil)), 403, "no group"},
		"groups that are none":     {p.sign(claim("groups", []any{1, "staff"})), 403, "no texts"},
		"groups left out": {p.sign(func(_, claims object) {
			claims["groups"], claims["_claim_names"] = nil, object{"groups": "src1"}
			claims["_claim_sources"] = object{"src1": object{"endpoint": "https://graph.example"}}
		}), 403, "left the groups out"},
	} {
		got := l.send("GET", "/v1/indexes", "", bearer(c.token)...)
		assert.True(t, got.Code == c.status && strings.Contains(got.Body.String(), c.says) &&
			got.Header().Get("Content-Type") == "application/problem+json", "%s: %d %s", name, got.Code, got.Body)
		for _, part := range strings.Split(c.token, ".") {
			assert.False(t, len(part) > 8 && strings.Contains(got.Body.String()+log.String(), part), "%s is repeated", name)
		}
		assert.True(t, c.status != 401 || strings.Contains(got.Header().Get("WWW-Authenticate"),
			`error="invalid_token", resource_metadata="`), "%s: %v", name, got.Header())
	}
	for name, text := range map[string]string{
		"a token": p.sign(nil), "a moment late": p.sign(claim("exp", ago(10*time.Second))),
		"one group as a text": p.sign(claim("groups", "staff")),
		"among audiences":     p.sign(claim("aud", []string{"x", resource})),
		"with a slash":        p.sign(claim("aud", resource+"/")), "of MCP": p.sign(claim("aud", resource+"/mcp")),
		"a key": l.key(access.Request{Scope: access.Query}).Text, "two lines": p.sign(claim("sub", "a\nkey=b")),
	} {
		got := l.query(question, bearer(text)...)
		assert.True(t, got.Code == 200, "%s: %d %s", name, got.Code, got.Body)
	}
	l.send("GET", signon.MetadataPath, "")
	assert.Contains(t, log.String(), `"route":"`+signon.MetadataPath+`","status":200`)
	assert.True(t, strings.Contains(log.String(), `"key":"sub:ada"`) && strings.Contains(log.String(), `"sub:a_key=b~`) &&
		!strings.Contains(log.String(), `a\nkey`), "the log names people otherwise: %s", &log)
}

// Promises: 160.
func TestKeysOfAnIssuerThatRotateOrAreAway(t *testing.T) {
	p := startProvider(t)
	l := signOn(t, p, p.settings(""), io.Discard)
	ask := func(token string, want int, what string) {
		t.Helper()
		got := l.send("GET", "/v1/indexes", "", bearer(token)...)
		assert.True(t, got.Code == want && (want != 503 || strings.Contains(got.Body.String(), "keys_unavailable") &&
			got.Header().Get("Retry-After") != ""), "%s: %d %s", what, got.Code, got.Body)
	}
	pass := func(d time.Duration) { p.after.Add(int64(d)) }
	down := func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }
	for name, answer := range map[string]func(http.ResponseWriter){
		"away": down, "garbage": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") },
		"no keys": func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"keys":[]}`) },
		"10 MB": func(w http.ResponseWriter) {
			_, _ = fmt.Fprintf(w, `{"x":"%s",%s`, strings.Repeat("x", 10<<20), must(p.Keypair.JWKS())(t)[1:])
		},
		"elsewhere": func(w http.ResponseWriter) { w.Header().Set("Location", "/oidc"); w.WriteHeader(302) },
	} {
		p.answer.Store(answer)
		pass(signon.AskEvery)
		ask(p.sign(nil), 503, name)
	}
	p.answer.Store((func(http.ResponseWriter))(nil))
	ask(p.sign(nil), 503, "less than five seconds later")
	pass(signon.AskEvery)
	ask(p.sign(nil), 200, "back again")
	before := p.asked.Load()
	pass(signon.AskEvery)
	for range 50 {
		ask(p.sign(inHeader("kid", rand.Text())), 401, "an unknown key")
	}
	assert.Equal(t, before+1, p.asked.Load(), "tokens of unknown keys make the server ask")
	old := p.sign(claim("exp", p.now().Add(24*time.Hour).Unix()))
	p.Keypair = must(mockoidc.RandomKeypair(2048))(t)
	ask(old, 200, "a key that was withdrawn just now")
	pass(signon.RefreshAfter)
	ask(old, 401, "a key that was withdrawn ten minutes ago")
	p.Keypair = must(mockoidc.RandomKeypair(2048))(t)
	pass(signon.AskEvery)
	ask(p.sign(nil), 200, "a new key")
	p.answer.Store(down)
	pass(signon.AskEvery)
	ask(p.sign(inHeader("kid", "newer")), 503, "an unknown key while the issuer is away")
	pass(signon.StaleAfter - 5*signon.AskEvery)
	ask(p.sign(nil), 200, "a known key while the issuer is away")
	pass(6 * signon.AskEvery)
	ask(p.sign(nil), 503, "after an hour")
}

// signInPage returns the address of a server on loopback at which people sign in, and a browser.
func signInPage(t *testing.T, p *provider, edit func(*config.QueryOIDC)) (string, *http.Client) {
	server := httptest.NewUnstartedServer(nil)
	address := "http://" + server.Listener.Addr().String()
	settings := p.settings(address)
	settings.ClientID, settings.ClientScopes = p.ClientID, []string{"openid", "groups"}
	if edit != nil {
		edit(&settings)
	}
	service := must(signon.New(settings, slog.New(slog.DiscardHandler), p.now))(t)
	l := lock(t, func(_ *fixture, c *api.Config) { c.Policy.SignOn = service })
	server.Config.Handler = l.server.Handler()
	server.Start()
	t.Cleanup(server.Close)
	return address, &http.Client{Jar: must(cookiejar.New(nil))(t)}
}

// visit sends a request with headers, given as name and value in turn.
func visit(t *testing.T, client *http.Client, method, address string, headers ...string) (*http.Response, string) {
	var body io.Reader
	if strings.HasSuffix(address, "/query") {
		body = strings.NewReader(question)
	}
	request := must(http.NewRequestWithContext(t.Context(), method, address, body))(t)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response := must(client.Do(request))(t)
	text := must(io.ReadAll(response.Body))(t)
	_ = response.Body.Close()
	return response, string(text)
}

// Promises: 160.
func TestPeopleSignInAtThePage(t *testing.T) {
	p := startProvider(t)
	secret := t.TempDir() + "/secret"
	require.NoError(t, os.WriteFile(secret, []byte(p.ClientSecret), 0o600))
	address, browser := signInPage(t, p, func(settings *config.QueryOIDC) { settings.ClientSecretFile = secret })
	own := []string{"Sec-Fetch-Site", "same-origin"}
	expect := func(what string, want int, method, path string, headers ...string) {
		t.Helper()
		got, body := visit(t, browser, method, address+path, headers...)
		assert.True(t, got.StatusCode == want, "%s: %d %.200s", what, got.StatusCode, body)
	}
	expect("no session", 401, "GET", "/v1/indexes", own...)
	p.QueueUser(&mockoidc.MockUser{Subject: "ada", Groups: []string{"staff", "guests"}})
	got, _ := visit(t, browser, "GET", address+signon.LoginPath+"?return=https://evil.example&redirect_uri=//evil.example")
	require.True(t, got.StatusCode == 200 && got.Request.URL.String() == address+"/", "%d %s", got.StatusCode,
		got.Request.URL)
	root := must(url.Parse(address))(t)
	cookies := browser.Jar.Cookies(root)
	require.Len(t, cookies, 1, "the session alone")
	expect("the page reads", 200, "GET", "/v1/indexes", own...)
	expect("the page asks", 200, "POST", sampleQuery, own...)
	expect("the page asks, older browser", 200, "POST", sampleQuery, "Origin", address)
	expect("more than the groups allow", 403, "GET", "/v1/indexes/sample/runs", own...)
	for name, headers := range map[string][]string{
		"another site": {"Sec-Fetch-Site", "cross-site"}, "a neighbour": {"Sec-Fetch-Site", "same-site"},
		"an origin": {"Origin", "https://evil.example"}, "no evidence": {}, "by hand": {"Sec-Fetch-Site", "none"},
	} {
		for route, method := range map[string]string{"/v1/indexes": "GET", sampleQuery: "POST"} {
			got, _ := visit(t, browser, method, address+route, headers...)
			assert.True(t, got.StatusCode == 401 || got.StatusCode == 403, "%s, %s: %d", name, method, got.StatusCode)
		}
	}
	expect("signed out by another site", 403, "POST", signon.LogoutPath, "Sec-Fetch-Site", "cross-site")
	expect("signed out by a link", 405, "GET", signon.LogoutPath, own...)
	for i := range 3 { // what is changed does not open
		forged := []byte(cookies[0].Value)
		at := []int{0, len(forged) / 2, len(forged) - 2}[i]
		forged[at] ^= 1
		expect("forged", 401, "GET", "/v1/indexes", append(own, "Cookie", cookies[0].Name+"="+string(forged))...)
	}
	p.after.Store(int64(20 * time.Minute))
	expect("after the token's time", 401, "GET", "/v1/indexes", own...)
	p.after.Store(0)
	expect("signed out", 204, "POST", signon.LogoutPath, own...)
	expect("after that", 401, "GET", "/v1/indexes", own...)
	expect("an answer to no sign-in", 401, "GET", signon.CallbackPath+"?code=x&state=y")
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	begun, _ := visit(t, browser, "GET", address+signon.LoginPath)
	asked := must(begun.Location())(t).Query()
	assert.True(t, begun.StatusCode == 302 && asked.Get("code_challenge_method") == "S256" && asked.Get("nonce") != "" &&
		asked.Get("redirect_uri") == address+signon.CallbackPath, "%v", asked)
	expect("another's answer", 401, "GET", signon.CallbackPath+"?code=x&state=another")
	kept := browser.Jar.Cookies(root)[0]
	p.QueueUser(&mockoidc.MockUser{Subject: "eve", Groups: []string{"guests"}})
	back, _ := visit(t, browser, "GET", begun.Header.Get("Location"))
	answer := strings.TrimPrefix(back.Header.Get("Location"), address)
	expect("nobody's group", 403, "GET", answer)
	_, says := visit(t, browser, "GET", address+answer, "Cookie", kept.Name+"="+kept.Value)
	assert.Contains(t, says, "used before")
	begun, _ = visit(t, browser, "GET", address+signon.LoginPath)
	state := must(begun.Location())(t).Query().Get("state")
	for _, c := range [][2]string{{"state=y", "another sign-in"}, {"error=<b>no&state=" + state, "&lt;b&gt;no"}} {
		got, says := visit(t, browser, "GET", address+signon.CallbackPath+"?"+c[0], "Accept", "text/html,*/*;q=0.8")
		assert.True(t, got.StatusCode == 401 && strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") &&
			strings.Contains(says, c[1]) && strings.Contains(says, `<a href="login">`) && !strings.Contains(says, "<b>") &&
			strings.Contains(got.Header.Get("Content-Security-Policy"), "script-src 'self'"), "%v %s", got.Header, says)
	}
}

// Promises: 160.
func TestAnAgentSignsOnByTheMetadataOfTheResource(t *testing.T) {
	p := startProvider(t)
	address, browser := signInPage(t, p, nil)
	for path, names := range map[string]string{
		signon.MetadataPath: address, signon.MetadataPath + "/mcp": address + "/mcp",
	} {
		got, body := visit(t, browser, "GET", address+path, "Origin", "https://agent.example")
		assert.True(t, got.StatusCode == 200 && strings.Contains(body, `"resource":"`+names+`"`) &&
			strings.Contains(body, `"authorization_servers":["`+p.Issuer()+`"]`), "%d %s", got.StatusCode, body)
	}
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	handler := must(auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		PreregisteredClient: &oauthex.ClientCredentials{
			ClientID: p.ClientID, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: p.ClientSecret},
		},
		RedirectURL: "http://127.0.0.1:1/back",
		AuthorizationCodeFetcher: func(_ context.Context, asked *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			got, _ := visit(t, browser, "GET", asked.URL)
			back := must(got.Location())(t).Query()
			return &auth.AuthorizationResult{Code: back.Get("code"), State: back.Get("state")}, nil
		},
	}))(t)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session := must(client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: address + "/mcp", OAuthHandler: handler, MaxRetries: -1,
	}, nil))(t)
	t.Cleanup(func() { _ = session.Close() })
	text, _, failed := call(t, session, "list_indexes", nil)
	assert.True(t, !failed && strings.Contains(text, "sample"), "%s", text)
}

// BenchmarkSignOn compares a small request with a key and with a token.
func BenchmarkSignOn(b *testing.B) {
	p := startProvider(b)
	l := signOn(b, p, p.settings(""), io.Discard)
	key := l.key(access.Request{Scope: access.Query})
	for name, text := range map[string]string{"key": key.Text, "token": p.sign(nil)} {
		b.Run(name, func(b *testing.B) {
			handler := l.server.Handler()
			for b.Loop() {
				request := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/v1/indexes", http.NoBody)
				request.Header.Set("Authorization", "Bearer "+text)
				recorder := httptest.NewRecorder()
				handler.ServeHTTP(recorder, request)
				require.Equal(b, 200, recorder.Code)
			}
		})
	}
}
