//! Productions: one file a kind. `parse` picks one by the first words of the statement.

mod catalog;
mod drop;
mod grant;
mod mask;
mod org;
mod owned;
mod policy;
mod role;
mod row_filter;
mod secret;
mod session;
mod show;
mod transaction;
mod unsupported;
mod view;

use std::ops::Range;

use dataglot_model::command::{CommentText, ExpectedVersion, OnExisting, OnMissing};
use dataglot_model::{Command, Read, Sensitive, Span, Statement};

use crate::cursor::{Cursor, Parse};
use crate::lexer::TokenKind;
use crate::{Limit, ParseCx, Parsed, SyntaxError, select};

/// A tree of this height is walked on any thread's stack.
const SHALLOW_HEIGHT: usize = 96;
/// Stack for one level of a tall tree and for one level of nesting: twice what was measured in a debug
/// build. Only what is touched is paid for.
const STACK_BYTES_PER_HEIGHT: usize = 16 << 10;
const STACK_BYTES_PER_DEPTH: usize = 1 << 20;

/// Parses the one statement in `sql[range]`.
///
/// A statement whose query or expression can become a tall tree is read on a thread with a stack for
/// it: an overflow would end the process.
pub(crate) fn parse(sql: &str, range: Range<usize>, cx: &ParseCx<'_>) -> Result<Parsed, SyntaxError> {
    let mut c = Cursor::new(sql, range.clone(), cx)?;
    let builds_tree = is_query(&c) || ["CREATE", "ALTER", "EXPLAIN"].iter().any(|w| c.is(w));
    if !builds_tree || c.height() <= SHALLOW_HEIGHT {
        return parse_here(&mut c, range);
    }
    let depth = cx.limits.depth_max.saturating_mul(STACK_BYTES_PER_DEPTH);
    let stack = c.height().saturating_mul(STACK_BYTES_PER_HEIGHT).saturating_add(depth);
    let span = c.peek().span();
    let work = || parse_here(&mut c, range);
    let parsed = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(stack).spawn_scoped(scope, work).ok()?;
        thread.join().ok()
    });
    let too_large = SyntaxError::Limit { limit: Limit::Depth, max: cx.limits.depth_max, span };
    parsed.unwrap_or(Err(too_large))
}

fn is_query(c: &Cursor<'_>) -> bool {
    c.is_mark(b'(') || ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|w| c.is(w))
}

fn parse_here(c: &mut Cursor<'_>, range: Range<usize>) -> Result<Parsed, SyntaxError> {
    if is_query(c) {
        let (query, parameters) = select::select(c.sql, range, c.cx)?;
        return Ok(Parsed { statement: Statement::Select(query), parameters, notices: Vec::new() });
    }
    let statement = statement(c)?;
    c.expect_end()?;
    Ok(Parsed { statement, parameters: c.parameters(), notices: std::mem::take(&mut c.notices) })
}

fn statement(c: &mut Cursor<'_>) -> Parse<Statement<Sensitive>> {
    let first = c.peek();
    let change = Statement::Change;
    let Some(verb) = c.accept_one(&[
        "CREATE",
        "ALTER",
        "DROP",
        "GRANT",
        "REVOKE",
        "COMMENT",
        "SHOW",
        "SET",
        "RESET",
        "BEGIN",
        "START",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ABORT",
        "SAVEPOINT",
        "RELEASE",
        "EXPLAIN",
        "DESCRIBE",
        "DESC",
        "REASSIGN",
        "REWRAP",
        "DISCARD",
        "LISTEN",
        "UNLISTEN",
        "DEALLOCATE",
    ]) else {
        return Err(unsupported::first_word(c));
    };
    match verb {
        "CREATE" => create(c, first.start),
        "ALTER" => alter(c),
        "DROP" => drop::parse(c),
        "GRANT" => grant::grant(c).map(change),
        "REVOKE" => grant::revoke(c).map(change),
        "COMMENT" => drop::comment(c).map(Command::Comment).map(change),
        "REASSIGN" => owned::reassign(c).map(Command::ReassignOwned).map(change),
        "REWRAP" => {
            c.expect(&["SECRETS"])?;
            Ok(Statement::Rewrap)
        }
        "SHOW" => show::show(c),
        "DESCRIBE" | "DESC" => show::describe(c).map(Read::Describe).map(Statement::Read),
        "EXPLAIN" => explain(c),
        "SET" => session::set(c),
        "RESET" => session::reset(c).map(Statement::Session),
        "DISCARD" => session::discard(c).map(Statement::Session),
        "LISTEN" => session::listen(c).map(Statement::Session),
        "UNLISTEN" => session::unlisten(c).map(Statement::Session),
        "DEALLOCATE" => session::deallocate(c).map(Statement::Session),
        word => transaction::parse(c, word).map(Statement::Transaction),
    }
}

