#!/usr/bin/env bash
# Real servers on loopback for tests and benchmarks: Redis, an S3 server (versitygw), Milvus, milvus-lite and Temporal,
# each installed in a pinned version below .servers/ and started in a process group of its own. No container engine and no root is needed.
#
#   servers.sh up                 install what is missing, start all, write .servers/env
#   servers.sh down               end them all
#   servers.sh start|stop|kill N  one of redis, s3, milvus, lite, temporal (stop: SIGINT, then SIGKILL; kill: SIGKILL at once)
#   servers.sh wipe N             forget its data (it must be down)
#   servers.sh status
#
# A server that cannot be had is reported and left out of .servers/env; `up` still succeeds. Everything ends by itself after
# LIFETIME (default 3h).
set -uo pipefail
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
HOME_DIR=${UNWEAVER_TEST_SERVERS:-$ROOT/.servers}
LIFETIME=${LIFETIME:-3h}
GO=${GO:-go}

REDIS_PORT=${REDIS_PORT:-17379}
S3_PORT=${S3_PORT:-17070}
TEMPORAL_PORT=${TEMPORAL_PORT:-17233}
MILVUS_PORT=${MILVUS_PORT:-19530}
LITE_PORT=${LITE_PORT:-19640}
S3_KEY=unweaver-test
S3_SECRET=unweaver-test-secret # of a server on loopback that lives for a test

VERSITYGW=v1.8.0
MILVUS=2.3.5
LITE=3.2.2
PYMILVUS=3.0.2 # whose messages it imports
SERVERS="redis s3 milvus lite temporal"

mkdir -p "$HOME_DIR"/{bin,data,run,log}

say() { echo "servers: $*" >&2; }

# --- installing ---------------------------------------------------------------------------------------------------

