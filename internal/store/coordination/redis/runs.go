package redis

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// keep is how long a run is remembered here; its report is an artifact and stays.
const keep = 90 * 24 * time.Hour

// accountKey returns the key of the accounts of a run. Its hash tag is the key of the run's control record, so that a
// cluster keeps both on one server and Spend is one transaction.
func (s *Store) accountKey(run string) string {
	return s.conn.Key("account", "{"+s.conn.Key("control", run)+"}")
}

// setField writes a field of a hash that is forgotten in time.
func (s *Store) setField(ctx context.Context, op, key, field string, value []byte) error {
	return s.conn.SendPipelines(ctx, op, 2, func(pipe redis.Pipeliner, i int) {
		if i == 0 {
			pipe.HSet(ctx, key, field, value)
		} else {
			pipe.Expire(ctx, key, keep)
		}
	})
}

func (s *Store) readFields(ctx context.Context, op, key string) (map[string][]byte, error) {
	var out map[string][]byte
	err := s.conn.Retry(ctx, op, func(ctx context.Context) error {
		found, err := s.conn.Client.HGetAll(ctx, key).Result()
		out = toFields(found)
		return err
	})
	return out, err
}

func toFields(found map[string]string) map[string][]byte {
	out := make(map[string][]byte, len(found))
	for field, value := range found {
		out[field] = []byte(value)
	}
	return out
}

// SetProgress implements coordination.Runs.
func (s *Store) SetProgress(ctx context.Context, run, field string, value []byte) error {
	return s.setField(ctx, "write progress to", s.conn.Key("progress", run), field, value)
}

// ReadProgress implements coordination.Runs.
func (s *Store) ReadProgress(ctx context.Context, run string) (map[string][]byte, error) {
	return s.readFields(ctx, "read progress of", s.conn.Key("progress", run))
}

// SetProblem implements coordination.Runs.
func (s *Store) SetProblem(ctx context.Context, run, key string, value []byte) error {
	if value == nil {
		return s.conn.Retry(ctx, "write problems to", func(ctx context.Context) error {
			return s.conn.Client.HDel(ctx, s.conn.Key("problem", run), key).Err()
		})
	}
	return s.setField(ctx, "write problems to", s.conn.Key("problem", run), key, value)
}

// ReadProblems implements coordination.Runs.
func (s *Store) ReadProblems(ctx context.Context, run string) (map[string][]byte, error) {
	return s.readFields(ctx, "read problems of", s.conn.Key("problem", run))
}

// ReadAccounts implements coordination.Runs.
func (s *Store) ReadAccounts(ctx context.Context, run string) (map[string][]byte, error) {
	return s.readFields(ctx, "read accounts of", s.accountKey(run))
}

// ExchangeAccount implements coordination.Runs: one transaction, so one journey to the server.
func (s *Store) ExchangeAccount(
	ctx context.Context, run, worker string, value []byte,
) (control []byte, all map[string][]byte, err error) {
	accounts := s.accountKey(run)
	err = s.conn.Retry(ctx, "write accounts to", func(ctx context.Context) error {
		var controlReply *redis.StringCmd
		var accountsReply *redis.MapStringStringCmd
		_, err := s.conn.Client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.HSet(ctx, accounts, worker, value)
			pipe.Expire(ctx, accounts, keep)
			controlReply = pipe.Get(ctx, s.conn.Key("control", run))
			accountsReply = pipe.HGetAll(ctx, accounts)
			return nil
		})
		if err != nil && err != redis.Nil { //nolint:errorlint // the sentinel is never wrapped
			return err
		}
		found, err := accountsReply.Result() // an absent control record hides what failed after it
		if err != nil {
			return err
		}
		all = toFields(found)
		control, err = controlReply.Bytes()
		if err == redis.Nil { //nolint:errorlint // as above
			control, err = nil, nil
		}
		return err
	})
	return control, all, err
}

func (s *Store) set(ctx context.Context, kind, run string, value []byte) error {
	return s.conn.Retry(ctx, "write "+kind+" to", func(ctx context.Context) error {
		return s.conn.Client.Set(ctx, s.conn.Key(kind, run), value, keep).Err()
	})
}

func (s *Store) get(ctx context.Context, kind, run string) ([]byte, error) {
	return s.readBytes(ctx, "read "+kind+" of", func(ctx context.Context) *redis.StringCmd {
		return s.conn.Client.Get(ctx, s.conn.Key(kind, run))
	})
}

// SetState implements coordination.Runs.
func (s *Store) SetState(ctx context.Context, run string, value []byte) error {
	return s.set(ctx, "state", run, value)
}

// ReadState implements coordination.Runs.
func (s *Store) ReadState(ctx context.Context, run string) ([]byte, error) {
	return s.get(ctx, "state", run)
}

// SetControl implements coordination.Runs.
func (s *Store) SetControl(ctx context.Context, run string, value []byte) error {
	return s.set(ctx, "control", run, value)
}

// ReadControl implements coordination.Runs.
func (s *Store) ReadControl(ctx context.Context, run string) ([]byte, error) {
	return s.get(ctx, "control", run)
}

// ForgetRun implements coordination.Runs.
func (s *Store) ForgetRun(ctx context.Context, run string) error {
	keys := []string{
		s.conn.Key("progress", run), s.conn.Key("problem", run), s.conn.Key("control", run), s.accountKey(run),
	}
	return s.conn.SendPipelines(ctx, "forget a run in", len(keys), func(pipe redis.Pipeliner, i int) {
		pipe.Unlink(ctx, keys[i])
	})
}

// ForgetIndex implements coordination.Runs. Names of runs are found by a scan. The version of the mirrors is written
// last, as Mirror does.
func (s *Store) ForgetIndex(ctx context.Context, index string) error {
	keys := []string{s.conn.Key("lease", index)}
	err := s.conn.Scan(ctx, s.conn.Key(""), func(found []string) error {
		for _, key := range found {
			kind, name, _ := strings.Cut(strings.TrimPrefix(key, s.conn.Key("")), ":")
			if kind == "account" {
				name = strings.TrimSuffix(strings.TrimPrefix(name, "{"+s.conn.Key("control", "")), "}")
			}
			if slices.Contains([]string{"progress", "problem", "control", "account", "state"}, kind) &&
				coordination.RunOf(name, index) {
				keys = append(keys, key)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.conn.SendPipelines(ctx, "forget an index in", len(keys), func(pipe redis.Pipeliner, i int) {
		pipe.Unlink(ctx, keys[i])
	}); err != nil {
		return err
	}
	return s.conn.Retry(ctx, "forget an index in", func(ctx context.Context) error {
		if err := s.conn.Client.HDel(ctx, s.conn.Key("mirrors"), index).Err(); err != nil {
			return err
		}
		return s.conn.Client.Set(ctx, s.conn.Key("mirrors-version"), rand.Text(), 0).Err()
	})
}
