package redis

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// The scripts use the server's clock: those of workers may differ.

var claimScript = redis.NewScript(`
local v = redis.call('GET', KEYS[1])
if v and v ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

var releaseScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// reserveScript keeps two token buckets that refill continuously up to one minute's worth. It answers the wait in
// milliseconds. ARGV: requests, tokens, requests a minute, tokens a minute (0 = no limit).
var reserveScript = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local rpm, tpm = tonumber(ARGV[3]), tonumber(ARGV[4])
local h = redis.call('HMGET', KEYS[1], 'at', 'requests', 'tokens')
local at, req, tok = tonumber(h[1] or now), tonumber(h[2] or rpm), tonumber(h[3] or tpm)
local passed = math.max(0, now - at) / 60000
req = math.min(rpm, req + passed * rpm)
tok = math.min(tpm, tok + passed * tpm)
local wait = 0
local function lack(want, have, per)
  if per > 0 and want > have then wait = math.max(wait, math.ceil((want - have) / per * 60000)) end
end
lack(tonumber(ARGV[1]), req, rpm)
lack(math.min(tonumber(ARGV[2]), tpm), tok, tpm) -- a request larger than a whole window goes alone
if wait == 0 then
  req = req - tonumber(ARGV[1])
  tok = tok - tonumber(ARGV[2])
end
redis.call('HSET', KEYS[1], 'at', now, 'requests', tostring(req), 'tokens', tostring(tok))
redis.call('PEXPIRE', KEYS[1], 3600000)
return wait`)

var settleScript = redis.NewScript(`
local v = redis.call('HGET', KEYS[1], 'tokens')
if v then redis.call('HSET', KEYS[1], 'tokens', tostring(tonumber(v) - tonumber(ARGV[1]))) end
return 0`)