install_redis() {
  [ -x "$HOME_DIR/redis/redis-server" ] && return 0
  if command -v redis-server >/dev/null; then
    mkdir -p "$HOME_DIR/redis" && ln -sf "$(command -v redis-server)" "$HOME_DIR/redis/redis-server"
    return
  fi
  command -v apt-get >/dev/null || { say "redis: no redis-server on the path, and no apt-get to fetch Debian's package"; return 1; }
  local d="$HOME_DIR/redis/deb"
  mkdir -p "$d" && cd "$d" || return 1
  say "redis: unpacking Debian's packages (no root needed)"
  local ok=1
  apt-get -q download redis-server redis-tools libjemalloc2 liblzf1 libatomic1 >apt.log 2>&1 || ok=0
  if [ $ok = 0 ]; then # package lists may be absent on a new machine
    local lists="$HOME_DIR/redis/apt"
    mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
    apt-get -q -o Dir::State::lists="$lists/lists" -o Dir::Cache="$lists/cache" -o APT::Sandbox::User=root update >>apt.log 2>&1
    apt-get -q -o Dir::State::lists="$lists/lists" -o Dir::Cache="$lists/cache" -o APT::Sandbox::User=root download redis-server redis-tools libjemalloc2 liblzf1 libatomic1 >>apt.log 2>&1 ||
      { say "redis: $(tail -1 apt.log)"; return 1; }
  fi
  for p in ./*.deb; do dpkg-deb -x "$p" .. || return 1; done
  cat >"$HOME_DIR/redis/redis-server" <<SH
#!/bin/sh
LD_LIBRARY_PATH=\$(echo $HOME_DIR/redis/usr/lib/*-linux-gnu) exec $HOME_DIR/redis/usr/bin/redis-server "\$@"
SH
  chmod +x "$HOME_DIR/redis/redis-server"
}

install_s3() {
  [ -x "$HOME_DIR/bin/versitygw-$VERSITYGW" ] && return 0
  say "s3: building versitygw $VERSITYGW (two minutes the first time)"
  GOBIN="$HOME_DIR/bin" "$GO" install "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW" >"$HOME_DIR/log/install-s3.log" 2>&1 ||
    { say "s3: $(tail -1 "$HOME_DIR/log/install-s3.log")"; return 1; }
  mv "$HOME_DIR/bin/versitygw" "$HOME_DIR/bin/versitygw-$VERSITYGW"
}

install_milvus() {
  [ -x "$HOME_DIR/milvus/bin/milvus-server" ] && return 0
  [ "$(uname -sm)" = "Linux x86_64" ] || { say "milvus: its wheel is for Linux on x86-64"; return 1; }
  command -v python3 >/dev/null || { say "milvus: python3 is needed"; return 1; }
  say "milvus: installing milvus==$MILVUS from the Python index"
  { python3 -m venv "$HOME_DIR/milvus" && "$HOME_DIR/milvus/bin/pip" install -q "milvus==$MILVUS" "setuptools<81"; } >"$HOME_DIR/log/install-milvus.log" 2>&1 ||
    { say "milvus: $(tail -1 "$HOME_DIR/log/install-milvus.log")"; rm -rf "$HOME_DIR/milvus"; return 1; }
}

install_lite() {
  [ -x "$HOME_DIR/lite/bin/milvus-lite" ] && return 0
  command -v python3 >/dev/null || { say "lite: python3 is needed"; return 1; }
  say "lite: installing milvus-lite==$LITE from the Python index"
  { python3 -m venv "$HOME_DIR/lite" && "$HOME_DIR/lite/bin/pip" install -q "milvus-lite==$LITE" "pymilvus==$PYMILVUS"; } >"$HOME_DIR/log/install-lite.log" 2>&1 ||
    { say "lite: $(tail -1 "$HOME_DIR/log/install-lite.log")"; rm -rf "$HOME_DIR/lite"; return 1; }
}

install_temporal() {
  local program
  program=$(cd "$ROOT" && "$GO" run ./infra/embedded/devserver/pull) || { say "temporal: it cannot be had"; return 1; }
  ln -sf "$program" "$HOME_DIR/bin/temporal"
}

# --- processes ----------------------------------------------------------------------------------------------------

pidfile() { echo "$HOME_DIR/run/$1.pid"; }

# pid prints the process group's leader when it is ours and alive.
pid() {
  local p
  p=$(cat "$(pidfile "$1")" 2>/dev/null) || return 1
  grep -qz timeout "/proc/$p/cmdline" 2>/dev/null && echo "$p"
}

# spawn starts a command in a process group of its own, bounded by LIFETIME.
spawn() {
  local name=$1
  shift
  setsid timeout -k 10 "$LIFETIME" "$@" >>"$HOME_DIR/log/$name.log" 2>&1 </dev/null &
  echo $! >"$(pidfile "$name")"
}

start_one() {
  local name=$1 d="$HOME_DIR/data/$1"
  pid "$name" >/dev/null && return 0
  ! probe "$name" || { say "$name: a server that this script did not start answers on its port: end that one first"; return 1; }
  mkdir -p "$d"
  case $name in
  redis)
    local aof=yes
    [ "${REDIS_AOF:-yes}" = no ] && aof=no
    spawn redis "$HOME_DIR/redis/redis-server" --bind 127.0.0.1 --port "$REDIS_PORT" --dir "$d" --save '' --appendonly $aof --appendfsync everysec --maxmemory-policy noeviction
    ;;
  s3)
    mkdir -p "$d/unweaver" "$d/milvus" "$d/corpus"
    ROOT_ACCESS_KEY=$S3_KEY ROOT_SECRET_KEY=$S3_SECRET spawn s3 "$HOME_DIR/bin/versitygw-$VERSITYGW" --quiet --port "127.0.0.1:$S3_PORT" posix "$d"
    ;;
  milvus)
    spawn milvus "$HOME_DIR/milvus/bin/milvus-server" --data "$d" --proxy-port "$MILVUS_PORT" \
      --extra-config common.storageType=remote --extra-config minio.address=127.0.0.1 --extra-config "minio.port=$S3_PORT" \
      --extra-config "minio.accessKeyID=$S3_KEY" --extra-config "minio.secretAccessKey=$S3_SECRET" --extra-config minio.bucketName=milvus --extra-config minio.rootPath=files
    ;;
  lite)
    spawn lite "$HOME_DIR/lite/bin/milvus-lite" server --data-dir "$d" --host 127.0.0.1 --port "$LITE_PORT"
    ;;
  temporal)
    spawn temporal "$HOME_DIR/bin/temporal" server start-dev --headless --ip 127.0.0.1 --port "$TEMPORAL_PORT" \
      --db-filename "$d/engine.db" --sqlite-pragma journal_mode=wal --sqlite-pragma synchronous=2 --log-level warn \
      --dynamic-config-value matching.enableFairness=true --dynamic-config-value frontend.namespaceRPS=20000 \
      --dynamic-config-value frontend.rps=20000 --dynamic-config-value frontend.namespaceRPS.visibility=1000 \
      --dynamic-config-value system.forceSearchAttributesCacheRefreshOnRead=true
    ;;
  *) say "no server is called $name"; return 2 ;;
  esac
  wait_one "$name"
}

probe() {
  case $1 in
  redis) [ "$(printf 'PING\r\n' | timeout 1 bash -c "exec 3<>/dev/tcp/127.0.0.1/$REDIS_PORT; cat >&3; head -c 5 <&3" 2>/dev/null)" = "+PONG" ] ;;
  s3) timeout 1 bash -c "exec 3<>/dev/tcp/127.0.0.1/$S3_PORT; printf 'GET / HTTP/1.0\r\n\r\n' >&3; head -c 4 <&3" 2>/dev/null | grep -q HTTP ;;
  milvus) "$ROOT/bin/serverprobe" milvus "127.0.0.1:$MILVUS_PORT" >/dev/null 2>&1 ;;
  lite) "$ROOT/bin/serverprobe" milvus "127.0.0.1:$LITE_PORT" >/dev/null 2>&1 ;;
  temporal) "$ROOT/bin/serverprobe" temporal "127.0.0.1:$TEMPORAL_PORT" >/dev/null 2>&1 ;;
  esac
}

wait_one() {
  local i
  for i in $(seq 1 600); do
    probe "$1" && return 0
    pid "$1" >/dev/null || { say "$1 ended: $(tail -2 "$HOME_DIR/log/$1.log" | tr '\n' ' ')"; return 1; }
    sleep 0.2
  done
  say "$1 was not ready in two minutes: see $HOME_DIR/log/$1.log"
  return 1
}

# end_one ends a process group: gently, then for sure. Milvus orphans its server on SIGTERM, so it gets SIGKILL at once.
end_one() {
  local p i
  p=$(pid "$1") || return 0
  if [ "$2" = gentle ] && [ "$1" != milvus ]; then
    kill -INT -- "-$p" 2>/dev/null
    for i in $(seq 1 50); do
      kill -0 -- "-$p" 2>/dev/null || break
      sleep 0.1
    done
  fi
  kill -KILL -- "-$p" 2>/dev/null
  for i in $(seq 1 50); do
    kill -0 -- "-$p" 2>/dev/null || break
    sleep 0.1
  done
  rm -f "$(pidfile "$1")"
}

up() {
  local name missing="" e="$HOME_DIR/env.new"
  (cd "$ROOT" && "$GO" build -o bin/serverprobe ./infra/servers/serverprobe) || return 1
  : >"$e"
  for name in $SERVERS; do
    if [ "$name" = milvus ] && ! pid s3 >/dev/null; then
      say "milvus: it stores into the S3 server, which is not there"
      missing="$missing $name"
      continue
    fi
    if ! "install_$name" || ! start_one "$name"; then
      missing="$missing $name"
      continue
    fi
    case $name in
    redis) echo "UNWEAVER_TEST_REDIS=redis://127.0.0.1:$REDIS_PORT/0" ;;
    s3)
      echo "UNWEAVER_TEST_S3=http://127.0.0.1:$S3_PORT"
      echo "AWS_ACCESS_KEY_ID=$S3_KEY"
      echo "AWS_SECRET_ACCESS_KEY=$S3_SECRET"
      ;;
    milvus) echo "UNWEAVER_TEST_MILVUS=milvus://127.0.0.1:$MILVUS_PORT" ;;
    lite) echo "UNWEAVER_TEST_MILVUS_LITE=milvus://127.0.0.1:$LITE_PORT" ;;
    temporal) echo "UNWEAVER_TEST_TEMPORAL=127.0.0.1:$TEMPORAL_PORT" ;;
    esac >>"$e"
    say "$name is up"
  done
  echo "UNWEAVER_TEST_SERVERS=$HOME_DIR" >>"$e"
  [ -z "$missing" ] || echo "UNWEAVER_TEST_MISSING=${missing# }" | tr ' ' ',' >>"$e"
  mv "$e" "$HOME_DIR/env"
  [ -z "$missing" ] || say "NOT AVAILABLE:$missing (their tests will be skipped)"
}

down() {
  local name
  for name in temporal lite milvus s3 redis; do end_one "$name" gentle; done
  rm -f "$HOME_DIR/env"
}

case ${1:-} in
up) up ;;
down) down ;;
start) start_one "$2" ;;
stop) end_one "$2" gentle ;;
kill) end_one "$2" hard ;;
wipe)
  pid "$2" >/dev/null && { say "$2 is running"; exit 1; }
  rm -rf "$HOME_DIR/data/$2"
  [ "$2" != milvus ] || rm -rf "$HOME_DIR/data/s3/milvus/files"
  ;;
status) for n in $SERVERS; do echo "$n $(pid "$n" || echo down)"; done ;;
*) sed -n '2,11p' "$0"; exit 2 ;;
esac
