package infra_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/redis"
	"github.com/unweaver/unweaver/internal/store/records"
	recordsredis "github.com/unweaver/unweaver/internal/store/records/redis"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
)

func password(variable string) string { return variable + "-0123456789abcdef" }

// writeUsers runs a script that writes a file of users; one of the secrets that it takes may be another.
func writeUsers(t *testing.T, script, other, value string) (string, error) {
	command := exec.CommandContext(t.Context(), "sh", script)
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	secrets := regexp.MustCompile(`\b(REDIS|S3)_[A-Z_]+_(PASSWORD|SECRET)\b`).FindAllString(readFile(t, script), -1)
	for _, name := range secrets {
		command.Env = append(command.Env, name+"="+password(name))
	}
	if other != "" {
		command.Env = append(command.Env, other+"="+value)
	}
	out, err := command.Output()
	return string(out), err
}

func TestASecretThatWouldBreakAFileOfUsersIsRefused(t *testing.T) {
	for script, secret := range map[string]string{
		"redis/users.sh": "REDIS_CLI_PASSWORD", "seaweedfs/identities.sh": "S3_CLI_SECRET",
	} {
		assert.NoError(t, musttest.Err(writeUsers(t, script, "", "")), "%s refuses good secrets", script)
		for _, bad := range []string{
			"", "short", `0123456789abcdef"`, "0123456789abcdef\nuser x on nopass", "0123456789abcdef@host",
		} {
			out, err := writeUsers(t, script, secret, bad)
			assert.True(t, err != nil && out == "", "%s takes %q and writes %q", script, bad, out)
		}
	}
}

func TestUsersOfS3MayWriteWhereTheirProgramDoes(t *testing.T) {
	out := musttest.Get(writeUsers(t, "seaweedfs/identities.sh", "", ""))(t)
	writes := map[string][]string{}
	for line := range strings.Lines(out) {
		words := regexp.MustCompile(`[\w*/.:-]{2,}`).FindAllString(line, -1)
		for _, word := range words {
			if place, ok := strings.CutPrefix(word, "Write:"); ok {
				writes[words[1]] = append(writes[words[1]], place)
			}
			assert.NotRegexp(t, `^(Admin.*|Read|Write|List)$`, word, "in every bucket: %q", words)
		}
	}
	for user, want := range map[string][]string{
		"worker": {"unweaver", "milvus/unweaver-import/*"}, "query-api": nil, "milvus": {"milvus"}, "corpus": {"corpus"},
		"cli": {"unweaver", "milvus/unweaver-import/*"},
	} {
		assert.True(t, slices.Equal(writes[user], want), "%s may write to %v, want %v", user, writes[user], want)
	}
}

// mayWrite reports whether rights allow a write, by SeaweedFS's rule: a right names a bucket, or objects by a pattern.
// The right to remove many objects at a time is asked of the bucket, where object is empty.
func mayWrite(rights []string, bucket, object string) bool {
	return slices.ContainsFunc(rights, func(right string) bool {
		prefix, pattern := strings.CutSuffix(right, "*")
		return right == bucket || pattern && strings.HasPrefix(bucket+"/"+object, prefix)
	})
}

// What each command of an operator writes with the command line's own credentials, it may write; no one but the user of
// the corpus fills the corpus.
func TestTheCommandLineMayDoWhatOperatorsDo(t *testing.T) {
	out := musttest.Get(writeUsers(t, "seaweedfs/identities.sh", "", ""))(t)
	rights := map[string][]string{}
	for line := range strings.Lines(out) {
		words := regexp.MustCompile(`[\w*/.:-]{2,}`).FindAllString(line, -1)
		for _, word := range words {
			if place, ok := strings.CutPrefix(word, "Write:"); ok {
				rights[words[1]] = append(rights[words[1]], place)
			}
		}
	}
	const record = "operations/20261127t100000.000000z-abcdef.json"
	for command, keys := range map[string][]string{
		"rollback":             {record, "current.json"},
		"publish":              {record, "current.json", "generations/g1/manifest.json"},
		"discard":              {record, "generations/g1/manifest.json"},
		"tag":                  {record, "tags/g1/kept.json"},
		"branch":               {record, "branches/exp.json", "../_branches/exp.json", "../exp/current.json"},
		"promote":              {record, "current.json"},
		"schedule apply":       {"specs/a.json", "schedule.json"},
		"schedule pause":       {record, "schedule.json"},
		"purge":                {record, "purges/p1.json"},
		"backfill start":       {record, "backfills/old/state.json"},
		"dead-letters discard": {record, "discarded.json"},
		"pause":                {record},
		"cancel --lost":        {record, "lease.json"},
		"restore":              {record},
		"keys create":          {"../_access/keys.json"},
		"doctor":               {"../doctor/probe"},
		"delete":               {"../_deleted/docs/" + record, "lease.json", ""},
	} {
		for _, key := range keys {
			object := path.Join("artifacts/docs", key)
			if key == "" {
				object = ""
			}
			assert.True(t, mayWrite(rights["cli"], "unweaver", object), "%s may not write %q", command, object)
			assert.False(t, mayWrite(rights["query-api"], "unweaver", object), "query-api writes %q", object)
		}
	}
	for _, user := range []string{"worker", "cli"} { // it deletes an index, and probes
		assert.True(t, mayWrite(rights[user], "milvus", core.ImportRoot+"s/docs/a"), "%s may not write imports", user)
	}
	for user, places := range rights {
		assert.Equal(t, user == "corpus", mayWrite(places, "corpus", "docs/a.md"), "%s writes the corpus", user)
	}
}

