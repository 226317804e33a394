package redis

import "github.com/redis/go-redis/v9"

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
