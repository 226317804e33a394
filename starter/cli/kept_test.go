package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/starter/cli"
)

func kept(t *testing.T, served *mapped, args ...string) result {
	t.Helper()
	server := httptest.NewServer(served)
	defer server.Close()
	return in(t, connected(&fakeControl{}, server.URL), nil, append([]string{"answers"}, args...)...)
}

func TestKeptAnswersAreListed(t *testing.T) {
	served := &mapped{body: `{"namespaces":[{"namespace":"shared:team","shared":true,"bytes":2048,` +
		`"written":"2026-11-22T02:00:05Z"}]}`}
	got := kept(t, served, "list", "--index", "docs")
	line := strings.Join(strings.Fields(got.out), " ")
	if got.exit != cli.ExitDone || line != "shared:team 2.0 kB 2026-11-22T02:00:05Z" ||
		served.asked[0] != "GET /v1/indexes/docs/answers" {
		t.Errorf("%+v %v", got, served.asked)
	}
	if got = kept(t, served, "list", "--index", "docs", "--json"); got.out != served.body+"\n" {
		t.Errorf("%+v", got)
	}
	served.body = `{"namespace":"one","answers":[{"at":"2026-11-22T02:00:05Z","generation":"g7","question":"Who?",` +
		`"triples":[{"head":"Oslo","relation":"is in","tail":"Norway","support":2}],"documents":["a.txt","b.txt"]}]}`
	got = kept(t, served, "list", "shared:team", "--index", "docs")
	for _, want := range []string{
		"2026-11-22T02:00:05Z  g7  Who?", "Oslo | is in | Norway  (2 edges support it)", "rests on a.txt, b.txt",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("no %q in %s", want, got.out)
		}
	}
	if served.asked[2] != "GET /v1/indexes/docs/answers/shared:team" {
		t.Error(served.asked)
	}
	for _, none := range []string{`{"namespaces":[]}`, `{"namespace":"one","answers":[]}`} {
		served.body = none
		if got = kept(t, served, "list", "--index", "docs"); got.out != "none are kept\n" {
			t.Errorf("%+v", got)
		}
	}
	served.status, served.body = 404, `{"code":"index_unknown","title":"Unknown index","detail":"no index docs"}`
	got = kept(t, served, "list", "--index", "docs")
	if got.exit == cli.ExitDone || !strings.Contains(got.err, "no index docs") {
		t.Errorf("%+v", got)
	}
}

func TestKeptAnswersAreForgottenByNameOrAllWhereThatIsSaid(t *testing.T) {
	served := &mapped{body: `{"namespaces":1}`}
	got := kept(t, served, "clear", "one", "--index", "docs")
	if got.exit != cli.ExitDone || got.out != "forgotten: the answers of 1 namespace of docs\n" ||
		served.asked[0] != "DELETE /v1/indexes/docs/answers/one" {
		t.Errorf("%+v %v", got, served.asked)
	}
	got = kept(t, served, "clear", "--all", "--index", "docs", "--json")
	if as := decoded(t, got.out); as["namespaces"] != 1.0 || served.asked[1] != "DELETE /v1/indexes/docs/answers" {
		t.Errorf("%+v %v", got, served.asked)
	}
	gone := &mapped{status: http.StatusNotFound, body: `{"code":"not_found","detail":"find namespace: there is none"}`}
	if got := kept(t, gone, "clear", "one", "--index", "docs"); got.exit != cli.ExitDone || !strings.Contains(got.out, "0 ") {
		t.Errorf("one that is forgotten already: %+v", got)
	}
	for _, args := range [][]string{{"clear"}, {"clear", "one", "--all"}, {"clear", "one", "two"}} {
		if got := kept(t, served, append(args, "--index", "docs")...); got.exit == cli.ExitDone || len(served.asked) != 2 {
			t.Errorf("%v: %+v, asked %v", args, got, served.asked)
		}
	}
}