fn create(c: &mut Cursor<'_>, start: u32) -> Parse<Statement<Sensitive>> {
    let or = if c.accept(&["OR", "REPLACE"]) {
        OnExisting::Replace
    } else if c.accept(&["OR", "ALTER"]) {
        OnExisting::Alter
    } else {
        OnExisting::Error
    };
    let kind = c.peek();
    Ok(Statement::Change(
        match c.accept_one(&["CATALOG", "SECRET", "ROLE", "USER", "GROUP", "MASK", "VIEW", "ORG", "ROW"]) {
            Some("CATALOG") => Command::CreateCatalog(catalog::create(c, or)?),
            Some("SECRET") => {
                no_or_alter(or, "CREATE OR ALTER SECRET", kind.span())?;
                Command::CreateSecret(secret::create(c, or)?)
            }
            Some("USER") if c.is("MAPPING") => return Err(unsupported::create(c, start)),
            Some(word @ ("ROLE" | "USER" | "GROUP")) => {
                Command::CreateRole(role::create(c, or, word == "USER", kind.span())?)
            }
            Some("MASK") => {
                no_or_alter(or, "CREATE OR ALTER MASK", kind.span())?;
                Command::CreateMask(mask::create(c, or)?)
            }
            Some("VIEW") => Command::CreateView(view::create(c, or)?),
            Some("ORG") if or == OnExisting::Error => return org::create(c).map(Statement::Org),
            Some("ROW") if c.accept(&["FILTER"]) => {
                no_or_alter(or, "CREATE OR ALTER ROW FILTER", kind.span())?;
                Command::CreateRowFilter(row_filter::create(c, or)?)
            }
            Some(_) => {
                c.step_back();
                return Err(unsupported::create(c, start));
            }
            None => return Err(unsupported::create(c, start)),
        },
    ))
}

fn no_or_alter(or: OnExisting, what: &'static str, span: Span) -> Parse<()> {
    match or {
        OnExisting::Alter => Err(SyntaxError::unsupported(what, "Use CREATE OR REPLACE.", span)),
        OnExisting::Error | OnExisting::Skip | OnExisting::Replace => Ok(()),
    }
}

fn alter(c: &mut Cursor<'_>) -> Parse<Statement<Sensitive>> {
    Ok(Statement::Change(match c.accept_one(&["CATALOG", "SECRET", "ROLE", "USER", "MASK", "VIEW", "ROW"]) {
        Some("CATALOG") => Command::AlterCatalog(catalog::alter(c)?),
        Some("SECRET") => Command::AlterSecret(secret::alter(c)?),
        Some("USER") if c.is("MAPPING") => return Err(unsupported::alter(c)),
        Some("ROLE" | "USER") => Command::AlterRole(role::alter(c)?),
        Some("MASK") => Command::AlterMask(mask::alter(c)?),
        Some("VIEW") => Command::AlterView(view::alter(c)?),
        Some("ROW") if c.accept(&["FILTER"]) => Command::AlterRowFilter(row_filter::alter(c)?),
        Some(_) => {
            c.step_back();
            return Err(unsupported::alter(c));
        }
        None => return Err(unsupported::alter(c)),
    }))
}

