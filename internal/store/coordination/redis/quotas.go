package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// TakeQuota implements coordination.Quotas. Without an id it is sent once: it counts each time it arrives.
func (s *Store) TakeQuota(
	ctx context.Context, subject, id string, want, limit coordination.Use,
) (taken coordination.Taken, err error) {
	keys, args := []string{s.conn.Key("quota", subject)}, []any{id}
	for _, part := range append(want[:], limit[:]...) {
		args = append(args, part)
	}
	send := func(ctx context.Context) error {
		answer, err := takeScript.Run(ctx, s.conn.Client, keys, args...).Int64Slice()
		if err != nil {
			return err
		}
		taken.Short, taken.Renews = int(answer[0])-1, time.Duration(answer[1])*time.Second
		copy(taken.Used[:], answer[2:])
		return nil
	}
	if id == "" {
		err = s.conn.Wrap(ctx, "count in", send(ctx))
	} else {
		err = s.conn.Retry(ctx, "reserve in", send)
	}
	return taken, err
}

// SettleQuota implements coordination.Quotas.
func (s *Store) SettleQuota(ctx context.Context, subject, id string, used coordination.Use) error {
	args := []any{id}
	for _, part := range used {
		args = append(args, part)
	}
	return s.conn.Retry(ctx, "settle in", func(ctx context.Context) error {
		return settleQuotaScript.Run(ctx, s.conn.Client, []string{s.conn.Key("quota", subject)}, args...).Err()
	})
}

// quotaHead forgets a day that is over; a clock that goes back over midnight forgets nothing. A subject is a hash: the
// day, the sum of each part, and each reservation.
const quotaHead = `
local t, key = redis.call('TIME'), KEYS[1]
local names, of = { 'requests', 'answers', 'tokens', 'money' }, 'of ' .. ARGV[1]
local today, day = math.floor(t[1] / 86400), tonumber(redis.call('HGET', key, 'day') or 0)
if today > day or day > today + 1 then
  redis.call('DEL', key)
  day = today
end
`

// takeScript answers the part that is short (0: none), the seconds until the next day, and what is used. ARGV: id, the
// parts of want, those of the limit. Numbers stay below 2^53, which a number of Lua holds exactly.
var takeScript = redis.NewScript(quotaHead + `
local have, short = redis.call('HMGET', key, unpack(names)), 0
local known = ARGV[1] ~= '' and redis.call('HGET', key, of)
for i = 1, 4 do
  have[i] = tonumber(have[i] or 0)
  local want, limit = tonumber(ARGV[1 + i]), tonumber(ARGV[5 + i])
  if not known and short == 0 and limit >= 0 and want > 0 and want > limit - have[i] then short = i end
end
if not known and short == 0 then
  for i = 1, 4 do
    if ARGV[1 + i] ~= '0' then have[i] = redis.call('HINCRBY', key, names[i], ARGV[1 + i]) end
  end
  redis.call('HSET', key, 'day', day)
  if ARGV[1] ~= '' then redis.call('HSET', key, of, table.concat(ARGV, ' ', 2, 5)) end
  redis.call('EXPIRE', key, 172800)
end
return { short, 86400 - t[1] % 86400, have[1], have[2], have[3], have[4] }`)

// settleQuotaScript replaces a reservation. ARGV: id, the parts of what was used.
var settleQuotaScript = redis.NewScript(quotaHead + `
local i, taken = 1, redis.call('HGET', key, of)
if not taken then return 0 end
for part in string.gmatch(taken, '%d+') do
  local more = tonumber(ARGV[1 + i]) - tonumber(part)
  if more ~= 0 then redis.call('HINCRBY', key, names[i], string.format('%.0f', more)) end
  i = i + 1
end
return redis.call('HDEL', key, of)`)
