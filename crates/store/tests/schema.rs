//! The schema of a store in PostgreSQL: what may be done to it, by whom, how a change to it is found, and
//! what an auditor sees.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use dataglot_pgtest::{Cluster, Database};
use dataglot_store::Dsn;
use dataglot_store::migrate::{self, Difference, DifferenceKind, UpOptions};

/// A store, and a role that serves it.
fn store() -> (Database, String) {
    let database = Cluster::shared().database();
    let role = format!("{}_serves", database.name());
    database.execute(&format!("DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN"));
    let options = UpOptions { grant_to: Some(role.clone()), store_id: None };
    migrate::up(&Dsn::parse(&database.dsn()).unwrap(), options).unwrap();
    (database, role)
}

fn check(database: &Database) -> Vec<Difference> {
    migrate::check(&Dsn::parse(&database.dsn()).unwrap()).unwrap()
}

/// Runs a statement in the schema as `role`: the SQLSTATE, or nothing.
fn run_as(database: &Database, role: &str, sql: &str) -> String {
    let sql = format!("SET search_path = dataglot, pg_temp; SET ROLE {role}; {sql}");
    let code = |error: String| error.split(':').next().unwrap_or_default().to_owned();
    database.try_execute(&sql).map_err(code).err().unwrap_or_default()
}

/// One record of each table, and history.
const RECORDS: &str = r#"
INSERT INTO heads (org, org_id, seq, next_id, at) VALUES ('o', 1, 2, 9, 1700000000123456);
INSERT INTO meta VALUES ('value/k', '\x00');
INSERT INTO objects (org, key, format, checksum, body) VALUES
    ('o', '{role,ann}', 1, 1, '{"id":3,"owner":"ann","version":1,"created":{"seq":1,"at":1700000000123456,"by":"root"}}'),
    ('o', '{view,c,s,"V 1"}', 1, 1, '{"id":4,"owner":"ann","comment":"c","version":2,"created":{"seq":1,"at":1700000000123456,"by":"root"},"changed":{"seq":2,"at":1700000000223456,"by":"ann"}}'),
    ('o', '{secret,pw}', 1, 1, '{"id":5,"version":1,"created":{"seq":1,"at":1700000000123456,"by":"root"},"secret":{"value_version":2,"origin":{"sealed":"canary"}}}');
INSERT INTO entries (org, name, format, checksum, body) VALUES ('o', 'pg', 1, 1, '{"connector":"postgres","options":{"host":{"text":"h"}}}');
INSERT INTO secrets (org, name, format, checksum, body) VALUES ('o', 'pw', 1, 1, decode(repeat('ab', 32), 'hex') || 'canary'::bytea);
INSERT INTO previous_secrets (org, name, format, checksum, body) VALUES ('o', 'pw', 1, 1, decode(repeat('ab', 32), 'hex') || 'canary'::bytea);
INSERT INTO data_keys (org, no, format, checksum, body) VALUES ('o', '1', 1, 1, decode(repeat('cd', 32), 'hex') || 'canary'::bytea);
INSERT INTO users (org, name, format, checksum, body) VALUES ('o', 'ann', 1, 1, '{"superuser":true,"verifier":"canary","valid_until":9223372036854775807}');
INSERT INTO roles (org, name, format, checksum, body) VALUES ('o', 'team', 1, 1, '{"inherit":false}');
INSERT INTO role_members (org, role, member, format, checksum, body) VALUES ('o', 'team', 'ann', 1, 1, '{"by":{"root":{"admin":true,"inherit":true,"set":false}}}');
INSERT INTO policies (org, name, format, checksum, body) VALUES ('o', 'm', 1, 1, '{"kind":"mask","target":{"column":["c","s","t","C 1"]},"function":"redact","to":["public",{"role":"ann"}]}');
INSERT INTO grants (org, key, format, checksum, body) VALUES
    ('o', '{object,table,c,s,t,role,ann,root}', 1, 1, '{"privileges":["SELECT","APPLY"],"grantable":["APPLY"],"columns":{"x":true}}'),
    ('o', '{pattern,tables,future,schema,c,s,public,root}', 1, 1, '{"privileges":["SELECT"]}');
INSERT INTO derived_products (org, catalog, schema, name, format, checksum, body) VALUES ('o', 'c', 's', 'V 1', 1, 1, '{"sql":"SELECT 1"}');
INSERT INTO changes (org, seq, step, format, checksum, body, transaction_id) VALUES
    ('o', 1, 0, 1, 1, '{"id":"ab","at":1700000000123456,"by":"root","session":"s1","statements":[{"sql":"CREATE ROLE ann","mutations":[{"put":"roles","key":["ann"],"value":{}}]}],"more":true}', 'ab'),
    ('o', 1, 1, 1, 1, '{"statements":[{"mutations":[{"delete":"roles","key":["bob"]}]},{"sql":"CREATE SECRET pw AS ''?''","mutations":[{"put":"secrets","key":["pw"],"hash":"ff"}]}]}', NULL);
