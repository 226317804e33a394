package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/access"
	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/query-api/api"
)

const sampleIndex = "/v1/indexes/sample"

// asOwner returns the headers of the owner.
func asOwner(more ...string) []string { return append(bearer(ownerToken), more...) }

func TestAnIndexIsBuiltSteeredAndServedOverHTTP(t *testing.T) {
	o := operate(t, nil)
	letter := strings.Repeat("a", 32)
	for i, c := range []struct {
		method, path string
		body         any
		status       int
		code, asked  string // empty code: all is well; empty asked: control is not asked
	}{
		{"POST", "/estimate", nil, 200, "", "estimate sample"},
		{"POST", "/runs", object{"generation": "g3"}, 202, "", "build sample " + o.corpus + " "},
		{"GET", "/runs/g3", nil, 200, "", ""}, // at once
		{"POST", "/runs", nil, 202, "", "build sample " + o.corpus + " "},
		{"POST", "/runs", object{"rebuild": true}, 409, "lease_held", "build sample " + o.corpus + " "},
		{"POST", "/runs", object{"generation": "g4"}, 409, "lease_held", "build sample " + o.corpus + " "},
		{"POST", "/runs/g3/pause", nil, 200, "", "pause sample/g3"},
		{"POST", "/runs/sample/g3/pause", nil, 409, "usage", "pause sample/g3"},
		{"POST", "/runs/g3/resume", object{"budget": object{"money": 5}}, 200, "", "resume sample/g3"},
		{"POST", "/runs/g3/resume", object{"budget": object{"money": -5}}, 422, "invalid_parameter", ""},
		{"POST", "/runs/g3/cancel", nil, 200, "", "cancel sample/g3"},
		{"POST", "/runs/g3/cancel", nil, 409, "run_ended", "cancel sample/g3"},
		{"POST", "/runs/none/cancel", nil, 404, "unknown_run", "cancel sample/none"},
		{"GET", "/schedule", nil, 404, "not_found", ""},
		{"PUT", "/schedule", nil, 422, "invalid_parameter", ""}, // no cron anywhere
		{"PUT", "/schedule", object{"cron": "61 * * * *"}, 422, "invalid_parameter", ""},
		{"PUT", "/schedule", object{"cron": "0 2 * * *", "timezone": "Europe/Oslo"}, 200, "",
			"schedule sample 0 2 * * * Europe/Oslo"},
		{"DELETE", "/schedule", nil, 204, "", "schedule-delete sample"},
		{"PUT", "/schedule", object{"cron": "@daily", "paused": true}, 200, "", "schedule sample @daily UTC"},
		{"GET", "/schedule", nil, 200, "", ""},
		{"PUT", "/schedule", object{"cron": "@daily", "paused": false}, 200, "", "schedule sample @daily UTC"},
		{"PUT", "/schedule", object{"paused": true, "note": "move"}, 200, "", "schedule-pause sample move"},
		{"PUT", "/schedule", object{"cron": "@daily", "paused": false}, 200, "", "schedule sample @daily UTC"},
		{"GET", "/schedule", nil, 200, "", ""},
		{"POST", "/schedule/trigger", nil, 202, "", "schedule-trigger sample"},
		{"DELETE", "/schedule", nil, 204, "", "schedule-delete sample"},
		{"POST", "/generations/g2/publish", object{"reason": "checked"}, 200, "", "publish sample g2 "},
		{"POST", "/generations/g1/publish", nil, 200, "", "rollback sample g1 "},
		{"POST", "/generations/g1/discard", nil, 409, "usage", "discard sample g1 "},
		{"PUT", "/generations/g1/tags/before-move", nil, 200, "", "tag sample g1 before-move"},
		{"DELETE", "/generations/g1/tags/Before", nil, 422, "invalid_parameter", ""},
		{"DELETE", "/generations/g1/tags/before-move", nil, 200, "", "untag sample g1 before-move"},
		{"GET", "/dead-letters", nil, 200, "", "dead-letters sample"},
		{"POST", "/dead-letters/retry", nil, 204, "", "retry sample"},
		{"POST", "/dead-letters/retry", object{"chunks": []string{letter}}, 202, "", "retry sample " + letter},
		{"POST", "/dead-letters/retry", object{"chunks": []string{"x"}}, 422, "invalid_parameter", ""},
		{"POST", "/dead-letters/discard", object{"chunks": []string{letter}, "why": "numbers"}, 204, "",
			"discard sample [" + letter + "] numbers"},
		{"POST", "/dead-letters/discard", object{"chunks": []string{"x"}}, 422, "invalid_parameter", ""},
		{"POST", "/dead-letters/discard", nil, 422, "invalid_parameter", ""},
		{"POST", "/branches/sample-large/promote", nil, 200, "", "promote sample-large  sample"},
		{"POST", "/branches/other-large/promote", nil, 404, "not_found", ""},
		{"POST", "/watched", object{"questions": []object{{"question": "Who?", "labels": []string{"hr"}, "notify": "legal"}}},
			200, "", "watch sample  Who? hr legal"},
		{"POST", "/watched", object{"questions": []object{}}, 422, "invalid_parameter", ""},
		{"GET", "/watched", nil, 200, "", ""},
		{"DELETE", "/watched/" + letter, nil, 204, "", "watch sample " + letter},
		{"DELETE", "/watched/null,null", nil, 422, "invalid_parameter", ""},
	} {
		o.control.Asked = nil
		status, out, header := o.do(c.method, sampleIndex+c.path, c.body)
		at := fmt.Sprintf("%d: %s %s %v: %d %v, asked %q", i, c.method, c.path, c.body, status, out, o.control.Asked)
		assert.True(t, status == c.status && (status < 300 || out["code"] == c.code), at)
		assert.True(t, c.asked == "" && len(o.control.Asked) == 0 || slices.Contains(o.control.Asked, c.asked), at)
		assert.True(t, c.body == nil || !strings.Contains(at, "cron:@daily paused:true") || out["paused"] == true, at)
		assert.True(t, c.code != "lease_held" || out["run"] == "sample/g3", at)
		assert.True(t, status != 202 || out["generation"] == nil ||
			header.Get("Location") == sampleIndex+"/runs/"+fmt.Sprint(out["generation"]), "%s, %v", at, header)
		assert.True(t, c.body == nil || status != 200 || out["index"] != "sample" || o.control.By.Via == "token", at)
	}
	got := o.send("POST", sampleIndex+"/runs", "", asOwner("Idempotency-Key", "deploy-1")...)
	assert.True(t, got.Code == 202 && strings.HasSuffix(o.control.Asked[len(o.control.Asked)-1], " token deploy-1"), "%s", got.Body)
	got = o.send("POST", sampleIndex+"/runs", "", asOwner("Idempotency-Key", "two words")...)
	assert.Equal(t, 422, got.Code, "%s", got.Body)
}

