#!/usr/bin/env bash
# Three coordinators on one PostgreSQL behind a TCP balancer, all on loopback, in a temporary directory.
# Deploys, kills one coordinator and then PostgreSQL, deploys again, and shows that all three agree and
# that nothing that was acknowledged is lost. See README.md beside it.
#
#   PG_BIN     the directory of initdb and pg_ctl, if they are not found by themselves
#   DATAGLOT   the binary, if it is not to be built
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
patience=60 # seconds, for anything that is waited for

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# What is needed -----------------------------------------------------------------------------------
find_postgres() {
  local candidate
  for candidate in "${PG_BIN:-}" "$(pg_config --bindir 2>/dev/null || true)" \
    "$(dirname "$(command -v initdb || echo /)")" $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV); do
    [ -n "$candidate" ] && [ -x "$candidate/initdb" ] && [ -x "$candidate/pg_ctl" ] && { echo "$candidate"; return; }
  done
}
missing=()
pg_bin=$(find_postgres)
[ -n "$pg_bin" ] || missing+=("PostgreSQL's server (Debian: apt-get install postgresql; or set PG_BIN)")
command -v psql >/dev/null || missing+=("psql (Debian: apt-get install postgresql-client)")
command -v python3 >/dev/null || missing+=("python3")
[ -n "${DATAGLOT:-}" ] || command -v cargo >/dev/null || missing+=("cargo, or a built binary in DATAGLOT")
if [ "$(id -u)" = 0 ]; then
  id postgres >/dev/null 2>&1 || missing+=("the user postgres: PostgreSQL does not run as root")
  command -v setpriv >/dev/null || missing+=("setpriv (Debian: apt-get install util-linux)")
