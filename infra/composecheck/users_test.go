package composecheck

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/fault"
	coordination "github.com/unweaver/unweaver/internal/store/coordination/redis"
	"github.com/unweaver/unweaver/internal/store/records"
	recordsredis "github.com/unweaver/unweaver/internal/store/records/redis"
	"github.com/unweaver/unweaver/internal/store/redisconn"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
)

// identity of SeaweedFS's file of S3 users.
type identity struct {
	Name        string
	Credentials []struct{ AccessKey, SecretKey string }
	Actions     []string
}

// may is SeaweedFS's rule: an action with * or ? is matched against action:bucket/key, one without names a bucket.
func (i identity) may(action, bucket, key string) bool {
	for _, allowed := range i.Actions {
		if !strings.ContainsAny(allowed, "*?") {
			if allowed == action+":"+bucket {
				return true
			}
			continue
		}
		pattern := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(allowed))
		if regexp.MustCompile("^" + pattern + "$").MatchString(action + ":" + strings.TrimSuffix(bucket+"/"+key, "/")) {
			return true
		}
	}
	return false
}

func s3Users(t *testing.T) map[string]identity {
	t.Helper()
	out, err := script(t, "../seaweedfs/identities.sh", s3Secrets, password)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Identities []identity }
	if err := json.Unmarshal([]byte(out), &file); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	users := map[string]identity{}
	for _, user := range file.Identities {
		users[user.Name] = user
	}
	return users
}

func TestEachProgramOfTheFileIsAUserOfS3(t *testing.T) {
	file, users := load(t), s3Users(t)
	if len(users) != 4 {
		t.Errorf("there are %d users, want 4", len(users))
	}
	for name, keyVariable := range map[string]string{
		"worker": "AWS_ACCESS_KEY_ID", "query-api": "AWS_ACCESS_KEY_ID", "cli": "AWS_ACCESS_KEY_ID",
		"milvus": "MINIO_ACCESS_KEY_ID",
	} {
		credentials := users[file.Services[name].Environment[keyVariable]].Credentials
		secret := "S3_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_SECRET"
		if len(credentials) != 1 || credentials[0].SecretKey != password(secret) {
			t.Errorf("%s has the credentials %v, want the secret %s alone", name, credentials, secret)
		}
	}
}

func TestAUserOfS3MayDoWhatItsProgramDoesAndNoMore(t *testing.T) {
	const index = "artifacts/docs/"
	users := s3Users(t)
	for _, c := range []struct {
		user, action, bucket, key string
		may                       bool
	}{
		{"worker", "Write", "unweaver", index + "segments/ab", true},
		{"worker", "Write", "unweaver", "", true}, // many at a time: asked of the bucket
		{"worker", "Read", "corpus", "docs/a.pdf", true},
		{"worker", "List", "milvus", "", true},
		{"worker", "Write", "milvus", "unweaver-import/01234567/x.parquet", true},
		{"worker", "Write", "milvus", "", false}, // of Milvus's bucket objects are deleted each by itself
		{"worker", "Write", "corpus", "docs/a.pdf", false},
		{"worker", "Read", "milvus", "files/insert_log/1", false},
		{"worker", "Write", "milvus", "files/insert_log/1", false},
		{"query-api", "Read", "unweaver", index + "segments/ab", true},
		{"query-api", "List", "unweaver", "", true},
		{"query-api", "Write", "unweaver", index + "current.json", false},
		{"query-api", "Write", "unweaver", "artifacts/_access/keys.json", false},
		{"query-api", "Read", "corpus", "docs/a.pdf", false},
		{"query-api", "List", "milvus", "", false},
		{"cli", "Write", "unweaver", index + "specs/ab.json", true},
		{"cli", "Write", "unweaver", index + "lease.json", true},
		{"cli", "Write", "unweaver", "artifacts/store.json", true},
		{"cli", "Write", "unweaver", "artifacts/_access/keys.json", true},
		{"cli", "Write", "unweaver", "artifacts/doctor/xyz", true},
		{"cli", "Write", "unweaver", index + "current.json", false},
		{"cli", "Write", "unweaver", index + "segments/ab", false},
		{"cli", "Write", "corpus", "docs/a.pdf", false},
		{"milvus", "Write", "milvus", "files/x", true},
		{"milvus", "Read", "milvus", "unweaver-import/01234567/x.parquet", true},
		{"milvus", "Read", "unweaver", index + "segments/ab", false},
		{"milvus", "List", "corpus", "", false},
	} {
		user, ok := users[c.user]
		if !ok {
			t.Fatalf("there is no user %s", c.user)
		}
		if got := user.may(c.action, c.bucket, c.key); got != c.may {
			t.Errorf("%s may %s %s/%s: %v", c.user, c.action, c.bucket, c.key, got)
		}
	}
	for name, user := range users {
		for _, action := range user.Actions {
			if !strings.Contains(action, ":") || strings.HasPrefix(action, "Admin") {
				t.Errorf("%s may %s in every bucket", name, action)
			}
		}
	}
}

