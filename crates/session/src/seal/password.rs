//! Passwords into verifiers. Hashing is slow on purpose, so it runs on threads of its own, a few at a time.

use std::sync::Arc;

use dataglot_model::command::{AlterRole, CreateRole, OnExisting};
use dataglot_model::{Actor, Command, Name, Sealed, Sensitive, SqlState};
use dataglot_planner::Image;
use dataglot_vault::{argon2, scram};

use crate::compiler::SeenPassword;
use crate::engine::Engine;
use crate::error::SessionError;

/// What a password becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordKind {
    /// A verifier that stock clients log in with, without telling the server the password.
    Scram,
    /// One for which the server has to be told the password.
    Argon2id,
}

impl PasswordKind {
    /// What the setting `password_encryption` says.
    pub(crate) fn of_setting(value: Option<&str>) -> Self {
        match value {
            Some("argon2id") => PasswordKind::Argon2id,
            Some(_) | None => PasswordKind::Scram,
        }
    }
}

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
    kind: PasswordKind,
    present: Present,
) -> Result<(Sealed, Option<SeenPassword>), SessionError> {
    if text.open().is_empty() {
        return Ok((Sealed::EmptyPassword, None));
    }
    if scram::looks_like_md5(text.open()) && !takes_md5(engine, &present) {
        return Err(SessionError::new(SqlState::InvalidParameterValue, "MD5 passwords are not supported")
            .with_hint("Give the password itself, or a SCRAM-SHA-256 verifier."));
    }
    if scram::is_verifier(text.open()) || argon2::is_verifier(text.open()) || scram::looks_like_md5(text.open()) {
        let verifier: Arc<str> = text.open().into();
        return Ok(match present {
            Present::Verifier(seen) if seen.verifier == verifier => (Sealed::Unchanged { seen: None }, Some(seen)),
            Present::Unused => (Sealed::Unchanged { seen: None }, None),
            Present::Verifier(_) | Present::None => (Sealed::Verifier(verifier), None),
        });
    }
    if argon2::looks_like_verifier(text.open()) {
        return Err(SessionError::new(SqlState::InvalidParameterValue, "invalid argon2 verifier").with_detail(
            "It has to be one of argon2id, version 19, with m from 7168 to 65536, t from 1 to 8, p from 1 to 4, a salt \
             of 16 bytes or more and a hash of 32.",
        ));
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
            && matches(kind, &text, &seen.verifier)
        {
            return Ok((Sealed::Unchanged { seen: None }, Some(seen)));
        }
        let verifier = match kind {
            PasswordKind::Scram => scram::verifier(&text, worker.config().scram_iterations, worker.entropy()),
            PasswordKind::Argon2id => argon2::verifier(&text, worker.entropy()),
        };
        verifier.map(|v| (Sealed::Verifier(v.into()), None)).map_err(|e| SessionError::of(&e))
    });
    let sealed = hashed.await.map_err(|_| SessionError::bug("hashing a password panicked"))?;
    drop(permit);
    sealed
}

/// Whether an md5 verifier may be stored: one that is brought along, while logins by md5 are configured, and in no
/// better one's place.
fn takes_md5(engine: &Engine, present: &Present) -> bool {
    engine.config().accept_md5
        && match present {
            Present::None | Present::Unused => true,
            Present::Verifier(seen) => scram::looks_like_md5(&seen.verifier),
        }
}

/// Whether `verifier` is of `text` and of the kind that is wanted: another kind is made anew.
fn matches(kind: PasswordKind, text: &Sensitive, verifier: &str) -> bool {
    match kind {
        PasswordKind::Scram => scram::matches(text, verifier),
        PasswordKind::Argon2id => argon2::matches(text, verifier),
    }
}
