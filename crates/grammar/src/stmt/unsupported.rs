//! Statements that PostgreSQL or the grammar knows and this server does not do: 0A000 with a hint
//! where that is what they are, 42601 for everything else.

use dataglot_model::Span;

use crate::SyntaxError;
use crate::cursor::Cursor;
use crate::lexer::TokenKind;

const NOT_A_DATABASE: &str =
    "This server keeps catalogs, secrets, roles, grants, masks, row filters and views, and no data.";

/// Words that come next, the statement that they begin, and what to do instead.
type Known = (&'static [&'static str], &'static str, &'static str);

/// The answer to the first of `known` whose words come next.
fn first_known(c: &Cursor<'_>, span: Span, known: &[Known]) -> Option<SyntaxError> {
    let (_, what, hint) = known.iter().find(|(words, ..)| c.are(words))?;
    Some(SyntaxError::unsupported(*what, hint, span))
}

/// A statement that starts with none of our words.
pub(super) fn first_word(c: &Cursor<'_>) -> SyntaxError {
    let span = c.peek().span();
    if c.is_mark(b'\\') {
        return c
            .unexpected()
            .with_hint("A line that starts with a backslash is a command of psql, not SQL; run the file with psql.");
    }
    let known: &[Known] = &[
        (&["INSERT"], "INSERT", NOT_A_DATABASE),
        (&["UPDATE"], "UPDATE", NOT_A_DATABASE),
        (&["DELETE"], "DELETE", NOT_A_DATABASE),
        (&["MERGE"], "MERGE", NOT_A_DATABASE),
        (&["TRUNCATE"], "TRUNCATE", NOT_A_DATABASE),
        (&["COPY"], "COPY", NOT_A_DATABASE),
        (&["LOCK"], "LOCK", "A transaction holds no lock; conflicts are found at COMMIT."),
        (&["DECLARE"], "DECLARE", "SHOW answers all its rows at once."),
        (&["FETCH"], "FETCH", "SHOW answers all its rows at once."),
        (&["MOVE"], "MOVE", "SHOW answers all its rows at once."),
        (&["CLOSE"], "CLOSE", "SHOW answers all its rows at once."),
        (&["PREPARE"], "PREPARE", "Drivers prepare statements by the extended protocol, which works."),
        (&["EXECUTE"], "EXECUTE", "Drivers execute prepared statements by the extended protocol, which works."),
        (&["CALL"], "CALL", ""),
        (&["DO"], "DO", "There is no procedural language; IF NOT EXISTS and OR REPLACE make scripts repeatable."),
        (&["VACUUM"], "VACUUM", ""),
        (&["ANALYZE"], "ANALYZE", ""),
        (&["CHECKPOINT"], "CHECKPOINT", "Every commit is durable by itself."),
        (&["NOTIFY"], "NOTIFY", "Changes are announced by the server on the channel dataglot_changes."),
        (&["SECURITY"], "SECURITY LABEL", ""),
        (&["IMPORT"], "IMPORT FOREIGN SCHEMA", "The tables of a source are not listed here."),
        (&["VALIDATE"], "VALIDATE", "Options are checked when a catalog is made; sources are not contacted."),
        (&["UNDROP"], "UNDROP", "SHOW CHANGES SINCE 0 shows how the object was made."),
        (&["UNSET"], "UNSET TAG", "Tags come with a later version."),
        (&["USE"], "USE", "Connect to the org as the database, or SET search_path."),
        (&["DENY"], "DENY", "Use REVOKE."),
    ];
    if let Some(error) = first_known(c, span, known) {
        return error;
    }
    c.unexpected()
}

