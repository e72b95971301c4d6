//! What comes out, statement by statement; that it reads back as the same is `tests/roundtrip`.

use std::collections::BTreeMap;

use dataglot_model::command::{
    AlterCatalog, AlterSecret, CatalogAction, CreateCatalog, CreateRole, CreateRoleForm, CreateSecret, OnExisting,
    OnMissing, OptionEntry, PasswordChange, RoleAttributes, SecretAction, SecretValue, ValidateMode,
};
use dataglot_model::connector::Connector;
use dataglot_model::def::OptionValue;
use dataglot_model::{At, Command, Name, OrgCommand, OrgName, SchemaRef, Sensitive, Statement};

use super::*;
use crate::{Limits, Parameters, ParseCx};

fn at<T>(value: T) -> At<T> {
    At::nowhere(value)
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn secret() -> Sensitive {
    Sensitive::new("canary-41".to_owned())
}

/// `want` is the canonical form of `sql`, and of itself.
#[track_caller]
fn check(sql: &str, want: &str) {
    let (search_path, limits) = (SchemaRef::default_schema(), Limits::default());
    let cx = ParseCx { search_path: &search_path, parameters: Parameters::None, limits: &limits };
    for text in [sql, want] {
        let parsed = crate::parse(text, 0..text.len(), &cx).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(print_statement(&parsed.statement), want, "{text}");
    }
}

#[test]
fn catalogs() {
    check("create catalog Pg using Postgres", "CREATE CATALOG pg USING postgres");
    check(
        "CREATE OR REPLACE CATALOG pg COMMENT 'x' VALIDATE OFF AUTHORIZATION \"R\" WITH (pool=8, dsn = secret s, user='u') USING postgres",
        "CREATE OR REPLACE CATALOG pg USING postgres WITH (dsn = SECRET s, pool = 8, user = 'u') COMMENT 'x' \
         AUTHORIZATION \"R\" VALIDATE OFF",
    );
    check(
        "ALTER CATALOG IF EXISTS m IF VERSION 3 SET (verify = on, tables = json '{\"a\": [1]}'), RESET (\"A b\"), \
         OPTIONS (ADD host 'h', DROP note), RENAME TO n, OWNER TO current_user, DISABLE, SET COMMENT NULL",
        "ALTER CATALOG IF EXISTS m IF VERSION 3 SET (tables = JSON '{\"a\":[1]}', verify = TRUE), RESET (\"A b\"), \
         OPTIONS (ADD host 'h', DROP note), RENAME TO n, OWNER TO CURRENT_USER, DISABLE, SET COMMENT NULL",
    );
    check("ALTER CATALOG m WITH ()", "ALTER CATALOG m WITH ()");
    check("DROP CATALOG IF EXISTS a, \"B\" CASCADE", "DROP CATALOG IF EXISTS a, \"B\" CASCADE");
}

#[test]
fn roles() {
    check(
        "CREATE USER ana WITH ADMIN z NOINHERIT VALID UNTIL '2030-01-01' SUPERUSER IN GROUP a, b CONNECTION LIMIT 3",
        "CREATE USER ana SUPERUSER NOINHERIT CONNECTION LIMIT 3 VALID UNTIL '2030-01-01 00:00:00+00' IN ROLE a, b ADMIN z",
    );
    check("CREATE USER u NOLOGIN", "CREATE USER u NOLOGIN");
    check("CREATE ROLE u LOGIN", "CREATE ROLE u LOGIN");
    check("CREATE OR ALTER GROUP g USER a ROLE b", "CREATE OR ALTER ROLE g ROLE a, b");
    check("ALTER USER all SET Search_Path = a, \"B\"", "ALTER ROLE ALL SET search_path TO 'a, B'");
    check(
        "ALTER ROLE \"role\" IF VERSION 2 PASSWORD NULL COMMENT 'it''s'",
        "ALTER ROLE \"role\" IF VERSION 2 PASSWORD NULL COMMENT 'it''s'",
    );
    check("ALTER ROLE r RESET app.x", "ALTER ROLE r RESET app.x");
}

#[test]
fn policies() {
    check(
        "CREATE MASK ssn ON pg.public.users (ssn) WITH (KEEP = '4', TYPE = 'SHOW_LAST') DISABLE EXCEPT hr PRIORITY 5 \
         TO PUBLIC WHEN ( a > 1 )",
        "CREATE MASK ssn ON pg.public.users (ssn) WITH (type = 'show_last', keep = 4) WHEN (a > 1) TO PUBLIC EXCEPT hr \
         PRIORITY 5 DISABLE",
    );
    check("CREATE MASK m ON COLUMN a.b.c.d AS (value -- x\n)", "CREATE MASK m ON a.b.c (d) AS (value -- x\n)");
    check("CREATE MASK m ON a.b.c(d) USING f", "CREATE MASK m ON a.b.c (d) USING f");
    check(
        "CREATE ROW FILTER f ON pg.public.t TO a, GROUP b ELSE NO ROWS USING (x = 1)",
        "CREATE ROW FILTER f ON TABLE pg.public.t USING (x = 1) TO a, b ELSE NO ROWS",
    );
    check(
        "ALTER MASK m SET TO a, ENABLE, DROP WHEN, ADD TO \"enable\", SET AS '***'",
        "ALTER MASK m SET TO a, ENABLE, DROP WHEN, ADD TO \"enable\", SET AS '***'",
    );
    check(
        "CREATE ROW FILTER f ON t USING (a) TO NONE ELSE NO ROWS",
        "CREATE ROW FILTER f ON TABLE dataglot.public.t USING (a) TO NONE ELSE NO ROWS",
    );
    check("ALTER ROW FILTER f SET EXCEPT NONE, ENABLE", "ALTER ROW FILTER f SET EXCEPT NONE, ENABLE");
    check("DROP ROW FILTER f ON SCHEMA a.b", "DROP ROW FILTER f ON SCHEMA a.b");
    check("DROP MASK m ON a.b.c (d) CASCADE", "DROP MASK m ON a.b.c (d) CASCADE");
}

#[test]
fn views_grants_and_the_rest() {
    check(
        "CREATE VIEW V (\"A\", b) SECURITY DEFINER AS  SELECT * FROM t -- x",
        "CREATE VIEW dataglot.public.v (\"A\", b) SECURITY DEFINER AS SELECT * FROM t",
    );
    check("ALTER VIEW v SET SCHEMA a.b", "ALTER VIEW dataglot.public.v SET SCHEMA a.b");
    check(
        "GRANT select (a, \"B\"), apply ON c.s.t, c.s.u TO user x, public",
        "GRANT SELECT (a, \"B\"), APPLY ON TABLE c.s.t, c.s.u TO x, PUBLIC",
    );
    check(
        "GRANT ALL PRIVILEGES ON FUTURE TABLES IN SCHEMA a.b, a.c TO x WITH GRANT OPTION GRANTED BY CURRENT_USER",
        "GRANT ALL ON FUTURE TABLES IN SCHEMA a.b, a.c TO x WITH GRANT OPTION GRANTED BY CURRENT_USER",
    );
    check(
        "REVOKE GRANT OPTION FOR manage grants ON SYSTEM FROM x CASCADE",
        "REVOKE GRANT OPTION FOR MANAGE GRANTS ON SYSTEM FROM x CASCADE",
    );
    check("GRANT ROLE a, b TO c WITH SET OPTION, ADMIN FALSE", "GRANT a, b TO c WITH ADMIN FALSE, SET TRUE");
    check("REVOKE INHERIT OPTION FOR a FROM ROLE c RESTRICT", "REVOKE INHERIT OPTION FOR a FROM c");
    check("COMMENT IF EXISTS ON USER u IS 'a\tb'", "COMMENT IF EXISTS ON ROLE u IS E'a\\tb'");
    check("REASSIGN OWNED BY a, current_user TO b", "REASSIGN OWNED BY a, CURRENT_USER TO b");
    check("DROP OWNED BY a RESTRICT", "DROP OWNED BY a");
    check("SHOW CATALOGS FROM SCHEMA a.b LIKE 'a%' ESCAPE ''", "SHOW CATALOGS IN SCHEMA a.b LIKE 'a%' ESCAPE ''");
    check("SHOW REDACTED CREATE USER u", "SHOW CREATE ROLE u");
    check("EXPLAIN (FORMAT json) drop role r", "EXPLAIN (FORMAT JSON) DROP ROLE r");
    check("DROP ORG IF EXISTS \"a-b\" CASCADE", "DROP ORG IF EXISTS \"a-b\" CASCADE");
    check(
        "START TRANSACTION READ ONLY ISOLATION LEVEL SERIALIZABLE",
        "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
    );
    check("SET LOCAL x.y = on", "SET LOCAL x.y TO 'on'");
}

/// Nothing that could be a credential comes out, even where lowering would have refused it.
#[test]
fn no_credential_comes_out() {
    let entry = |key: &str, value| OptionEntry { key: at(key.to_owned()), value: at(value) };
    let text = |text: &str| OptionValue::Text(text.to_owned());
    let json = |text: &str| OptionValue::Json(serde_json::json!({ "dsn": text }));
    let options = vec![
        entry("password", text("canary-41")),
        entry("dsn", text("postgres://u:canary-41@h/d")),
        entry("tables", json("password=canary-41")),
        entry("host", text("h")),
    ];
    let attributes = RoleAttributes { password: Some(at(PasswordChange::Set(secret()))), ..Default::default() };
    let commands: BTreeMap<&str, Command<Sensitive>> = BTreeMap::from([
        (
            "CREATE CATALOG c USING mock WITH (dsn = REDACTED, host = 'h', password = REDACTED, tables = REDACTED)",
            Command::CreateCatalog(CreateCatalog {
                name: at(name("c")),
                on_existing: OnExisting::Error,
                connector: at(Connector::Mock),
                options: options.clone(),
                comment: None,
                owner: None,
                validate: ValidateMode::Schema,
            }),
        ),
        (
            "ALTER CATALOG c SET (dsn = REDACTED, host = 'h', password = REDACTED, tables = REDACTED)",
            Command::AlterCatalog(AlterCatalog {
                name: at(name("c")),
                on_missing: OnMissing::Error,
                expected: None,
                actions: vec![CatalogAction::Set(options)],
            }),
        ),
        (
            "CREATE SECRET s AS REDACTED",
            Command::CreateSecret(CreateSecret {
                name: at(name("s")),
                on_existing: OnExisting::Error,
                value: at(SecretValue::Value(secret())),
                comment: None,
            }),
        ),
        (
            "ALTER SECRET s RENAME TO t",
            Command::AlterSecret(AlterSecret {
                name: at(name("s")),
                on_missing: OnMissing::Error,
                expected: None,
                action: SecretAction::Rename { to: at(name("t")), resealed: Some(secret()), resealed_previous: None },
            }),
        ),
        (
            "CREATE USER u PASSWORD REDACTED",
            Command::CreateRole(CreateRole {
                form: CreateRoleForm::User,
                name: at(name("u")),
                on_existing: OnExisting::Error,
                attributes: RoleAttributes { login: Some(at(true)), ..attributes },
                in_roles: Vec::new(),
                members: Vec::new(),
                admins: Vec::new(),
                comment: None,
            }),
        ),
    ]);
    for (want, command) in &commands {
        assert_eq!(print(command), *want);
    }
    let org = Statement::Org(OrgCommand::Create {
        name: at(OrgName::new("acme").unwrap()),
        on_existing: OnExisting::Skip,
        admin: Some(at(name("root"))),
        password: Some(at(PasswordChange::Set(secret()))),
    });
    assert_eq!(print_statement(&org), "CREATE ORG IF NOT EXISTS acme ADMIN root PASSWORD REDACTED");
}
