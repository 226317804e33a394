// Package redis is the classes adapter over Redis, alone or in cluster mode, through go-redis. The client's retries are
// off: it would send a command again whose reply was lost. Every command here may be repeated except the reservation of
// rates, and what may be repeated is, a few times.
//
// Keys begin with 8 hex digits of the artifact store's id, so that installations share a server and never meet. Records
// have a key each (a cluster spreads them); everything else lives under "<store>:" + what it is.
package redis

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"net/url"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
	"github.com/unweaver/unweaver/internal/store/classes"
)

// Store implements classes.Store.
type Store struct {
	c    redis.UniversalClient
	name string // the URL without its password
	mu   sync.Mutex
	pre  string // "<8 hex>:", set by Own
}

var _ classes.Store = (*Store)(nil)

// Open connects to redis://, rediss://, redis+cluster:// or rediss+cluster:// (hosts separated by commas) and refuses a
// server that would evict records.
func Open(ctx context.Context, uri string) (*Store, error) {
	store := &Store{name: "redis"}
	if u, err := url.Parse(uri); err == nil {
		store.name = u.Redacted()
	}
	var err error
	if store.c, err = client(uri); err != nil {
		return nil, fault.BadConfig.At("parse", "stores.classes").
			Because(strings.ReplaceAll(err.Error(), uri, store.name)).
			Advise("give redis://[:password@]host:port/db, rediss:// or redis+cluster://host,host")
	}
	if err := retry.Do(ctx, func(ctx context.Context) error { return store.policy(ctx) }); err != nil {
		_ = store.c.Close()
		return nil, err
	}
	return store, nil
}

func client(uri string) (redis.UniversalClient, error) {
	scheme, rest, _ := strings.Cut(uri, "://")
	plain, cluster := strings.CutSuffix(scheme, "+cluster")
	if !cluster {
		options, err := redis.ParseURL(uri)
		if err != nil {
			return nil, err
		}
		options.MaxRetries, options.DialTimeout, options.ReadTimeout, options.WriteTimeout, options.PoolSize = -1, 5*time.Second, 20*time.Second, 20*time.Second, 32
		options.DialerRetries = 1
		return redis.NewClient(options), nil
	}
	auth, hosts := "", rest
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		auth, hosts = rest[:i+1], rest[i+1:]
	}
	hosts, _, _ = strings.Cut(hosts, "/")
	list := strings.Split(hosts, ",")
	o, err := redis.ParseURL(plain + "://" + auth + list[0])
	if err != nil {
		return nil, err
	}
	co := &redis.ClusterOptions{
		Addrs:        list,
		Username:     o.Username,
		Password:     o.Password,
		MaxRetries:   -1,
		MaxRedirects: 8,
		DialTimeout:  5 * time.Second,
		ReadTimeout:  20 * time.Second,
		WriteTimeout: 20 * time.Second,
		PoolSize:     32,
	}
	if o.TLSConfig != nil {
		co.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return redis.NewClusterClient(co), nil
}

// policy refuses servers that evict: a record that is gone is a wrong answer, not a slow one.
func (s *Store) policy(ctx context.Context) error {
	return s.masters(ctx, func(ctx context.Context, c *redis.Client) error {
		info, err := c.Info(ctx, "memory").Result()
		if err != nil {
			return s.wrap(ctx, "open", err)
		}
		p := field(info, "maxmemory_policy")
		if p != "" && p != "noeviction" {
			return fault.BadConfig.At("open", s.name).
				Because("it evicts records when memory is short (maxmemory-policy " + p + ")").
				Advise("set maxmemory-policy noeviction there, or point stores.classes at another Redis")
		}
		return nil
	})
}

// field reads a line of INFO.
func field(info, name string) string {
	for l := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(l), name+":"); ok {
			return v
		}
	}
	return ""
}

// masters calls f for every server that holds data.
func (s *Store) masters(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	switch c := s.c.(type) {
	case *redis.ClusterClient:
		var mu sync.Mutex // f is called in parallel
		err := c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			return f(ctx, c)
		})
		return s.wrap(ctx, "open", err)
	case *redis.Client:
		return f(ctx, c)
	}
	return nil
}

