#!/bin/sh
# Makes an installation's certificates once, each where only those are who need it:
#
#   $SERVER  Temporal: its certificate and key, its authority, and that of its clients
#   $CLIENT  who speaks to Temporal: a certificate and key, and the authority of the server
#   $S3      SeaweedFS's S3 server, of an authority that signed nothing else: nobody can speak to its port for users
#
# No authority's key is kept, so that nobody makes more. New ones: remove the three volumes and start again.
set -eu
umask 077
UNWEAVER=${UNWEAVER:-/out/unweaver}

if [ -e "$SERVER/ready" ] && [ -e "$CLIENT/ready" ] && [ -e "$S3/ready" ]; then exit 0; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$UNWEAVER" certs create "$work/server" --host temporal --host localhost
"$UNWEAVER" certs create "$work/client" --host client
"$UNWEAVER" certs create "$work/s3" --host s3
cp "$work/server/ca.pem" "$work/server/server.pem" "$work/server/server-key.pem" "$SERVER/"
cp "$work/client/ca.pem" "$SERVER/clients.pem"
cp "$work/server/ca.pem" "$work/client/client.pem" "$work/client/client-key.pem" "$CLIENT/"
cp "$work/s3/ca.pem" "$work/s3/server.pem" "$work/s3/server-key.pem" "$S3/"
touch "$SERVER/ready" "$CLIENT/ready" "$S3/ready"
