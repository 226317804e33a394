// Package redis is the coordination adapter over Redis, alone or in cluster mode. Everything lives under the prefix of
// the installation. Every command may arrive twice except the reservation of rates, which is sent once.
package redis

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/store/coordination"
	"github.com/unweaver/unweaver/internal/store/redisconn"
)

// Store implements coordination.Store.
type Store struct{ conn *redisconn.Conn }

var _ coordination.Store = (*Store)(nil)

// New makes a store over a connection, whose prefix should have been taken with Own.
func New(conn *redisconn.Conn) *Store { return &Store{conn} }

// Close closes the connection, also for those that share it.
func (s *Store) Close() error { return s.conn.Close() }

// Claim implements coordination.Claims.
func (s *Store) Claim(ctx context.Context, key, owner string, ttl time.Duration) (bool, error) {
	got, err := s.ClaimAll(ctx, []string{key}, owner, ttl)
	return err == nil && got[0], err
}

// Release implements coordination.Claims.
func (s *Store) Release(ctx context.Context, key, owner string) error {
	return s.ReleaseAll(ctx, []string{key}, owner)
}

// Reserve implements coordination.Claims. It is sent once: a reservation counts each time it arrives.
func (s *Store) Reserve(
	ctx context.Context, endpoint string, requests, tokens, perMinute, tokensPerMinute int,
) (coordination.Reserved, error) {
	keys := []string{s.conn.Key("rate", endpoint)}
	ms, err := reserveScript.Run(ctx, s.conn.Client, keys, requests, tokens, perMinute, tokensPerMinute).Int64()
	return coordination.Reserved{Wait: time.Duration(ms) * time.Millisecond}, s.conn.Wrap(ctx, "reserve in", err)
}

// Settle implements coordination.Claims. It is sent once.
func (s *Store) Settle(ctx context.Context, endpoint string, delta int) error {
	err := settleScript.Run(ctx, s.conn.Client, []string{s.conn.Key("rate", endpoint)}, delta).Err()
	return s.conn.Wrap(ctx, "settle in", err)
}

// Lease implements coordination.Readers.
func (s *Store) Lease(ctx context.Context, held []coordination.Held, reader string, ttl time.Duration) error {
	return s.conn.SendPipelines(ctx, "lease in", len(held), func(pipe redis.Pipeliner, i int) {
		keys := []string{s.conn.Key("lease", held[i].Index)}
		leaseScript.Eval(ctx, pipe, keys, held[i].Generation+"\x00"+reader, ttl.Milliseconds())
	})
}

// ListLeased implements coordination.Readers.
func (s *Store) ListLeased(ctx context.Context, index string) (map[string]bool, error) {
	out := map[string]bool{}
	err := s.conn.Retry(ctx, "read leases of", func(ctx context.Context) error {
		leases, err := leasedScript.Run(ctx, s.conn.Client, []string{s.conn.Key("lease", index)}).StringSlice()
		for _, lease := range leases {
			generation, _, _ := strings.Cut(lease, "\x00")
			out[generation] = true
		}
		return err
	})
	return out, err
}

// Mirror implements coordination.Readers. The version of the pointers is written after them: who reads the version
// first reads what it names, or something newer.
func (s *Store) Mirror(ctx context.Context, index string, pointer []byte) error {
	return s.conn.Retry(ctx, "mirror in", func(ctx context.Context) error {
		if err := s.conn.Client.HSet(ctx, s.conn.Key("mirrors"), index, pointer).Err(); err != nil {
			return err
		}
		return s.conn.Client.Set(ctx, s.conn.Key("mirrors-version"), rand.Text(), 0).Err()
	})
}

// ReadMirrors implements coordination.Readers.
func (s *Store) ReadMirrors(ctx context.Context, known string) (string, map[string][]byte, error) {
	version, err := s.readBytes(ctx, "read the version of mirrors of", func(ctx context.Context) *redis.StringCmd {
		return s.conn.Client.Get(ctx, s.conn.Key("mirrors-version"))
	})
	if version == nil {
		version = []byte("none")
	}
	if err != nil || string(version) == known {
		return string(version), nil, err
	}
	pointers := map[string][]byte{}
	err = s.conn.Retry(ctx, "read the mirrors of", func(ctx context.Context) error {
		all, err := s.conn.Client.HGetAll(ctx, s.conn.Key("mirrors")).Result()
		for index, pointer := range all {
			pointers[index] = []byte(pointer)
		}
		return err
	})
	return string(version), pointers, err
}

// ReadMirror implements coordination.Readers.
func (s *Store) ReadMirror(ctx context.Context, index string) ([]byte, error) {
	return s.readBytes(ctx, "read the mirror of", func(ctx context.Context) *redis.StringCmd {
		return s.conn.Client.HGet(ctx, s.conn.Key("mirrors"), index)
	})
}

// readBytes returns a value, or nil where there is none.
func (s *Store) readBytes(
	ctx context.Context, op string, command func(context.Context) *redis.StringCmd,
) ([]byte, error) {
	var out []byte
	err := s.conn.Retry(ctx, op, func(ctx context.Context) error {
		raw, err := command(ctx).Bytes()
		if err == redis.Nil { //nolint:errorlint // the sentinel is never wrapped
			return nil
		}
		out = raw
		return err
	})
	return out, err
}
