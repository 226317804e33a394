#!/bin/sh
# Writes SeaweedFS's file of S3 users to standard output: one for each program, with what it needs and no more. The name
# of a user is its access key; secrets come from the environment.
set -eu

# secret NAME prints a variable's value, which is put between quotes as it is.
secret() {
  eval "value=\${$1:-}"
  case $value in
  '' | *[!A-Za-z0-9_-]*) echo "$1 must be letters, digits, _ and - only: openssl rand -hex 24" >&2; exit 1 ;;
  esac
  [ ${#value} -ge 16 ] || { echo "$1 is shorter than 16 characters: openssl rand -hex 24" >&2; exit 1; }
  printf %s "$value"
}

worker=$(secret S3_WORKER_SECRET)
query=$(secret S3_QUERY_API_SECRET)
cli=$(secret S3_CLI_SECRET)
milvus=$(secret S3_MILVUS_SECRET)

# user NAME SECRET ACTION…
user() {
  printf '  {"name": "%s", "credentials": [{"accessKey": "%s", "secretKey": "%s"}], "actions": [' "$1" "$1" "$2"
  shift 2
  comma=''
  for action; do
    printf '%s"%s"' "$comma" "$action"
    comma=', '
  done
  printf ']}'
}

# A worker removes objects many at a time, which is asked of the bucket: so its right to write is one to the bucket.
echo '{"identities": ['
user worker "$worker" Read:unweaver List:unweaver Write:unweaver Read:corpus List:corpus \
  List:milvus 'Read:milvus/unweaver-import/*' 'Write:milvus/unweaver-import/*'
echo ,
user query-api "$query" Read:unweaver List:unweaver
echo ,
# A name without * or ? is one of a bucket. The command line stores specifications, frees the lease of a lost run, keeps
# API keys, and probes (unweaver doctor).
user cli "$cli" Read:unweaver List:unweaver Read:corpus List:corpus \
  'Write:unweaver/artifacts/store.json*' 'Write:unweaver/artifacts/*/specs/*' 'Write:unweaver/artifacts/*/lease.json' \
  'Write:unweaver/artifacts/_access/*' 'Write:unweaver/artifacts/doctor/*'
echo ,
user milvus "$milvus" Read:milvus List:milvus Write:milvus
echo
echo ']}'
