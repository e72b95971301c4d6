//! Every form of every statement, one a line, and under it what becomes of it: its canonical text with
//! its notices, or `SQLSTATE position message | hint`. `DATAGLOT_BLESS=1` rewrites the results.
//!
//! For free in every file: no result holds a text that starts with `canary`, and canonical text reads
//! back as itself.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a panic is a failed test")]

use std::fmt::Write as _;
use std::path::PathBuf;

use dataglot_grammar::{Limits, Parameters, ParseCx, Parsed, SyntaxError, parse, print_statement, split};
use dataglot_model::{Report, SchemaRef, Sensitive};

fn read(sql: &str, parameters: Parameters<'_>) -> Result<Parsed, SyntaxError> {
    let limits = Limits::default();
    let search_path = SchemaRef::default_schema();
    let cx = ParseCx { search_path: &search_path, parameters, limits: &limits };
    let ranges = split(sql, &limits)?;
    assert_eq!(ranges.len(), 1, "{sql}");
    parse(sql, ranges[0].clone(), &cx)
}

fn result(sql: &str, parameters: Parameters<'_>) -> String {
    match read(sql, parameters) {
        Ok(parsed) => {
            let canonical = print_statement(&parsed.statement);
            if !canonical.contains("PASSWORD REDACTED") {
                let again = read(&canonical, Parameters::None).unwrap_or_else(|e| panic!("{canonical}: {e}"));
                assert_eq!(print_statement(&again.statement), canonical);
            }
            parsed.notices.iter().fold(canonical, |text, notice| format!("{text} -- {}", notice.message))
        }
        Err(error) => {
            let report = Report::from(&error);
            let position = report.span.and_then(|s| s.char_position(sql)).map_or("-".to_owned(), |p| p.to_string());
            let hint = report.hint.map_or(String::new(), |hint| format!(" | {hint}"));
            format!("{} {position} {}{hint}", report.sqlstate.code(), report.message)
        }
    }
}

#[track_caller]
fn file(name: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/statements").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut now = String::new();
    for line in text.lines() {
        if line.starts_with("    ") {
            continue;
        }
        now.push_str(line);
        now.push('\n');
        if !line.is_empty() && !line.starts_with('#') {
            let result = result(line, Parameters::None);
            assert!(!result.contains("canary"), "{line}: {result}");
            writeln!(now, "    {result}").unwrap();
        }
    }
    #[allow(clippy::disallowed_methods, reason = "a test's own switch")]
    if std::env::var_os("DATAGLOT_BLESS").is_some() {
        std::fs::write(&path, now).unwrap();
        return;
    }
    for (want, got) in text.lines().zip(now.lines()) {
        assert_eq!(got, want, "{name}");
    }
    assert_eq!(now, text, "{name}");
}

#[test]
fn catalog() {
    file("catalog.txt");
}

#[test]
fn secret() {
    file("secret.txt");
}

#[test]
fn role() {
    file("role.txt");
}

#[test]
fn policy() {
    file("policy.txt");
}

#[test]
fn view() {
    file("view.txt");
}

#[test]
fn grant_comment_org() {
    file("grant.txt");
}

#[test]
fn read_and_unsupported() {
    file("read.txt");
}

#[test]
fn session_and_transaction() {
    file("session.txt");
}