// TestUsersOfRedisMayDoWhatTheirProgramDoes tries the file of users on a real server.
func TestUsersOfRedisMayDoWhatTheirProgramDoes(t *testing.T) {
	out := musttest.Get(writeUsers(t, "redis/users.sh", "", ""))(t)
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte(out), 0o600))
	address, _ := redistest.Start(t, "--aclfile", users)
	const store = "0123456789abcdef0123456789abcdef"
	url := func(user string) string {
		variable := "REDIS_" + strings.ToUpper(strings.ReplaceAll(user, "-", "_")) + "_PASSWORD"
		return "redis://" + user + ":" + password(variable) + "@" + address
	}
	checkRefused := func(client, url, command string) {
		arguments := []any{}
		for word := range strings.FieldsSeq(command) {
			arguments = append(arguments, word)
		}
		answer, err := redistest.Raw(t, url).Do(t.Context(), arguments...).Result()
		if err == nil || !regexp.MustCompile(`NOPERM|NOAUTH|WRONGPASS|permission|can't run`).MatchString(err.Error()) {
			t.Errorf("%s gets %v, %v for %s", client, answer, err, command)
		}
	}
	ports := map[string]*redis.Store{}
	for _, user := range []string{"worker", "query-api", "cli"} { // the worker first: it takes the store's prefix
		conn := redistest.Open(t, url(user))
		require.NoError(t, conn.TakePrefix(t.Context(), store), "%s", user)
		ports[user] = redis.New(conn)
	}
	use := coordination.Use{1, 1, 10, 10}
	ctx, worker, query, cli := t.Context(), ports["worker"], ports["query-api"], ports["cli"]
	stored := recordsredis.New(redistest.Open(t, url("worker")))
	read := recordsredis.New(redistest.Open(t, url("query-api")))
	key := store[:8] + ":c:docs:1"
	second := func(_ any, err error) error { return err }
	for what, err := range map[string]error{
		"the worker writes records":        stored.PutRecords(ctx, []records.Record{{Key: key, Value: []byte("v")}}),
		"the worker scans records":         stored.ScanRecords(ctx, store[:8], func([]string) error { return nil }),
		"the worker claims":                second(worker.ClaimAll(ctx, []string{"k", "l"}, "o", time.Minute)),
		"the worker reserves":              second(worker.Reserve(ctx, "e", 1, 1, 10, 10)),
		"the worker mirrors the pointer":   worker.Mirror(ctx, "docs", 1, []byte("{}")),
		"the worker asks who reads":        second(worker.ListLeased(ctx, "docs")),
		"query-api reads records":          second(read.GetRecords(ctx, []string{key})),
		"query-api reads the mirror":       second(query.ReadMirror(ctx, "docs")),
		"query-api leases a generation":    query.Lease(ctx, "docs", "g", "r", time.Minute),
		"query-api reserves a model call":  second(query.Reserve(ctx, "e", 1, 1, 10, 10)),
		"query-api settles it":             query.Settle(ctx, "e", 1),
		"query-api takes a quota":          second(query.TakeQuota(ctx, "s", "1", use, coordination.Unlimited)),
		"query-api settles a quota":        query.SettleQuota(ctx, "s", "1", use),
		"the command line writes a state":  cli.SetState(ctx, "docs/g", []byte("x")),
		"the command line reads progress":  second(cli.ReadProgress(ctx, "docs/g")),
		"the command line reads a control": second(cli.ReadControl(ctx, "docs/g")),
		"the worker forgets a run":         worker.ForgetRun(ctx, "docs/g"),
		"the command line moves a mirror":  cli.Mirror(ctx, "docs", 2, []byte("{}")),
		"the command line asks who reads":  second(cli.ListLeased(ctx, "docs")),
		"the command line claims a start":  second(cli.ClaimAll(ctx, []string{"start/docs"}, "o", time.Minute)),
		"and releases it":                  cli.ReleaseAll(ctx, []string{"start/docs"}, "o"),
	} {
		assert.NoError(t, err, "%s", what)
	}
	held := recordsredis.New(redistest.Open(t, url("cli")))
	assert.NoError(t, held.ScanRecords(ctx, store[:8]+":c:docs:", func(keys []string) error {
		return held.DeleteRecords(ctx, keys)
	}), "the command line deletes an index's records")
	assert.NoError(t, cli.ForgetIndex(ctx, "docs"), "the command line forgets a deleted index")
	everybody := []string{"GET other", "FLUSHALL", "CONFIG GET *", "ACL LIST", "KEYS *", "SHUTDOWN", "SAVE"}
	readers := append([]string{"SET " + key + " x", "DEL " + key}, everybody...)
	for user, commands := range map[string][]string{
		"worker": everybody, "cli": append([]string{"UNLINK other", "SET " + store[:8] + ":claim:k x"},
			readers...), "query-api": append([]string{
			"UNLINK " + key, "SET " + store[:8] + ":owner x", "HSET " + store[:8] + ":mirror:docs pointer x",
			"EVAL return(redis.call('SET',KEYS[1],'x')) 1 " + key, "SCAN 0",
		}, readers...),
	} {
		for _, command := range commands {
			checkRefused(user, url(user), command)
		}
	}
	for client, url := range map[string]string{
		"a client without a password": "redis://" + address, "an unknown user": "redis://admin:x@" + address,
	} {
		for _, command := range everybody {
			checkRefused(client, url, command)
		}
	}
}
