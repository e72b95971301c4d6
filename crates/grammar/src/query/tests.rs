//! Queries and expressions: what they name, what is refused, and where.

use dataglot_model::def::ReferenceRole;
use dataglot_model::{Problem, SchemaRef};

use super::*;
use crate::{Limits, Parameters};

fn with_cx<T>(run: impl FnOnce(&ParseCx<'_>) -> T) -> T {
    let (search_path, limits) = (SchemaRef::from_parts(["dg", "public"]).unwrap(), Limits::default());
    run(&ParseCx { search_path: &search_path, parameters: Parameters::None, limits: &limits })
}

fn query_of(sql: &str) -> Result<At<ViewQuery>, SyntaxError> {
    // Something before and after, so that offsets into the whole differ from those into the query.
    let whole = format!("é {sql} ;");
    with_cx(|cx| view_query(&whole, 3..3 + sql.len(), cx))
}

/// `want`: each reference as the text it stands for, its role, and what it names.
#[track_caller]
fn check(sql: &str, want: &[&str]) {
    let query = query_of(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).value;
    let got: Vec<_> = query
        .references
        .iter()
        .map(|r| {
            let role = match r.role {
                ReferenceRole::Aliased => "as",
                ReferenceRole::Bare => "bare",
                ReferenceRole::Qualifier => "qual",
            };
            let text = query.text.get(r.start as usize..r.end as usize).unwrap();
            format!("{text} {role} {}", r.table)
        })
        .collect();
    assert_eq!(got, want, "{sql}");
}

/// `want`: SQLSTATE, byte of the place in `sql`, message.
#[track_caller]
fn refuse(sql: &str, want: &str) {
    assert_eq!(describe(query_of(sql).map(|_| ()).expect_err(sql), 3), want, "{sql}");
}

fn describe(error: SyntaxError, offset: u32) -> String {
    format!("{} {} {error}", error.sqlstate().code(), error.span().unwrap().start - offset)
}

#[test]
fn names_are_folded_and_resolved_in_full() {
    check("SELECT 1", &[]);
    check("VALUES (1), (2)", &[]);
    check("SELECT * FROM T", &["T bare dg.public.t"]);
    check("SELECT * FROM Pg.Public.\"Orders\" o", &["Pg.Public.\"Orders\" as pg.public.\"Orders\""]);
    check("SELECT * FROM s.t AS x", &["s.t as dg.s.t"]);
    check("SELECT * FROM ÀÉ", &["ÀÉ bare dg.public.\"ÀÉ\""]);
    check("SELECT * FROM \"a\"\"b\".c.\"d.e\"", &["\"a\"\"b\".c.\"d.e\" bare \"a\"\"b\".c.\"d.e\""]);
    check("SELECT *\nFROM é ,\r\n  b . c /* x */ . d", &["é bare dg.public.\"é\"", "b . c /* x */ . d bare b.c.d"]);
    check("TABLE a.b.c", &["a.b.c as a.b.c"]);
    check("(TABLE t) UNION ALL TABLE u", &["t as dg.public.t", "u as dg.public.u"]);
}

#[test]
fn the_text_is_kept_and_trimmed() {
    let query = query_of("  \n SELECT 'a' -- x\n ").unwrap();
    assert_eq!(&*query.value.text, "SELECT 'a' -- x");
    assert_eq!((query.span.start, query.span.end), (7, 22));
}

#[test]
fn every_clause_is_searched() {
    check(
        "SELECT (SELECT 1 FROM a), f((SELECT 2 FROM b)) FROM c JOIN d ON EXISTS (SELECT 1 FROM e) \
         LEFT JOIN (f CROSS JOIN g) ON true, LATERAL (SELECT * FROM h) x \
         WHERE y IN (SELECT 1 FROM i) AND z = ANY (SELECT 1 FROM j) GROUP BY (SELECT 1 FROM k) \
         HAVING (SELECT true FROM l) ORDER BY (SELECT 1 FROM m) LIMIT (SELECT 1 FROM n)",
        &"abcdefghijklmn"
            .chars()
            .map(|c| format!("{c} bare dg.public.{c}"))
            .collect::<Vec<_>>()
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
    check(
        "SELECT CASE WHEN x THEN (SELECT 1 FROM a) END, ARRAY(SELECT 1 FROM b), sum(x) FILTER (WHERE EXISTS (SELECT 1 \
         FROM c)) OVER (PARTITION BY (SELECT 1 FROM d)), count(*)",
        &["a bare dg.public.a", "b bare dg.public.b", "c bare dg.public.c", "d bare dg.public.d"],
    );
    check(
        "SELECT 1 FROM a UNION SELECT 2 FROM b EXCEPT (SELECT 3 FROM c INTERSECT SELECT 4 FROM d)",
        &["a bare dg.public.a", "b bare dg.public.b", "c bare dg.public.c", "d bare dg.public.d"],
    );
    check(
        "SELECT * FROM a WHERE (x, y) IN (VALUES ((SELECT 1 FROM b), 2))",
        &["a bare dg.public.a", "b bare dg.public.b"],
    );
}

#[test]
fn functions_in_from_are_no_tables() {
    check("SELECT * FROM generate_series(1, (SELECT max(a) FROM t)) g", &["t bare dg.public.t"]);
    check("SELECT * FROM t, unnest(ARRAY[1]) u, LATERAL f(t.a) x", &["t bare dg.public.t"]);
}

#[test]
fn names_of_with_hide_tables_in_their_scope() {
    check("WITH a AS (SELECT * FROM b) SELECT * FROM a, s.a", &["b bare dg.public.b", "s.a bare dg.s.a"]);
    check("WITH a AS (SELECT * FROM a) SELECT * FROM A", &["a bare dg.public.a"]);
    check("WITH RECURSIVE a AS (SELECT * FROM a) SELECT * FROM a", &[]);
    check("WITH RECURSIVE a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a", &[]);
    check("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM b", &["b bare dg.public.b"]);
    check("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) x, a", &["a bare dg.public.a"]);
    check("WITH a AS (SELECT 1) SELECT * FROM (SELECT * FROM a) x WHERE EXISTS (SELECT 1 FROM a)", &[]);
    check("WITH \"A\" AS (SELECT 1) SELECT * FROM a", &["a bare dg.public.a"]);
    check("WITH a AS (SELECT 1) TABLE a", &[]);
}

#[test]
fn qualifiers_count_where_from_names_their_table() {
    check(
        "SELECT c.s.t.a, c.s.t.* FROM c.s.t WHERE s.t.b = 1 AND t.c = 2",
        &["c.s.t qual c.s.t", "c.s.t qual c.s.t", "c.s.t bare c.s.t"],
    );
    check("SELECT s.t.a FROM s.t", &["s.t qual dg.s.t", "s.t bare dg.s.t"]);
    check("SELECT x.y.z.w FROM t", &["t bare dg.public.t"]);
    check("SELECT count(c.s.t.*) FROM c.s.t", &["c.s.t qual c.s.t", "c.s.t bare c.s.t"]);
}

#[test]
fn only_a_plain_query_is_a_view() {
    refuse("", "42601 0 syntax error at end of input");
    refuse(" -- nothing", "42601 11 syntax error at end of input");
    refuse("DELETE FROM t", "42601 0 syntax error at or near \"DELETE\"");
    refuse("SELECT 1 FROM t FOR UPDATE", "0A000 0 FOR UPDATE or FOR SHARE in a view is not supported");
    refuse("SELECT 1 INTO x FROM t", "0A000 0 SELECT INTO in a view is not supported");
    refuse("SELECT * FROM a.b.c.d", "0A000 14 a table name of more than three parts is not supported");
    refuse("SELECT 1 SELECT 2", "42601 9 syntax error at or near \"SELECT\"");
    refuse("SELECT * FROM t WHERE a = $1", "42601 26 a parameter cannot stand in the query of a view");
    refuse("SELECT * FROM U&\"t\"", "0A000 14 a name written as U&\"...\" in a query is not supported");
}

#[test]
fn data_modifying_with_is_refused() {
    let error = query_of("WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x").unwrap_err();
    assert_eq!(error.sqlstate().code(), "0A000");
}

#[test]
fn errors_name_the_place_and_no_literal() {
    refuse("SELECT FROM FROM t", "42601 12 syntax error at or near \"FROM\"");
    refuse("SELECT * FROM t WHERE 'hunter2' 'x'", "42601 32 syntax error at or near a string literal");
    refuse("SELECT é +", "42601 11 syntax error at end of input");
    refuse("SELECT 1 FROM 'hunter2'", "42601 14 syntax error at or near a string literal");
    refuse("SELECT 'hunter2", "42601 7 syntax error at or near a string literal");
    refuse("SELECT 1 FROM t WHERE 5 6", "42601 24 syntax error at or near a number");
    refuse(
        &format!("SELECT * FROM {}", "x".repeat(256)),
        "42622 14 name is 256 bytes long, over the limit of 255 bytes",
    );
}

fn nested(open: &str, core: &str, close: &str, depth: usize) -> String {
    format!("{}{core}{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn depth_at_the_limit_is_read_and_far_past_it_refused() {
    for (open, core, close) in [
        ("(", "SELECT 1", ")"),
        ("SELECT * FROM (", "SELECT 1", ") x"),
        ("SELECT (", "SELECT 1", ")"),
        ("SELECT 1 WHERE EXISTS (", "SELECT 1", ")"),
        ("SELECT * FROM a JOIN (", "SELECT 1", ") x ON true"),
        ("WITH a AS (", "SELECT 1", ") SELECT 1"),
        ("SELECT f(", "1", ")"),
        ("SELECT CASE WHEN x IN (", "1", ") THEN 1 END"),
    ] {
        let at_limit = if core == "1" { 1 } else { 40 };
        let sql = nested(open, core, close, at_limit);
        if let Err(error) = query_of(&sql) {
            panic!("{open}: {error}");
        }
    }
    query_of(&format!("SELECT {}", nested("f(", "1", ")", 40))).unwrap();
    query_of(&format!("SELECT {}", nested("(", "1", ")", 40))).unwrap();
    for deep in [nested("SELECT * FROM (", "SELECT 1", ") x", 400), format!("SELECT {}", nested("(", "1", ")", 4000))] {
        assert_eq!(query_of(&deep).unwrap_err().sqlstate().code(), "54001");
    }
}

#[test]
fn chains_at_the_limit_are_walked() {
    query_of(&format!("SELECT {}", vec!["1"; 500].join("+"))).unwrap();
    query_of(&vec!["SELECT 1 FROM t"; 500].join(" UNION ")).unwrap();
}

fn expression_of(text: &str) -> Result<ExpressionText, SyntaxError> {
    with_cx(|cx| expression(text, 0..text.len(), cx, ExpressionUse::RowFilter))
}

#[test]
fn expressions_are_kept_as_written() {
    for (text, kept) in [
        ("  region = 'EU' ", "region = 'EU'"),
        ("a.b.c.d > 1 AND lower(x) LIKE 'a%'", "a.b.c.d > 1 AND lower(x) LIKE 'a%'"),
        ("current_user = owner OR now() > d", "current_user = owner OR now() > d"),
        (
            "CASE WHEN value IS NULL THEN 'x' ELSE left(value, 2) END",
            "CASE WHEN value IS NULL THEN 'x' ELSE left(value, 2) END",
        ),
        ("a -- b\n", "a -- b"),
        ("x IN (1, 2)", "x IN (1, 2)"),
    ] {
        assert_eq!(expression_of(text).unwrap().text, kept);
    }
}

#[test]
fn expressions_are_of_one_row_and_of_no_query() {
    let cases = [
        ("", "42601 0 syntax error at end of input"),
        ("   ", "42601 3 syntax error at end of input"),
        ("a =", "42601 3 syntax error at end of input"),
        ("a, b", "42601 1 syntax error at or near \",\""),
        ("a b", "42601 2 syntax error at or near \"b\""),
        ("*", "42601 0 syntax error at or near \"*\""),
        ("a = $1", "42601 4 a parameter cannot stand in the condition of a row filter"),
        ("a = (SELECT 1)", "0A000 5 a subquery in the condition of a row filter is not supported"),
        ("EXISTS (SELECT 1)", "0A000 8 a subquery in the condition of a row filter is not supported"),
        ("a IN (SELECT 1)", "0A000 6 a subquery in the condition of a row filter is not supported"),
        ("Random() < 0.5", "42P17 0 volatile function \"random\" cannot be used in the condition of a row filter"),
        (
            "a > pg_catalog.clock_timestamp()",
            "42P17 15 volatile function \"clock_timestamp\" cannot be used in the condition of a row filter",
        ),
        (
            "pg_sleep_for('1s') IS NULL",
            "42P17 0 volatile function \"pg_sleep_for\" cannot be used in the condition of a row filter",
        ),
        ("sum(a) > 1", "42P17 0 aggregate function \"sum\" cannot be used in the condition of a row filter"),
        ("count(*) > 1", "42P17 0 aggregate function \"count\" cannot be used in the condition of a row filter"),
        ("f(a) OVER () > 1", "42P17 0 window function \"f\" cannot be used in the condition of a row filter"),
    ];
    for (text, want) in cases {
        assert_eq!(describe(expression_of(text).expect_err(text), 0), want, "{text}");
    }
}