INSERT INTO changes (org, seq, step, format, checksum, raw, transaction_id)
    VALUES ('o', 2, 0, 0, 0, '\x0101010101'::bytea || convert_to('{"id":"ac","at":1700000000123456,"by":"ann","session":"s2","statements":[{"sql":"nul \u0000 or \\u0000","mutations":[]}]}', 'UTF8'), 'ac'),
           ('o', 3, 0, 0, 0, '\x0102', NULL);
"#;

#[test]
fn who_serves_can_do_just_that() {
    let (database, role) = store();
    let run = |sql: &str| run_as(&database, &role, sql);
    assert_eq!(run(RECORDS), "");
    assert_eq!(
        run("SELECT * FROM migrations; SELECT * FROM changes; SELECT * FROM heads; SELECT pg_notify('c', 'x')"),
        ""
    );
    assert_eq!(
        run("UPDATE heads SET seq = 3 WHERE org = 'o'; UPDATE meta SET value = '\\x01' WHERE key = 'value/k'"),
        ""
    );
    for table in [
        "objects",
        "entries",
        "secrets",
        "users",
        "roles",
        "role_members",
        "policies",
        "grants",
        "derived_products",
        "data_keys",
        "previous_secrets",
    ] {
        assert_eq!(run(&format!("UPDATE {table} SET checksum = 2; DELETE FROM {table}")), "", "{table}");
        assert_eq!(run(&format!("TRUNCATE {table}")), "42501", "{table}");
    }
    for denied in [
        "UPDATE changes SET step = 2",
        "TRUNCATE changes",
        "INSERT INTO changes (org, seq, step, format, checksum, raw) VALUES ('o', 1, 0, 0, 0, '') ON CONFLICT (org, seq, step) DO UPDATE SET raw = ''",
        "TRUNCATE heads",
        "INSERT INTO migrations VALUES (1000, '', '', now(), '', '')",
        "UPDATE migrations SET name = ''",
        "DELETE FROM migrations",
        "DELETE FROM meta",
        "CREATE TABLE dataglot.t ()",
        "CREATE SCHEMA s",
        "CREATE OR REPLACE FUNCTION dataglot.refuse() RETURNS trigger LANGUAGE plpgsql AS ''",
        "ALTER TABLE changes DISABLE TRIGGER append_only",
        "DROP TABLE heads",
        "SELECT * FROM audit_roles",
        "SET session_replication_role = replica",
    ] {
        assert_eq!(run(denied), "42501", "{denied}");
    }
    // History stays for as long as its org, whose head goes first.
    assert_eq!(run("DELETE FROM changes"), "23000");
    assert_eq!(run("DELETE FROM heads; DELETE FROM changes"), "");
}

#[test]
fn history_is_append_only_for_everyone() {
    let (database, _) = store();
    let run = |sql: &str| run_as(&database, "postgres", sql);
    assert_eq!(run(RECORDS), "");
    for guarded in [
        "UPDATE changes SET step = 2",
        "UPDATE changes SET step = 2 WHERE false",
        "TRUNCATE changes",
        "DELETE FROM changes WHERE seq = 1",
        "UPDATE migrations SET name = ''",
        "DELETE FROM migrations",
        "TRUNCATE migrations",
        "UPDATE meta SET value = '' WHERE key = 'store_id'",
        "DELETE FROM meta",
    ] {
        assert_eq!(run(guarded), "23000", "{guarded}");
        assert_eq!(run(&format!("SET session_replication_role = replica; {guarded}")), "23000", "{guarded}");
    }
    assert_eq!(
        run(
            "INSERT INTO heads VALUES ('p', 1, 0, 1, 0); INSERT INTO changes (org, seq, step, format, checksum, raw) VALUES ('p', 1, 0, 0, 0, '')"
        ),
        ""
    );
    assert_eq!(run("DELETE FROM heads WHERE org = 'o'; DELETE FROM changes WHERE org = 'o'"), "");
    assert_eq!(database.query("SELECT org FROM dataglot.changes"), ["p"]);
    let value = |body: &str, raw: &str| {
        run(&format!(
            "INSERT INTO roles (org, name, format, checksum, body, raw) VALUES ('o', 'x', 1, 1, {body}, {raw})"
        ))
    };
    assert_eq!((value("'{}'", "''"), value("NULL", "NULL")), ("23514".to_owned(), "23514".to_owned()));
}

