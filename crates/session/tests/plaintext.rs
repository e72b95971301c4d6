//! No statement returns a plaintext: what a statement can answer has no place for one, and none of them puts one
//! into a text.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

mod common;

use common::Rig;
use dataglot_grammar::{Limits, Parameters, ParseCx, parse};
use dataglot_model::{
    Notice, OrgCommand, Read, Report, SchemaRef, Sensitive, Severity, Show, Span, SqlState, Statement,
};
use dataglot_session::{Column, Response};

const CANARY: &str = "CANARY-7Q";

/// What may be a part of an answer: plain data, and nothing that could be made of a [`Sensitive`], whose text comes
/// out by `open` alone. A type that is not here does not compile as a part of an answer.
trait Plain {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for i16 {}
impl Plain for u8 {}
impl Plain for usize {}
impl Plain for String {}
impl Plain for SqlState {}
impl Plain for Severity {}
impl Plain for Span {}
impl<T: Plain> Plain for Vec<T> {}
impl<T: Plain> Plain for Option<T> {}

fn plain<T: Plain>(_: &T) {}

fn column(column: &Column) {
    let Column { name, oid, type_len } = column;
    plain(name);
    plain(oid);
    plain(type_len);
}

fn report(report: &Report) {
    let Report { severity, sqlstate, message, detail, hint, span } = report;
    plain(severity);
    plain(sqlstate);
    plain(message);
    plain(detail);
    plain(hint);
    plain(span);
}

fn notice(notice: &Notice) {
    let Notice { severity, sqlstate, message, detail, hint } = notice;
    plain(severity);
    plain(sqlstate);
    plain(message);
    plain(detail);
    plain(hint);
}

/// Every answer there is, down to its last field.
fn walk(response: &Response) {
    match response {
        Response::ParameterDescription(types) => plain(types),
        Response::RowDescription(columns, formats) => {
            columns.iter().for_each(column);
            plain(formats);
        }
        Response::Row(values) => plain(values),
        Response::Complete(tag) => plain(tag),
        Response::NoData
        | Response::EmptyQuery
        | Response::ParseComplete
        | Response::BindComplete
        | Response::CloseComplete
        | Response::PortalSuspended => {}
        Response::Notice(said) => notice(said),
        Response::Error { report: said, position } => {
            report(said);
            plain(position);
        }
        Response::ParameterStatus(name, value) => {
            plain(name);
            plain(value);
        }
    }
}

/// A script that asks for the canary in every way that the kind of statement has. A kind that is not here does not
/// compile.
fn asks(statement: &Statement<Sensitive>) -> &'static [&'static str] {
    match statement {
        Statement::Change(_) => &[
            "ALTER SECRET s AS REDACTED",
            "CREATE OR REPLACE SECRET s AS REDACTED COMMENT 'c'",
            "COMMENT ON SECRET s IS 'x'",
            "GRANT USAGE ON SECRET s TO PUBLIC",
            "ALTER SECRET s RENAME TO s",
            "CREATE SECRET s AS 'CANARY-7Q'",
            "ALTER SECRET s AS 'CANARY-7Q' GRACE 'CANARY-7Q'",
            "CREATE CATALOG c2 USING mock WITH (password = SECRET s)",
        ],
        Statement::Org(org) => match org {
            OrgCommand::Create { .. } | OrgCommand::Drop { .. } => {
                &["CREATE ORG o ADMIN a PASSWORD 'CANARY-7Q'", "DROP ORG o CASCADE"]
            }
        },
        Statement::Read(read) => match read {
            Read::Show(show) => match show {
                Show::Objects { .. } => &[
                    "SHOW SECRETS",
                    "SHOW CATALOGS",
                    "SHOW ROLES",
                    "SHOW USERS",
                    "SHOW MASKS",
                    "SHOW ROW FILTERS",
                    "SHOW POLICIES",
                    "SHOW VIEWS",
                ],
                Show::Grants(_) => &["SHOW GRANTS ON SECRET s", "SHOW GRANTS"],
                Show::CurrentRoles => &["SHOW CURRENT ROLES"],
                Show::RoleGrants => &["SHOW ROLE GRANTS"],
                Show::Create(_) => &["SHOW CREATE SECRET s", "SHOW CREATE CATALOG c", "SHOW CREATE USER u"],
                Show::Dependencies { .. } => &["SHOW DEPENDENCIES ON SECRET s", "SHOW DEPENDENCIES OF CATALOG c"],
                Show::Changes { .. } => &["SHOW CHANGES SINCE 0"],
                Show::TransactionStatus(_) => &["SHOW TRANSACTION STATUS '00000000000000000000000000000000'"],
                Show::Orgs => &["SHOW ORGS"],
                Show::SecretKeys => &["SHOW SECRET KEYS"],
                Show::SecretProblems => &["SHOW SECRET PROBLEMS"],
            },
            Read::Describe(_) => &["DESCRIBE SECRET s", "DESCRIBE CATALOG c", "DESCRIBE s", "DESCRIBE USER u"],
            Read::Explain(_) => &[
                "EXPLAIN ALTER SECRET s AS 'CANARY-7Q new' GRACE '1 hour'",
                "EXPLAIN ALTER SECRET s RENAME TO t",
                "EXPLAIN (FORMAT JSON) DROP CATALOG c",
            ],
        },
        Statement::Transaction(_) => &["BEGIN", "ALTER SECRET s AS 'CANARY-7Q 9'", "ROLLBACK"],
        Statement::Session(_) => &["SHOW ALL", "SET statement_timeout TO 'CANARY-7Q'", "RESET ALL"],
        Statement::Select(_) => &["SELECT version()", "SELECT current_user, current_schema()"],
        Statement::Rewrap => &["REWRAP SECRETS"],
    }
}

