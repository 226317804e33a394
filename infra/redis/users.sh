#!/bin/sh
# Writes Redis's file of users to standard output: one for each program, with what it needs and no more. The default
# user is off, so that nothing is answered without a password. Passwords come from the environment and stand there as
# SHA-256.
set -eu

# password NAME prints the hash of a variable's value. Other characters would have a meaning in URLs or in the file.
password() {
  eval "value=\${$1:-}"
  case $value in
  '' | *[!A-Za-z0-9_-]*) echo "$1 must be letters, digits, _ and - only: openssl rand -hex 24" >&2; exit 1 ;;
  esac
  [ ${#value} -ge 16 ] || { echo "$1 is shorter than 16 characters: openssl rand -hex 24" >&2; exit 1; }
  printf %s "$value" | sha256sum | cut -d ' ' -f 1
}

worker=$(password REDIS_WORKER_PASSWORD)
query=$(password REDIS_QUERY_API_PASSWORD)
cli=$(password REDIS_CLI_PASSWORD)

# Keys begin with eight digits of the artifact store's id: no user reaches keys of another form. A Redis that several
# installations share is shared by these users, too: tenants that must not reach each other have a Redis each.
store='????????'
common='+ping +info +multi +exec'

# What stands between parentheses is for those keys alone.
cat <<USERS
user default off nopass resetchannels -@all
user worker on #$worker resetchannels ~$store:* -@all \
+@read +@write $common +eval +evalsha +time -@admin -@dangerous +info
user query-api on #$query resetchannels %R~$store:* -@all +get +hget +hgetall $common \
(~$store:lease:* ~$store:rate:* -@all +eval +evalsha +time +zadd +zremrangebyscore +hget +hmget +hset +pexpire) \
(~$store:quota:* -@all +eval +evalsha +time +hget +hmget +hset +hincrby +hdel +del +expire)
user cli on #$cli resetchannels %R~$store:* -@all +get +mget +hget +hgetall +scan $common \
(~$store:state:* ~$store:control:* ~$store:owner ~$store:mirrors-version -@all +get +set) \
(~$store:mirrors -@all +hset +hdel) \
(~$store:claim:start/* -@all +eval +evalsha +get +set +del) \
(~$store:lease:* -@all +eval +evalsha +time +zrangebyscore) \
(~$store:* -@all +unlink)
USERS
