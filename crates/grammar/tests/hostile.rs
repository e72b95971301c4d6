//! Texts that nobody means: they end in an error, quickly, without a panic, and without a word of what
//! stood in their literals.

#![allow(clippy::expect_used, reason = "a panic is a failed test")]

use dataglot_grammar::{Limits, Parameters, ParseCx, SyntaxError, parse, split};
use dataglot_model::{Problem, Report, SchemaRef};
use proptest::prelude::*;

fn run(sql: &str) -> Result<usize, SyntaxError> {
    let limits = Limits::default();
    let search_path = SchemaRef::default_schema();
    let cx = ParseCx { search_path: &search_path, parameters: Parameters::None, limits: &limits };
    let ranges = split(sql, &limits)?;
    for range in &ranges {
        parse(sql, range.clone(), &cx)?;
    }
    Ok(ranges.len())
}

#[track_caller]
fn code(sql: &str) -> &'static str {
    run(sql).expect_err("it is no statement").sqlstate().code()
}

#[test]
fn c013_semicolons_in_comments_and_strings() {
    let sql = "-- step one; then step two\nCREATE ROLE r1; /* a; /* nested; */ still comment; */\n\
               CREATE CATALOG c1 USING mock WITH (note = 'x; -- not a comment');\nCREATE ROLE \"r;2\";";
    assert_eq!(run(sql), Ok(3));
    assert_eq!(run(" ;; /* ; */ ; -- ;\n"), Ok(0));
}

#[test]
fn c015_dollar_quotes() {
    assert_eq!(run("CREATE CATALOG c1 USING mock WITH (a = $$$$, b = $$x$$, c = $_1$ y $_1$)"), Ok(1));
    assert_eq!(code("CREATE CATALOG c2 USING mock WITH (a = $1$z$1$)"), "42601");
    assert_eq!(code("COMMENT ON ROLE r IS $a$ x $b$"), "42601");
}

#[test]
fn c017_backslash_in_plain_strings() {
    assert_eq!(run("CREATE USER u1 PASSWORD 'ends\\';\nGRANT admin TO u1; --'\nSHOW CATALOGS"), Ok(3));
}

#[test]
fn limits_hold_at_the_limit_and_not_one_past_it() {
    let limits = Limits { tokens_max: 10, chain_max: 3, depth_max: 4, statement_bytes_max: 100, script_bytes_max: 200 };
    let search_path = SchemaRef::default_schema();
    let cx = ParseCx { search_path: &search_path, parameters: Parameters::None, limits: &limits };
    let code = |sql: &str| match split(sql, &limits) {
        Ok(_) => parse(sql, 0..sql.len(), &cx).err().map(|e| e.sqlstate().code()),
        Err(e) => Some(e.sqlstate().code()),
    };
    assert_eq!(code("DROP ROLE a, b, c, d"), None);
    assert_eq!(code("DROP ROLE a, b, c, d, e"), Some("54001"));
    assert_eq!(code("SELECT 1 || 2 || 3 || 4"), None);
    assert_eq!(code("SELECT 1 || 2 || 3 || 4 || 5"), Some("54001"));
    assert_eq!(code("SELECT ((((1))))"), None);
    assert_eq!(code("SELECT (((((1)))))"), Some("54001"));
    let padded = |n: usize| format!("COMMENT ON ROLE r IS '{}'", "x".repeat(n - 23));
    assert_eq!(code(&padded(100)), None);
    assert_eq!(code(&padded(101)), Some("54000"));
    assert_eq!(code(&";".repeat(201)), Some("54000"));
}

#[test]
fn errors_point_at_characters_not_bytes() {
    let error = run("CREATE ROLE é é").expect_err("two names");
    assert_eq!(error.span().and_then(|s| s.char_position("CREATE ROLE é é")), Some(15));
}

const PIECES: &[&str] = &[
    "CREATE",
    "ALTER",
    "DROP",
    "OR REPLACE",
    "IF NOT EXISTS",
    "IF EXISTS",
    "CATALOG",
    "SECRET",
    "ROLE",
    "USER",
    "MASK",
    "ROW FILTER",
    "VIEW",
    "GRANT",
    "REVOKE",
    "SELECT",
    "ON",
    "TO",
    "FROM",
    "WITH",
    "USING",
    "AS",
    "SET",
    "SHOW",
    "PASSWORD",
    "VALID UNTIL",
    "COMMENT",
    "IS",
    "NULL",
    "ALL",
    "IN",
    "LIKE",
    "EXCEPT",
    "ELSE",
    "NO ROWS",
    "PRIORITY",
    "WHEN",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    ";",
    "=",
    "-",
    "::",
    "$1",
    "$$canary$$",
    "'canary'",
    "E'canary\\n'",
    "U&'canary'",
    "'canary",
    "\"x\"",
    "\"x",
    "U&\"d\\0061\"",
    "a",
    "b",
    "pg",
    "1",
    "1.5e3",
    "12345678901234567890",
    "--",
    "/*",
    "*/",
    "\\d",
    "é",
    "\u{0}",
    "mock",
    "SECRET s",
    "ENV 'canary'",
    "JSON '{\"canary\"'",
    "type = 'canary'",
    "dsn = 'password=canary'",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn token_soup_never_panics_and_never_leaks(words in prop::collection::vec(prop::sample::select(PIECES), 0..30)) {
        let sql = words.join(" ");
        if let Err(error) = run(&sql) {
            let report = Report::from(&error);
            prop_assert!(!format!("{report:?}").contains("canary"), "{report:?}");
            if let Some(span) = report.span {
                prop_assert!(span.char_position(&sql).is_some(), "{span:?} in {sql:?}");
            }
        }
    }

    #[test]
    fn any_text_never_panics(sql in any::<String>()) {
        let _ = run(&sql);
    }

    #[test]
    fn statements_are_split_where_they_were_joined(names in prop::collection::vec("[a-z';$\"/*-]{0,8}", 1..8)) {
        let statements: Vec<String> =
            names.iter().map(|n| format!("COMMENT ON ROLE r IS '{}'", n.replace('\'', "''"))).collect();
        prop_assert_eq!(run(&statements.join(" ; ")), Ok(statements.len()));
    }
}