#[test]
fn every_change_to_the_schema_is_found() {
    use DifferenceKind::{Different, Missing, Unexpected};
    let (database, role) = store();
    assert_eq!(check(&database), []);
    for (change, object, kind) in [
        ("DROP INDEX objects_owner", "index objects_owner", Missing),
        ("CREATE INDEX extra ON changes (step)", "index extra", Unexpected),
        ("ALTER TABLE heads ADD extra integer DEFAULT 3", "column heads.extra", Unexpected),
        ("ALTER TABLE heads DROP next_id", "column heads.next_id", Missing),
        ("ALTER TABLE meta ALTER value TYPE text USING ''", "column meta.value", Different),
        ("ALTER TABLE heads ALTER org TYPE text COLLATE \"POSIX\"", "column heads.org", Different),
        ("ALTER TABLE heads ALTER at DROP NOT NULL", "column heads.at", Different),
        ("ALTER TABLE heads ALTER at SET DEFAULT 0", "column heads.at", Different),
        ("ALTER TABLE secrets ALTER hash DROP EXPRESSION", "column secrets.hash", Different),
        ("ALTER TABLE users DROP CONSTRAINT users_check", "constraint users_check on users", Missing),
        ("ALTER TABLE users ADD CONSTRAINT more CHECK (name <> '')", "constraint more on users", Unexpected),
        ("ALTER TABLE meta DROP CONSTRAINT meta_pkey", "constraint meta_pkey on meta", Missing),
        ("ALTER TABLE changes DISABLE TRIGGER append_only", "trigger append_only on changes", Different),
        ("ALTER TABLE changes ENABLE TRIGGER append_only", "trigger append_only on changes", Different),
        ("ALTER TABLE changes DISABLE TRIGGER ALL", "trigger kept_with_its_org on changes", Different),
        ("DROP TRIGGER append_only ON changes", "trigger append_only on changes", Missing),
        ("CREATE RULE lost AS ON INSERT TO changes DO INSTEAD NOTHING", "rule lost on changes", Unexpected),
        ("ALTER TABLE users ENABLE ROW LEVEL SECURITY", "table users", Different),
        ("ALTER TABLE users SET UNLOGGED", "table users", Different),
        ("DROP VIEW audit_views", "view audit_views", Missing),
        (
            "CREATE OR REPLACE VIEW audit_memberships AS SELECT org, role, member, ''::text AS grantor, \
             true AS admin_option, true AS inherit_option, true AS set_option FROM role_members",
            "view audit_memberships",
            Different,
        ),
        ("ALTER VIEW audit_grants SET (security_invoker = on)", "view audit_grants", Different),
        (
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "function refuse()",
            Different,
        ),
        ("ALTER FUNCTION refuse() RESET search_path", "function refuse()", Different),
        ("CREATE FUNCTION more(integer) RETURNS integer LANGUAGE sql RETURN 1", "function more(integer)", Unexpected),
        ("CREATE TABLE more (a integer UNIQUE)", "table more", Unexpected),
        ("CREATE SEQUENCE more", "sequence more", Unexpected),
        ("CREATE TYPE more AS ENUM ()", "type more", Unexpected),
        ("GRANT SELECT ON secrets TO PUBLIC", "table secrets", Unexpected),
        ("GRANT SELECT (body) ON secrets TO PUBLIC", "column secrets.body", Unexpected),
        ("GRANT CREATE ON SCHEMA dataglot TO PUBLIC", "schema dataglot", Unexpected),
        ("ALTER TABLE roles OWNER TO postgres", "table roles", Different),
    ] {
        // Each is undone by making the store anew, so that none hides another one.
        database.execute(&format!("SET search_path = dataglot, pg_temp; {change}"));
        let found = check(&database);
        assert!(found.iter().any(|d| d.object == object && d.kind == kind), "{change}: {found:#?}");
        let others: Vec<_> = found.iter().filter(|d| d.object != object).map(|d| d.object.as_str()).collect();
        assert!(others.iter().all(|o| o.starts_with("trigger ") && change.ends_with(" ALL")), "{change}: {others:?}");
        assert!(!format!("{}", found[0]).contains("dataglot_check_"), "{}", found[0]);
        database.execute("DROP SCHEMA dataglot CASCADE");
        let options = UpOptions { grant_to: Some(role.clone()), store_id: None };
        migrate::up(&Dsn::parse(&database.dsn()).unwrap(), options).unwrap();
    }
    assert_eq!(check(&database), []);
    assert_eq!(database.query("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'dataglot%'"), ["dataglot"]);
}

#[test]
fn a_long_definition_is_shown_where_it_differs() {
    let (database, _) = store();
    let definition = "pg_get_functiondef('dataglot.refuse_new_store_id()'::regprocedure)";
    database.execute(&database.query_one(&format!("SELECT replace({definition}, 'RETURN NEW', 'RETURN OLD')")));
    let found = check(&database);
    let [function] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(
        function.to_string(),
        "different: function refuse_new_store_id()\n  expected:     RETURN NEW;\n  found:     RETURN OLD;"
    );
}

