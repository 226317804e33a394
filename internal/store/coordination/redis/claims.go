package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// ClaimAll claims many keys in one journey, as Claim does. It says for each whether the owner has it now.
func (s *Store) ClaimAll(ctx context.Context, keys []string, owner string, ttl time.Duration) ([]bool, error) {
	answers := make([]*redis.Cmd, len(keys))
	err := s.conn.SendPipelines(ctx, "claim in", len(keys), func(pipe redis.Pipeliner, i int) {
		answers[i] = claimScript.Eval(ctx, pipe, []string{s.conn.Key("claim", keys[i])}, owner, ttl.Milliseconds())
	})
	if err != nil {
		return nil, err
	}
	got := make([]bool, len(keys))
	for i, answer := range answers {
		taken, err := answer.Int()
		if err != nil {
			return nil, s.conn.Wrap(ctx, "claim in", err)
		}
		got[i] = taken == 1
	}
	return got, nil
}

// ReleaseAll releases many keys in one journey, as Release does.
func (s *Store) ReleaseAll(ctx context.Context, keys []string, owner string) error {
	return s.conn.SendPipelines(ctx, "release in", len(keys), func(pipe redis.Pipeliner, i int) {
		releaseScript.Eval(ctx, pipe, []string{s.conn.Key("claim", keys[i])}, owner)
	})
}