func TestNoBodyOfControlIsReadOtherwiseThanItIsMeant(t *testing.T) {
	o := operate(t, nil)
	tried := 0
	for path, operations := range describe(t).Paths {
		for method, described := range operations {
			if described.Tags[0] != "control" || described.RequestBody == nil {
				continue
			}
			tried++
			address := strings.NewReplacer("{index}", "sample", "{run}", "g1", "{generation}", "g1").Replace(path)
			for body, status := range map[string]int{"null": 422, `{"nothing":1}`: 422, "[]": 422, "{": 400, "{}{}": 400} {
				o.refuse(status, "", strings.ToUpper(method), address, body)
			}
		}
	}
	assert.True(t, tried >= 6 && len(o.control.Asked) == 0, "%d tried, asked %v", tried, o.control.Asked)
}

// Reading needs no key on loopback; what spends money or writes files does. The log says who did what, and no more.
// Promises: 143.
func TestControlNeedsAKeyOfItsScopeAndIndex(t *testing.T) {
	var logged bytes.Buffer
	var book *locked
	o := operate(t, func(f *fixture, config *api.Config) {
		f.token = ""
		config.Log = slog.New(slog.NewJSONHandler(&logged, nil))
		book = &locked{book: access.Book{Store: f.stores.Blobs}, ring: access.NewRing(f.stores.Blobs, config.Log, nil)}
		config.Policy.Keys = book.ring
	})
	book.fixture = o.fixture
	query, operator := book.key(access.Request{Scope: access.Query}), book.key(access.Request{Scope: access.Operate})
	other := book.key(access.Request{Scope: access.Operate, Index: "other"})
	sole := book.key(access.Request{Scope: access.Operate, Index: "sample"})
	branch := book.key(access.Request{Scope: access.Operate, Index: "sample-large"})
	require.NoError(t, artifact.Index{Store: o.stores.Blobs, Name: "sample-large"}.PutBase(t.Context(), "sample"))
	record := core.Branch{Name: "sample-large", Base: "sample", State: core.BranchOpen}
	must(blob.WriteJSON(t.Context(), o.stores.Blobs, "sample/branches/sample-large.json", record, blob.Cond{}))(t)
	current, _, err := blob.Read(t.Context(), o.stores.Blobs, "sample/current.json")
	require.NoError(t, err)
	must(blob.Write(t.Context(), o.stores.Blobs, "sample-large/current.json", current, blob.Cond{}))(t)
	o.desk.Artifacts = artifact.NewBranched(o.stores.Blobs)
	for name, c := range map[string]struct {
		status  int
		says    string
		headers []string
	}{
		"no key":                 {401, "Authorization: Bearer KEY", nil},
		"a text":                 {401, "Authorization: Bearer KEY", bearer("sk-something")},
		"a key to query":         {403, "use a key with the scope operate", bearer(query.Text)},
		"a key of another index": {404, "unknown_index", bearer(other.Text)},
		"a key of its branch":    {404, "unknown_index", bearer(branch.Text)},
		"its key":                {200, "sha256", bearer(operator.Text)},
		"the owner":              {200, "sha256", asOwner()},
	} {
		logged.Reset()
		got := o.send("PUT", sampleIndex+"/documents/a/secret.txt", "a secret text", c.headers...)
		first := got.Code == 201 && c.status == 200
		assert.True(t, (got.Code == c.status || first) && strings.Contains(got.Body.String(), c.says),
			"%s: %d %s", name, got.Code, got.Body)
		assert.True(t, (got.Code == 401) == (got.Header().Get("WWW-Authenticate") != ""), "%s: %v", name, got.Header())
		assert.False(t, strings.Contains(logged.String(), "secret"), "%s: %s", name, logged.String())
		assert.True(t, name != "its key" || strings.Contains(logged.String(), `"operation":"putDocument","index":"sample","key":"`+
			operator.Key.ID+`"`), "%s", logged.String())
	}
	assert.Equal(t, 200, o.send("GET", sampleIndex+"/documents", "").Code, "reading")
	for i, headers := range [][]string{bearer(operator.Text), asOwner()} { // the owner may read every document
		for _, path := range []string{"/generations/g1/publish", "/branches/sample-large/promote"} {
			require.Equal(t, 200, o.send("POST", sampleIndex+path, "", headers...).Code)
			assert.Equal(t, i == 0, o.control.Inputs[len(o.control.Inputs)-1].(control.MoveRequest).KeepLabels, path)
		}
	}
	for i, headers := range [][]string{bearer(operator.Text), asOwner()} { // the key has no label
		o.send("GET", sampleIndex+"/watched", "", headers...)
		assert.Equal(t, core.Readers{All: i == 1}, o.control.Inputs[len(o.control.Inputs)-1].(control.WatchRequest).Readers)
	}
	o.control.Asked = nil
	before := list(t, o.corpus)
	file := filepath.Join(t.TempDir(), "unweaver.yaml")
	require.NoError(t, os.WriteFile(file, []byte("indexes: {sample: {corpus: "+o.corpus+"}}"), 0o600))
	named := must(config.Load(config.Source{Path: file}))(t) // a branch begins with what the file says of its base
	for i, with := range []*config.Config{o.desk.Config, named, named} {
		if o.desk.Config = with; i == 2 { // the base serves what was promoted, with this corpus
			record.Set = map[string]string{"corpus": o.corpus}
			must(blob.WriteJSON(t.Context(), o.stores.Blobs, "sample/branches/sample-large.json", record, blob.Cond{}))(t)
		}
		got := o.send("PUT", "/v1/indexes/sample-large/documents/old.txt", "a branch", bearer(branch.Text)...)
		assert.True(t, got.Code == 403 && strings.Contains(got.Body.String(), "use a key that has the base too"), "%s", got.Body)
		got = o.send("DELETE", "/v1/indexes/sample-large/documents/old.txt", "", bearer(branch.Text)...)
		assert.Equal(t, 403, got.Code, "%s", got.Body)
		assert.Equal(t, before, list(t, o.corpus))
	}
	got := o.send("POST", sampleIndex+"/branches/sample-large/promote", "", bearer(sole.Text)...)
	assert.True(t, got.Code == 404 && len(o.control.Asked) == 0, "a key of the base alone: %s", got.Body)
	plain := serve(t, func(f *fixture, config *api.Config) { f.token, config.Policy.Token = ownerToken, ownerToken })
	problem := plain.refuse(501, "no_control", "POST", sampleIndex+"/runs", object{})
	assert.Contains(t, problem["hint"], "query_api.control")
}