// wrap makes a fault of a reply: which setting or which state of the server is to be mended.
func (s *Store) wrap(ctx context.Context, op string, err error) error {
	if err == nil || fault.As(err) != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m := err.Error()
	is := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(m, p) {
				return true
			}
		}
		return false
	}
	switch {
	case is("OOM"):
		return fault.StoreFull.At(op, s.name).
			Because(err).
			Advise("its memory is full: raise maxmemory or use a larger server, then resume: nothing paid is lost")
	case is("MISCONF"):
		return fault.StoreFull.At(op, s.name).
			Because(err).
			Advise("it cannot write to its disk: make room there, then resume")
	case is("READONLY"):
		return fault.StoreDenied.At(op, s.name).
			Because(err).
			Advise("it is a replica: point stores.classes at the primary")
	case is("NOAUTH", "WRONGPASS", "ERR invalid password", "ERR AUTH", "ERR Client sent AUTH"):
		return fault.StoreDenied.At(op, s.name).
			Because(err).
			Advise("put the right user and password into stores.classes (redis://user:password@host), for example through UNWEAVER_STORES_CLASSES")
	case is("NOPERM"):
		return fault.StoreDenied.At(op, s.name).
			Because(err).
			Advise("let this user run the command (ACL), including INFO and EVALSHA")
	case is("ERR DB index is out of range", "ERR SELECT is not allowed"):
		return fault.BadConfig.At(op, s.name).
			Because(err).
			Advise("the database number in stores.classes does not exist there")
	case is("ERR This instance has cluster support disabled"):
		return fault.BadConfig.At(op, s.name).Because(err).Advise("it is no cluster: use redis:// in stores.classes")
	case is("MOVED", "CROSSSLOT"):
		return fault.BadConfig.At(op, s.name).
			Because(err).
			Advise("it is a cluster: use redis+cluster:// in stores.classes")
	}
	return fault.StoreDown.At(op, s.name).Because(err).Advise("check stores.classes and that Redis runs")
}

// again repeats what may be repeated.
func (s *Store) again(ctx context.Context, op string, f func(context.Context) error) error {
	return retry.Do(ctx, func(ctx context.Context) error { return s.wrap(ctx, op, f(ctx)) })
}

// Close closes the connections.
func (s *Store) Close() error { return s.c.Close() }

// Ping asks for an answer.
func (s *Store) Ping(ctx context.Context) error { return s.wrap(ctx, "ping", s.c.Ping(ctx).Err()) }

func (s *Store) key(parts ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pre + strings.Join(parts, ":")
}

// Own takes the prefix of an artifact store. Prefixes are 8 digits of ids: two stores may meet, and then the second
// is refused.
func (s *Store) Own(ctx context.Context, storeID string) error {
	pre := storeID[:min(8, len(storeID))] + ":"
	var owner string
	err := s.again(ctx, "own", func(ctx context.Context) error {
		if err := s.c.SetNX(ctx, pre+"owner", storeID, 0).Err(); err != nil {
			return err
		}
		var err error
		owner, err = s.c.Get(ctx, pre+"owner").Result()
		return err
	})
	if err != nil {
		return err
	}
	if owner != storeID {
		return fault.StoreOwned.At("open", s.name).
			Because("prefix " + pre + " belongs to another artifact store there").
			Advise("use another database number or server (stores.classes)")
	}
	s.mu.Lock()
	s.pre = pre
	s.mu.Unlock()
	return nil
}

// Identity is a random value kept with the records, and the run ids of the servers: one that was restarted may have
// forgotten what it said yes to.
func (s *Store) Identity(ctx context.Context) (string, error) {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails
	var out []string
	err := s.again(ctx, "identify", func(ctx context.Context) error {
		k := s.key("identity")
		if err := s.c.SetNX(ctx, k, hex.EncodeToString(raw), 0).Err(); err != nil {
			return err
		}
		id, err := s.c.Get(ctx, k).Result()
		if err != nil {
			return err
		}
		out = nil
		if err := s.masters(ctx, func(ctx context.Context, c *redis.Client) error {
			info, err := c.Info(ctx, "server").Result()
			out = append(out, field(info, "run_id"))
			return err
		}); err != nil {
			return err
		}
		sort.Strings(out)
		out = append([]string{id}, out...)
		return nil
	})
	return strings.Join(out, "+"), err
}
