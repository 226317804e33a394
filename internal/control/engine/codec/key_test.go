package codec_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"github.com/unweaver/unweaver/internal/control/engine/codec"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// made creates a key file in a folder of the test, and returns the name of an engine's database beside it.
func made(t *testing.T) (path, database string, key *codec.Key) {
	folder := t.TempDir()
	path, database = filepath.Join(folder, "codec.key"), filepath.Join(folder, "temporal.db")
	key = musttest.Get(codec.Create(path, database))(t)
	return path, database, key
}

func writeLine(t *testing.T, path, text string) {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestAKeyIsMadeOnceForItsOwnerAlone(t *testing.T) {
	path, database, key := made(t)
	info, err := os.Stat(path)
	require.True(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
	writeLine(t, database, "")
	again, err := codec.Create(path, database)
	assert.True(t, err == nil && again.ID == key.ID, "%v, %v", again, err)
	loaded, err := codec.Load(path)
	assert.True(t, err == nil && loaded.ID == key.ID, "%v, %v", loaded, err)
}

func TestTwoThatMakeAKeyAtOnceHaveTheSame(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "codec.key")
		var all sync.WaitGroup
		ids := make([]string, 4)
		for i := range ids {
			all.Go(func() {
				key, err := codec.Create(path, path+".none")
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = key.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			require.Equal(t, ids[0], id, "keys %v", ids)
		}
		require.Empty(t, musttest.Get(filepath.Glob(filepath.Join(filepath.Dir(path), "*.tmp")))(t), "left over")
	}
}

func TestAKeyFileThatCannotBeTrustedIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(t *testing.T, path, database string)
		says  string
	}{
		"others can read it": {func(t *testing.T, path, _ string) {
			require.NoError(t, os.Chmod(path, 0o644))
		}, "its mode is 0644"},
		"it belongs to another": {func(t *testing.T, path, _ string) {
			if err := os.Chown(path, 4711, -1); err != nil {
				t.Skip("only root can give a file away: ", err)
			}
		}, "it belongs to user 4711"},
		"it is a folder": {func(t *testing.T, path, _ string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Mkdir(path, 0o700))
		}, "it is not a regular file"},
		"both are damaged": {func(t *testing.T, path, _ string) {
			writeLine(t, path, "")
			writeLine(t, path+".copy", "what?")
		}, "the file is damaged"},
		"both are lost": {func(t *testing.T, path, database string) {
			for _, one := range []string{path, path + ".copy"} {
				require.NoError(t, os.Remove(one))
			}
			writeLine(t, database, "histories")
		}, "it is lost, but runs were recorded with it"},
		"another one is in its place": {func(t *testing.T, path, _ string) {
			other, _, _ := made(t)
			require.NoError(t, os.Rename(other, path))
		}, "but runs were recorded with key"},
	} {
		t.Run(name, func(t *testing.T) {
			path, database, _ := made(t)
			test.spoil(t, path, database)
			musttest.Refuse(codec.Create(path, database))(t, fault.BadConfig, test.says, path)
		})
	}
	musttest.Refuse(codec.Load(filepath.Join(t.TempDir(), "none")))(t, fault.BadConfig)
}

func TestAKeyThatIsLostOrDamagedIsReadFromItsCopy(t *testing.T) {
	for _, which := range []string{"", ".copy"} {
		for name, spoil := range map[string]func(raw []byte) []byte{
			"lost":              func([]byte) []byte { return nil },
			"empty":             func([]byte) []byte { return []byte{} },
			"without a key":     func([]byte) []byte { return []byte("what?\n") },
			"cut":               func(raw []byte) []byte { return raw[:len(raw)/2] },
			"of another letter": func(raw []byte) []byte { raw[len(raw)-10] ^= 1; return raw },
		} {
			t.Run(name+which, func(t *testing.T) {
				path, database, key := made(t)
				writeLine(t, database, "histories")
				raw := musttest.Get(os.ReadFile(path + which))(t)
				require.NoError(t, os.Remove(path+which))
				if raw = spoil(raw); raw != nil {
					writeLine(t, path+which, string(raw))
				}
				again, err := codec.Create(path, database)
				require.True(t, err == nil && again.ID == key.ID, "%v, %v", again, err)
				mended, err := codec.Load(path + which)
				assert.True(t, err == nil && mended.ID == key.ID, "the file is still %v, %v", mended, err)
			})
		}
	}
}

