#!/usr/bin/env python3
"""asyncpg logs in, and says `ok` and its first argument.

Where, as whom and how: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE, PGSSLMODE, PGSSLROOTCERT, PGSSLCERT,
PGSSLKEY, or what is given to connect().
"""

import asyncio
import sys

import asyncpg


async def main():
    connection = await asyncpg.connect()
    try:
        await connection.execute("CREATE ROLE IF NOT EXISTS example_asyncpg")
        roles = {row["name"] for row in await connection.fetch("SHOW ROLES")}
        assert "example_asyncpg" in roles, roles

        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("CREATE ROLE example_asyncpg_undone")
        await transaction.rollback()
        roles = {row["name"] for row in await connection.fetch("SHOW ROLES")}
        assert "example_asyncpg_undone" not in roles, roles
    finally:
        await connection.close()


asyncio.run(main())
print("ok", *sys.argv[1:2])
