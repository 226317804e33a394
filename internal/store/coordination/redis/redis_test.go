package redis_test

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/coordination/redis"
	"github.com/unweaver/unweaver/internal/testkit/coordinationtest"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/redistest"
)

func TestConformance(t *testing.T)           { conform(t, redistest.Server(t)) }
func TestConformanceOnACluster(t *testing.T) { conform(t, redistest.Cluster(t)) }

func conform(t *testing.T, url string) {
	coordinationtest.Run(t, func(t *testing.T) coordination.Store { return redis.New(redistest.Empty(t, url)) })
}

func TestInstallationsShareAServerAndNeverMeet(t *testing.T) {
	url := redistest.Server(t)
	redistest.Empty(t, url)
	stores := map[string]*redis.Store{}
	for _, id := range []string{"aaaaaaaa00000000", "bbbbbbbb00000000"} {
		conn := redistest.Open(t, url)
		require.NoError(t, conn.TakePrefix(t.Context(), id))
		stores[id] = redis.New(conn)
	}
	for id, store := range stores {
		require.NoError(t, store.SetState(t.Context(), "i/g", []byte(id)))
		musttest.Get2(store.ExchangeAccount(t.Context(), "i/g", id, []byte("1")))(t)
	}
	for id, store := range stores {
		assert.Equal(t, id, string(musttest.Get(store.ReadState(t.Context(), "i/g"))(t)), "%s reads the state", id)
		assert.Len(t, musttest.Get(store.ReadAccounts(t.Context(), "i/g"))(t), 1, "%s reads the accounts", id)
		got, err := store.Claim(t.Context(), "k", id, time.Minute)
		assert.True(t, err == nil && got, "%s is kept from its own claim by the other's: %v", id, err)
	}
}

