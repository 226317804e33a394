package redis

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/store/records"
)

// pipeline is how many commands travel together.
const pipeline = 1000

// pipelined sends n commands in pipelines; add adds the i-th.
func (s *Store) pipelined(ctx context.Context, op string, n int, add func(p redis.Pipeliner, i int)) error {
	for at := 0; at < n; at += pipeline {
		if err := s.again(ctx, op, func(ctx context.Context) error {
			_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i := at; i < min(at+pipeline, n); i++ {
					add(p, i)
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

// PutRecords implements records.Store.
func (s *Store) PutRecords(ctx context.Context, rs []records.Record) error {
	return s.pipelined(
		ctx,
		"write records to",
		len(rs),
		func(p redis.Pipeliner, i int) { p.Set(ctx, rs[i].Key, rs[i].Value, 0) },
	)
}

// GetRecords implements records.Store.
func (s *Store) GetRecords(ctx context.Context, keys []string) ([][]byte, error) {
	out := make([][]byte, len(keys))
	for at := 0; at < len(keys); at += pipeline {
		part := keys[at:min(at+pipeline, len(keys))]
		cmds := make([]*redis.StringCmd, len(part))
		err := s.again(ctx, "read records of", func(ctx context.Context) error {
			_, err := s.c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i, k := range part {
					cmds[i] = p.Get(ctx, k)
				}
				return nil
			})
			if err != nil && err != redis.Nil { //nolint:errorlint // the sentinel is never wrapped
				return err
			}
			for _, c := range cmds { // an absent key hides what failed after it
				if err := c.Err(); err != nil && err != redis.Nil { //nolint:errorlint // as above
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for i, c := range cmds {
			if b, err := c.Bytes(); err == nil {
				out[at+i] = b
			}
		}
	}
	return out, nil
}

// DeleteRecords implements records.Store.
func (s *Store) DeleteRecords(ctx context.Context, keys []string) error {
	return s.pipelined(ctx, "delete records of", len(keys), func(p redis.Pipeliner, i int) { p.Unlink(ctx, keys[i]) })
}

var glob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// ScanRecords implements records.Store. A cluster is scanned server by server: go-redis's cluster-wide scan misses
// keys.
func (s *Store) ScanRecords(ctx context.Context, prefix string, f func([]string) error) error {
	var mu sync.Mutex
	return s.masters(ctx, func(ctx context.Context, c *redis.Client) error {
		for cursor, first := uint64(0), true; first || cursor != 0; first = false {
			var keys []string
			err := s.again(ctx, "scan", func(ctx context.Context) error {
				ks, next, err := c.Scan(ctx, cursor, glob.Replace(prefix)+"*", pipeline).Result()
				if err == nil {
					keys, cursor = ks, next
				}
				return err
			})
			if err != nil {
				return err
			}
			if len(keys) == 0 {
				continue
			}
			mu.Lock()
			err = f(keys)
			mu.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	})
}
