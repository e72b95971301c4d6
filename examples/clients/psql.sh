#!/usr/bin/env bash
# psql logs in, and says `ok` and its first argument.
#
# Where and as whom: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE; how: PGSSLMODE, PGSSLROOTCERT,
# PGSSLCERT and PGSSLKEY, PGCHANNELBINDING. A token or a directory's password is a PGPASSWORD, too.
set -euo pipefail

out=$(psql --no-psqlrc --no-password --quiet --tuples-only --no-align --set ON_ERROR_STOP=1 <<'SQL'
CREATE ROLE IF NOT EXISTS example_psql;
SHOW ROLES LIKE 'example_psql';

BEGIN;
CREATE ROLE example_psql_undone;
ROLLBACK;
SHOW ROLES LIKE 'example_psql_undone';
SQL
)
case $out in
  *example_psql_undone*) echo "what was rolled back is there" >&2; exit 1 ;;
  *example_psql*) echo "ok ${1:-}" ;;
  *) echo "the new role is not there" >&2; exit 1 ;;
esac
