package redis_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/classes"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/classes/classestest"
	"github.com/unweaver/unweaver/internal/store/classes/redis"
)

// db is the database of the tests: they empty it.
const db = "/9"

func server(t *testing.T) string {
	t.Helper()
	u := os.Getenv("UNWEAVER_TEST_REDIS")
	if u == "" {
		t.Skip("no Redis: run make servers, then make test")
	}
	return strings.TrimSuffix(u, "/0") + db
}

// raw is a plain client of a server.
func raw(t *testing.T, url string) *goredis.Client {
	t.Helper()
	options, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	c := goredis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func open(t *testing.T, url string) *redis.Store {
	t.Helper()
	store, err := redis.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestConformance(t *testing.T) {
	classestest.Run(t, func(t *testing.T) classes.Store {
		u := server(t)
		if err := raw(t, u).FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return open(t, u)
	})
}

// start runs a server of its own with more arguments.
func start(t *testing.T, args ...string) (address string, port int) {
	t.Helper()
	bin := filepath.Join(os.Getenv("UNWEAVER_TEST_SERVERS"), "redis", "redis-server")
	if _, err := os.Stat(bin); os.Getenv("UNWEAVER_TEST_SERVERS") == "" || err != nil {
		t.Skip("no Redis: run make servers, then make test")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	cmd := exec.Command(
		bin,
		append(
			[]string{"--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", t.TempDir(), "--save", ""},
			args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	address = fmt.Sprintf("127.0.0.1:%d", port)
	for range 100 {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return address, port
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the server did not start")
	return "", 0
}

// cluster runs three servers in cluster mode.
func cluster(t *testing.T) string {
	t.Helper()
	var addrs []string
	var cs []*goredis.Client
	for range 3 {
		bus, _ := net.Listen("tcp", "127.0.0.1:0")
		busPort := bus.Addr().(*net.TCPAddr).Port
		_ = bus.Close()
		a, _ := start(t, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(busPort))
		addrs = append(addrs, a)
		cs = append(cs, raw(t, "redis://"+a))
	}
	ctx := t.Context()
	for i, client := range cs {
		lo, hi := i*16384/3, (i+1)*16384/3-1
		if err := client.ClusterAddSlotsRange(ctx, lo, hi).Err(); err != nil {
			t.Fatal(err)
		}
		host, port, _ := net.SplitHostPort(addrs[0])
		if i > 0 {
			bus := clusterBus(t, cs[0])
			if err := client.Do(ctx, "CLUSTER", "MEET", host, port, bus).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range cs {
		ready := false
		for range 300 {
			info, _ := c.ClusterInfo(ctx).Result()
			if ready = strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3"); ready {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if !ready {
			t.Fatal("the cluster did not form")
		}
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

func clusterBus(t *testing.T, c *goredis.Client) string {
	t.Helper()
	nodes, err := c.ClusterNodes(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	_, bus, _ := strings.Cut(strings.Fields(nodes)[1], "@")
	bus, _, _ = strings.Cut(bus, ",")
	return bus
}

func TestConformanceOnACluster(t *testing.T) {
	u := cluster(t)
	classestest.Run(t, func(t *testing.T) classes.Store {
		c := goredis.NewClusterClient(
			&goredis.ClusterOptions{Addrs: strings.Split(strings.TrimPrefix(u, "redis+cluster://"), ",")},
		)
		defer func() { _ = c.Close() }()
		if err := c.ForEachMaster(t.Context(), func(ctx context.Context, c *goredis.Client) error { return c.FlushDB(ctx).Err() }); err != nil {
			t.Fatal(err)
		}
		return open(t, u)
	})
}

func wants(t *testing.T, err error, code fault.Code, says string) {
	t.Helper()
	if !fault.Is(err, code) || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("got %v, want %s saying %q", err, code, says)
	}
}

func TestAServerThatEvictsIsRefused(t *testing.T) {
	a, _ := start(t, "--maxmemory-policy", "allkeys-lru")
	_, err := redis.Open(t.Context(), "redis://"+a)
	wants(t, err, fault.BadConfig, "noeviction")
}

func TestAFullServerNamesTheFix(t *testing.T) {
	a, _ := start(t, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction")
	s := open(t, "redis://"+a)
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		err = s.PutRecords(t.Context(), []records.Record{{Key: fmt.Sprint("k", i), Value: make([]byte, 100_000)}})
	}
	wants(t, err, fault.StoreFull, "maxmemory")
}

func TestAReplicaNamesTheFix(t *testing.T) {
	a, port := start(t)
	_ = a
	b, _ := start(t, "--replicaof", "127.0.0.1 "+fmt.Sprint(port))
	s := open(t, "redis://"+b)
	wants(
		t,
		s.PutRecords(t.Context(), []records.Record{{Key: "k", Value: []byte("v")}}),
		fault.StoreDenied,
		"primary",
	)
}

func TestAWrongPasswordNamesTheFixAndIsNotPrinted(t *testing.T) {
	a, _ := start(t, "--requirepass", "right")
	_, err := redis.Open(t.Context(), "redis://:wrong-secret@"+a)
	wants(t, err, fault.StoreDenied, "password")
	if strings.Contains(err.Error(), "wrong-secret") {
		t.Error("the password is in the error")
	}
	if s, err := redis.Open(t.Context(), "redis://:right@"+a); err != nil {
		t.Error(err)
	} else {
		_ = s.Close()
	}
}

func TestNoServerIsTransient(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := redis.Open(ctx, "redis://127.0.0.1:1/0")
	wants(t, err, fault.StoreDown, "stores.classes")
}

func TestInstallationsShareAServerAndNeverMeet(t *testing.T) {
	u := server(t)
	if err := raw(t, u).FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	store, b := open(t, u), open(t, u)
	for s, id := range map[*redis.Store]string{store: "aaaaaaaa00000000", b: "bbbbbbbb00000000"} {
		if err := s.Own(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := s.SetState(t.Context(), "i/g", []byte(id)); err != nil {
			t.Fatal(err)
		}
	}
	if v, _ := store.State(t.Context(), "i/g"); string(v) != "aaaaaaaa00000000" {
		t.Errorf("a reads %q", v)
	}
	if ok, _ := store.Claim(t.Context(), "k", "me", time.Minute); !ok {
		t.Error("a cannot claim")
	}
	if ok, _ := b.Claim(t.Context(), "k", "you", time.Minute); !ok {
		t.Error("b is kept from its own claim by a's")
	}
}

// A reply that is lost must not make a command count twice: the proxy cuts the connection after the request went
// through.
func TestAReservationWhoseReplyIsLostIsNotSentAgain(t *testing.T) {
	a, _ := start(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	cut := make(chan bool, 1)
	go proxy(listener, a, cut)
	store := open(t, "redis://"+listener.Addr().String())
	if _, err := store.Reserve(t.Context(), "e", 1, 0, 100, 0); err != nil { // loads the script
		t.Fatal(err)
	}
	cut <- true
	if _, err := store.Reserve(t.Context(), "e", 1, 0, 100, 0); !fault.Is(err, fault.StoreDown) {
		t.Fatalf("a lost reply gave %v", err)
	}
	v, err := raw(t, "redis://"+a).HGet(t.Context(), "rate:e", "requests").Float64()
	if err != nil || v < 97.9 || v > 98.9 {
		t.Errorf("%v requests are left, %v; want 98 and what refilled since", v, err)
	}
}

func proxy(l net.Listener, to string, cut chan bool) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		go func() { buf := make([]byte, 65536); copyUntil(up, conn, buf, nil) }()
		go func() { buf := make([]byte, 65536); copyUntil(conn, up, buf, cut) }()
	}
}

func copyUntil(to, from net.Conn, buf []byte, cut chan bool) {
	defer func() { _ = to.Close(); _ = from.Close() }()
	for {
		n, err := from.Read(buf)
		select {
		case <-cut:
			return
		default:
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