/// A dump has definitions as the server prints them, so what is restored is made from those.
#[test]
fn what_a_dump_restores_is_the_same() {
    let (database, role) = store();
    let definitions = "SELECT format('SET search_path = dataglot; CREATE OR REPLACE VIEW %I AS %s', relname, pg_get_viewdef(oid)) \
                       FROM pg_class WHERE relnamespace = 'dataglot'::regnamespace AND relkind = 'v' \
                       UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'dataglot'::regnamespace";
    let printed = database.query(&format!("SET search_path = dataglot; {definitions}"));
    assert_eq!(printed.len(), 12 + 7);
    for definition in printed {
        database.execute(&definition);
    }
    assert_eq!(check(&database), []);
    assert_eq!(run_as(&database, &role, RECORDS), "");
}

#[test]
fn an_auditor_sees_everything_but_what_is_secret() {
    let (database, _) = store();
    assert_eq!(run_as(&database, "postgres", RECORDS), "");
    let auditor = format!("{}_audits", database.name());
    database.execute(&format!(
        "DROP ROLE IF EXISTS {auditor}; CREATE ROLE {auditor}; GRANT USAGE ON SCHEMA dataglot TO {auditor}"
    ));
    let views = database.query(
        "SELECT relname FROM pg_class WHERE relkind = 'v' AND relnamespace = 'dataglot'::regnamespace ORDER BY 1",
    );
    assert_eq!(views.len(), 12);
    let mut all = String::new();
    for view in &views {
        database.execute(&format!("GRANT SELECT ON dataglot.{view} TO {auditor}"));
        assert_eq!(run_as(&database, &auditor, &format!("SELECT * FROM {view}")), "", "{view}");
        let rows = database.query(&format!("SET TimeZone = 'UTC'; SELECT v::text FROM dataglot.{view} v"));
        assert!(!rows.is_empty(), "{view}");
        all += &format!("{view}: {}\n", rows.join("\n"));
    }
    for table in ["users", "secrets", "previous_secrets", "data_keys", "changes", "heads", "meta"] {
        assert_eq!(run_as(&database, &auditor, &format!("SELECT * FROM {table}")), "42501", "{table}");
    }
    // The hash that the object records is a canary too, and is shown.
    assert_eq!(all.matches("canary").count(), 1, "{all}");
    for (view, row) in [
        (
            "audit_objects",
            "(o,view,\"c.s.\"\"V 1\"\"\",4,ann,c,2,\"2023-11-14 22:13:20.123456+00\",root,1,\"2023-11-14 22:13:20.223456+00\",ann,2,",
        ),
        ("audit_roles", "(o,ann,t,t,f,t,f,-1,infinity,t,,,\"2023-11-14 22:13:20.123456+00\",root,"),
        ("audit_roles", "(o,team,f,f,f,f,f,-1,,f,"),
        ("audit_memberships", "(o,team,ann,root,t,t,f)"),
        ("audit_grants", "(o,ann,APPLY,,table,\"TABLE c.s.t\",t,root,f)"),
        ("audit_grants", "(o,ann,SELECT,x,table,\"TABLE c.s.t\",t,root,f)"),
        ("audit_grants", "(o,PUBLIC,SELECT,,pattern,\"FUTURE TABLES IN SCHEMA c.s\",f,root,t)"),
        ("audit_catalogs", "(o,pg,postgres,t,"),
        ("audit_secrets", "(o,pw,2,sealed,,abababab"),
        ("audit_views", "(o,c,s,\"V 1\",\"SELECT 1\",invoker,"),
        ("audit_policies", "(o,m,mask,column,\"c.s.t.\"\"C 1\"\"\","),
        ("audit_changes", "(o,1,\"2023-11-14 22:13:20.123456+00\",root,s1,ab,2,t)"),
        ("audit_changes", "(o,3,,,,,1,f)"),
        ("audit_statements", "(o,1,2,\"2023-11-14 22:13:20.123456+00\",root,s1,\"CREATE SECRET pw AS '?'\")"),
        // Nobody hides behind a NUL.
        ("audit_statements", "(o,2,1,\"2023-11-14 22:13:20.123456+00\",ann,s2,\"nul \u{fffd} or \\\\u0000\")"),
        ("audit_mutations", "(o,1,2,\"2023-11-14 22:13:20.123456+00\",root,delete,roles,{bob},,)"),
        ("audit_mutations", "(o,1,3,\"2023-11-14 22:13:20.123456+00\",root,put,secrets,{pw},,ff)"),
        ("audit_unreadable", "(o,changes,\"{3,0}\",2,t)"),
    ] {
        let rows = database.query(&format!("SET TimeZone = 'UTC'; SELECT v::text FROM dataglot.{view} v"));
        assert!(rows.iter().any(|r| r.starts_with(row)), "{view}: {row}\n{}", rows.join("\n"));
    }
}
