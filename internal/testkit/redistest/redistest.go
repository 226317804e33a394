// Package redistest gives tests of the Redis adapters their servers: the one that the environment names, one of their
// own, a cluster, or a fake that answers what a real one would not on demand.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/store/redisconn"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// db is the database of the tests: they empty it.
const db = "/9"

// Server returns the URL of the real server, on a database that tests may empty; without one the test is skipped.
func Server(t *testing.T) string {
	t.Helper()
	u := os.Getenv("UNWEAVER_TEST_REDIS")
	if u == "" {
		t.Skip("no Redis: make test-servers has one")
	}
	return strings.TrimSuffix(u, "/0") + db
}

// Raw returns a plain client of a server.
func Raw(t *testing.T, url string) *goredis.Client {
	t.Helper()
	options := musttest.Get(goredis.ParseURL(url))(t)
	c := goredis.NewClient(options)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Open connects and closes with the test.
func Open(t *testing.T, url string) *redisconn.Conn {
	t.Helper()
	conn := musttest.Get(redisconn.Open(t.Context(), url))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Empty connects to a server or cluster after all its keys were removed.
func Empty(t *testing.T, url string) *redisconn.Conn {
	t.Helper()
	conn := Open(t, url)
	err := conn.EachMaster(t.Context(), func(ctx context.Context, server *goredis.Client) error {
		return server.FlushDB(ctx).Err()
	})
	require.NoError(t, err)
	return conn
}

// Start runs a server of its own with more arguments.
func Start(t *testing.T, args ...string) (address string, port int) {
	t.Helper()
	bin := filepath.Join(os.Getenv("UNWEAVER_TEST_SERVERS"), "redis", "redis-server")
	if _, err := os.Stat(bin); os.Getenv("UNWEAVER_TEST_SERVERS") == "" || err != nil {
		t.Skip("no Redis: make test-servers has one")
	}
	listener := musttest.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	port = listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	cmd := exec.Command(
		bin,
		append(
			[]string{"--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", t.TempDir(), "--save", ""},
			args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
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

// Cluster runs three servers in cluster mode.
func Cluster(t *testing.T) string {
	t.Helper()
	var addresses []string
	var clients []*goredis.Client
	for range 3 {
		bus, _ := net.Listen("tcp", "127.0.0.1:0")
		busPort := bus.Addr().(*net.TCPAddr).Port
		_ = bus.Close()
		address, _ := Start(t, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(busPort))
		addresses = append(addresses, address)
		clients = append(clients, Raw(t, "redis://"+address))
	}
	ctx := t.Context()
	for i, client := range clients {
		lo, hi := i*16384/3, (i+1)*16384/3-1
		require.NoError(t, client.ClusterAddSlotsRange(ctx, lo, hi).Err())
		host, port, _ := net.SplitHostPort(addresses[0])
		if i > 0 {
			bus := clusterBus(t, clients[0])
			require.NoError(t, client.Do(ctx, "CLUSTER", "MEET", host, port, bus).Err())
		}
	}
	for _, c := range clients {
		ready := false
		for range 300 {
			info, _ := c.ClusterInfo(ctx).Result()
			if ready = strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3"); ready {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		require.True(t, ready, "the cluster did not form")
	}
	return "redis+cluster://" + strings.Join(addresses, ",")
}

func clusterBus(t *testing.T, c *goredis.Client) string {
	t.Helper()
	nodes := musttest.Get(c.ClusterNodes(t.Context()).Result())(t)
	_, bus, _ := strings.Cut(strings.Fields(nodes)[1], "@")
	bus, _, _ = strings.Cut(bus, ",")
	return bus
}

// Fake starts a server that answers each command as answer says, in Redis's protocol without its line end: "+OK", ":1",
// "-ERR why", "$-1". An empty answer is none: the command hangs. INFO and HELLO are answered by the fake.
func Fake(t *testing.T, answer func(command []string) string) (url string) {
	t.Helper()
	listener := musttest.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn, answer)
		}
	}()
	return "redis://" + listener.Addr().String()
}

func serve(conn net.Conn, answer func([]string) string) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	for {
		command, err := readCommand(reader)
		if err != nil {
			return
		}
		reply := ""
		switch strings.ToUpper(command[0]) {
		case "HELLO":
			reply = "-ERR unknown command" // the client goes on with the older protocol
		case "CLIENT":
			reply = "+OK"
		case "INFO":
			reply = "$0\r\n"
		default:
			reply = answer(command)
		}
		if reply == "" {
			continue
		}
		if _, err := io.WriteString(conn, reply+"\r\n"); err != nil {
			return
		}
	}
}

// readCommand reads an array of bulk strings.
func readCommand(reader *bufio.Reader) ([]string, error) {
	count, err := readNumber(reader, '*')
	if err != nil {
		return nil, err
	}
	command := make([]string, count)
	for i := range command {
		size, err := readNumber(reader, '$')
		if err != nil {
			return nil, err
		}
		raw := make([]byte, size+2)
		if _, err := io.ReadFull(reader, raw); err != nil {
			return nil, err
		}
		command[i] = string(raw[:size])
	}
	return command, nil
}

func readNumber(reader *bufio.Reader, kind byte) (int, error) {
	line, err := reader.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("got %q, want %q first", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