fi
if [ ${#missing[@]} -gt 0 ]; then
  printf 'missing: %s\n' "${missing[@]}" >&2
  exit 2
fi
if [ -z "${DATAGLOT:-}" ]; then
  say "Building"
  (cd "$root" && cargo build --release --locked -p dataglot-cli)
  DATAGLOT=${CARGO_TARGET_DIR:-$root/target}/release/dataglot
fi
DATAGLOT=$(realpath "$DATAGLOT")

# The directory, and its end -----------------------------------------------------------------------
work=$(mktemp -d "${TMPDIR:-/tmp}/dataglot-ha.XXXXXX")
chmod 711 "$work"
pids=()
as_postgres() {
  if [ "$(id -u)" = 0 ]; then
    (cd / && setpriv --reuid=postgres --regid=postgres --init-groups "$@")
  else
    "$@"
  fi
}
finish() {
  local code=$?
  trap - EXIT
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  [ -d "$work/pg/data" ] && as_postgres "$pg_bin/pg_ctl" -D "$work/pg/data" -m immediate stop >/dev/null 2>&1
  if [ $code -ne 0 ]; then
    printf '\nfailed; the logs:\n' >&2
    tail -n 15 "$work"/*.log "$work"/pg/log >&2 2>/dev/null || true
  fi
  rm -rf "$work"
  exit $code
}
trap finish EXIT
trap 'exit 130' INT TERM

# Waits until a command succeeds.
until_true() {
  local what=$1 end=$((SECONDS + patience))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || fail "waited $patience s for: $what"
    sleep 0.1
  done
}
free_ports() {
  python3 - "$1" <<'PYTHON'
import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in sockets))
PYTHON
}
read -r balancer sql1 sql2 sql3 http1 http2 http3 <<<"$(free_ports 7)"
sql=("$sql1" "$sql2" "$sql3")
http=("$http1" "$http2" "$http3")

# PostgreSQL ---------------------------------------------------------------------------------------
say "PostgreSQL ($("$pg_bin/postgres" --version))"
mkdir -m 755 "$work/pg"
if [ "$(id -u)" = 0 ]; then chown postgres "$work/pg"; fi
as_postgres "$pg_bin/initdb" -D "$work/pg/data" -U postgres --auth-local=peer --auth-host=reject >"$work/initdb.log"
pg() {
  as_postgres "$pg_bin/pg_ctl" -D "$work/pg/data" -l "$work/pg/log" -w -t $patience \
    -o "-c listen_addresses='' -c unix_socket_directories='$work/pg'" "$@" >/dev/null
}
pg_is_up() { as_postgres "$pg_bin/psql" -h "$work/pg" -U postgres -Atqc 'SELECT 1' postgres; }
# The operating system's user is the superuser here; the coordinators come with a password.
printf 'local all postgres peer map=me\nlocal all all scram-sha-256\n' >"$work/pg_hba.conf"
printf 'me %s postgres\n' "$(as_postgres id -un)" >"$work/pg_ident.conf"
chmod 644 "$work/pg_hba.conf" "$work/pg_ident.conf"
as_postgres cp "$work/pg_hba.conf" "$work/pg_ident.conf" "$work/pg/data/"
pg start
password=$(python3 -c 'import secrets; print(secrets.token_hex(16))')
as_postgres "$pg_bin/psql" -h "$work/pg" -U postgres -v ON_ERROR_STOP=1 -q postgres <<SQL
CREATE ROLE dataglot LOGIN PASSWORD '$password';
CREATE DATABASE dataglot OWNER dataglot ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE dataglot FROM PUBLIC;
SQL
(umask 077 && printf '*:*:dataglot:dataglot:%s\n' "$password" >"$work/passfile")
(umask 077 && "$DATAGLOT" version >/dev/null && python3 -c 'import secrets; print(secrets.token_hex(32))' >"$work/secret.key")
dsn="host=$work/pg dbname=dataglot user=dataglot passfile=$work/passfile"
"$DATAGLOT" migrate up --store "dsn=$dsn"

# Coordinators and the balancer --------------------------------------------------------------------
start_coordinator() { # number from 0
  local n=$1
  "$DATAGLOT" serve --auth trust --store "dsn=$dsn" --node "c$((n + 1))" --secret-key-file "$work/secret.key" \
    --listen "127.0.0.1:${sql[$n]}" --http "127.0.0.1:${http[$n]}" >>"$work/c$((n + 1)).log" 2>&1 &
  coordinator[$n]=$!
  pids+=($!)
}
ask() { # port, SQL
  PGCONNECT_TIMEOUT=5 psql -X -At -v ON_ERROR_STOP=1 "host=127.0.0.1 port=$1 user=admin dbname=default" -c "$2"
}
deploy() { psql -X -q "host=127.0.0.1 port=$balancer user=admin dbname=default" -f "$1"; }
# What a coordinator says of the whole state and its history.
state_of() {
  local what
  for what in CATALOGS SECRETS ROLES USERS POLICIES VIEWS GRANTS 'ROLE GRANTS' 'CHANGES SINCE 0'; do
    ask "$1" "SHOW $what" || return
  done
}
version_of() { ask "$1" 'SHOW CHANGES SINCE 0' | tail -n 1 | cut -d'|' -f1; }
agree() {
  local port first
  first=$(state_of "${sql[0]}") || return
  for port in "${sql[@]}"; do [ "$(state_of "$port")" = "$first" ] || return; done
}

say "Three coordinators and a balancer"
declare -a coordinator
for n in 0 1 2; do start_coordinator $n; done
for n in 0 1 2; do until_true "coordinator c$((n + 1))" ask "${sql[$n]}" 'SHOW CATALOGS'; done
python3 "$here/balancer.py" "$balancer" "$sql1/$http1" "$sql2/$http2" "$sql3/$http3" >"$work/balancer.log" 2>&1 &
pids+=($!)
until_true "the balancer" ask "$balancer" 'SHOW CATALOGS'
echo "coordinators on ports ${sql[*]}, the balancer on $balancer"

say "The first deployment, through the balancer"
deploy "$here/deploy.sql"
until_true "all coordinators to agree" agree
echo "all three agree at version $(version_of "$sql1")"

# A client that goes on all the time: what it was told to be done is in this file.
writer() {
  local n=0
  while [ ! -e "$work/stop" ]; do
    n=$((n + 1))
    if ask "$balancer" "CREATE ROLE w$n" >/dev/null 2>&1; then echo "w$n" >>"$work/acknowledged"; fi
  done
}
count() { wc -l <"$work/acknowledged"; }
goes_on() { # Ten more writes are acknowledged.
  local wanted=$(($(count) + 10))
  until_true "writes to go on" eval "[ \$(count) -ge $wanted ]"
}
touch "$work/acknowledged"
writer &
pids+=($!)
writer_pid=$!
goes_on

say "Coordinator c1 is killed (-9)"
{ kill -9 "${coordinator[0]}" && wait "${coordinator[0]}"; } 2>/dev/null || true
goes_on
echo "writes go on: $(count) acknowledged so far"

say "PostgreSQL is killed (immediate), and started again"
pg -m immediate stop
ask "$sql2" 'SHOW CATALOGS' >/dev/null && echo "c2 answers reads meanwhile"
if ask "$sql2" 'CREATE ROLE too_soon' >"$work/refused.log" 2>&1; then fail "a write without PostgreSQL was acknowledged"; fi
echo "and refuses writes: $(head -n 1 "$work/refused.log")"
pg start
until_true "PostgreSQL" pg_is_up
goes_on
echo "writes go on: $(count) acknowledged so far"

say "The second deployment"
touch "$work/stop"
wait $writer_pid
deploy "$here/deploy-2.sql"
start_coordinator 0
until_true "coordinator c1" ask "$sql1" 'SHOW CATALOGS'
until_true "all coordinators to agree" agree

say "All agree"
for n in 0 1 2; do
  printf 'c%s  version %s  state %s\n' $((n + 1)) "$(version_of "${sql[$n]}")" "$(state_of "${sql[$n]}" | sha256sum | cut -c1-16)"
done
ask "$sql1" 'SHOW ROLES' | cut -d'|' -f1 | sort >"$work/roles"
lost=$(sort "$work/acknowledged" | comm -23 - "$work/roles")
[ -z "$lost" ] || fail "acknowledged and lost: $lost"
echo "$(count) roles were acknowledged to the client that went on all the time, and all are there"
"$DATAGLOT" migrate check --store "dsn=$dsn"