func keyed(t *testing.T, key *codec.Key, log *bytes.Buffer, namespace, id string) converter.DataConverter {
	var options client.Options
	codec.Apply(&options, key, slog.New(slog.NewTextHandler(log, nil)))
	return converter.WithDataConverterSerializationContext(options.DataConverter,
		converter.WorkflowSerializationContext{Namespace: namespace, WorkflowID: id})
}

func TestAPayloadOpensForItsOwnPlaceAlone(t *testing.T) {
	_, _, key := made(t)
	_, _, other := made(t)
	var log bytes.Buffer
	own := keyed(t, key, &log, "default", "build/docs/g1")
	closed, err := own.ToPayloads("Alfred Nobel")
	require.True(t, err == nil && !bytes.Contains(closed.Payloads[0].GetData(), []byte("Nobel")), "%v, %v", closed, err)
	twice := musttest.Get(own.ToPayloads("Alfred Nobel"))(t)
	assert.True(t, !bytes.Equal(twice.Payloads[0].GetData(), closed.Payloads[0].GetData()), "the same text looks the same")
	var text string
	err = own.FromPayloads(closed, &text)
	require.True(t, err == nil && text == "Alfred Nobel", "%q, %v", text, err)
	ofSchedule := musttest.Get(keyed(t, key, &log, "default", "unweaver/docs").ToPayloads("night"))(t)
	err = keyed(t, key, &log, "default", "unweaver/docs-2026-11-27T18:00:00Z").FromPayloads(ofSchedule, &text)
	assert.True(t, err == nil && text == "night", "a schedule's workflow cannot read its input: %v", err)
	plain := musttest.Get(converter.GetDefaultDataConverter().ToPayloads("plain"))(t)
	bent := proto.CloneOf(closed)
	bent.Payloads[0].Data[20] ^= 1
	passing := proto.CloneOf(plain)
	passing.Payloads[0].Metadata[converter.MetadataEncoding] = []byte("binary/encrypted")
	short := proto.CloneOf(closed)
	short.Payloads[0].Data = short.Payloads[0].Data[:5]
	log.Reset()
	for name, test := range map[string]struct {
		by   converter.DataConverter
		sent *common.Payloads
	}{
		"plain":                     {own, plain},
		"plain, called encrypted":   {own, passing},
		"changed":                   {own, bent},
		"cut off":                   {own, short},
		"none":                      {own, nil},
		"an empty list":             {own, &common.Payloads{}},
		"an empty one":              {own, &common.Payloads{Payloads: []*common.Payload{{}}}},
		"with another key":          {keyed(t, other, &log, "default", "build/docs/g1"), closed},
		"for another workflow":      {keyed(t, key, &log, "default", "build/docs/g2"), closed},
		"for another namespace":     {keyed(t, key, &log, "builds", "build/docs/g1"), closed},
		"of a schedule, for a name": {keyed(t, key, &log, "default", "unweaver/docs-2"), ofSchedule},
		"for an activity": {converter.WithDataConverterSerializationContext(own, converter.ActivitySerializationContext{
			Namespace: "default", WorkflowID: "build/docs/g1", ActivityType: "PlanBuild",
		}), closed},
	} {
		text = ""
		err := test.by.FromPayloads(test.sent, &text)
		assert.True(t, err != nil && text == "", "%s: read %q, %v", name, text, err)
	}
	assert.True(t, strings.Contains(log.String(), "refused a payload") && !strings.Contains(log.String(), "Nobel"),
		"logged %s", log.String())
	assert.Error(t, own.FromPayload(nil, &text), "no payload passes for an empty one")
}