/// `CREATE …` of what we do not make; the cursor stands after `CREATE [OR REPLACE]`.
pub(super) fn create(c: &Cursor<'_>, start: u32) -> SyntaxError {
    let span = Span::new(start, c.peek().end);
    let mask = "Use CREATE MASK name ON table (column) ...";
    let filter = "Use CREATE ROW FILTER name ON table USING (condition).";
    let known: &[Known] = &[
        (&["MATERIALIZED", "VIEW"], "a materialized view", "Use CREATE VIEW."),
        (&["RECURSIVE", "VIEW"], "a recursive view", "Use CREATE VIEW name AS WITH RECURSIVE ..."),
        (&["TEMP"], "a temporary object", "Everything here is durable."),
        (&["TEMPORARY"], "a temporary object", "Everything here is durable."),
        (&["MASKING", "POLICY"], "CREATE MASKING POLICY", mask),
        (&["ROW", "ACCESS", "POLICY"], "CREATE ROW ACCESS POLICY", filter),
        (&["ROW", "POLICY"], "CREATE ROW POLICY", filter),
        (&["POLICY"], "CREATE POLICY", filter),
        (&["TAG"], "CREATE TAG", "Tags come with a later version."),
        (&["DATABASE"], "CREATE DATABASE", "Use CREATE ORG."),
        (&["SCHEMA"], "CREATE SCHEMA", "Schemas come and go with the views in them."),
        (&["SERVER"], "CREATE SERVER", "Use CREATE CATALOG name USING connector WITH (...)."),
        (&["FOREIGN"], "CREATE FOREIGN", "Use CREATE CATALOG name USING connector WITH (...)."),
        (&["USER", "MAPPING"], "CREATE USER MAPPING", "Use CREATE SECRET and name it in the catalog's options."),
        (&["MAPPING"], "CREATE USER MAPPING", "Use CREATE SECRET and name it in the catalog's options."),
    ];
    if let Some(error) = first_known(c, span, known) {
        return error;
    }
    if c.is("ORG") {
        return SyntaxError::unsupported("CREATE OR REPLACE ORG", "Use CREATE ORG IF NOT EXISTS.", span);
    }
    for word in [
        "TABLE",
        "INDEX",
        "UNIQUE",
        "SEQUENCE",
        "FUNCTION",
        "PROCEDURE",
        "TRIGGER",
        "TYPE",
        "DOMAIN",
        "EXTENSION",
        "RULE",
        "AGGREGATE",
        "OPERATOR",
        "CAST",
        "COLLATION",
        "CONVERSION",
        "LANGUAGE",
        "PUBLICATION",
        "SUBSCRIPTION",
        "STATISTICS",
        "TABLESPACE",
        "TEXT",
        "EVENT",
        "UNLOGGED",
        "ACCESS",
    ] {
        if c.is(word) {
            return SyntaxError::unsupported(format!("CREATE {word}"), NOT_A_DATABASE, span);
        }
    }
    c.unexpected()
}

/// `ALTER …` of what we do not have; the cursor stands after `ALTER`.
pub(super) fn alter(c: &Cursor<'_>) -> SyntaxError {
    let span = c.peek().span();
    let known: &[Known] = &[
        (
            &["DEFAULT", "PRIVILEGES"],
            "ALTER DEFAULT PRIVILEGES",
            "Use GRANT ... ON ALL TABLES IN SCHEMA ..., which holds for tables that appear later.",
        ),
        (&["SYSTEM"], "ALTER SYSTEM", "Settings of the server are given at its start; see dataglot serve --help."),
        (&["TABLE"], "ALTER TABLE", "Use CREATE MASK ... ON table (column) and CREATE ROW FILTER ... ON table."),
        (&["COLUMN"], "ALTER COLUMN", "Use CREATE MASK ... ON table (column)."),
        (&["DATABASE"], "ALTER DATABASE", ""),
        (&["ORG"], "ALTER ORG", ""),
        (&["SCHEMA"], "ALTER SCHEMA", "Schemas come and go with the views in them."),
        (&["SERVER"], "ALTER SERVER", "Use ALTER CATALOG."),
        (&["USER", "MAPPING"], "ALTER USER MAPPING", "Use ALTER SECRET."),
        (&["MAPPING"], "ALTER USER MAPPING", "Use ALTER SECRET."),
        (&["GROUP"], "ALTER GROUP", "Use GRANT role TO role and REVOKE role FROM role."),
        (&["POLICY"], "ALTER POLICY", "Use ALTER MASK and ALTER ROW FILTER."),
        (&["TAG"], "ALTER TAG", "Tags come with a later version."),
        (&["MATERIALIZED"], "ALTER MATERIALIZED VIEW", "Use ALTER VIEW."),
    ];
    if let Some(error) = first_known(c, span, known) {
        return error;
    }
    other(c, "ALTER")
}

