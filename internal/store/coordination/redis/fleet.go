package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// fleetKey returns the key of the processes that live, or of what they report of a limit. All have one hash tag, so
// that a cluster keeps them on one server and a beat is one script.
func (s *Store) fleetKey(of ...string) string {
	return s.conn.Key(append([]string{"fleet", "{" + s.conn.Key("fleet") + "}"}, of...)...)
}

// Beat implements coordination.Fleet.
func (s *Store) Beat(
	ctx context.Context, member string, value []byte, wants map[string]coordination.Want, ttl time.Duration,
) (shares map[string]int, living int, err error) {
	keys, limits := []string{s.fleetKey()}, make([]string, 0, len(wants))
	args := []any{member, value, ttl.Milliseconds(), coordination.Turn.Milliseconds()}
	for limit, want := range wants {
		limits, keys = append(limits, limit), append(keys, s.fleetKey(limit))
		args = append(args, want.Total, want.Demand, want.Held)
	}
	err = s.conn.Retry(ctx, "beat in", func(ctx context.Context) error {
		answer, err := beatScript.Run(ctx, s.conn.Client, keys, args...).Int64Slice()
		if err != nil {
			return err
		}
		living, shares = int(answer[0]), make(map[string]int, len(limits))
		for i, limit := range limits {
			shares[limit] = int(answer[i+1])
		}
		return nil
	})
	return shares, living, err
}

// ListMembers implements coordination.Fleet.
func (s *Store) ListMembers(ctx context.Context) (map[string][]byte, error) {
	var out map[string][]byte
	err := s.conn.Retry(ctx, "read the fleet in", func(ctx context.Context) error {
		answer, err := livingScript.Run(ctx, s.conn.Client, []string{s.fleetKey()}).StringSlice()
		out = make(map[string][]byte, len(answer)/2)
		for i := 0; i+1 < len(answer); i += 2 {
			out[answer[i]] = []byte(answer[i+1])
		}
		return err
	})
	return out, err
}

// Leave implements coordination.Fleet.
func (s *Store) Leave(ctx context.Context, member string, limits []string) error {
	keys := []string{s.fleetKey()}
	for _, limit := range limits {
		keys = append(keys, s.fleetKey(limit))
	}
	return s.conn.SendPipelines(ctx, "leave the fleet in", len(keys), func(pipe redis.Pipeliner, i int) {
		pipe.HDel(ctx, keys[i], member)
	})
}

// beatScript is coordination.Fleet.Beat; its arithmetic is that of coordination.Share. ARGV: member, value, ttl, length
// of a turn, then of each limit total, demand, held. A field of a limit is "until total demand held".
var beatScript = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local me, till = ARGV[1], now + tonumber(ARGV[3])
local turn = math.floor(now / tonumber(ARGV[4]))

local function share(key, total, demand, held)
  local all, others = { { me, demand } }, 0
  local h = redis.call('HGETALL', key)
  for i = 1, #h, 2 do
    local till, most, want, has = string.match(h[i + 1], '^(%d+) (%d+) (%d+) (%d+)$')
    if not till or tonumber(till) <= now then
      redis.call('HDEL', key, h[i])
    elseif h[i] ~= me then
      total, others = math.min(total, tonumber(most)), others + tonumber(has)
      all[#all + 1] = { h[i], tonumber(want) }
    end
  end
  local left, hungry, level = total, #all, -1
  while hungry > 0 and math.floor(left / hungry) > level do
    local settled = level
    level = math.floor(left / hungry)
    for _, one in ipairs(all) do
      if one[2] > settled and one[2] <= level then left, hungry = left - one[2], hungry - 1 end
    end
  end
  local mine, parts = level, hungry
  if demand <= level and hungry > 0 then
    mine, parts = demand, 0
  elseif hungry == 0 then
    mine, parts = demand + math.floor(left / #all), #all
  end
  if parts > 0 then
    local before = 0
    for _, one in ipairs(all) do
      if one[1] < me and (hungry == 0 or one[2] > level) then before = before + 1 end
    end
    if level == 0 and hungry > 0 then before = (before + turn) % hungry end
    if before < left % parts then mine = mine + 1 end
  end
  return math.max(0, math.min(mine, total - others))
end

local answer = { 0 }
for i = 2, #KEYS do
  local at = 3 * i - 1
  local total, demand, held = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  answer[i] = share(KEYS[i], total, demand, held)
  redis.call('HSET', KEYS[i], me, string.format('%d %d %d %d', till, total, demand, math.max(answer[i], held)))
  redis.call('PEXPIRE', KEYS[i], 3600000)
end
redis.call('HSET', KEYS[1], me, string.format('%d ', till) .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], 3600000)
local h = redis.call('HGETALL', KEYS[1])
for i = 1, #h, 2 do
  if tonumber(string.match(h[i + 1], '^%d+')) <= now then
    redis.call('HDEL', KEYS[1], h[i])
  else
    answer[1] = answer[1] + 1
  end
end
return answer`)

var livingScript = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local h, answer = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #h, 2 do
  local till, value = string.match(h[i + 1], '^(%d+) (.*)$')
  if tonumber(till) > now then
    answer[#answer + 1] = h[i]
    answer[#answer + 1] = value
  end
end
return answer`)