// list returns the files of a folder with their contents.
func list(t testing.TB, folder string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			name, _ := filepath.Rel(folder, path)
			out[name] = string(must(os.ReadFile(path))(t))
		} else if err == nil && path != folder {
			out[strings.TrimPrefix(path, folder+"/")+"/"] = ""
		}
		return err
	}))
	return out
}

// Promises: 144.
func TestAnUploadThatBreaksOffLeavesNothing(t *testing.T) {
	o := operate(t, func(_ *fixture, config *api.Config) { config.Policy.AnyHost = true })
	address := o.listening()
	before := list(t, o.corpus)
	head := "PUT " + sampleIndex + "/documents/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + ownerToken + "\r\n"
	for name, text := range map[string]string{
		"a length":       fmt.Sprintf(head, "new.txt") + "Content-Length: 100\r\n\r\nonly a part",
		"chunks":         fmt.Sprintf(head, "a/new.txt") + "Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
		"in a chunk":     fmt.Sprintf(head, "new.txt") + "Transfer-Encoding: chunked\r\n\r\nff\r\nfirst",
		"of an old one":  fmt.Sprintf(head, "old.txt") + "Content-Length: 100\r\n\r\nnew",
		"no chunk":       fmt.Sprintf(head, "new.txt") + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		"nothing at all": fmt.Sprintf(head, "new.txt") + "Content-Length: 100\r\n\r\n",
	} {
		connection := dial(t, address, text)
		require.NoError(t, connection.(*net.TCPConn).CloseWrite())
		answer := string(must(io.ReadAll(connection))(t))
		noticed := strings.HasPrefix(answer, "HTTP/1.1 503 ") && strings.Contains(answer, `"cancelled"`) // its client has gone
		assert.True(t, noticed || strings.HasPrefix(answer, "HTTP/1.1 400 ") && strings.Contains(answer, "nothing was stored"),
			"%s: %s", name, answer)
		assert.Equal(t, before, list(t, o.corpus), "%s", name)
	}
	answer := string(must(io.ReadAll(dial(t, address, fmt.Sprintf(head, "a/new.txt")+
		"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwhole\r\n0\r\n\r\n")))(t))
	assert.True(t, strings.HasPrefix(answer, "HTTP/1.1 201 "), answer)
	assert.Equal(t, map[string]string{"old.txt": "old", "a/": "", "a/new.txt": "whole"}, list(t, o.corpus))
}