/// One of each kind of statement.
const KINDS: &[&str] = &[
    "COMMENT ON SECRET s IS 'x'",
    "CREATE ORG o",
    "SHOW SECRETS",
    "SHOW GRANTS",
    "SHOW CURRENT ROLES",
    "SHOW ROLE GRANTS",
    "SHOW CREATE SECRET s",
    "SHOW DEPENDENCIES ON SECRET s",
    "SHOW CHANGES SINCE 0",
    "SHOW TRANSACTION STATUS '00000000000000000000000000000000'",
    "SHOW ORGS",
    "SHOW SECRET KEYS",
    "SHOW SECRET PROBLEMS",
    "DESCRIBE SECRET s",
    "EXPLAIN DROP SECRET s",
    "BEGIN",
    "SHOW ALL",
    "SELECT 1",
    "REWRAP SECRETS",
];

#[tokio::test]
async fn no_statement_returns_a_plaintext() {
    let rig = Rig::new().await;
    let mut admin = rig.admin().await;
    admin
        .run(
            "CREATE SECRET s AS 'CANARY-7Q one'; ALTER SECRET s AS 'CANARY-7Q two' GRACE '1 hour';
             CREATE USER u PASSWORD 'CANARY-7Q';
             CREATE CATALOG c USING mock WITH (password = SECRET s)",
        )
        .await;
    let (path, limits) = (SchemaRef::default_schema(), Limits::default());
    let cx = ParseCx { search_path: &path, parameters: Parameters::None, limits: &limits };
    let mut asked = 0;
    for kind in KINDS {
        let parsed = parse(kind, 0..kind.len(), &cx).unwrap();
        for sql in asks(&parsed.statement) {
            let mut said: Vec<Response> = Vec::new();
            admin.session.simple(sql, &mut said).await;
            assert!(!said.is_empty(), "{sql}");
            for response in &said {
                walk(response);
                let bytes = if let Response::Row(values) = response {
                    values.iter().flatten().flatten().copied().collect()
                } else {
                    format!("{response:?}").into_bytes()
                };
                let text = String::from_utf8_lossy(&bytes).into_owned();
                assert!(!text.contains(CANARY), "{sql}: {text}");
            }
            asked += 1;
        }
    }
    assert!(asked > 40);
}