const storeID = "0123456789abcdef0123456789abcdef"

// redisUsers starts a real Redis with the file of users, and gives a URL for each.
func redisUsers(t *testing.T) (address string, url func(user string) string) {
	t.Helper()
	out, err := script(t, "../redis/users.sh", redisSecrets, password)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	address, _ = redistest.Start(t, "--aclfile", path)
	return address, func(user string) string {
		secret := "REDIS_" + strings.ToUpper(strings.ReplaceAll(user, "-", "_")) + "_PASSWORD"
		return "redis://" + user + ":" + password(secret) + "@" + address
	}
}

func TestRedisAnswersNobodyWithoutAPassword(t *testing.T) {
	address, url := redisUsers(t)
	for name, uri := range map[string]string{
		"nobody": "redis://" + address, "an unknown user": "redis://admin:x@" + address,
		"a wrong password": strings.Replace(url("worker"), "0123456789", "1234567890", 1),
	} {
		client := redistest.Raw(t, uri)
		for _, command := range []string{"PING", "INFO", "GET x", "CONFIG GET requirepass", "ACL LIST"} {
			var arguments []any
			for word := range strings.FieldsSeq(command) {
				arguments = append(arguments, word)
			}
			if answer, err := client.Do(t.Context(), arguments...).Result(); err == nil {
				t.Errorf("%s gets %v for %s", name, answer, command)
			}
		}
		if _, err := redisconn.Open(t.Context(), uri); !fault.Is(err, fault.StoreDenied) {
			t.Errorf("%s: %v, want store_denied", name, err)
		}
	}
}

// programs opens a connection for every user. The worker comes first: it takes the installation's prefix.
func programs(t *testing.T, url func(string) string) map[string]*redisconn.Conn {
	t.Helper()
	out := map[string]*redisconn.Conn{}
	for _, user := range []string{"worker", "query-api", "cli"} {
		conn := redistest.Open(t, url(user))
		if err := conn.Own(t.Context(), storeID); err != nil {
			t.Fatalf("%s: %v", user, err)
		}
		out[user] = conn
	}
	return out
}