// Promises: 144.
func TestAnUploadWritesAndDeletesDocumentsOfTheIndexAlone(t *testing.T) {
	o := operate(t, nil)
	for key, status := range map[string]int{ // as addresses have them; control/desk tries more
		"": 422, "%2Fetc%2Fpasswd": 422, "a%2F..%2F..%2Fb.txt": 422, "old.txt/below.txt": 422, "a%23row": 422, "100%25.txt": 422,
		"a%00b": 422, "%FF.txt": 422, "a/text": 405,
	} {
		for _, method := range []string{"PUT", "DELETE"} {
			got := o.send(method, sampleIndex+"/documents/"+key, "text", asOwner()...)
			gone := method == "DELETE" && key == "old.txt/below.txt" && got.Code == 404
			assert.True(t, got.Code == status || gone, "%s %.60s: %d %s", method, key, got.Code, got.Body)
		}
	}
	put := func(key, text string, headers ...string) (int, string) {
		got := o.send("PUT", sampleIndex+"/documents/"+key, text, asOwner(headers...)...)
		return got.Code, got.Body.String()
	}
	for _, c := range []struct {
		key, text string
		headers   []string
		status    int
		says      string
	}{
		{"a/b/new.txt", "hello", nil, 201,
			`"sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824","bytes":5,"created":true}`},
		{"old.txt", "", nil, 422, "the document is empty"},
		{"old.txt", "newest", []string{"Content-Type", "text/html"}, 200, `"created":false`},
		{"100%2525.txt", "x", nil, 201, `"document":"100%25.txt"`},
		{"a%2Ftext", "x", nil, 201, `"document":"a/text"`},
		{"big.txt", strings.Repeat("x", 1<<20+1), nil, 413, "at most 1048576 bytes"},
		{"packed.txt", "x", []string{"Content-Encoding", "gzip"}, 415, "Content-Encoding"},
	} {
		status, body := put(c.key, c.text, c.headers...)
		assert.True(t, status == c.status && strings.Contains(body, c.says), "%s: %d %s", c.key, status, body)
	}
	for _, want := range []int{204, 404} {
		assert.Equal(t, want, o.send("DELETE", sampleIndex+"/documents/a/b/new.txt", "", asOwner()...).Code)
	}
	assert.Equal(t, map[string]string{"old.txt": "newest", "100%.txt": "x", "a/": "", "a/b/": "", "a/text": "x"}, list(t, o.corpus))
}

