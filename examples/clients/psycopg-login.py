#!/usr/bin/env python3
"""psycopg 3 logs in, and says `ok` and its first argument.

Where, as whom and how: libpq's variables PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE, PGSSLMODE,
PGSSLROOTCERT, PGSSLCERT, PGSSLKEY, PGCHANNELBINDING, or what is given to connect().
"""

import sys

import psycopg


class Undo(Exception):
    pass


# Every statement is a transaction of its own.
with psycopg.connect(autocommit=True) as connection:
    connection.execute("CREATE ROLE IF NOT EXISTS example_psycopg")
    # Names are no parameters of a statement, but values are.
    roles = {row[0] for row in connection.execute("SHOW ROLES")}
    assert "example_psycopg" in roles, roles

    # All or nothing: what raises undoes the block.
    try:
        with connection.transaction():
            connection.execute("CREATE ROLE example_psycopg_undone")
            raise Undo
    except Undo:
        pass
    roles = {row[0] for row in connection.execute("SHOW ROLES")}
    assert "example_psycopg_undone" not in roles, roles

print("ok", *sys.argv[1:2])
