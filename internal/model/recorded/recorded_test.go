package recorded_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/recorded"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

type rest struct{ tasks []string }

func (r *rest) Complete(_ context.Context, call model.Call) (model.Reply, error) {
	r.tasks = append(r.tasks, call.Task)
	return model.Reply{Text: "by another model"}, nil
}
func (*rest) Info() model.Info { return model.Info{Provider: "rest"} }

const rows = `{"chunk_id":"1","entities":[{"name":"Bohr","description":"a physicist"},"Copenhagen",17]}
{"chunk_id":"2","entities":[]}
`

func open(t *testing.T, content string) (*recorded.Chat, *rest, error) {
	path, other := scratchtest.WriteFile(t, []byte(content)), &rest{}
	chat, err := recorded.Open(path, other)
	return chat, other, err
}

func TestARowIsReplayedByTheDocumentItIsOfAndOtherTasksGoToTheOtherModel(t *testing.T) {
	const first = `{"entities":[{"name":"Bohr","description":"a physicist"},{"name":"Copenhagen","description":""}]}`
	const with = `{"chunk_id":"1","entities":["Bohr"],"triples":[["Bohr","born in","Copenhagen"]]}
{"chunk_id":"2","entities":[]}
`
	for name, c := range map[string]struct{ rows, task, ref, want string }{
		"a row of a file":                 {rows, model.Extract, "corpus.jsonl#1", first},
		"a name with a #":                 {rows, model.Extract, "a#b.jsonl#1", first},
		"a row without names":             {rows, model.Extract, "corpus.jsonl#2", `{"entities":[]}`},
		"a bare row id":                   {rows, model.Extract, "1", first},
		"a missing row":                   {rows, model.Extract, "corpus.jsonl#3", ""},
		"no row":                          {rows, model.Extract, "plain.txt", ""},
		"nothing":                         {rows, model.Extract, "", ""},
		"another task":                    {rows, model.Shorten, "corpus.jsonl#1", "by another model"},
		"a question":                      {rows, model.Answer, "corpus.jsonl#1", "by another model"},
		"triples":                         {with, model.Triples, "corpus.jsonl#1", `{"triples":[["Bohr","born in","Copenhagen"]]}`},
		"a row without triples":           {with, model.Triples, "corpus.jsonl#2", ""},
		"triples of a question":           {with, model.Triples, "", "by another model"},
		"triples of a file that has none": {rows, model.Triples, "corpus.jsonl#1", "by another model"},
	} {
		chat, other := musttest.Get2(open(t, c.rows))(t)
		reply, err := chat.Complete(t.Context(), model.Call{Task: c.task, Ref: c.ref})
		assert.Equal(t, c.want == "by another model", len(other.tasks) == 1, name)
		assert.Equal(t, model.Reply{Text: c.want}, reply, name)
		e := fault.As(err)
		assert.True(t, (c.want == "") == (err != nil) &&
			(err == nil || e.Code == fault.NotRecorded && e.Object == c.ref && e.Hint != ""), "%s: %v", name, err)
	}
}

func TestTheNameIsTheFilesDigestAndCostsNothing(t *testing.T) {
	chat, _ := musttest.Get2(open(t, rows))(t)
	sum, info := sha256.Sum256([]byte(rows)), chat.Info()
	assert.True(t, info.Provider == "recorded" && info.Model == "recorded:"+hex.EncodeToString(sum[:]) && !info.Paid,
		"%+v", info)
	_, ok := model.As[*rest](chat)
	assert.False(t, ok, "a recording is no decorator of the model that does the rest")
	_, err := chat.Complete(musttest.EndedContext(t), model.Call{Task: model.Extract, Ref: "f#1"})
	assert.ErrorIs(t, err, context.Canceled)
}

func TestRecordingsThatCannotBeRead(t *testing.T) {
	_, err := recorded.Open("/nowhere/recording.jsonl", &rest{})
	_, _, broken := open(t, rows+"{\"chunk_id\":\n")
	_, _, list := open(t, "[]\n")
	for object, err := range map[string]error{"/nowhere/recording.jsonl": err, "line 3": broken, "line 1": list} {
		e := fault.As(err)
		assert.True(t, e != nil && e.Code == fault.BadConfig && strings.Contains(e.Object, object) && e.Hint != "", "%v", err)
	}
}
