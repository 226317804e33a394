package cli_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control/httpapi"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/starter/cli"
)

// keeping serves keys as the embedded stack does.
func keeping(t *testing.T, allowed httpapi.Access) cli.Connector {
	server := httptest.NewServer(httpapi.Handler(&fakeControl{}, allowed))
	t.Cleanup(server.Close)
	return func(context.Context, *config.Config) (cli.Connection, error) {
		client := &httpapi.Client{Base: server.URL, Token: token}
		return cli.Connection{Control: client, HTTP: server.URL, Keys: client}, nil
	}
}

func TestKeysAreMadeListedReplacedAndEnded(t *testing.T) {
	t.Chdir(t.TempDir())
	book := access.Book{Store: blobmemory.New()}
	connect := keeping(t, httpapi.Access{Token: token, Keys: book})
	made := in(t, connect, nil, "keys", "create", "--name", "page", "--index", "docs-*", "--rate", "5", "--json")
	key := decoded(t, made.out)
	text, _ := key["text"].(string)
	about, _ := key["key"].(map[string]any)
	id, _ := about["id"].(string)
	if made.exit != cli.ExitDone || !access.WellFormed(text) || about["scope"] != "query" || about["index"] != "docs-*" {
		t.Fatalf("%+v", made)
	}
	rotated := in(t, connect, nil, "keys", "rotate", id, "--overlap", "1h")
	if rotated.exit != cli.ExitDone || !strings.Contains(rotated.out, "uwk_") || strings.Contains(rotated.out, text) {
		t.Errorf("%+v", rotated)
	}
	assert.Equal(t, cli.ExitDone, in(t, connect, nil, "keys", "revoke", id).exit)
	list := in(t, connect, nil, "keys", "list")
	if !strings.Contains(list.out, "revoked") || !strings.Contains(list.out, "valid") || strings.Contains(list.out, "uwk_") {
		t.Errorf("%s", list.out)
	}
	assert.Equal(t, cli.ExitUsage, in(t, connect, nil, "keys", "create", "--scope", "root").exit, "an unknown scope")
	bad := in(t, connect, nil, "keys", "create", "--rate", "NaN")
	assert.True(t, bad.exit == cli.ExitUsage && strings.Contains(bad.err, "--rate requires a number"), "no number: %+v", bad)
}

func TestOnlyAnAdminsKeyMakesKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	for scope, want := range map[access.Scope]int{
		access.Query: cli.ExitFailed, access.Operate: cli.ExitFailed, access.Admin: cli.ExitDone,
	} {
		key := &access.Key{Scope: scope, Index: "*"}
		connect := keeping(t, httpapi.Access{
			Token: "another", Keys: access.Book{Store: blobmemory.New()},
			Check: func(context.Context, string) (*access.Key, error) { return key, nil },
		})
		assert.Equal(t, want, in(t, connect, nil, "keys", "list").exit, "%s", scope)
		steers := in(t, connect, nil, "pause", "docs")
		assert.Equal(t, scope.Includes(access.Operate), steers.exit == cli.ExitDone, "%s steers: %+v", scope, steers)
	}
}

func TestAQuestionIsAskedWithTheKeyOfTheVariable(t *testing.T) {
	t.Chdir(t.TempDir())
	sent := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		sent = request.Header.Get("Authorization")
		_, _ = w.Write([]byte(answered))
	}))
	defer server.Close()
	connect := withConnection(&fakeControl{}, server.URL)
	env := []string{"UNWEAVER_API_KEY=uwk_a", "OTHER=uwk_b"}
	for want, more := range map[string][]string{"Bearer uwk_a": nil, "Bearer uwk_b": {"--api-key-env", "OTHER"}} {
		got := in(t, connect, env, append([]string{"query", "who?", "--index", "docs"}, more...)...)
		assert.True(t, got.exit == cli.ExitDone && sent == want, "%v: %q %+v", more, sent, got)
	}
}