// Promises: 133.
func TestAStartIsGoodForItsWorkflowAndAWhileOnly(t *testing.T) {
	_, _, key := made(t)
	now := time.Date(2026, 11, 27, 18, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		kind, name, sealed, id string
		at                     time.Time
		runs                   bool
		run, after             string // that continues, by the seal and by the engine
	}{
		"of a client":               {"start", "Stage", "build/a/g", "build/a/g", now, true, "", ""},
		"of a clock that is behind": {"start", "Stage", "build/a/g", "build/a/g", now.Add(-10 * time.Minute), true, "", ""},
		"repeated an hour later":    {"start", "Stage", "build/a/g", "build/a/g", now.Add(-time.Hour), false, "", ""},
		"of another type":           {"start", "Build", "build/a/g", "build/a/g", now, false, "", ""},
		"of another workflow":       {"start", "Stage", "build/a/g", "build/b/g", now, false, "", ""},
		"of a schedule": {
			"schedule", "Stage", "unweaver/a", "unweaver/a-2026-11-27T18:00:00Z", now, true, "", "",
		},
		"of a schedule, by hand":        {"schedule", "Stage", "unweaver/a", "unweaver/a", now, false, "", ""},
		"of a child, without a parent":  {"child", "Stage", "build/a/g", "build/a/g", now, false, "", ""},
		"of a run that goes on in none": {"continue", "Stage", "", "build/a/g", now, false, "", ""},
		"of a run that goes on":         {"continue", "Stage", "", "build/a/g", now, true, "r1", "r1"},
		"of another run that goes on":   {"continue", "Stage", "", "build/a/g", now, false, "r1", "r2"},
		"that names no run before it":   {"continue", "Stage", "", "build/a/g", now, false, "", "r2"},
		"that went on an hour ago":      {"continue", "Stage", "", "build/a/g", now.Add(-time.Hour), false, "r1", "r1"},
		"of an update":                  {"update", "Stage", "build/a/g", "build/a/g", now, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			checks, header := musttest.Get2(codec.Sealed(key, test.kind, test.name, test.sealed, test.run, test.at))(t)
			var suite testsuite.WorkflowTestSuite
			suite.SetHeader(header)
			env := suite.NewTestWorkflowEnvironment()
			env.SetStartTime(now)
			env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: test.id, TaskQueue: "unweaver"})
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{checks}})
			env.SetContinuedExecutionRunID(test.after)
			ran := false
			env.RegisterWorkflowWithOptions(func(workflow.Context) error { ran = true; return nil },
				workflow.RegisterOptions{Name: "Stage"})
			env.ExecuteWorkflow("Stage")
			err := env.GetWorkflowError()
			assert.True(t, ran == test.runs && (err == nil) == test.runs &&
				(err == nil || strings.Contains(err.Error(), "refused: its seal is of")), "ran: %v, %v", ran, err)
		})
	}
}

// Promises: 133.
func TestASealIsOfOneActivityOfARun(t *testing.T) {
	_, _, key := made(t)
	try := func(name, id string) (ran string, err error) {
		checks, header, err := codec.Sealed(key, "activity", name, id, "", time.Time{})
		require.NoError(t, err)
		var suite testsuite.WorkflowTestSuite
		suite.SetHeader(header)
		env := suite.NewTestActivityEnvironment()
		if name != "" {
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{checks}})
		}
		env.RegisterActivityWithOptions(func(ctx context.Context) error {
			ran = "as " + activity.GetInfo(ctx).ActivityID
			return nil
		}, activity.RegisterOptions{Name: "Note"})
		_, err = env.ExecuteActivity("Note")
		return ran, err
	}
	ran := musttest.Get(try("", ""))(t)
	id := strings.TrimPrefix(ran, "as ") // as the suite gives it
	ran, err := try("Note", id)
	assert.True(t, ran != "" && err == nil, "its own seal: %v", err)
	for _, sealed := range [][2]string{{"Other", id}, {"Note", id + "0"}} {
		ran, err := try(sealed[0], sealed[1])
		assert.True(t, ran == "" && err != nil, "it ran with the seal of %s: %v", sealed, err)
	}
}

// Fields of others, as those of traces, travel inside of the seal.
func TestFieldsOfAHeaderComeBackOutOfItsSeal(t *testing.T) {
	_, _, key := made(t)
	sent := &common.Payload{Data: []byte("00-trace")}
	got, err := codec.CarryFields(key, map[string]*common.Payload{"trace": sent})
	assert.True(t, err == nil && len(got) == 2 && string(got["trace"].GetData()) == "00-trace", "%v, %v", got, err)
}