/// Where a value may stand a placeholder may: not judged before it is bound, judged then.
#[test]
fn placeholders() {
    let check = |sql: &str, value: Option<&str>, want: &str| {
        let described = read(sql, Parameters::Describe).unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(described.parameters, 1, "{sql}");
        let values = [value.map(|v| Sensitive::new(v.to_owned()))];
        assert_eq!(result(sql, Parameters::Bound(&values)), want, "{sql}");
        let missing = result(sql, Parameters::Bound(&[]));
        assert!(missing.contains("there is no parameter $1"), "{missing}");
        assert!(result(sql, Parameters::None).contains("there is no parameter $1"), "{sql}");
    };
    check("CREATE SECRET s AS $1", Some("canary"), "CREATE SECRET s AS REDACTED");
    check("CREATE SECRET s AS $1", None, "22023 20 parameter must not be null here");
    check("CREATE ROLE r PASSWORD $1", Some("canary"), "CREATE ROLE r PASSWORD REDACTED");
    check("CREATE ROLE r PASSWORD $1", None, "CREATE ROLE r PASSWORD NULL");
    check("CREATE ROLE r VALID UNTIL $1", Some("2030-01-01"), "CREATE ROLE r VALID UNTIL '2030-01-01 00:00:00+00'");
    check(
        "CREATE ROLE r VALID UNTIL $1",
        Some("canary"),
        "22007 27 invalid input syntax for type timestamp with time zone | Write it as '2030-12-31', '2030-12-31 \
         23:59:59+00' or 'infinity'.",
    );
    check("CREATE ROLE r CONNECTION LIMIT $1", Some("7"), "CREATE ROLE r CONNECTION LIMIT 7");
    check("CREATE ROLE r CONNECTION LIMIT $1", Some("canary"), "22P02 32 parameter is not an integer");
    check("CREATE CATALOG c USING mock WITH (a = $1)", Some("x"), "CREATE CATALOG c USING mock WITH (a = 'x')");
    check("CREATE CATALOG c WITH (kind = $1)", Some("mock"), "CREATE CATALOG c USING mock");
    check(
        "CREATE CATALOG c USING mock WITH (dsn_secret = $1)",
        Some("s"),
        "CREATE CATALOG c USING mock WITH (dsn = SECRET s)",
    );
    check(
        "CREATE CATALOG c USING mock WITH (tables = JSON $1)",
        Some("[1]"),
        "CREATE CATALOG c USING mock WITH (tables = JSON '[1]')",
    );
    check("CREATE CATALOG c USING mock WITH (tables = JSON $1)", Some("{canary"), "22023 49 value is not valid JSON");
    check("CREATE CATALOG c USING mock WITH (a = ENV $1)", Some("X"), "CREATE CATALOG c USING mock WITH (a = ENV 'X')");
    check(
        "CREATE MASK m ON t (c) WITH (type = $1)",
        Some("hash"),
        "CREATE MASK m ON dataglot.public.t (c) WITH (type = 'hash')",
    );
    check(
        "CREATE MASK m ON t (c) WITH (type = show_last, keep = $1)",
        Some("4"),
        "CREATE MASK m ON dataglot.public.t (c) WITH (type = 'show_last', keep = 4)",
    );
    check("COMMENT ON ROLE r IS $1", None, "COMMENT ON ROLE r IS NULL");
    check("COMMENT ON ROLE r IS $1", Some("x"), "COMMENT ON ROLE r IS 'x'");
    check("SHOW ROLES LIKE $1", Some("a%"), "SHOW ROLES LIKE 'a%'");
    check("SHOW CHANGES SINCE $1", Some("3"), "SHOW CHANGES SINCE 3");
    check("SET x TO $1", Some("y"), "SET x TO 'y'");
}

#[test]
fn placeholders_are_no_names() {
    for sql in [
        "CREATE ROLE $1",
        "DROP ROLE a, $1",
        "GRANT $1 TO a",
        "GRANT SELECT ON $1 TO a",
        "CREATE CATALOG c USING $1",
        "CREATE CATALOG c USING mock WITH ($1 = 'a')",
        "ALTER ROLE a RENAME TO $1",
        "SHOW CREATE ROLE $1",
        "$1",
    ] {
        assert!(result(sql, Parameters::Describe).starts_with("42601 "), "{sql}");
    }
}

#[test]
fn short_names_are_looked_up_in_the_search_path() {
    let limits = Limits::default();
    let search_path = SchemaRef::from_parts(["pg", "sales"]).unwrap();
    let cx = ParseCx { search_path: &search_path, parameters: Parameters::None, limits: &limits };
    for (sql, want) in [
        ("DROP VIEW v, s.v, a.s.v", "DROP VIEW pg.sales.v, pg.s.v, a.s.v"),
        ("COMMENT ON COLUMN t.c IS NULL", "COMMENT ON COLUMN pg.sales.t.c IS NULL"),
        ("COMMENT ON SCHEMA s IS NULL", "COMMENT ON SCHEMA pg.s IS NULL"),
    ] {
        let parsed = parse(sql, 0..sql.len(), &cx).unwrap();
        assert_eq!(print_statement(&parsed.statement), want);
    }
}
