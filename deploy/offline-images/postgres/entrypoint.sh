#!/bin/sh
# What we use of the official entry point: POSTGRES_USER, POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE, POSTGRES_DB, PGDATA.
set -eu
case "${1:-postgres}" in -*) set -- postgres "$@" ;; esac
if [ "$1" != postgres ]; then exec "$@"; fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE"); fi
    if [ -z "${POSTGRES_PASSWORD:-}" ]; then
        echo "entrypoint: POSTGRES_PASSWORD or POSTGRES_PASSWORD_FILE must be set" >&2
        exit 1
    fi
    user=${POSTGRES_USER:-postgres}
    database=${POSTGRES_DB:-$user}
    umask 077
    mkdir -p "$PGDATA"
    password=$(mktemp)
    printf '%s\n' "$POSTGRES_PASSWORD" >"$password"
    initdb --username="$user" --pwfile="$password" --encoding=UTF8 --auth-local=trust --auth-host=scram-sha-256 >/dev/null
    rm "$password"
    printf "listen_addresses = '*'\nunix_socket_directories = '/var/run/postgresql'\n" >>"$PGDATA/postgresql.conf"
    printf 'host all all all scram-sha-256\n' >>"$PGDATA/pg_hba.conf"
    # As in the official image, the database is made before the server listens to the network.
    pg_ctl --wait --silent -o "-c listen_addresses=''" start
    if [ "$database" != postgres ]; then
        psql --no-psqlrc --quiet --host=/var/run/postgresql --username="$user" --dbname=postgres \
            --set=ON_ERROR_STOP=1 --set=database="$database" <<'SQL'
CREATE DATABASE :"database";
SQL
    fi
    pg_ctl --wait --silent --mode=fast stop
    echo "entrypoint: PostgreSQL init process complete; ready for start up." >&2
fi
exec "$@"
