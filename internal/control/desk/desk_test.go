package desk_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/desk"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	"github.com/unweaver/unweaver/internal/testkit/controltest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// installation is a desk over a folder of documents.
type installation struct {
	*desk.Desk
	recorder controltest.Recorder
	corpus   string
	granted  []string // corpora that the owner's configuration names
}

func (i *installation) OpenCorpus(_ context.Context, uri string) (blob.Store, error) {
	return dir.OpenCorpus(uri)
}

func (i *installation) GrantCorpora(directory string, _ bool) error {
	i.granted = append(i.granted, directory)
	return nil
}

// open returns the desk of an installation whose configuration names a corpus for the index docs, and has more of it.
func open(t *testing.T, more string) *installation {
	i, file := &installation{corpus: t.TempDir()}, filepath.Join(t.TempDir(), "unweaver.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "indexes: {docs: {corpus: %q, %s}}", i.corpus, more), 0o600))
	i.Desk = &desk.Desk{
		Connect: func(context.Context) (control.Control, error) { return i.recorder.Port(), nil },
		Config:  musttest.Get(config.Load(config.Source{Path: file, Set: []string{"indexes.docs.schedule.jitter=1m"}}))(t), Artifacts: blobmemory.New(), Corpora: i,
	}
	return i
}

func all(string) bool { return true }

// Promises: 144.
func TestADocumentIsWrittenBelowItsCorpusAloneAndWhereBuildsReadIt(t *testing.T) {
	i := open(t, "exclude: [drafts/**]")
	outside := filepath.Join(t.TempDir(), "a.txt")
	require.NoError(t, os.WriteFile(outside, []byte("other"), 0o600))
	require.NoError(t, os.Symlink(filepath.Dir(outside), filepath.Join(i.corpus, "link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(i.corpus, "link.txt")))
	put := func(key string) (desk.Document, error) {
		return i.PutDocument(t.Context(), "docs", key, strings.NewReader("text"), 4, all)
	}
	for _, key := range []string{
		"", "/etc/passwd", "a/../../b.txt", "..", "../b.txt", ".", "./a.txt", ".env", "a/.git/config", "node_modules/a.txt",
		".tmp/a.txt", "link/a.txt", "link.txt", ".meta.json", "a/.meta.json", "a#row", "100%.txt", "a//b.txt", "a/", "a\x00b",
		"a\nb.txt", "a\x7fb.txt", "\xff.txt", strings.Repeat("a", 256), strings.Repeat("a/", 600) + "a", "drafts/a.txt",
		"C:\\a\x1b.txt",
	} {
		musttest.Code(t, musttest.Err(put(key)), fault.InvalidParam, key)
		musttest.Code(t, i.DeleteDocument(t.Context(), "docs", key, all), fault.InvalidParam, key)
	}
	assert.Equal(t, "other", string(musttest.Get(os.ReadFile(outside))(t)))
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("text")))
	for key, name := range map[string]string{
		"a.txt": "a.txt", "a/b/ü.md": "a/b/ü.md", "100%25.txt": "100%.txt", "a%23b.txt": "a#b.txt", "a.txt.meta.json": "a.txt.meta.json",
		strings.Repeat("a", 251) + ".txt": strings.Repeat("a", 251) + ".txt",
	} {
		for _, created := range []bool{true, false} {
			got := musttest.Get(put(key))(t)
			assert.Equal(t, desk.Document{SHA256: sum, Bytes: 4, Created: created}, got, key)
		}
		assert.Equal(t, "text", string(musttest.Get(os.ReadFile(filepath.Join(i.corpus, name)))(t)))
		require.NoError(t, i.DeleteDocument(t.Context(), "docs", key, all))
		musttest.Code(t, i.DeleteDocument(t.Context(), "docs", key, all), fault.NotFound, key)
	}
	musttest.Refuse(i.PutDocument(t.Context(), "none", "a.txt", strings.NewReader("x"), 1, all))(t, fault.UnknownIndex, "none")
}

func TestARefusedBuildNamesTheRunInItsWay(t *testing.T) {
	held := fault.LeaseHeld.At("start", "docs")
	var building, audit control.Status
	building.SetName("docs/g1")
	ended := building
	building.Status, ended.Status = core.StatusRunning, core.StatusCompleted
	audit.SetName("docs/audit-1")
	audit.Status = core.StatusRunning
	for name, c := range map[string]struct {
		statuses []control.Status
		err      error
		conflict bool
		run      string
	}{
		"it is built":        {[]control.Status{building}, held, true, "docs/g1"},
		"the run has ended":  {[]control.Status{ended}, held, true, ""},
		"it is no build":     {[]control.Status{audit}, held, true, ""},
		"another refusal":    {[]control.Status{building}, fault.EngineDown.At("start", "docs"), false, ""},
		"nothing is refused": {nil, nil, false, ""},
	} {
		i := open(t, "")
		i.Connect = func(context.Context) (control.Control, error) {
			calls := i.recorder.Port()
			calls.BuildIndex = func(context.Context, control.IndexRequest) (control.Run, error) { return control.Run{}, c.err }
			return calls, nil
		}
		i.recorder.Statuses = c.statuses
		_, err := i.StartBuild(t.Context(), "docs", control.IndexRequest{})
		var conflict *desk.Conflict
		assert.Equal(t, c.conflict, errors.As(err, &conflict), name)
		assert.True(t, errors.Is(err, c.err), "%s: %v", name, err)
		assert.True(t, conflict == nil || conflict.Run == c.run && conflict.Error() == c.err.Error(), "%s: %v", name, conflict)
		assert.Equal(t, []string{i.corpus}, i.granted, "%s: the owner names the folder", name)
	}
}

func TestAScheduleIsWhatTheConfigurationAndTheChangeSay(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		change desk.ScheduleChange
		asked  string // but for looks
		code   fault.Code
		says   string
	}{
		"of the configuration": {desk.ScheduleChange{}, "schedule-apply docs 0 2 * * * UTC", "", ""},
		"changed":              {desk.ScheduleChange{Set: map[string]string{"cron": "@daily"}}, "schedule-apply docs @daily UTC", "", ""},
		"paused":               {desk.ScheduleChange{Paused: &yes, Note: "move"}, "schedule-pause docs move", "", ""},
		"resumed already":      {desk.ScheduleChange{Paused: &no}, "", "", ""},
		"a mistake":            {desk.ScheduleChange{Set: map[string]string{"cron": "61 * * * *"}}, "", fault.InvalidParam, "cron"},
		"no setting":           {desk.ScheduleChange{Set: map[string]string{"keep": "1"}}, "", fault.InvalidParam, "keep"},
		"given by --set":       {desk.ScheduleChange{Set: map[string]string{"jitter": "5m"}}, "", fault.InvalidParam, "jitter"},
		"none":                 {desk.ScheduleChange{Set: map[string]string{"cron": ""}}, "", fault.InvalidParam, "cron"},
	} {
		i := open(t, "schedule: {cron: '0 2 * * *'}")
		_, err := i.ApplySchedule(t.Context(), "docs", c.change)
		asked := strings.TrimSuffix(strings.TrimPrefix(strings.Join(i.recorder.Asked, ","), "schedule docs"), "schedule docs")
		assert.Equal(t, []any{c.asked, c.code}, []any{strings.Trim(asked, ","), fault.CodeOf(err)}, "%s: %v", name, err)
		assert.True(t, err == nil || strings.Contains(err.Error(), c.says), "%s: %v", name, err)
	}
}

func TestPathsOfASpecificationAreMadeAbsolute(t *testing.T) {
	here := musttest.Get(os.Getwd())(t)
	spec := core.Spec{Corpus: "corpus", Roles: map[string]core.ChatModel{"judge": {File: "a/../b.jsonl"}, "none": {}}}
	spec.Chat.File = "/c.jsonl"
	require.NoError(t, desk.MakeAbsolute(&spec))
	assert.Equal(t, []string{here + "/corpus", here + "/b.jsonl", "", "/c.jsonl"},
		[]string{spec.Corpus, spec.Roles["judge"].File, spec.Roles["none"].File, spec.Chat.File})
	spec = core.Spec{Corpus: "s3://bucket/docs"}
	require.NoError(t, desk.MakeAbsolute(&spec))
	assert.Equal(t, core.Spec{Corpus: "s3://bucket/docs"}, spec)
}
