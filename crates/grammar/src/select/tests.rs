//! The small SELECT: what is taken, and what is refused with which answer.

use dataglot_model::{Problem, SchemaRef, Sensitive, Statement};

use super::*;
use crate::{Limits, Parameters};

fn lower(sql: &str, parameters: Parameters<'_>) -> Result<(SelectQuery, u16), SyntaxError> {
    let (search_path, limits) = (SchemaRef::default_schema(), Limits::default());
    select(sql, 0..sql.len(), &ParseCx { search_path: &search_path, parameters, limits: &limits })
}

/// `want`: the canonical text of what is read, which reads back as the same.
#[track_caller]
fn check(sql: &str, want: &str) {
    let (query, _) = lower(sql, Parameters::None).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let printed = crate::print_statement::<()>(&Statement::Select(query.clone()));
    assert_eq!(printed, want, "{sql}");
    let again = lower(&printed, Parameters::None).unwrap_or_else(|e| panic!("{printed}: {e}"));
    assert!(again.0 == query, "{printed}");
}

#[test]
fn what_drivers_ask_at_the_start() {
    check("SELECT 1", "SELECT 1");
    check("select Version()", "SELECT version()");
    check("select pg_catalog.version()", "SELECT version()");
    check("SELECT current_schema(), session_user", "SELECT current_schema, session_user");
    check("SELECT current_schema, USER, current_catalog", "SELECT current_schema, user, current_catalog");
    check("SELECT current_database(), pg_backend_pid()", "SELECT current_database(), pg_backend_pid()");
    check(
        "SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace n",
        "SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace AS n",
    );
    check(
        "SELECT db.oid, db.datname FROM pg_catalog.pg_database db WHERE datname = 'control'",
        "SELECT db.oid, db.datname FROM pg_catalog.pg_database AS db WHERE (datname = 'control')",
    );
    check("SELECT set_config('bytea_output','hex',false)", "SELECT set_config('bytea_output', 'hex', FALSE)");
    check("SELECT current_setting('x')", "SELECT current_setting('x')");
    check("SELECT oid, typname FROM pg_type WHERE oid = 25", "SELECT oid, typname FROM pg_type WHERE (oid = 25)");
    check("SELECT 1 AS one, 'x'::text", "SELECT 1 AS one, CAST('x' AS text)");
    check("SELECT pg_is_in_recovery()", "SELECT pg_is_in_recovery()");
    check(
        "SELECT * FROM pg_catalog.pg_roles WHERE rolname = 'x'",
        "SELECT * FROM pg_catalog.pg_roles WHERE (rolname = 'x')",
    );
    check(
        "SELECT db.* FROM pg_database db WHERE 1 <> 1 LIMIT 1",
        "SELECT * FROM pg_database AS db WHERE (1 <> 1) LIMIT 1",
    );
    check(
        "SELECT 'a'::pg_catalog.regclass, DATE '2020-01-01'",
        "SELECT CAST('a' AS regclass), CAST('2020-01-01' AS date)",
    );
    check(
        "SELECT a.\"B\" FROM x a ORDER BY 1, B DESC OFFSET 2",
        "SELECT a.\"B\" FROM x AS a ORDER BY 1, b DESC OFFSET 2",
    );
    check(
        "SELECT -1, - 9223372036854775808, 1.5, NULL, TRUE",
        "SELECT -1, -9223372036854775808, CAST('1.5' AS numeric), NULL, TRUE",
    );
    check(
        "SELECT a || 'x' FROM t WHERE a IN (1, 2) AND NOT b IS NULL AND c NOT LIKE 'p%' OR d IS NOT NULL",
        "SELECT (a || 'x') FROM t WHERE ((((a IN (1, 2)) AND (NOT (b IS NULL))) AND (c NOT LIKE 'p%')) OR (d IS NOT NULL))",
    );
    check("SELECT 1 WHERE a = ANY (ARRAY['x','y'])", "SELECT 1 WHERE (a IN ('x', 'y'))");
    check("SELECT 1 WHERE a OPERATOR(pg_catalog.=) 'x'", "SELECT 1 WHERE (a = 'x')");
    check("SELECT 1 WHERE a BETWEEN 1 AND 2", "SELECT 1 WHERE ((a >= 1) AND (a <= 2))");
    check("SELECT 1 FETCH FIRST 3 ROWS ONLY", "SELECT 1 LIMIT 3");
    check("SELECT E'a\\nb', U&'\\00e9', $$x'y$$", "SELECT E'a\\nb', 'é', 'x''y'");
}

#[test]
fn parameters_are_what_is_bound() {
    let sql = "SELECT $2::text WHERE a = $1 LIMIT $3";
    let print = |parameters| {
        let (query, highest) = lower(sql, parameters).unwrap();
        assert_eq!(highest, 3);
        crate::print_statement::<()>(&Statement::Select(query))
    };
    assert_eq!(print(Parameters::Describe), "SELECT CAST(NULL AS text) WHERE (a = NULL)");
    let values = [Some(Sensitive::new("x".to_owned())), None, Some(Sensitive::new("7".to_owned()))];
    assert_eq!(print(Parameters::Bound(&values)), "SELECT CAST(NULL AS text) WHERE (a = 'x') LIMIT 7");
    let error = |parameters| {
        let error = lower(sql, parameters).unwrap_err();
        format!("{} {error}", error.sqlstate().code())
    };
    assert_eq!(error(Parameters::None), "42704 there is no parameter $2");
    assert_eq!(error(Parameters::Bound(&values[..2])), "42704 there is no parameter $3");
}

#[test]
fn the_rest_is_refused_with_a_hint() {
    for sql in [
        "SELECT * FROM a, b",
        "SELECT * FROM a JOIN b ON true",
        "SELECT * FROM (SELECT 1) x",
        "SELECT (SELECT 1)",
        "SELECT 1 UNION SELECT 2",
        "SELECT count(*) FROM a",
        "SELECT a FROM b GROUP BY a",
        "SELECT row_number() OVER ()",
        "SELECT DISTINCT a FROM b",
        "SELECT 1 + 1",
        "WITH a AS (SELECT 1) SELECT 1",
        "VALUES (1)",
        "SELECT * FROM a.b.c",
        "SELECT CASE WHEN a THEN b END",
        "SELECT a FROM b FOR UPDATE",
        "SELECT a ~ 'x'",
        "SELECT 1 ORDER BY a NULLS FIRST",
    ] {
        let error = lower(sql, Parameters::None).expect_err(sql);
        assert_eq!(error.sqlstate().code(), "0A000", "{sql}");
        assert_eq!(error.hint().as_deref(), Some(HINT), "{sql}");
    }
}

#[test]
fn faults_have_a_place_and_no_literal() {
    for (sql, want) in [
        ("SELECT 'hunter2' FROM 'x'", "42601 22 syntax error at or near a string literal"),
        ("SELECT 1 =", "42601 10 syntax error at end of input"),
        ("SELECT 1 LIMIT 'hunter2'", "22023 15 a number of rows must be a whole number that is not negative"),
        ("SELECT 1 1", "42601 9 syntax error at or near a number"),
    ] {
        let error = lower(sql, Parameters::None).expect_err(sql);
        assert_eq!(format!("{} {} {error}", error.sqlstate().code(), error.span().unwrap().start), want, "{sql}");
    }
}