// An index that the configuration of the server does not name is built as its published generation was.
func TestABuildHasTheConfigurationOfTheServerOrOfThePublishedGeneration(t *testing.T) {
	o := operate(t, nil)
	o.refuse(404, "unknown_index", "POST", "/v1/indexes/nowhere/runs", nil)
	o.desk.Connect = func(context.Context) (control.Control, error) { return nil, fault.EngineDown.At("connect", "") }
	o.refuse(404, "unknown_run", "GET", sampleIndex+"/runs/none", nil)
	o.desk.Connect = func(context.Context) (control.Control, error) { return control.Of(o.control), nil }
	o.desk.Config = config.Default()
	assert.Equal(t, 202, o.send("POST", sampleIndex+"/runs", "", asOwner()...).Code)
	stored := must(artifact.Index{Store: o.store, Name: "sample"}.Spec(t.Context(), o.built.Manifest.Spec))(t)
	assert.Equal(t, stored, o.control.Spec)
	assert.True(t, o.control.Another, "the folder that the store names is granted to nobody, not even to the owner")
}

// A key of a copy writes to no corpus that its image names; nor, until builds may change the copy, to that of the
// configuration.
func TestNothingIsWrittenToTheCorpusOfAnImage(t *testing.T) {
	o, ctx := operate(t, nil), t.Context()
	at := artifact.Index{Store: o.stores.Blobs, Name: "sample"}
	before, manifest := list(t, o.corpus), *o.built.Manifest
	manifest.Spec = must(at.PutSpec(ctx, core.Spec{Index: "sample", Corpus: o.corpus, Pulled: true}))(t)
	sha := must(at.PutManifest(ctx, &manifest))(t)
	pointer, _, err := at.ReadPointer(ctx)
	require.NoError(t, err)
	pointer.Manifest = sha
	must(blob.WriteJSON(ctx, at.Store, at.CurrentKey(), pointer, blob.Cond{}))(t)
	named := o.desk.Config
	for _, c := range []struct {
		config  *config.Config
		adopted bool
		code    string
	}{
		{named, false, "index_pulled"}, {config.Default(), false, "index_pulled"}, {config.Default(), true, "bad_config"},
		{named, true, ""},
	} {
		o.desk.Config = c.config
		pulled := core.PulledGenerations{sha: {From: "oci://elsewhere/a:1", Adopted: c.adopted}}
		must(blob.WriteJSON(ctx, at.Store, at.PulledKey(), pulled, blob.Cond{}))(t)
		for method, want := range map[string]int{"PUT": 201, "DELETE": 204} {
			got := o.send(method, sampleIndex+"/documents/"+map[string]string{"PUT": "b.txt", "DELETE": "old.txt"}[method], "x",
				asOwner()...)
			assert.True(t, got.Code == want && c.code == "" || c.code != "" && strings.Contains(got.Body.String(), c.code),
				"%s, %q: %d %s", method, c.code, got.Code, got.Body)
		}
		if c.code != "" {
			assert.Equal(t, before, list(t, o.corpus), c.code)
		}
	}
	o.desk.Config = config.Default()
	o.refuse(503, "bad_config", "POST", sampleIndex+"/estimate", object{})
}

