//! `BEGIN` and its kin.

use dataglot_model::{IsolationLevel, TransactionCommand, TransactionModes};

use super::once;
use crate::SyntaxError;
use crate::cursor::{Cursor, Parse};

/// The statement that starts with `word`, which is taken.
pub(super) fn parse(c: &mut Cursor<'_>, word: &str) -> Parse<TransactionCommand> {
    match word {
        "BEGIN" => {
            c.accept_one(&["WORK", "TRANSACTION"]);
            begin(c, false)
        }
        "START" => {
            c.expect(&["TRANSACTION"])?;
            begin(c, true)
        }
        "COMMIT" | "END" => {
            if c.is("PREPARED") {
                return Err(two_phase(c));
            }
            c.accept_one(&["WORK", "TRANSACTION"]);
            Ok(TransactionCommand::Commit { chain: chain(c)? })
        }
        "SAVEPOINT" => c.name().map(TransactionCommand::Savepoint),
        "RELEASE" => {
            c.accept(&["SAVEPOINT"]);
            c.name().map(TransactionCommand::Release)
        }
        _ => {
            if c.is("PREPARED") {
                return Err(two_phase(c));
            }
            c.accept_one(&["WORK", "TRANSACTION"]);
            if c.accept(&["TO"]) {
                c.accept(&["SAVEPOINT"]);
                return c.name().map(TransactionCommand::RollbackTo);
            }
            Ok(TransactionCommand::Rollback { chain: chain(c)? })
        }
    }
}

fn two_phase(c: &Cursor<'_>) -> SyntaxError {
    SyntaxError::unsupported("two-phase commit", "", c.peek().span())
}

fn begin(c: &mut Cursor<'_>, start: bool) -> Parse<TransactionCommand> {
    Ok(TransactionCommand::Begin { start, modes: modes(c)? })
}

/// `[AND [NO] CHAIN]`
fn chain(c: &mut Cursor<'_>) -> Parse<bool> {
    if !c.accept(&["AND"]) {
        return Ok(false);
    }
    let no = c.accept(&["NO"]);
    c.expect(&["CHAIN"])?;
    Ok(!no)
}

/// `mode {[","] mode}`
pub(super) fn modes(c: &mut Cursor<'_>) -> Parse<TransactionModes> {
    let mut modes = TransactionModes::default();
    let mut first = true;
    while !c.at_end() {
        let comma = !first && c.accept_mark(b',');
        let span = c.peek().span();
        if c.is("APPLY") {
            return Err(SyntaxError::unsupported(
                "APPLY",
                "Use CREATE OR REPLACE and CREATE OR ALTER in a plain transaction.",
                span,
            ));
        }
        if c.accept(&["ISOLATION", "LEVEL"]) {
            once(&mut modes.isolation, level(c)?, span)?;
        } else if c.accept(&["READ", "ONLY"]) {
            once(&mut modes.read_only, true, span)?;
        } else if c.accept(&["READ", "WRITE"]) {
            once(&mut modes.read_only, false, span)?;
        } else if c.accept(&["NOT", "DEFERRABLE"]) {
            once(&mut modes.deferrable, false, span)?;
        } else if c.accept(&["DEFERRABLE"]) {
            once(&mut modes.deferrable, true, span)?;
        } else if comma || !first {
            return Err(c.unexpected());
        } else {
            return Ok(modes);
        }
        first = false;
    }
    Ok(modes)
}

fn level(c: &mut Cursor<'_>) -> Parse<IsolationLevel> {
    for (words, level) in [
        (&["SERIALIZABLE"] as &[&str], IsolationLevel::Serializable),
        (&["REPEATABLE", "READ"], IsolationLevel::RepeatableRead),
        (&["READ", "COMMITTED"], IsolationLevel::ReadCommitted),
        (&["READ", "UNCOMMITTED"], IsolationLevel::ReadUncommitted),
    ] {
        if c.accept(words) {
            return Ok(level);
        }
    }
    Err(c.unexpected())
}
