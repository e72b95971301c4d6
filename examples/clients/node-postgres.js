#!/usr/bin/env node
// node-postgres logs in, and says `ok` and its first argument.
//
// Where and as whom: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE. It does not encrypt unless it is told to: by
// DATABASE_URL=postgresql://user@host/db?sslmode=verify-full&sslrootcert=ca.crt, with sslcert and sslkey for a
// certificate of one's own. PGCHANNELBINDING=require binds SCRAM to the encrypted connection.
"use strict";

const { Client } = require("pg");

async function main() {
  const client = new Client({
    connectionString: process.env.DATABASE_URL,
    enableChannelBinding: process.env.PGCHANNELBINDING === "require",
  });
  await client.connect();
  try {
    await client.query("CREATE ROLE IF NOT EXISTS example_node");
    const roles = async () => (await client.query("SHOW ROLES")).rows.map((row) => row.name);
    if (!(await roles()).includes("example_node")) throw new Error("the new role is not there");

    await client.query("BEGIN");
    await client.query("CREATE ROLE example_node_undone");
    await client.query("ROLLBACK");
    if ((await roles()).includes("example_node_undone")) throw new Error("what was rolled back is there");
  } finally {
    await client.end();
  }
  console.log(["ok", ...process.argv.slice(2, 3)].join(" "));
}

main().catch((error) => {
  console.error(`${error.code ?? ""} ${error.message}`);
  process.exitCode = 1;
});
