// Package redis is the records adapter over Redis, alone or in cluster mode. Every record has a key of its own, which
// is the record's: a cluster spreads them. Every command may arrive twice.
package redis

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/store/redisconn"
)

// Store implements records.Store.
type Store struct{ conn *redisconn.Conn }

var _ records.Store = (*Store)(nil)

// New makes a store over a connection.
func New(conn *redisconn.Conn) *Store { return &Store{conn} }

// Ping implements records.Store.
func (s *Store) Ping(ctx context.Context) error { return s.conn.Ping(ctx) }

// Close closes the connection, also for those that share it.
func (s *Store) Close() error { return s.conn.Close() }

// RecordOwner implements records.Store.
func (s *Store) RecordOwner(ctx context.Context, storeID string) error {
	return s.conn.TakePrefix(ctx, storeID)
}

// Identity returns a random value kept with the records, and the run ids of the servers: one that was restarted may
// have forgotten what it said yes to.
func (s *Store) Identity(ctx context.Context) (string, error) {
	fresh := rand.Text()
	var parts []string
	err := s.conn.Retry(ctx, "identify", func(ctx context.Context) error {
		key := s.conn.Key("identity")
		if err := s.conn.Client.SetNX(ctx, key, fresh, 0).Err(); err != nil {
			return err
		}
		kept, err := s.conn.Client.Get(ctx, key).Result()
		if err != nil {
			return err
		}
		var servers []string
		if err := s.conn.EachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
			info, err := server.Info(ctx, "server").Result()
			servers = append(servers, redisconn.Field(info, "run_id"))
			return err
		}); err != nil {
			return err
		}
		slices.Sort(servers)
		parts = append([]string{kept}, servers...)
		return nil
	})
	return strings.Join(parts, "+"), err
}

// PutRecords implements records.Store.
func (s *Store) PutRecords(ctx context.Context, rs []records.Record) error {
	return s.conn.SendPipelines(ctx, "write records to", len(rs), func(pipe redis.Pipeliner, i int) {
		pipe.Set(ctx, rs[i].Key, rs[i].Value, 0)
	})
}

// GetRecords implements records.Store.
func (s *Store) GetRecords(ctx context.Context, keys []string) ([][]byte, error) {
	out := make([][]byte, len(keys))
	for at := 0; at < len(keys); at += redisconn.Pipeline {
		part := keys[at:min(at+redisconn.Pipeline, len(keys))]
		replies := make([]*redis.StringCmd, len(part))
		err := s.conn.Retry(ctx, "read records of", func(ctx context.Context) error {
			_, err := s.conn.Client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for i, key := range part {
					replies[i] = pipe.Get(ctx, key)
				}
				return nil
			})
			if err != nil && err != redis.Nil { //nolint:errorlint // the sentinel is never wrapped
				return err
			}
			for _, reply := range replies { // an absent key hides what failed after it
				if err := reply.Err(); err != nil && err != redis.Nil { //nolint:errorlint // as above
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i, reply := range replies {
			if value, err := reply.Bytes(); err == nil {
				out[at+i] = value
			}
		}
	}
	return out, nil
}

// DeleteRecords implements records.Store. The server frees the memory behind the reply.
func (s *Store) DeleteRecords(ctx context.Context, keys []string) error {
	return s.conn.SendPipelines(ctx, "delete records of", len(keys), func(pipe redis.Pipeliner, i int) {
		pipe.Unlink(ctx, keys[i])
	})
}

// ScanRecords implements records.Store.
func (s *Store) ScanRecords(ctx context.Context, prefix string, f func([]string) error) error {
	return s.conn.Scan(ctx, prefix, f)
}
