//! BEGIN, SET and their kin.

use dataglot_model::{
    At, IsolationLevel, Name, SessionCommand, SetScope, TransactionCommand, TransactionModes, quote_ident,
};

use super::sql::Sql;

pub(super) fn print_transaction(sql: &mut Sql, command: &TransactionCommand) {
    match command {
        TransactionCommand::Begin { start, modes } => {
            sql.word(if *start { "START TRANSACTION" } else { "BEGIN" });
            print_modes(sql, *modes);
        }
        TransactionCommand::Commit { chain } => {
            sql.word("COMMIT").word_if(*chain, "AND CHAIN");
        }
        TransactionCommand::Rollback { chain } => {
            sql.word("ROLLBACK").word_if(*chain, "AND CHAIN");
        }
        TransactionCommand::Savepoint(name) => {
            sql.word("SAVEPOINT").word(&name.value);
        }
        TransactionCommand::Release(name) => {
            sql.word("RELEASE SAVEPOINT").word(&name.value);
        }
        TransactionCommand::RollbackTo(name) => {
            sql.word("ROLLBACK TO SAVEPOINT").word(&name.value);
        }
        TransactionCommand::SetTransaction(modes) => {
            sql.word("SET TRANSACTION");
            print_modes(sql, *modes);
        }
        TransactionCommand::SetCharacteristics(modes) => {
            sql.word("SET SESSION CHARACTERISTICS AS TRANSACTION");
            print_modes(sql, *modes);
        }
    }
}

fn print_modes(sql: &mut Sql, modes: TransactionModes) {
    let TransactionModes { isolation, read_only, deferrable } = modes;
    let isolation = isolation.map(|level| match level {
        IsolationLevel::ReadUncommitted => "ISOLATION LEVEL READ UNCOMMITTED",
        IsolationLevel::ReadCommitted => "ISOLATION LEVEL READ COMMITTED",
        IsolationLevel::RepeatableRead => "ISOLATION LEVEL REPEATABLE READ",
        IsolationLevel::Serializable => "ISOLATION LEVEL SERIALIZABLE",
    });
    let read_only = read_only.map(|yes| if yes { "READ ONLY" } else { "READ WRITE" });
    let deferrable = deferrable.map(|yes| if yes { "DEFERRABLE" } else { "NOT DEFERRABLE" });
    sql.list([isolation, read_only, deferrable].into_iter().flatten(), |sql, mode| {
        sql.word(mode);
    });
}

pub(super) fn print_session(sql: &mut Sql, command: &SessionCommand) {
    match command {
        SessionCommand::Set { scope, name, value } => {
            print_set(sql, *scope).word(setting(&name.value)).word("TO");
            match value {
                Some(value) => sql.string(value),
                None => sql.word("DEFAULT"),
            };
        }
        SessionCommand::Reset(name) => {
            sql.word("RESET").word(setting(&name.value));
        }
        SessionCommand::ResetAll => {
            sql.word("RESET ALL");
        }
        SessionCommand::Show(name) => {
            sql.word("SHOW").word(setting(&name.value));
        }
        SessionCommand::ShowAll => {
            sql.word("SHOW ALL");
        }
        SessionCommand::SetRole { scope, role } => {
            print_set(sql, *scope).word("ROLE");
            print_name(sql, role.as_ref(), "NONE");
        }
        SessionCommand::SetAuthorization { scope, role } => {
            print_set(sql, *scope).word("SESSION AUTHORIZATION");
            print_name(sql, role.as_ref(), "DEFAULT");
        }
        SessionCommand::DiscardAll => {
            sql.word("DISCARD ALL");
        }
        SessionCommand::DiscardNothing(what) => {
            sql.word("DISCARD").word(what);
        }
        SessionCommand::Listen(channel) => {
            sql.word("LISTEN").word(&channel.value);
        }
        SessionCommand::Unlisten(channel) => {
            sql.word("UNLISTEN");
            print_name(sql, channel.as_ref(), "*");
        }
        SessionCommand::Deallocate(name) => {
            sql.word("DEALLOCATE");
            print_name(sql, name.as_ref(), "ALL");
        }
    }
}

fn print_set(sql: &mut Sql, scope: SetScope) -> &mut Sql {
    match scope {
        SetScope::Session => sql.word("SET"),
        SetScope::Local => sql.word("SET LOCAL"),
    }
}

fn print_name(sql: &mut Sql, name: Option<&At<Name>>, otherwise: &str) {
    match name {
        Some(name) => sql.word(&name.value),
        None => sql.word(otherwise),
    };
}

/// A setting's name: dotted, each part quoted where it has to be.
pub(super) fn setting(name: &str) -> String {
    name.split('.').map(quote_ident).collect::<Vec<_>>().join(".")
}