var leaseScript = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
return 1`)

var leasedScript = redis.NewScript(`
local t = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. (t[1] * 1000 + math.floor(t[2] / 1000)), '+inf')`)

var mirrorScript = redis.NewScript(`
local e = redis.call('HGET', KEYS[1], 'epoch')
if e and tonumber(e) > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'pointer', ARGV[2])
return 1`)

// Claim implements coordination.Claims.
func (s *Store) Claim(ctx context.Context, key, owner string, ttl time.Duration) (bool, error) {
	var n int
	err := s.again(ctx, "claim in", func(ctx context.Context) error {
		var err error
		n, err = claimScript.Run(ctx, s.c, []string{s.key("claim", key)}, owner, ttl.Milliseconds()).Int()
		return err
	})
	return n == 1, err
}

// Release implements coordination.Claims.
func (s *Store) Release(ctx context.Context, key, owner string) error {
	return s.again(ctx, "release in", func(ctx context.Context) error {
		return releaseScript.Run(ctx, s.c, []string{s.key("claim", key)}, owner).Err()
	})
}

// Reserve implements coordination.Claims. It is sent once: a reservation counts each time it arrives.
func (s *Store) Reserve(
	ctx context.Context,
	endpoint string,
	requests, tokens, perMinute, tokensPerMinute int,
) (coordination.Reserved, error) {
	ms, err := reserveScript.Run(ctx, s.c, []string{s.key("rate", endpoint)}, requests, tokens, perMinute, tokensPerMinute).
		Int64()
	return coordination.Reserved{Wait: time.Duration(ms) * time.Millisecond}, s.wrap(ctx, "reserve in", err)
}

// Settle implements coordination.Claims. It is sent once.
func (s *Store) Settle(ctx context.Context, endpoint string, delta int) error {
	return s.wrap(ctx, "settle in", settleScript.Run(ctx, s.c, []string{s.key("rate", endpoint)}, delta).Err())
}

// keepState is how long the state of a run is remembered here; its report is an artifact and stays.
const keepState = 90 * 24 * time.Hour

// SetProgress implements coordination.Runs.
func (s *Store) SetProgress(ctx context.Context, run, field string, value []byte) error {
	return s.pipelined(ctx, "write progress to", 2, func(pipeliner redis.Pipeliner, i int) {
		if k := s.key("progress", run); i == 0 {
			pipeliner.HSet(ctx, k, field, value)
		} else {
			pipeliner.Expire(ctx, k, keepState)
		}
	})
}

// Progress implements coordination.Runs.
func (s *Store) Progress(ctx context.Context, run string) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := s.again(ctx, "read progress of", func(ctx context.Context) error {
		m, err := s.c.HGetAll(ctx, s.key("progress", run)).Result()
		for k, v := range m {
			out[k] = []byte(v)
		}
		return err
	})
	return out, err
}

func (s *Store) set(ctx context.Context, kind, run string, v []byte) error {
	return s.again(
		ctx,
		"write "+kind+" to",
		func(ctx context.Context) error { return s.c.Set(ctx, s.key(kind, run), v, keepState).Err() },
	)
}

func (s *Store) get(ctx context.Context, kind, run string) ([]byte, error) {
	var out []byte
	err := s.again(ctx, "read "+kind+" of", func(ctx context.Context) error {
		raw, err := s.c.Get(ctx, s.key(kind, run)).Bytes()
		if err == redis.Nil { //nolint:errorlint // the sentinel is never wrapped
			return nil
		}
		out = raw
		return err
	})
	return out, err
}

// SetState implements coordination.Runs.
func (s *Store) SetState(ctx context.Context, run string, v []byte) error {
	return s.set(ctx, "state", run, v)
}

// State implements coordination.Runs.
func (s *Store) State(ctx context.Context, run string) ([]byte, error) {
	return s.get(ctx, "state", run)
}

// SetControl implements coordination.Runs.
func (s *Store) SetControl(ctx context.Context, run string, v []byte) error {
	return s.set(ctx, "control", run, v)
}

// Control implements coordination.Runs.
func (s *Store) Control(ctx context.Context, run string) ([]byte, error) {
	return s.get(ctx, "control", run)
}

// ForgetRun implements coordination.Runs.
func (s *Store) ForgetRun(ctx context.Context, run string) error {
	return s.pipelined(ctx, "forget a run in", 2, func(p redis.Pipeliner, i int) {
		p.Unlink(ctx, s.key([]string{"progress", "control"}[i], run))
	})
}

// Lease implements coordination.Readers.
func (s *Store) Lease(ctx context.Context, index, generation, reader string, ttl time.Duration) error {
	return s.again(ctx, "lease in", func(ctx context.Context) error {
		return leaseScript.Run(ctx, s.c, []string{s.key("lease", index)}, generation+"\x00"+reader, ttl.Milliseconds()).
			Err()
	})
}

// Leased implements coordination.Readers.
func (s *Store) Leased(ctx context.Context, index string) (map[string]bool, error) {
	out := map[string]bool{}
	err := s.again(ctx, "read leases of", func(ctx context.Context) error {
		l, err := leasedScript.Run(ctx, s.c, []string{s.key("lease", index)}).StringSlice()
		for _, m := range l {
			gen, _, _ := strings.Cut(m, "\x00")
			out[gen] = true
		}
		return err
	})
	return out, err
}

// Mirror implements coordination.Readers.
func (s *Store) Mirror(ctx context.Context, index string, epoch int64, pointer []byte) error {
	return s.again(ctx, "mirror in", func(ctx context.Context) error {
		return mirrorScript.Run(ctx, s.c, []string{s.key("mirror", index)}, epoch, pointer).Err()
	})
}

// Mirrored implements coordination.Readers.
func (s *Store) Mirrored(ctx context.Context, index string) ([]byte, error) {
	var out []byte
	err := s.again(ctx, "read the mirror of", func(ctx context.Context) error {
		raw, err := s.c.HGet(ctx, s.key("mirror", index), "pointer").Bytes()
		if err == redis.Nil { //nolint:errorlint // the sentinel is never wrapped
			return nil
		}
		out = raw
		return err
	})
	return out, err
}
