package infra_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/coordination/redis"
	"github.com/unweaver/unweaver/internal/store/records"
	recordsredis "github.com/unweaver/unweaver/internal/store/records/redis"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
)

// password is that of a user in tests.
func password(variable string) string { return variable + "-0123456789abcdef" }

// writeUsers runs a script that writes a file of users; one of the secrets that it takes may be another.
func writeUsers(t *testing.T, path, other, value string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", path)
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	secrets := regexp.MustCompile(`\b(REDIS|S3)_[A-Z_]+_(PASSWORD|SECRET)\b`).FindAllString(readFile(t, path), -1)
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
	for path, secret := range map[string]string{
		"redis/users.sh": "REDIS_CLI_PASSWORD", "seaweedfs/identities.sh": "S3_CLI_SECRET",
	} {
		_, err := writeUsers(t, path, "", "")
		assert.NoError(t, err, "%s refuses good secrets", path)
		for _, bad := range []string{
			"", "short", `0123456789abcdef"`, "0123456789abcdef\nuser x on nopass", "0123456789abcdef@host",
		} {
			out, err := writeUsers(t, path, secret, bad)
			assert.True(t, err != nil && out == "", "%s takes %q and writes %q", path, bad, out)
		}
	}
}

func TestUsersOfS3MayWriteWhereTheirProgramDoes(t *testing.T) {
	out, err := writeUsers(t, "seaweedfs/identities.sh", "", "")
	require.NoError(t, err)
	writes := map[string][]string{}
	for line := range strings.Lines(out) {
		words := regexp.MustCompile(`[\w*/.:-]{2,}`).FindAllString(line, -1)
		for _, word := range words {
			if place, ok := strings.CutPrefix(word, "Write:"); ok {
				writes[words[1]] = append(writes[words[1]], place)
			}
			if strings.HasPrefix(word, "Admin") || regexp.MustCompile(`^(Read|Write|List)$`).MatchString(word) {
				t.Errorf("%s may %s in every bucket", words[1], word)
			}
		}
	}
	for user, want := range map[string][]string{
		"worker": {"unweaver", "milvus/unweaver-import/*"}, "query-api": nil, "milvus": {"milvus"}, "cli": {
			"unweaver/artifacts/store.json*", "unweaver/artifacts/*/specs/*", "unweaver/artifacts/*/lease.json",
			"unweaver/artifacts/_access/*", "unweaver/artifacts/doctor/*",
		},
	} {
		assert.True(t, slices.Equal(writes[user], want), "%s may write to %v, want %v", user, writes[user], want)
	}
}

// TestUsersOfRedisMayDoWhatTheirProgramDoes tries the file of users on a real server.
func TestUsersOfRedisMayDoWhatTheirProgramDoes(t *testing.T) {
	out, err := writeUsers(t, "redis/users.sh", "", "")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(path, []byte(out), 0o600))
	address, _ := redistest.Start(t, "--aclfile", path)
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
		require.NoError(t, conn.Own(t.Context(), store), "%s", user)
		ports[user] = redis.New(conn)
	}
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
		"the worker asks who reads":        second(worker.Leased(ctx, "docs")),
		"query-api reads records":          second(read.GetRecords(ctx, []string{key})),
		"query-api reads the mirror":       second(query.Mirrored(ctx, "docs")),
		"query-api leases a generation":    query.Lease(ctx, "docs", "g", "r", time.Minute),
		"query-api reserves a model call":  second(query.Reserve(ctx, "e", 1, 1, 10, 10)),
		"query-api settles it":             query.Settle(ctx, "e", 1),
		"the command line writes a state":  cli.SetState(ctx, "docs/g", []byte("x")),
		"the command line reads progress":  second(cli.Progress(ctx, "docs/g")),
		"the command line reads a control": second(cli.Control(ctx, "docs/g")),
		"the worker forgets a run":         worker.ForgetRun(ctx, "docs/g"),
	} {
		assert.NoError(t, err, "%s", what)
	}
	everybody := []string{"GET other", "FLUSHALL", "CONFIG GET *", "ACL LIST", "KEYS *", "SHUTDOWN", "SAVE"}
	readers := append([]string{"SET " + key + " x", "DEL " + key, "UNLINK " + key}, everybody...)
	for user, commands := range map[string][]string{
		"worker": everybody, "cli": readers, "query-api": append([]string{
			"SET " + store[:8] + ":owner x", "HSET " + store[:8] + ":mirror:docs pointer x",
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