// proxy forwards connections to a server; a value sent to cut drops the next reply and closes its connection.
func proxy(t *testing.T, to string, cut chan bool) (address string) {
	listener := musttest.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	reply := func(conn, up net.Conn) {
		defer func() { _, _ = conn.Close(), up.Close() }()
		for raw := make([]byte, 65536); ; {
			n, err := up.Read(raw)
			if err != nil || len(cut) > 0 && <-cut {
				return
			}
			if _, err := conn.Write(raw[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(up, conn); _ = up.Close() }()
			go reply(conn, up)
		}
	}()
	return listener.Addr().String()
}

// A reply that is lost must not make a command count twice: the proxy cuts the connection after the request went
// through.
func TestAReservationWhoseReplyIsLostIsNotSentAgain(t *testing.T) {
	address, _ := redistest.Start(t)
	cut := make(chan bool, 1)
	store := redis.New(redistest.Open(t, "redis://"+proxy(t, address, cut)))
	if _, err := store.Reserve(t.Context(), "e", 1, 0, 100, 0); err != nil { // loads the script
		t.Fatal(err)
	}
	cut <- true
	musttest.Refuse(store.Reserve(t.Context(), "e", 1, 0, 100, 0))(t, fault.StoreDown)
	left, err := redistest.Raw(t, "redis://"+address).HGet(t.Context(), "rate:e", "requests").Float64()
	assert.False(t, err != nil || left < 97.9 || left > 98.9,
		"%v requests are left, %v; want 98 and what refilled since", left, err)
}

// Spending twice must count once: a reply that is lost makes the adapter send it again.
func TestSpendingWhoseReplyIsLostIsSentAgainAndCountsOnce(t *testing.T) {
	address, _ := redistest.Start(t)
	cut := make(chan bool, 1)
	store := redis.New(redistest.Open(t, "redis://"+proxy(t, address, cut)))
	require.NoError(t, store.SetControl(t.Context(), "i/g", []byte("go on")))
	cut <- true
	control, all, err := store.ExchangeAccount(t.Context(), "i/g", "w", []byte("41"))
	assert.True(t, err == nil && string(control) == "go on" && len(all) == 1 && string(all["w"]) == "41",
		"control %q, accounts %q, %v", control, all, err)
}

func TestSpendingIsOneTransactionOnOneServer(t *testing.T) {
	var sent []string
	store := redis.New(redistest.Open(t, redistest.Fake(t, func(command []string) string {
		sent = append(sent, strings.Join(command, " "))
		switch command[0] {
		case "multi":
			return "+OK"
		case "exec":
			return "*4\r\n:1\r\n:1\r\n$-1\r\n*2\r\n$1\r\nw\r\n$1\r\n3"
		}
		return "+QUEUED"
	})))
	control, all, err := store.ExchangeAccount(t.Context(), "i/g", "w", []byte("3"))
	assert.True(t, err == nil && control == nil && string(all["w"]) == "3", "%q, %q, %v", control, all, err)
	// The hash tag of the accounts is the key of the control record, which has none: a cluster keeps both together.
	want := []string{"multi", "hset account:{control:i/g} w 3", "expire account:{control:i/g} 7776000", "get control:i/g",
		"hgetall account:{control:i/g}", "exec"}
	assert.True(t, slices.Equal(sent, want), "sent %q, want %q", sent, want)
}

// The keys that running builds and readers of another version use must not move.
func TestKeysLieWhereTheyLay(t *testing.T) {
	var sent [][]string
	store := redis.New(redistest.Open(t, redistest.Fake(t, func(command []string) string {
		sent = append(sent, command)
		return ":1"
	})))
	ctx := t.Context()
	for want, call := range map[string]func() error{
		"progress:i/g": func() error { return store.SetProgress(ctx, "i/g", "f", nil) },
		"problem:i/g":  func() error { return store.SetProblem(ctx, "i/g", "f", nil) },
		"state:i/g":    func() error { return store.SetState(ctx, "i/g", nil) },
		"control:i/g":  func() error { return store.SetControl(ctx, "i/g", nil) },
		"claim:k":      func() error { return store.Release(ctx, "k", "o") },
		"rate:e":       func() error { return store.Settle(ctx, "e", 1) },
		"quota:s":      func() error { return store.SettleQuota(ctx, "s", "1", coordination.Use{}) },
		"lease:i": func() error {
			return store.Lease(ctx, []coordination.Held{{Index: "i", Generation: "g"}}, "r", time.Minute)
		},
		"mirrors": func() error { return store.Mirror(ctx, "i", nil) },
	} {
		sent = nil
		require.NoError(t, call())
		assert.True(t, len(sent) != 0 && slices.Contains(sent[0], want), "sent %q, want it to name %s", sent, want)
	}
}

func TestAServerThatRefusesIsAFault(t *testing.T) {
	store := redis.New(redistest.Open(t, redistest.Fake(t, func([]string) string { return "-OOM full" })))
	ctx := t.Context()
	_, claimErr := store.Claim(ctx, "k", "o", time.Minute)
	_, _, spendErr := store.ExchangeAccount(ctx, "r", "w", nil)
	_, progressErr := store.ReadProgress(ctx, "r")
	_, stateErr := store.ReadState(ctx, "r")
	_, leasedErr := store.ListLeased(ctx, "i")
	_, mirroredErr := store.ReadMirror(ctx, "i")
	for name, err := range map[string]error{
		"claim": claimErr, "spend": spendErr, "progress": progressErr, "state": stateErr, "leased": leasedErr,
		"mirrored": mirroredErr, "forget": store.ForgetRun(ctx, "r"),
	} {
		assert.True(t, fault.Is(err, fault.StoreFull), "%s: %v", name, err)
	}
}

// A day ends by the server's clock. What was reserved on the day before is settled with it.
func TestAQuotaIsOfADayOfTheServer(t *testing.T) {
	url := redistest.Server(t)
	store, raw, one := redis.New(redistest.Empty(t, url)), redistest.Raw(t, url), coordination.Use{1, 1, 10}
	for name, c := range map[string]struct {
		days int64
		used coordination.Use
	}{
		"yesterday": {-1, one}, "the same day": {0, coordination.Use{2, 2, 17}},
		"a clock that went back over midnight": {1, coordination.Use{2, 2, 17}}, "a clock that was wrong": {9, one},
	} {
		musttest.Get(store.TakeQuota(t.Context(), name, "a", one, coordination.Unlimited))(t)
		day := musttest.Get(raw.HGet(t.Context(), "quota:"+name, "day").Int64())(t)
		require.NoError(t, raw.HSet(t.Context(), "quota:"+name, "day", day+c.days).Err())
		require.NoError(t, store.SettleQuota(t.Context(), name, "a", coordination.Use{1, 1, 7}))
		taken := musttest.Get(store.TakeQuota(t.Context(), name, "b", one, coordination.Unlimited))(t)
		assert.Equal(t, c.used, taken.Used, "%s", name)
		assert.Positive(t, raw.TTL(t.Context(), "quota:"+name).Val(), "%s never expires", name)
	}
}

func TestAReservedQuotaWhoseReplyIsLostCountsOnce(t *testing.T) {
	address, _ := redistest.Start(t)
	cut := make(chan bool, 1)
	store := redis.New(redistest.Open(t, "redis://"+proxy(t, address, cut)))
	for id, want := range map[string]coordination.Use{"once": {0, 1}, "": {1}} {
		subject := "of " + id
		musttest.Get(store.TakeQuota(t.Context(), subject, "first", want, coordination.Unlimited))(t) // loads the script
		cut <- true
		_, err := store.TakeQuota(t.Context(), subject, id, want, coordination.Unlimited)
		assert.Equal(t, id == "", fault.Is(err, fault.StoreDown), "%q: %v", id, err)
		taken := musttest.Get(store.TakeQuota(t.Context(), subject, "", coordination.Use{}, coordination.Unlimited))(t)
		assert.Equal(t, want.Plus(want), taken.Used, "%q", id)
	}
}

func TestManyClaimsAreTakenInOneJourney(t *testing.T) {
	store := redis.New(redistest.Empty(t, redistest.Server(t)))
	claim := func(owner string, want []bool, keys ...string) {
		got, err := store.ClaimAll(t.Context(), keys, owner, time.Minute)
		assert.True(t, err == nil && slices.Equal(got, want), "%s: %v, %v, want %v", owner, got, err, want)
	}
	claim("one", []bool{true, true}, "a", "b")
	claim("two", []bool{false, true}, "b", "c")
	require.NoError(t, store.ReleaseAll(t.Context(), []string{"a", "b", "c"}, "one"))
	claim("three", []bool{true, true, false}, "a", "b", "c")
}
