#!/bin/sh
# Prepares Temporal once, with the image of its tools: `setup.sh schema` makes and updates the tables in PostgreSQL,
# `setup.sh namespace` makes the namespace. Both may be repeated.
set -eu

case ${1:-} in
schema)
  for database in temporal temporal_visibility; do
    folder=${database#temporal_}
    tool="temporal-sql-tool --plugin postgres12 --ep $POSTGRES_SEEDS -p 5432 -u $POSTGRES_USER --db $database"
    $tool create
    $tool setup-schema -v 0.0
    $tool update-schema -d "/etc/temporal/schema/postgresql/v12/$folder/versioned"
  done
  ;;
namespace)
  server="--address temporal:7233 --tls-ca-path /certs/ca.pem --tls-cert-path /certs/client.pem --tls-key-path /certs/client-key.pem"
  until temporal operator cluster health $server; do sleep 2; done
  temporal operator namespace describe $server --namespace default ||
    temporal operator namespace create $server --namespace default --retention 168h
  ;;
*) echo "setup.sh schema | namespace" >&2; exit 2 ;;
esac
