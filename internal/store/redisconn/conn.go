// Package redisconn is what the Redis adapters share: the connection, the prefix of an installation's keys, what may be
// sent again, and what a server's refusals mean. Redis runs alone or in cluster mode. The client's own retries are off:
// it would send a command again whose reply was lost.
//
// Keys begin with 8 hex digits of the artifact store's id, so that installations share a server and never meet. Records
// have a key each (a cluster spreads them); everything else lives under "<store>:" + what it is.
package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/fault/retry"
)

// Every exchange with a server ends: these bound the making of a connection, one answer, and one request.
const (
	dialTimeout  = 5 * time.Second
	readTimeout  = 20 * time.Second
	writeTimeout = 20 * time.Second
	poolSize     = 32
)

// Pipeline is how many commands travel together.
const Pipeline = 1000

// Conn is a connection that the adapters over one server or cluster share. It is safe for concurrent use.
type Conn struct {
	Client redis.UniversalClient

	name   string // the URL without its password
	close  sync.Once
	mu     sync.Mutex
	prefix string // "<8 hex>:", set by Own
}

// Open connects to redis://, rediss://, redis+cluster:// or rediss+cluster:// (hosts separated by commas) and refuses a
// server that would evict records.
func Open(ctx context.Context, uri string) (*Conn, error) {
	conn := &Conn{name: "redis"}
	if u, err := url.Parse(uri); err == nil {
		conn.name = u.Redacted()
	}
	var err error
	if conn.Client, err = newClient(uri); err != nil {
		return nil, fault.BadConfig.At("parse", "stores.classes").
			Because(withoutURL(err)).
			Advise("use redis://[:password@]host:port/db, rediss:// or redis+cluster://host,host")
	}
	if err := retry.Do(ctx, func(ctx context.Context) error { return conn.refuseEviction(ctx) }); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// withoutURL leaves a URL, which holds the password, out of the error that it could not be parsed.
func withoutURL(err error) error {
	if parse, ok := errors.AsType[*url.Error](err); ok {
		return parse.Err
	}
	return err
}

func newClient(uri string) (redis.UniversalClient, error) {
	scheme, rest, _ := strings.Cut(uri, "://")
	plain, cluster := strings.CutSuffix(scheme, "+cluster")
	if !cluster {
		options, err := redis.ParseURL(uri)
		if err != nil {
			return nil, err
		}
		options.MaxRetries, options.DialerRetries, options.PoolSize = -1, 1, poolSize
		options.DialTimeout, options.WriteTimeout, options.ContextTimeoutEnabled = dialTimeout, writeTimeout, true
		if options.ReadTimeout <= 0 { // a query parameter of the URL, which may not turn the bound off
			options.ReadTimeout = readTimeout
		}
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
		DialTimeout:  dialTimeout,
		ReadTimeout:  readTimeout,
		WriteTimeout: writeTimeout,
		PoolSize:     poolSize,

		ContextTimeoutEnabled: true,
	}
	if o.TLSConfig != nil {
		co.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return redis.NewClusterClient(co), nil
}

// refuseEviction refuses servers that evict: a record that is gone is a wrong answer, not a slow one.
func (c *Conn) refuseEviction(ctx context.Context) error {
	return c.EachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
		info, err := server.Info(ctx, "memory").Result()
		if err != nil {
			return c.Wrap(ctx, "open", err)
		}
		policy := Field(info, "maxmemory_policy")
		if policy != "" && policy != "noeviction" {
			return fault.BadConfig.At("open", c.name).
				Because("it deletes records when memory is short (maxmemory-policy " + policy + ")").
				Advise("set maxmemory-policy noeviction there, or point stores.classes at another Redis")
		}
		return nil
	})
}

// Field reads a line of INFO; empty when it has none of that name.
func Field(info, name string) string {
	for l := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(l), name+":"); ok {
			return v
		}
	}
	return ""
}

// EachMaster calls f for every server that holds data, one after another, and ends with the first error of f as it is.
func (c *Conn) EachMaster(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	switch client := c.Client.(type) {
	case *redis.ClusterClient:
		var mu sync.Mutex // go-redis calls in parallel
		var failed error
		err := client.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				failed = f(ctx, server)
			}
			return nil
		})
		if failed != nil {
			return failed
		}
		return c.Wrap(ctx, "reach every server of", err)
	case *redis.Client:
		return f(ctx, client)
	}
	return nil
}

// Retry repeats f, a few times, as long as it fails transiently: only for what may arrive twice.
func (c *Conn) Retry(ctx context.Context, op string, f func(context.Context) error) error {
	return retry.Do(ctx, func(ctx context.Context) error { return c.Wrap(ctx, op, f(ctx)) })
}

// SendPipelines sends n commands in pipelines; add adds the i-th. They may arrive twice.
func (c *Conn) SendPipelines(ctx context.Context, op string, n int, add func(pipe redis.Pipeliner, i int)) error {
	for at := 0; at < n; at += Pipeline {
		if err := c.Retry(ctx, op, func(ctx context.Context) error {
			_, err := c.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for i := at; i < min(at+Pipeline, n); i++ {
					add(pipe, i)
				}
				return nil
			})
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the connections; the adapters that share one may each call it.
func (c *Conn) Close() error {
	var err error
	c.close.Do(func() { err = c.Client.Close() })
	return err
}

var glob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// Scan calls f with batches of keys that start with prefix, in any order, each key at least once. A cluster is scanned
// server by server: go-redis's cluster-wide scan misses keys.
func (c *Conn) Scan(ctx context.Context, prefix string, f func(keys []string) error) error {
	return c.EachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			var keys []string
			err := c.Retry(ctx, "scan", func(ctx context.Context) error {
				found, next, err := server.Scan(ctx, cursor, glob.Replace(prefix)+"*", Pipeline).Result()
				if err == nil {
					keys, cursor = found, next
				}
				return err
			})
			if err != nil {
				return err
			}
			if len(keys) == 0 {
				continue
			}
			if err := f(keys); err != nil {
				return err
			}
		}
		return nil
	})
}

// Ping asks for an answer.
func (c *Conn) Ping(ctx context.Context) error { return c.Wrap(ctx, "ping", c.Client.Ping(ctx).Err()) }

// Key returns a key of the installation: its prefix, then the parts with colons between them.
func (c *Conn) Key(parts ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.prefix + strings.Join(parts, ":")
}

// TakePrefix takes the prefix of an artifact store. Prefixes are 8 digits of ids: two stores may meet, and then the
// second is refused.
func (c *Conn) TakePrefix(ctx context.Context, storeID string) error {
	prefix := storeID[:min(8, len(storeID))] + ":"
	var owner string
	err := c.Retry(ctx, "own", func(ctx context.Context) error {
		var err error
		if owner, err = c.Client.Get(ctx, prefix+"owner").Result(); err != redis.Nil { //nolint:errorlint // never wrapped
			return err // also for a user who may only read: somebody else took the prefix
		}
		if err = c.Client.SetNX(ctx, prefix+"owner", storeID, 0).Err(); err != nil {
			return err
		}
		owner, err = c.Client.Get(ctx, prefix+"owner").Result()
		return err
	})
	if err != nil {
		return err
	}
	if owner != storeID {
		return fault.StoreOwned.At("open", c.name).
			Because("prefix " + prefix + " belongs to another artifact store there").
			Advise("use another database number or server (stores.classes)")
	}
	c.mu.Lock()
	c.prefix = prefix
	c.mu.Unlock()
	return nil
}
