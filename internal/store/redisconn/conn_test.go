package redisconn_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/redisconn"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
)

func TestWhatAServerRefusesNamesTheFix(t *testing.T) {
	for _, c := range []struct {
		reply string
		code  fault.Code
		says  string
	}{
		{"OOM command not allowed when used memory > 'maxmemory'.", fault.StoreFull, "raise maxmemory"},
		{"MISCONF Redis is configured to save RDB snapshots", fault.StoreFull, "disk"},
		{"READONLY You can't write against a read only replica.", fault.StoreDenied, "primary"},
		{"NOAUTH Authentication required.", fault.StoreDenied, "password"},
		{"WRONGPASS invalid username-password pair", fault.StoreDenied, "UNWEAVER_STORES_CLASSES"},
		{"NOPERM this user has no permissions", fault.StoreDenied, "INFO, EVAL and EVALSHA"},
		{"ERR DB index is out of range", fault.BadConfig, "database number"},
		{"MOVED 3999 127.0.0.1:6381", fault.BadConfig, "redis+cluster://"},
		{"CROSSSLOT Keys in request don't hash to the same slot", fault.BadConfig, "redis+cluster://"},
		{"ERR This instance has cluster support disabled", fault.BadConfig, "not a cluster"},
	} {
		conn := redistest.Open(t, redistest.Fake(t, func([]string) string { return "-" + c.reply }))
		musttest.Fail(t, conn.TakePrefix(t.Context(), "aaaaaaaa0000"), c.code, c.says)
	}
}

// A server that is loading its file or fails over is asked again; one that refuses for good is asked once.
func TestOnlyWhatHealsIsAskedAgain(t *testing.T) {
	t.Parallel()
	for reply, want := range map[string]int{"-LOADING Redis is loading the dataset in memory": 4, "-OOM full": 1} {
		asked := 0
		conn := redistest.Open(t, redistest.Fake(t, func([]string) string { asked++; return reply }))
		begin := time.Now()
		err := conn.TakePrefix(t.Context(), "aaaaaaaa0000")
		assert.True(t, err != nil && asked == want, "%s: asked %d times in %s, %v", reply, asked, time.Since(begin), err)
	}
}

func TestAServerThatDoesNotAnswerIsNotWaitedForBeyondTheDeadline(t *testing.T) {
	for name, path := range map[string]string{"the caller's": "", "the connection's": "/0?read_timeout=200ms"} {
		conn := redistest.Open(t, redistest.Fake(t, func([]string) string { return "" })+path)
		ctx := t.Context()
		if path == "" {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
		}
		begin := time.Now()
		err := conn.Ping(ctx)
		took := time.Since(begin)
		assert.True(t, err != nil && took <= time.Minute, "%s deadline: %v after %s", name, err, took)
		assert.Equal(t, fault.Transient, fault.KindOf(err), "%s deadline: %v is not transient", name, err)
	}
}

func TestAURLThatNamesNoServerIsRefusedWithoutItsPassword(t *testing.T) {
	for _, url := range []string{"http://:secret@localhost", "redis://:secret@host:port",
		"redis+cluster://:secret@a:x,b:y", "redis://:secret@h/notanumber"} {
		_, err := redisconn.Open(t.Context(), url)
		musttest.Fail(t, err, fault.BadConfig, "stores.classes")
		assert.False(t, strings.Contains(fmt.Sprint(err), "secret"), "%s: the password is in %v", url, err)
	}
}

func TestNoServerIsTransient(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	musttest.Refuse(redisconn.Open(ctx, "redis://127.0.0.1:1/0"))(t, fault.StoreDown, "stores.classes")
}

func TestAConnectionThatIsSharedMayBeClosedByEach(t *testing.T) {
	conn := redistest.Open(t, redistest.Fake(t, func([]string) string { return "+PONG" }))
	require.NoError(t, conn.Ping(t.Context()))
	for range 2 {
		assert.NoError(t, conn.Close())
	}
	musttest.Code(t, conn.Ping(t.Context()), fault.StoreDown, "after closing")
}

func TestKeysBeginWithTheOwner(t *testing.T) {
	conn := redistest.Open(t, redistest.Fake(t, func(command []string) string {
		if strings.EqualFold(command[0], "GET") {
			return "$12\r\nabcdef012345"
		}
		return "+OK"
	}))
	assert.Equal(t, "state:i/g", conn.Key("state", "i/g"), "before it is owned")
	musttest.Fail(t, conn.TakePrefix(t.Context(), "abcdef01ffff"), fault.StoreOwned, "prefix abcdef01:")
	require.NoError(t, conn.TakePrefix(t.Context(), "abcdef012345"))
	assert.Equal(t, "abcdef01:state:i/g", conn.Key("state", "i/g"), "key")
}

func TestAServerThatEvictsIsRefused(t *testing.T) {
	address, _ := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	musttest.Refuse(redisconn.Open(t.Context(), "redis://"+address))(t, fault.BadConfig, "noeviction")
}

func TestAWrongPasswordNamesTheFixAndIsNotPrinted(t *testing.T) {
	address, _ := redistest.Start(t, "--requirepass", "right")
	_, err := redisconn.Open(t.Context(), "redis://:wrong-secret@"+address)
	musttest.Fail(t, err, fault.StoreDenied, "password")
	assert.False(t, strings.Contains(err.Error(), "wrong-secret"), "the password is in the error")
	redistest.Open(t, "redis://:right@"+address)
}
