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
corpus=$(secret S3_CORPUS_SECRET)

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

# Objects are removed many at a time, which is asked of the bucket: so the right to write is one to the bucket.
echo '{"identities": ['
user worker "$worker" Read:unweaver List:unweaver Write:unweaver Read:corpus List:corpus \
  List:milvus 'Read:milvus/unweaver-import/*' 'Write:milvus/unweaver-import/*'
echo ,
user query-api "$query" Read:unweaver List:unweaver
echo ,
# The command line does what operators do, with these rights: it publishes, rolls back, tags, branches, schedules, purges
# and deletes indexes, with their copies of rows that Milvus imports. It reads the corpus alone; who fills that may do
# nothing else.
user cli "$cli" Read:unweaver List:unweaver Write:unweaver Read:corpus List:corpus \
  List:milvus 'Read:milvus/unweaver-import/*' 'Write:milvus/unweaver-import/*'
echo ,
user corpus "$corpus" Read:corpus List:corpus Write:corpus
echo ,
user milvus "$milvus" Read:milvus List:milvus Write:milvus
echo
echo ']}'
