package redis_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/records/redis"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/recordstest"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
)

func TestConformance(t *testing.T)           { conform(t, redistest.Server(t)) }
func TestConformanceOnACluster(t *testing.T) { conform(t, redistest.Cluster(t)) }

func conform(t *testing.T, url string) {
	recordstest.Run(t, func(t *testing.T) records.Store { return redis.New(redistest.Empty(t, url)) })
}

func TestAFullServerNamesTheFix(t *testing.T) {
	address, _ := redistest.Start(t, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
	store := redis.New(redistest.Open(t, "redis://"+address))
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		err = store.PutRecords(t.Context(), []records.Record{{Key: fmt.Sprint("k", i), Value: make([]byte, 100_000)}})
	}
	musttest.Fail(t, err, fault.StoreFull, "maxmemory")
}

func TestAReplicaNamesTheFix(t *testing.T) {
	_, port := redistest.Start(t)
	replica, _ := redistest.Start(t, "--replicaof", "127.0.0.1 "+fmt.Sprint(port))
	store := redis.New(redistest.Open(t, "redis://"+replica))
	err := store.PutRecords(t.Context(), []records.Record{{Key: "k", Value: []byte("v")}})
	musttest.Fail(t, err, fault.StoreDenied, "primary")
}

// A server that was wiped, or restarted without its data, may have forgotten what it said yes to.
func TestAServerThatLostItsMemoryHasAnotherIdentity(t *testing.T) {
	url := redistest.Server(t)
	identity := func(store *redis.Store) string { return musttest.Get(store.Identity(t.Context()))(t) }
	before := identity(redis.New(redistest.Empty(t, url)))
	assert.Equal(t, before, identity(redis.New(redistest.Open(t, url))), "the same server was")
	after := identity(redis.New(redistest.Empty(t, url)))
	assert.True(t, after != before, "a server that was emptied says that it was not")
}

// In a pipeline an absent key is reported first and would hide the failure of another.
func TestAFailureBehindAnAbsentKeyIsSeen(t *testing.T) {
	store := redis.New(redistest.Open(t, redistest.Fake(t, func(command []string) string {
		if command[1] == "absent" {
			return "$-1"
		}
		return "-OOM it cannot even read"
	})))
	musttest.Refuse(store.GetRecords(t.Context(), []string{"absent", "there"}))(t, fault.StoreFull, "maxmemory")
}

func TestWritesTravelTogether(t *testing.T) {
	var sent []string
	store := redis.New(redistest.Open(t, redistest.Fake(t, func(command []string) string {
		sent = append(sent, strings.Join(command, " "))
		return "+OK"
	})))
	rs := []records.Record{{Key: "aaaaaaaa:c:i:1", Value: []byte("x")}, {Key: "aaaaaaaa:c:i:2", Value: []byte("y")}}
	require.NoError(t, store.PutRecords(t.Context(), rs))
	// A record lies under its own key: another layout would lose what is stored.
	want := []string{"set aaaaaaaa:c:i:1 x", "set aaaaaaaa:c:i:2 y"}
	assert.True(t, slices.Equal(sent, want), "sent %q", sent)
}

func TestAScanTakesItsPrefixLiterally(t *testing.T) {
	var pattern string
	store := redis.New(redistest.Open(t, redistest.Fake(t, func(command []string) string {
		pattern = command[slices.Index(command, "match")+1]
		return "*2\r\n$1\r\n0\r\n*0"
	})))
	require.NoError(t, store.ScanRecords(t.Context(), `a*b?[c]\`, func([]string) error { return nil }))
	want := `a\*b\?\[c]\\*`
	assert.True(t, pattern == want, "asked for %q, want %q", pattern, want)
}
