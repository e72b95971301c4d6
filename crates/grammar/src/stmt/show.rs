//! `SHOW` and `DESCRIBE`.
//!
//! A word after SHOW that is none of ours is a setting, so our kinds are matched first.

use dataglot_model::{
    At, Describe, DescribeName, Kind, Name, Read, Sensitive, Seq, SessionCommand, Show, ShowGrants, ShowKind,
    ShowScope, SqlState, Statement, TableRef, TransactionId,
};

use super::{drop, grant, session};
use crate::SyntaxError;
use crate::cursor::{Cursor, Parse};

/// SHOW is taken.
pub(super) fn show(c: &mut Cursor<'_>) -> Parse<Statement<Sensitive>> {
    let show = |show| Ok(Statement::Read(Read::Show(show)));
    let start = c.peek();
    not_yet(c)?;
    if c.accept(&["TRANSACTION", "STATUS"]) {
        return show(transaction_status(c)?);
    }
    if c.accept(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        let name = At::new("transaction_isolation".to_owned(), c.since(start.start));
        return Ok(Statement::Session(SessionCommand::Show(name)));
    }
    if c.accept(&["TIME", "ZONE"]) {
        return Ok(Statement::Session(SessionCommand::Show(At::new("timezone".to_owned(), start.span()))));
    }
    if c.are(&["SESSION", "AUTHORIZATION"]) {
        c.accept(&["SESSION", "AUTHORIZATION"]);
        let name = At::new("session_authorization".to_owned(), start.span());
        return Ok(Statement::Session(SessionCommand::Show(name)));
    }
    if c.accept(&["ALL"]) {
        return Ok(Statement::Session(SessionCommand::ShowAll));
    }
    if c.accept(&["CURRENT", "ROLES"]) {
        return show(Show::CurrentRoles);
    }
    if c.accept(&["ROLE", "GRANTS"]) {
        return show(Show::RoleGrants);
    }
    if c.accept(&["EFFECTIVE", "GRANTS"]) {
        c.expect(&["FOR"])?;
        return show(Show::Grants(ShowGrants::For(c.grantee()?)));
    }
    if c.accept(&["GRANTS"]) {
        return show(Show::Grants(grants(c)?));
    }
    if c.is("CREATE") || c.are(&["REDACTED", "CREATE"]) {
        c.accept(&["REDACTED"]);
        c.expect(&["CREATE"])?;
        let kind = drop::kind(c)?;
        let object = drop::object(c, kind)?;
        no_as_of(c)?;
        return show(Show::Create(object));
    }
    if c.accept(&["DEPENDENCIES"]) {
        let dependents = c.accept_one(&["OF", "ON"]) == Some("ON");
        let kind = drop::kind(c)?;
        return show(Show::Dependencies { object: drop::object(c, kind)?, dependents });
    }
    if c.accept(&["CHANGES"]) {
        c.expect(&["SINCE"])?;
        let since = Seq(c.integer::<u64>()?.value);
        let limit = if c.accept(&["LIMIT"]) { Some(c.integer::<u64>()?.value) } else { None };
        return show(Show::Changes { since, limit });
    }
    if c.accept(&["SECRET", "KEYS"]) {
        return show(Show::SecretKeys);
    }
    if c.accept(&["SECRET", "PROBLEMS"]) {
        return show(Show::SecretProblems);
    }
    if c.accept(&["ORGS"]) {
        return show(Show::Orgs);
    }
    if let Some(kind) = list_kind(c) {
        return show(objects(c, kind)?);
    }
    session::setting_name(c).map(SessionCommand::Show).map(Statement::Session)
}

fn list_kind(c: &mut Cursor<'_>) -> Option<ShowKind> {
    if c.accept(&["ROW", "FILTERS"]) {
        return Some(ShowKind::RowFilters);
    }
    Some(match c.accept_one(&["CATALOGS", "SECRETS", "ROLES", "USERS", "MASKS", "POLICIES", "VIEWS"])? {
        "CATALOGS" => ShowKind::Catalogs,
        "SECRETS" => ShowKind::Secrets,
        "ROLES" => ShowKind::Roles,
        "USERS" => ShowKind::Users,
        "MASKS" => ShowKind::Masks,
        "POLICIES" => ShowKind::Policies,
        _ => ShowKind::Views,
    })
}

/// `[IN | FROM scope] [ON table] [LIKE 'pattern' [ESCAPE 'c']]`
fn objects(c: &mut Cursor<'_>, kind: ShowKind) -> Parse<Show> {
    let mut within = None;
    if c.accept_one(&["IN", "FROM"]).is_some() {
        within = Some(match c.accept_one(&["CATALOG", "SCHEMA"]) {
            Some("CATALOG") => ShowScope::Catalog(c.name()?.value),
            Some(_) => ShowScope::Schema(c.schema_ref()?.value),
            None => return Err(c.unexpected()),
        });
    }
    let on = if c.accept(&["ON"]) { Some(c.table_ref()?.value) } else { None };
    let mut like = None;
    if c.accept(&["LIKE"]) {
        let pattern = c.text()?.value;
        like = Some((pattern, escape(c)?));
    }
    if c.is("WHERE") {
        return Err(SyntaxError::unsupported("SHOW ... WHERE", "Use LIKE.", c.peek().span()));
    }
    no_as_of(c)?;
    Ok(Show::Objects { kind, within, on, like })
}