/// `EXPLAIN [( FORMAT TEXT | JSON, VERBOSE [bool] )] ddl`
fn explain(c: &mut Cursor<'_>) -> Parse<Statement<Sensitive>> {
    use dataglot_model::{Explain, ExplainFormat, SqlState};
    let mut format = ExplainFormat::Text;
    if c.accept_mark(b'(') {
        c.list(|c| {
            if c.accept(&["FORMAT"]) {
                let word = c.ident()?;
                format = match word.as_str() {
                    "text" => ExplainFormat::Text,
                    "json" => ExplainFormat::Json,
                    _ => {
                        let message = "unrecognized value for EXPLAIN option \"format\"";
                        return Err(SyntaxError::invalid(SqlState::InvalidParameterValue, message, word.span)
                            .with_hint("The formats are TEXT and JSON."));
                    }
                };
                return Ok(());
            }
            c.expect(&["VERBOSE"])?;
            c.accept_one(&["TRUE", "FALSE", "ON", "OFF"]);
            Ok(())
        })?;
        c.expect_mark(b')')?;
    } else {
        c.accept(&["VERBOSE"]);
    }
    let at = c.peek();
    if c.is("EXPLAIN") {
        return Err(c.unexpected());
    }
    if ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|w| c.is(w)) {
        return Err(SyntaxError::unsupported(
            "EXPLAIN of a query",
            "EXPLAIN takes DDL and shows what it would change.",
            at.span(),
        ));
    }
    match statement(c)? {
        Statement::Change(command) => {
            Ok(Statement::Read(Read::Explain(Explain { format, command: Box::new(command) })))
        }
        Statement::Org(_)
        | Statement::Read(_)
        | Statement::Transaction(_)
        | Statement::Session(_)
        | Statement::Select(_)
        | Statement::Rewrap => Err(SyntaxError::unsupported(
            "EXPLAIN of this statement",
            "EXPLAIN takes DDL and shows what it would change.",
            at.span(),
        )),
    }
}

/// `[IF NOT EXISTS]`, which goes with no OR REPLACE and no OR ALTER.
pub(crate) fn if_not_exists(c: &mut Cursor<'_>, or: OnExisting) -> Parse<OnExisting> {
    let start = c.peek();
    if !c.is("IF") || c.peek_nth(1).kind != TokenKind::Word || !c.nth_is(1, "NOT") {
        return Ok(or);
    }
    c.expect(&["IF", "NOT", "EXISTS"])?;
    match or {
        OnExisting::Error | OnExisting::Skip => Ok(OnExisting::Skip),
        OnExisting::Replace | OnExisting::Alter => Err(SyntaxError::Unexpected {
            found: crate::Found::Text("IF".to_owned()),
            hint: Some("OR REPLACE and OR ALTER do not go with IF NOT EXISTS.".into()),
            span: start.span(),
        }),
    }
}

/// `[IF EXISTS]`
pub(crate) fn if_exists(c: &mut Cursor<'_>) -> OnMissing {
    if c.accept(&["IF", "EXISTS"]) { OnMissing::Skip } else { OnMissing::Error }
}

/// `[IF VERSION n]`
pub(crate) fn if_version(c: &mut Cursor<'_>) -> Parse<ExpectedVersion> {
    if c.accept(&["IF", "VERSION"]) { c.integer::<u64>().map(Some) } else { Ok(None) }
}

/// `SET COMMENT 'text' | NULL`, SET is taken.
pub(crate) fn set_comment(c: &mut Cursor<'_>) -> Parse<Option<CommentText>> {
    if c.accept(&["COMMENT"]) { c.comment_text().map(Some) } else { Ok(None) }
}

/// Puts a clause where there was none; a second one is refused.
pub(crate) fn once<T>(slot: &mut Option<T>, value: T, span: Span) -> Parse<()> {
    if slot.is_some() {
        return Err(SyntaxError::Redundant { span });
    }
    *slot = Some(value);
    Ok(())
}

/// `TAG (…)`, which no kind has yet.
pub(crate) fn no_tags(c: &Cursor<'_>) -> Parse<()> {
    if c.is("TAG") {
        return Err(SyntaxError::unsupported("a tag", "Tags come with a later version.", c.peek().span()));
    }
    Ok(())
}