func TestThePythonClientBuildsAsksAndRetrieves(t *testing.T) {
	folder := must(filepath.Abs("../../infra/clients/python"))(t)
	python := program(t, "venv", "bin", "python")
	server := httptest.NewServer(operate(t, nil).server.Handler())
	defer server.Close()
	command := exec.CommandContext(t.Context(), python, "-B", "testdata/unweaver_client.py", server.URL, ownerToken)
	command.Env = append(os.Environ(), "PYTHONPATH="+folder)
	out, err := command.CombinedOutput()
	require.True(t, err == nil, "%v\n%s", err, out)
	t.Logf("%s", out)
}

// ownerToken is what the owner of a data directory shows.
const ownerToken = "the-token-of-dev-json"

// folders opens every corpus as the folder that it is.
type folders struct{}

func (folders) OpenCorpus(_ context.Context, uri string) (blob.Store, error) {
	return dir.OpenCorpus(uri)
}
func (folders) GrantCorpora(string, bool) error { return nil }

// operated is a server with control, whose owner asks.
type operated struct {
	*fixture
	control *runControl
	corpus  string // folder of the index sample
	desk    *desk.Desk
}

// operate serves the sample with control and a corpus; edit may change the configuration.
func operate(t testing.TB, edit func(*fixture, *api.Config)) *operated {
	t.Helper()
	o := &operated{control: &runControl{Runs: map[string]control.Status{}}, corpus: t.TempDir()}
	o.control.Letters = []core.Letter{{Chunk: strings.Repeat("a", 32), Kind: core.LetterContent}}
	o.control.Branches = []core.Branch{{Name: "sample-large", Base: "sample"}}
	o.control.Kept = []artifact.Generation{
		{Generation: "g1", State: "current"}, {Generation: "g2", State: core.GenerationHeld},
	}
	o.control.Triggered.Index = "sample"
	require.NoError(t, os.WriteFile(filepath.Join(o.corpus, "old.txt"), []byte("old"), 0o600))
	cfg := must(config.Load(config.Source{Set: []string{"indexes.sample.corpus=" + o.corpus}}))(t)
	o.fixture = serve(t, func(f *fixture, c *api.Config) {
		f.token, c.Policy.Token = ownerToken, ownerToken
		o.desk = &desk.Desk{
			Connect: func(context.Context) (control.Control, error) { return control.Of(o.control), nil },
			Config:  cfg, Artifacts: f.store, Corpora: folders{}, MostBytes: 1 << 20,
		}
		if c.Desk = o.desk; edit != nil {
			edit(f, c)
		}
	})
	return o
}

