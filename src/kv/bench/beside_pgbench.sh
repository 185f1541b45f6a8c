#!/usr/bin/env bash
# Creations by kv_postgres_bench and the same rows by pgbench, in turn, on a server of its own in a
# directory below TMPDIR. Prints each figure. Needs the packages postgresql and, as root, nobody's leave to
# run the server.
#
#   beside_pgbench.sh PROGRAM [ROUNDS] [SECONDS] [CLIENTS] [DIRECTORIES]
set -euo pipefail
program=$1 rounds=${2:-3} seconds=${3:-5} clients=${4:-16} directories=${5:-16}

programs=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort | tail -n 1)
scratch=$(mktemp -d)
server=
finish() {
  [[ -z $server ]] || { kill -INT "$server"; wait "$server" || true; }
  rm -rf "$scratch"
}
trap finish EXIT
as_user=()
if ((EUID == 0)); then
  chown nobody "$scratch"
  as_user=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
fi
"${as_user[@]}" "$programs/initdb" -D "$scratch/data" -U penstock -A trust -E UTF8 --locale=C >"$scratch.log"
mv "$scratch.log" "$scratch/initdb.log"
"${as_user[@]}" "$programs/postgres" -D "$scratch/data" -k "$scratch" -c listen_addresses= \
  -c max_connections=100 -c shared_buffers=128MB 2>"$scratch/server.log" &
server=$!
until "$programs/pg_isready" -q -h "$scratch"; do sleep 0.1; done
psql() { "$programs/psql" -XqAt -h "$scratch" -U penstock -v ON_ERROR_STOP=1 "$@"; }
psql -d postgres -c 'CREATE DATABASE ours'
psql -d postgres -c 'CREATE DATABASE theirs'
psql -d theirs -c 'CREATE TABLE record (key bytea PRIMARY KEY, value bytea NOT NULL) WITH (fillfactor = 90)'

cat >"$scratch/create.sql" <<SQL
\set id random(1, 1000000000000)
\set directory 1000 + :client_id % $directories
BEGIN;
SELECT value FROM record WHERE key = ('I' || :directory)::bytea;
SELECT value FROM record WHERE key = ('D' || :directory || 'name' || :id)::bytea;
INSERT INTO record VALUES (('I' || :id)::bytea, repeat('i', 100)::bytea) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
INSERT INTO record VALUES (('D' || :directory || 'name' || :id)::bytea, repeat('d', 20)::bytea) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
INSERT INTO record VALUES (('C' || :directory || :id)::bytea, repeat('d', 20)::bytea) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
INSERT INTO record VALUES (('T' || :directory)::bytea, repeat('t', 24)::bytea) ON CONFLICT (key) DO UPDATE SET value = excluded.value;
COMMIT;
SQL
for ((round = 0; round < rounds; round++)); do
  for together in 0 1; do
    printf 'ours, together=%s: ' "$together"
    "$program" "host=$scratch user=penstock dbname=ours" seconds="$seconds" clients="$clients" \
      directories="$directories" together="$together" | head -n 1
  done
  printf 'pgbench: '
  "$programs/pgbench" -n -M prepared -f "$scratch/create.sql" -c "$clients" -j 2 -T "$seconds" -h "$scratch" \
    -U penstock theirs 2>/dev/null | sed -n 's/^tps = \([0-9]*\).*/\1 transactions\/s/p'
done
