//! Passwords into verifiers. Hashing is slow on purpose, so it runs on threads of its own, a few at a time.

use std::sync::Arc;

use dataglot_model::command::{AlterRole, CreateRole, OnExisting};
use dataglot_model::{Actor, Command, Name, Sealed, Sensitive, SqlState};
use dataglot_planner::Image;
use dataglot_vault::scram;

use crate::compiler::SeenPassword;
use crate::engine::Engine;
use crate::error::SessionError;

/// What is known of the role whose password is set.
pub(super) enum Present {
    /// It has no password to compare with.
    None,
    /// It has this verifier.
    Verifier(SeenPassword),
    /// The statement will not use the password: the role is there already, or is not.
    Unused,
}

/// What the image holds of the password that `command` sets.
pub(super) fn present(image: &Image, actor: &Actor, command: &Command<Sealed>) -> Present {
    let of = |name: &Name| match image.role(name).and_then(|role| role.def.verifier.clone()) {
        Some(verifier) => Present::Verifier(SeenPassword { role: name.clone(), verifier }),
        None => Present::None,
    };
    match command {
        Command::CreateRole(CreateRole { name, on_existing, .. }) => match on_existing {
            OnExisting::Error | OnExisting::Skip if image.role(name).is_some() => Present::Unused,
            OnExisting::Error | OnExisting::Skip | OnExisting::Replace | OnExisting::Alter => of(name),
        },
        Command::AlterRole(AlterRole { role, .. }) => match super::selected(role, actor) {
            Some(name) if image.role(&name).is_some() => of(&name),
            Some(_) | None => Present::Unused,
        },
        Command::CreateCatalog(_)
        | Command::AlterCatalog(_)
        | Command::CreateSecret(_)
        | Command::AlterSecret(_)
        | Command::CreateMask(_)
        | Command::AlterMask(_)
        | Command::CreateRowFilter(_)
        | Command::AlterRowFilter(_)
        | Command::CreateView(_)
        | Command::AlterView(_)
        | Command::Drop(_)
        | Command::GrantPrivileges(_)
        | Command::RevokePrivileges(_)
        | Command::GrantMembership(_)
        | Command::RevokeMembership(_)
        | Command::Comment(_)
        | Command::ReassignOwned(_)
        | Command::DropOwned(_) => Present::Unused,
    }
}

/// The form in which a password is stored, and what it was compared with if it is the present one.
///
/// # Errors
/// 22023 for a text that is a hash of another method, or a verifier that is none.
pub(super) async fn seal(
    engine: &Arc<Engine>,
    text: Sensitive,
    present: Present,
) -> Result<(Sealed, Option<SeenPassword>), SessionError> {
    if text.open().is_empty() {
        return Ok((Sealed::EmptyPassword, None));
    }
    if scram::looks_like_md5(text.open()) {
        return Err(SessionError::new(SqlState::InvalidParameterValue, "MD5 passwords are not supported")
            .with_hint("Give the password itself, or a SCRAM-SHA-256 verifier."));
    }
    if scram::is_verifier(text.open()) {
        let verifier: Arc<str> = text.open().into();
        return Ok(match present {
            Present::Verifier(seen) if seen.verifier == verifier => (Sealed::Unchanged { seen: None }, Some(seen)),
            Present::Unused => (Sealed::Unchanged { seen: None }, None),
            Present::Verifier(_) | Present::None => (Sealed::Verifier(verifier), None),
        });
    }
    if scram::looks_like_verifier(text.open()) {
        return Err(SessionError::new(SqlState::InvalidParameterValue, "invalid SCRAM-SHA-256 verifier").with_detail(
            "It needs 4,096 to 1,000,000 iterations, a salt of 16 bytes or more and two keys of 32 bytes.",
        ));
    }
    let seen = match present {
        Present::Unused => return Ok((Sealed::Unchanged { seen: None }, None)),
        Present::Verifier(seen) => Some(seen),
        Present::None => None,
    };
    let permit = engine.hashing().acquire().await.map_err(|_| SessionError::bug("the hashing pool is closed"))?;
    let worker = Arc::clone(engine);
    let hashed = tokio::task::spawn_blocking(move || {
        if let Some(seen) = seen
            && scram::matches(&text, &seen.verifier)
        {
            return Ok((Sealed::Unchanged { seen: None }, Some(seen)));
        }
        let verifier = scram::verifier(&text, worker.config().scram_iterations, worker.entropy());
        verifier.map(|v| (Sealed::Verifier(v.into()), None)).map_err(|e| SessionError::of(&e))
    });
    let sealed = hashed.await.map_err(|_| SessionError::bug("hashing a password panicked"))?;
    drop(permit);
    sealed
}