/// `DROP …` of what we do not have; the cursor stands after `DROP`.
pub(super) fn drop(c: &Cursor<'_>) -> SyntaxError {
    let span = c.peek().span();
    let known: &[Known] = &[
        (&["DATABASE"], "DROP DATABASE", "Use DROP ORG."),
        (&["SCHEMA"], "DROP SCHEMA", "Schemas come and go with the views in them."),
        (&["SERVER"], "DROP SERVER", "Use DROP CATALOG."),
        (&["TAG"], "DROP TAG", "Tags come with a later version."),
        (&["POLICY"], "DROP POLICY", "Use DROP MASK or DROP ROW FILTER."),
        (&["MATERIALIZED"], "DROP MATERIALIZED VIEW", "Use DROP VIEW."),
        (&["MAPPING"], "DROP USER MAPPING", "Use DROP SECRET."),
    ];
    if let Some(error) = first_known(c, span, known) {
        return error;
    }
    other(c, "DROP")
}

/// `COMMENT ON …` of what we do not have; the cursor stands after `ON`.
pub(super) fn comment(c: &Cursor<'_>) -> Result<(), SyntaxError> {
    let known = [
        "ACCESS",
        "AGGREGATE",
        "CAST",
        "COLLATION",
        "CONSTRAINT",
        "CONVERSION",
        "DATABASE",
        "DOMAIN",
        "EVENT",
        "EXTENSION",
        "FOREIGN",
        "FUNCTION",
        "INDEX",
        "LANGUAGE",
        "LARGE",
        "MATERIALIZED",
        "OPERATOR",
        "ORG",
        "POLICY",
        "PROCEDURE",
        "PUBLICATION",
        "ROUTINE",
        "RULE",
        "SEQUENCE",
        "SERVER",
        "STATISTICS",
        "SUBSCRIPTION",
        "TABLESPACE",
        "TEXT",
        "TRANSFORM",
        "TRIGGER",
        "TYPE",
    ];
    match known.into_iter().find(|word| c.is(word)) {
        Some(word) => Err(SyntaxError::unsupported(
            format!("COMMENT ON {word}"),
            "Comments go on CATALOG, SCHEMA, TABLE, VIEW, COLUMN, SECRET, ROLE, MASK and ROW FILTER.",
            c.peek().span(),
        )),
        None => Ok(()),
    }
}

/// Kinds of PostgreSQL's that hold or handle data.
fn other(c: &Cursor<'_>, verb: &str) -> SyntaxError {
    let token = c.peek();
    let known = [
        "TABLE",
        "INDEX",
        "SEQUENCE",
        "FUNCTION",
        "PROCEDURE",
        "TRIGGER",
        "TYPE",
        "DOMAIN",
        "EXTENSION",
        "RULE",
        "AGGREGATE",
        "FOREIGN",
        "PUBLICATION",
        "SUBSCRIPTION",
        "STATISTICS",
        "TABLESPACE",
        "LANGUAGE",
        "OPERATOR",
        "COLLATION",
    ];
    match known.into_iter().find(|word| c.is(word)) {
        Some(word) if token.kind == TokenKind::Word => {
            SyntaxError::unsupported(format!("{verb} {word}"), NOT_A_DATABASE, token.span())
        }
        _ => c.unexpected(),
    }
}