// report leaves the report of a run.
func (f *fixture) report(generation string, report core.Report) {
	report.Index, report.Generation, report.Run = "sample", generation, "sample/"+generation
	key := f.built.Index.GenerationKey(generation, "report.json")
	must(blob.WriteJSON(f.t.Context(), f.stores.Blobs, key, report, blob.Cond{}))(f.t)
}

// state leaves what the processes of a run that goes on write.
func (f *fixture) state(generation string, state core.RunState) {
	work := "sample/" + generation
	state.Report.Index, state.Report.Generation, state.Report.Run = "sample", generation, work
	raw, err := json.Marshal(state)
	if err == nil {
		err = f.runs.SetState(f.t.Context(), work, raw)
	}
	if err == nil {
		err = f.runs.SetState(f.t.Context(), "latest:sample", []byte(work))
	}
	require.NoError(f.t, err)
}

// Of an index whose first build goes on a question says how that is followed.
func TestAnIndexThatIsBeingBuiltIsNotCalledUnknown(t *testing.T) {
	f := serve(t, nil)
	for _, status := range []string{core.StatusRunning, core.StatusFailed} {
		raw, err := json.Marshal(core.RunState{Report: core.Report{Run: "young/n1", Status: status}})
		if err == nil {
			err = f.runs.SetState(t.Context(), "young/n1", raw)
		}
		if err == nil {
			err = f.runs.SetState(t.Context(), "latest:young", []byte("young/n1"))
		}
		require.NoError(t, err)
		want := "GET /v1/indexes"
		if status == core.StatusRunning {
			want = "unweaver status young --watch"
		}
		code, body, _ := f.do("POST", "/v1/indexes/young/query", object{"query": "Who?"})
		assert.True(t, code == 404 && body["code"] == "unknown_index" &&
			strings.Contains(fmt.Sprint(body["hint"]), want), "%s: %d %v", status, code, body)
	}
}

func TestRunsAreListedNewestFirstAndPaged(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	night := func(n int) time.Time { return time.Date(2026, time.March, n, 3, 0, 0, 0, time.UTC) }
	for n := 1; n <= 5; n++ {
		f.report(fmt.Sprint("n", n), core.Report{Status: core.StatusCompleted, Started: night(n), Cost: float64(n)})
	}
	key := f.built.Index.GenerationKey("torn", "report.json") // listed by when it was written
	must(blob.Write(t.Context(), f.stores.Blobs, key, []byte("{"), blob.Cond{}))(t)
	f.state("n6", core.RunState{Report: core.Report{Status: core.StatusRunning, Started: night(6)}})
	for _, limit := range []int{1, 2, 3, 100} {
		got, _ := f.pages("/v1/indexes/sample/runs", "generation", limit)
		assert.Equal(t, "torn n6 n5 n4 n3 n2 n1", strings.Join(got, " "), "limit %d", limit)
		got, _ = f.pages("/v1/indexes/sample/runs", "status", limit)
		assert.Equal(t, []string{"damaged", "running", "completed"}, got[:3])
	}
}

