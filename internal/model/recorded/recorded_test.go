package recorded_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/recorded"
)

// rest is the model of the other tasks.
type rest struct{ tasks []string }

func (r *rest) Complete(_ context.Context, call model.Call) (model.Reply, error) {
	r.tasks = append(r.tasks, call.Task)
	return model.Reply{Text: "by another model"}, nil
}
func (*rest) Info() model.Info { return model.Info{Provider: "rest"} }

func recording(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "recording.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const rows = `{"chunk_id":"1","entities":[{"name":"Bohr","description":"a physicist"},"Copenhagen",17]}
{"chunk_id":"2","entities":[]}
`

func TestARowIsReplayedByTheDocumentItIsOf(t *testing.T) {
	chat, err := recorded.Open(recording(t, rows), &rest{})
	require.NoError(t, err)
	const first = `{"entities":[{"name":"Bohr","description":"a physicist"},{"name":"Copenhagen","description":""}]}`
	for name, c := range map[string]struct{ ref, want string }{
		"a row of a file":     {"corpus.jsonl#1", first},
		"a name with a #":     {"a#b.jsonl#1", first},
		"a row without names": {"corpus.jsonl#2", `{"entities":[]}`},
		"a bare row id":       {"1", first},
	} {
		t.Run(name, func(t *testing.T) {
			reply, err := chat.Complete(t.Context(), model.Call{Task: model.Extract, Ref: c.ref})
			assert.True(t, err == nil && reply.Text == c.want && reply.Usage == (model.Usage{}),
				"got %+v, %v; want %s", reply, err, c.want)
		})
	}
}

func TestAMissingRowIsAnErrorAndNeverACall(t *testing.T) {
	other := &rest{}
	chat, err := recorded.Open(recording(t, rows), other)
	require.NoError(t, err)
	for _, ref := range []string{"corpus.jsonl#3", "plain.txt", ""} {
		_, err := chat.Complete(t.Context(), model.Call{Task: model.Extract, Ref: ref})
		e := fault.As(err)
		assert.True(t, e != nil && e.Code == fault.NotRecorded && e.Object == ref && e.Hint != "", "%q: got %v", ref, err)
	}
	assert.Empty(t, other.tasks, "another model was asked to %q", other.tasks)
}

func TestOtherTasksGoToTheOtherModel(t *testing.T) {
	other := &rest{}
	chat, err := recorded.Open(recording(t, rows), other)
	require.NoError(t, err)
	for _, task := range []string{model.Shorten, model.Answer} {
		reply, err := chat.Complete(t.Context(), model.Call{Task: task, Ref: "corpus.jsonl#1"})
		assert.True(t, err == nil && reply.Text == "by another model", "%s: %+v, %v", task, reply, err)
	}
	assert.Equal(t, model.Shorten+" "+model.Answer, strings.Join(other.tasks, " "), "asked %q", other.tasks)
}

func TestTheNameIsTheFilesDigestAndCostsNothing(t *testing.T) {
	chat, err := recorded.Open(recording(t, rows), &rest{})
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(rows))
	info := chat.Info()
	assert.True(t, info.Provider == "recorded" && info.Model == "recorded:"+hex.EncodeToString(sum[:]) && !info.Paid,
		"%+v", info)
	_, ok := model.As[*rest](chat)
	assert.False(t, ok, "a recording is no decorator of the model that does the rest")
}

func TestRecordingsThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct{ path, object string }{
		"no such file":  {"/nowhere/recording.jsonl", "/nowhere/recording.jsonl"},
		"a broken line": {recording(t, rows+"{\"chunk_id\":\n"), "line 3"},
		"a list":        {recording(t, "[]\n"), "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := recorded.Open(c.path, &rest{})
			e := fault.As(err)
			assert.True(t, e != nil && e.Code == fault.BadConfig && strings.Contains(e.Object, c.object) && e.Hint != "",
				"got %v", err)
		})
	}
}

func TestAnEndedContextReplaysNothing(t *testing.T) {
	chat, err := recorded.Open(recording(t, rows), &rest{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = chat.Complete(ctx, model.Call{Task: model.Extract, Ref: "f#1"})
	assert.True(t, errors.Is(err, context.Canceled), "got %v", err)
}

func TestTriplesAreReplayedWhereTheFileHasThem(t *testing.T) {
	const with = `{"chunk_id":"1","entities":["Bohr"],"triples":[["Bohr","born in","Copenhagen"]]}
{"chunk_id":"2","entities":[]}
`
	other := &rest{}
	chat, err := recorded.Open(recording(t, with), other)
	require.NoError(t, err)
	reply, err := chat.Complete(t.Context(), model.Call{Task: model.Triples, Ref: "corpus.jsonl#1"})
	assert.True(t, err == nil && reply.Text == `{"triples":[["Bohr","born in","Copenhagen"]]}`, "got %+v, %v", reply, err)
	_, err = chat.Complete(t.Context(), model.Call{Task: model.Triples, Ref: "corpus.jsonl#2"})
	assert.True(t, fault.Is(err, fault.NotRecorded), "a row without triples: %v", err)
	reply, err = chat.Complete(t.Context(), model.Call{Task: model.Triples})
	assert.True(t, err == nil && reply.Text == "by another model", "a question: %+v, %v", reply, err)
	without, err := recorded.Open(recording(t, rows), other)
	require.NoError(t, err)
	reply, err = without.Complete(t.Context(), model.Call{Task: model.Triples, Ref: "corpus.jsonl#1"})
	assert.True(t, err == nil && reply.Text == "by another model", "a file without triples: %+v, %v", reply, err)
}
