//! Which statements answer what somebody may do. On an image that may be too old they are not answered
//! at all: a right that was taken away would still seem to be there.

use dataglot_model::{Read, SessionCommand, Show, ShowGrants, SqlState, Statement};

use crate::error::SessionError;

/// Whether the answer to `statement` is a decision on rights, or tells what one would come to. Lists of what
/// is recorded are none. Neither are changes: those are decided on the store's own state.
pub(crate) fn decides_access<V>(statement: &Statement<V>) -> bool {
    match statement {
        Statement::Read(read) => match read {
            Read::Show(show) => match show {
                Show::Grants(form) => match form {
                    ShowGrants::For(_) => true,
                    ShowGrants::All | ShowGrants::On(_) | ShowGrants::To(_) | ShowGrants::Of(_) => false,
                },
                Show::CurrentRoles => true,
                Show::Objects { .. }
                | Show::RoleGrants
                | Show::Create(_)
                | Show::Dependencies { .. }
                | Show::Changes { .. }
                | Show::TransactionStatus(_)
                | Show::Orgs
                | Show::SecretKeys
                | Show::SecretProblems => false,
            },
            Read::Describe(_) => false,
            // It judges the rights of the statement that it explains.
            Read::Explain(_) => true,
        },
        Statement::Session(command) => match command {
            SessionCommand::SetRole { role, .. } | SessionCommand::SetAuthorization { role, .. } => role.is_some(),
            SessionCommand::Set { name, value, .. } => value.is_some() && names_identity(name),
            SessionCommand::Reset(_)
            | SessionCommand::ResetAll
            | SessionCommand::Show(_)
            | SessionCommand::ShowAll
            | SessionCommand::DiscardAll
            | SessionCommand::DiscardNothing(_)
            | SessionCommand::Listen(_)
            | SessionCommand::Unlisten(_)
            | SessionCommand::Deallocate(_) => false,
        },
        // None of the functions of the small SELECT answers such a question; a test sees to it.
        Statement::Select(_) => false,
        Statement::Change(_) | Statement::Org(_) | Statement::Transaction(_) | Statement::Rewrap => false,
    }
}

/// Whether a statement that changes nothing in the store may be refused for want of a right.
pub(crate) fn may_be_denied<V>(statement: &Statement<V>) -> bool {
    decides_access(statement)
        || matches!(statement, Statement::Read(Read::Show(Show::Changes { .. } | Show::Orgs | Show::SecretKeys)))
}

/// `SET role = …` is SET ROLE in other words.
fn names_identity(name: &str) -> bool {
    ["role", "session_authorization"].iter().any(|n| name.eq_ignore_ascii_case(n))
}

/// Nobody is let in, and no right is confirmed.
pub(crate) fn closed(age: std::time::Duration) -> SessionError {
    SessionError::new(
        SqlState::CannotConnectNow,
        format!("the meta store has not been reached for {} s, so what anybody may do is not known", age.as_secs()),
    )
    .with_hint("Lists and other reads go on. Try again when the meta store can be reached.")
}

#[cfg(test)]
mod tests {
    use dataglot_grammar::{Limits, Parameters, ParseCx, parse};
    use dataglot_model::SchemaRef;

    use super::*;

    #[track_caller]
    fn check(sql: &str, want: bool) {
        let (limits, path) = (Limits::default(), SchemaRef::default_schema());
        let cx = ParseCx { search_path: &path, parameters: Parameters::None, limits: &limits };
        let parsed = parse(sql, 0..sql.len(), &cx).unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(decides_access(&parsed.statement), want, "{sql}");
    }

    #[test]
    fn h07_what_depends_on_rights_is_told_from_what_lists_them() {
        for sql in [
            "SHOW EFFECTIVE GRANTS FOR u",
            "SHOW GRANTS FOR PUBLIC",
            "SHOW CURRENT ROLES",
            "EXPLAIN DROP ROLE r",
            "SET ROLE r",
            "SET LOCAL ROLE r",
            "SET SESSION AUTHORIZATION u",
            "SET role = 'r'",
            "SET session_authorization = 'u'",
        ] {
            check(sql, true);
        }
        for sql in [
            "SHOW GRANTS",
            "SHOW GRANTS ON CATALOG c",
            "SHOW GRANTS TO u",
            "SHOW GRANTS OF r",
            "SHOW ROLE GRANTS",
            "SHOW ROLES",
            "SHOW MASKS",
            "SHOW CREATE ROLE r",
            "SHOW CHANGES SINCE 0",
            "DESCRIBE ROLE r",
            "SHOW is_superuser",
            "SELECT 1",
            "SET ROLE NONE",
            "RESET ROLE",
            "SET SESSION AUTHORIZATION DEFAULT",
            "DISCARD ALL",
            "SET search_path = a",
            "GRANT r TO u",
            "CREATE ROLE r",
            "BEGIN",
        ] {
            check(sql, false);
        }
    }
}