func TestAUserOfRedisMayDoWhatItsProgramDoes(t *testing.T) {
	_, url := redisUsers(t)
	ctx, conns := t.Context(), programs(t, url)
	key := storeID[:8] + ":c:docs:1"
	worker, query, cli := conns["worker"], conns["query-api"], conns["cli"]
	stored := recordsredis.New(worker)
	runs, readers := coordination.New(worker), coordination.New(query)
	none := func(_ any, err error) error { return err }
	spend := func() error { _, _, err := runs.Spend(ctx, "docs/g", "w", []byte("1")); return err }
	for _, c := range []struct {
		what string
		err  error
	}{
		{"the worker writes records", stored.PutRecords(ctx, []records.Record{{Key: key, Value: []byte("v")}})},
		{"the worker scans records", stored.ScanRecords(ctx, storeID[:8], func([]string) error { return nil })},
		{"the worker identifies the server", none(stored.Identity(ctx))},
		{"the worker claims", none(runs.Claim(ctx, "k", "o", time.Minute))},
		{"the worker claims many", none(runs.ClaimAll(ctx, []string{"k", "l"}, "o", time.Minute))},
		{"the worker releases", runs.Release(ctx, "k", "o")},
		{"the worker reserves", none(runs.Reserve(ctx, "e", 1, 1, 10, 10))},
		{"the worker settles", runs.Settle(ctx, "e", 1)},
		{"the worker spends", spend()},
		{"the worker tells progress", runs.SetProgress(ctx, "docs/g", "f", []byte("1"))},
		{"the worker removes a problem", runs.SetProblem(ctx, "docs/g", "f", nil)},
		{"the worker mirrors the pointer", runs.Mirror(ctx, "docs", 1, []byte("{}"))},
		{"the worker asks who reads", none(runs.Leased(ctx, "docs"))},
		{"query-api reads records", none(recordsredis.New(query).GetRecords(ctx, []string{key}))},
		{"query-api reads the mirror", none(readers.Mirrored(ctx, "docs"))},
		{"query-api leases a generation", readers.Lease(ctx, "docs", "g", "r", time.Minute)},
		{"query-api reserves a call for an answer", none(readers.Reserve(ctx, "e", 1, 1, 10, 10))},
		{"query-api settles it", readers.Settle(ctx, "e", 1)},
		{"query-api probes", query.Ping(ctx)},
		{"cli remembers a run", coordination.New(cli).SetState(ctx, "docs/g", []byte("x"))},
		{"cli reads progress", none(coordination.New(cli).Progress(ctx, "docs/g"))},
		{"cli reads problems", none(coordination.New(cli).Problems(ctx, "docs/g"))},
		{"cli reads the control record", none(coordination.New(cli).Control(ctx, "docs/g"))},
		{"the worker forgets a run", runs.ForgetRun(ctx, "docs/g")},
		{"the worker deletes records", stored.DeleteRecords(ctx, []string{key})},
	} {
		if c.err != nil {
			t.Errorf("%s: %v", c.what, c.err)
		}
	}
}

func TestAUserOfRedisMayDoNoMore(t *testing.T) {
	_, url := redisUsers(t)
	_ = programs(t, url)
	prefix := storeID[:8] + ":"
	forbidden := map[string][]string{
		"worker":    {"GET other", "FLUSHALL", "FLUSHDB", "CONFIG GET *", "ACL LIST", "KEYS *", "SHUTDOWN", "SAVE"},
		"query-api": {"SET " + prefix + "c:docs:1 x", "DEL " + prefix + "c:docs:1", "UNLINK " + prefix + "c:docs:1"},
		"cli":       {"SET " + prefix + "c:docs:1 x", "DEL " + prefix + "state:docs/g", "UNLINK " + prefix + "c:docs:1"},
	}
	forbidden["query-api"] = append(forbidden["query-api"], "SET "+prefix+"owner x", "HSET "+prefix+"mirror:docs pointer x",
		"SET "+prefix+"control:docs/g x", "HSET "+prefix+"account:{"+prefix+"control:docs/g} w 0",
		"EVAL return(redis.call('SET',KEYS[1],'x')) 1 "+prefix+"c:docs:1",
		"EVAL return(redis.call('SET',KEYS[1],'x')) 1 "+prefix+"lease:docs", "SCAN 0")
	for _, user := range []string{"query-api", "cli"} {
		forbidden[user] = append(forbidden[user], forbidden["worker"]...)
	}
	for user, commands := range forbidden {
		client := redistest.Raw(t, url(user))
		for _, command := range commands {
			refused(t, client, user, command)
		}
	}
	for user := range forbidden {
		if keys := len(keysOf(t, redistest.Raw(t, url("worker")))); keys != 1 { // the owner
			t.Errorf("%s changed something: %d keys", user, keys)
		}
	}
}

func refused(t *testing.T, client *goredis.Client, user, command string) {
	t.Helper()
	var arguments []any
	for word := range strings.FieldsSeq(command) {
		arguments = append(arguments, word)
	}
	answer, err := client.Do(t.Context(), arguments...).Result()
	refusal := regexp.MustCompile(`NOPERM|permission|can't run this command`)
	if err == nil || !refusal.MatchString(err.Error()) {
		t.Errorf("%s gets %v, %v for %s", user, answer, err, command)
	}
}

func keysOf(t *testing.T, client *goredis.Client) []string {
	t.Helper()
	keys, _, err := client.Scan(context.WithoutCancel(t.Context()), 0, "*", 1000).Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