/// `[ESCAPE 'c']`: one character, or none to have no escape.
fn escape(c: &mut Cursor<'_>) -> Parse<Option<char>> {
    if !c.accept(&["ESCAPE"]) {
        return Ok(Some('\\'));
    }
    let text = c.text()?;
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(SyntaxError::invalid(SqlState::InvalidEscapeSequence, "invalid escape string", text.span)
            .with_hint("Escape string must be empty or one character.")),
    }
}

fn grants(c: &mut Cursor<'_>) -> Parse<ShowGrants> {
    let grants = match c.accept_one(&["ON", "TO", "OF", "FOR"]) {
        Some("ON") => {
            let start = c.peek().span();
            let mut targets = grant::targets(c)?;
            match (targets.pop(), targets.is_empty()) {
                (Some(target), true) => ShowGrants::On(target),
                _ => {
                    return Err(SyntaxError::unsupported(
                        "SHOW GRANTS ON several objects",
                        "Ask for one at a time.",
                        start,
                    ));
                }
            }
        }
        Some("TO") => ShowGrants::To(c.grantee()?),
        Some("OF") => {
            c.skip_role_word();
            ShowGrants::Of(c.name()?)
        }
        Some(_) => ShowGrants::For(c.grantee()?),
        None => ShowGrants::All,
    };
    no_as_of(c)?;
    Ok(grants)
}

fn transaction_status(c: &mut Cursor<'_>) -> Parse<Show> {
    let text = c.text()?;
    match TransactionId::parse(&text) {
        Some(id) => Ok(Show::TransactionStatus(id)),
        None => Err(SyntaxError::invalid(SqlState::InvalidParameterValue, "this is no transaction id", text.span)
            .with_hint("A transaction id is 32 hexadecimal digits, as an error of class 08007 gives it.")),
    }
}

/// What SHOW will know later.
fn not_yet(c: &Cursor<'_>) -> Parse<()> {
    let span = c.peek().span();
    let hint = "SHOW CHANGES SINCE 0 lists every transaction.";
    for (words, what, hint) in [
        (&["HISTORY"] as &[&str], "SHOW HISTORY", hint),
        (&["DROPPED"], "SHOW DROPPED", hint),
        (&["PENDING"], "SHOW PENDING", "EXPLAIN shows what a statement would change."),
        (&["TAGS"], "SHOW TAGS", "Tags come with a later version."),
        (&["DEFAULT", "PRIVILEGES"], "SHOW DEFAULT PRIVILEGES", "SHOW GRANTS lists what was granted."),
        (&["EFFECTIVE", "POLICY"], "SHOW EFFECTIVE POLICY", "SHOW POLICIES ON table lists the policies of a table."),
        (&["TABLES"], "SHOW TABLES", "The tables of a source are not listed here; SHOW VIEWS lists views."),
        (&["SCHEMAS"], "SHOW SCHEMAS", "The schemas of a source are not listed here; SHOW CATALOGS lists catalogs."),
        (&["COLUMNS"], "SHOW COLUMNS", "The columns of a source are not listed here."),
    ] {
        if c.are(words) {
            return Err(SyntaxError::unsupported(what, hint, span));
        }
    }
    Ok(())
}

/// `AS OF …` reads the past, which comes with a later version.
fn no_as_of(c: &Cursor<'_>) -> Parse<()> {
    if c.are(&["AS", "OF"]) {
        return Err(SyntaxError::unsupported(
            "AS OF",
            "SHOW CHANGES SINCE 0 lists every transaction.",
            c.peek().span(),
        ));
    }
    Ok(())
}

/// `[kind] name`; DESCRIBE is taken.
pub(super) fn describe(c: &mut Cursor<'_>) -> Parse<Describe> {
    let start = c.peek();
    let mark = c.mark();
    let ends_here = |c: &Cursor<'_>| c.at_end() || c.is_mark(b'.');
    if let Ok(kind) = drop::kind(c)
        && !ends_here(c)
    {
        let object = drop::object(c, kind)?;
        return Ok(Describe { kind: Some(kind), object: object.map(DescribeName::Object) });
    }
    c.rewind(mark);
    if c.is("TAG")
        && !matches!(c.peek_nth(1).kind, crate::lexer::TokenKind::End | crate::lexer::TokenKind::Punctuation(_))
    {
        drop::kind(c)?;
    }
    let parts = c.dotted(TableRef::PARTS)?;
    let table = c.table_of(&parts.value)?;
    let name = match parts.value.as_slice() {
        [only] => Some(crate::cursor::named(Name::new(only), only.span)?.value),
        _ => None,
    };
    let none: Option<Kind> = None;
    Ok(Describe { kind: none, object: At::new(DescribeName::Any { name, table }, c.since(start.start)) })
}