func TestARunTellsItsProgressWhileItGoesOnAndItsReportAfterwards(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	f.state("n1", core.RunState{
		Stage: "extract", Total: 10, StageAt: time.Now(),
		Report: core.Report{Status: core.StatusRunning, Started: time.Now(), Documents: 4},
	})
	work := f.get("/v1/indexes/sample/runs/n1")
	for _, name := range []string{"sample/n1", "sample%2Fn1"} { // as a list names it
		code, out, _ := f.do("GET", "/v1/indexes/sample/runs/"+name, nil)
		assert.True(t, code == 200 && out["run"] == "sample/n1", "%s: %d %v", name, code, out)
	}
	assert.True(t, work["status"] == "running" && work["stage"] == "extract" && work["documents"] == 4.0 &&
		work["stages"].([]any)[0].(object)["total"] == 10.0, "%v", work)
	assert.NotContains(t, work, "next")
	f.report("n2", core.Report{Status: core.StatusHeld, Reason: "mass_deletion"})
	assert.Contains(t, fmt.Sprint(f.get("/v1/indexes/sample/runs/n2")["next"]), "unweaver index [CORPUS]")
	f.report("n1", core.Report{Status: core.StatusErrors, Problems: []core.Problem{{Code: "unreadable_document"}}})
	f.state("n1", core.RunState{Report: core.Report{Status: core.StatusErrors}})
	work = f.get("/v1/indexes/sample/runs/n1")
	assert.True(t, work["status"] == "completed_with_errors" && work["overall"] == 1.0 &&
		len(work["problems"].([]any)) == 1, "%v", work)
}

func TestARunThatIsNotThereIsToldFromOneThatCannotBeRead(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	key := f.built.Index.GenerationKey("torn", "report.json")
	must(blob.Write(t.Context(), f.stores.Blobs, key, []byte("{"), blob.Cond{}))(t)
	tell := func(work string, status int, code fault.Code) {
		t.Helper()
		got, out, _ := f.do("GET", "/v1/indexes/sample/runs/"+work, nil)
		assert.True(t, got == status && out["code"] == string(code), "%s: %d %v", work, got, out)
	}
	tell("none", 404, fault.RunNotFound)
	tell("No%20Name", 404, fault.RunNotFound)
	tell("torn", 503, fault.SegmentDamage)
	f.store.fail("", fault.StoreDown.At("read", "artifacts").Because("it is away"))
	tell("n1", 503, fault.StoreDown)
}

func TestTrendsAreOneReadOfTheLastNights(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	var kept core.Nights
	for n := 1; n <= 5; n++ {
		kept.Add(core.Night{
			Run: fmt.Sprint("sample/n", n), Status: core.StatusCompleted, Cost: float64(n), Published: true,
			Started: time.Date(2026, time.March, n, 3, 0, 0, 0, time.UTC),
		})
	}
	must(blob.WriteJSON(t.Context(), f.stores.Blobs, f.built.Index.NightsKey(), kept, blob.Cond{}))(t)
	trends := f.get("/v1/indexes/sample/trends?nights=4")
	totals, nights := trends["totals"].(object), trends["nights"].([]any)
	assert.True(t, len(nights) == 4 && nights[0].(object)["run"] == "sample/n2" && totals["cost"] == 14.0 &&
		totals["published"] == 4.0 && nights[0].(object)["planned"] == nil, "%v", trends)
	for path, status := range map[string]int{
		"/v1/indexes/sample/trends?nights=0": 422, "/v1/indexes/never/trends": 404, "/v1/indexes/..a/trends": 404,
	} {
		assert.Equal(t, status, f.send("GET", path, "").Code, "%s", path)
	}
}

func TestTheReportOfARunHasNoHoldOnItsOrigin(t *testing.T) {
	f := serve(t, nil)
	f.ask(fram)
	f.report("n1", core.Report{
		Status: core.StatusErrors, Problems: []core.Problem{{Code: "encrypted_document", Object: "<script>x</script>.pdf"}},
	})
	got := f.send("GET", "/v1/indexes/sample/runs/n1/report", "")
	header := got.Header()
	policy := header.Get("Content-Security-Policy")
	assert.True(t, got.Code == 200 && strings.HasPrefix(header.Get("Content-Type"), "text/markdown") &&
		strings.Contains(policy, "sandbox") && strings.Contains(policy, "default-src 'none'") &&
		header.Get("X-Content-Type-Options") == "nosniff", "%d %v", got.Code, header)
	assert.Contains(t, got.Body.String(), `| \<script\>x\</script\>.pdf |`)
	assert.Equal(t, 404, f.send("GET", "/v1/indexes/sample/runs/none/report", "").Code)
}
