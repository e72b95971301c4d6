//! Passwords into verifiers. Hashing is slow on purpose, so it runs on threads of its own, a few at a time.

use std::sync::Arc;

use dataglot_model::command::{AlterRole, AlterRoleAction, Carrier, CreateRole, OnExisting};
use dataglot_model::{Actor, Command, Name, OrgName, Sealed, Sensitive, Span, SqlState};
use dataglot_planner::Image;
use dataglot_vault::{VaultError, argon2, md5, scram};
use zeroize::Zeroizing;

use crate::compiler::SeenPassword;
use crate::credentials::NewPassword;
use crate::engine::Engine;
use crate::error::SessionError;
use crate::seal::keys::{self, Sealer};

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
    /// It has this verifier, whose text follows, opened; empty where it does not open, and then another password.
    Verifier(SeenPassword, Zeroizing<String>),
    /// The statement will not use the password: the role is there already, or is not.
    Unused,
}

/// What the image holds of the password that `command` sets.
pub(super) fn present(engine: &Engine, image: &Image, actor: &Actor, command: &Command<Sealed>) -> Present {
    let of = |name: &Name| match image.role(name).and_then(|role| role.def.verifier.clone()) {
        Some(verifier) => {
            let opened = keys::open_stored(engine, image, name, &verifier).unwrap_or_default();
            Present::Verifier(SeenPassword { role: name.clone(), verifier }, opened)
        }
        None => Present::None,
    };
    match command.carrier() {
        Some(Carrier::CreateRole(CreateRole { name, on_existing, .. })) => match on_existing {
            OnExisting::Error | OnExisting::Skip if image.role(name).is_some() => Present::Unused,
            OnExisting::Error | OnExisting::Skip | OnExisting::Replace | OnExisting::Alter => of(name),
        },
        Some(Carrier::AlterRole(AlterRole { role, .. })) => match super::selected(role, actor) {
            Some(name) if image.role(&name).is_some() => of(&name),
            Some(_) | None => Present::Unused,
        },
        Some(Carrier::CreateSecret(_) | Carrier::AlterSecret(_)) | None => Present::Unused,
    }
}

/// The verifier of a password of the role `of`, not sealed yet, and what it was compared with if it is the present one.
/// One that was made of the empty password is taken for that: with it anybody could log in (C095).
///
/// # Errors
/// 22023 for a text that is a hash of another method, or a verifier that is none.
pub(super) async fn verifier(
    engine: &Arc<Engine>,
    text: Sensitive,
    of: Option<&Name>,
    kind: PasswordKind,
    present: Present,
) -> Result<(Sealed, Option<SeenPassword>), SessionError> {
    if text.open().is_empty() {
        return Ok((Sealed::EmptyPassword, None));
    }
    if md5::is_verifier(text.open()) && !takes_md5(engine, &present) {
        return Err(SessionError::new(SqlState::InvalidParameterValue, "MD5 passwords are not supported")
            .with_hint("Give the password itself, or a SCRAM-SHA-256 verifier."));
    }
    if scram::is_verifier(text.open()) || argon2::is_verifier(text.open()) || md5::is_verifier(text.open()) {
        let verifier: Arc<str> = text.open().into();
        match present {
            Present::Verifier(seen, opened) if *opened == *verifier => {
                return Ok((Sealed::Unchanged { seen: None }, Some(seen)));
            }
            Present::Unused => return Ok((Sealed::Unchanged { seen: None }, None)),
            Present::Verifier(..) | Present::None => {}
        }
        let (checked, of) = (Arc::clone(&verifier), of.cloned());
        let is_of_nothing = on_pool(engine, move || is_of_nothing(&checked, of.as_ref())).await?;
        let sealed = if is_of_nothing { Sealed::EmptyPassword } else { Sealed::Verifier { text: verifier, by: None } };
        return Ok((sealed, None));
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
        Present::Verifier(seen, opened) => Some((seen, opened)),
        Present::None => None,
    };
    let worker = Arc::clone(engine);
    on_pool(engine, move || {
        if let Some((seen, opened)) = seen
            && matches(kind, &text, &opened)
        {
            return Ok((Sealed::Unchanged { seen: None }, Some(seen)));
        }
        let verifier = match kind {
            PasswordKind::Scram => scram::verifier(&text, worker.config().scram_iterations, worker.entropy()),
            PasswordKind::Argon2id => argon2::verifier(&text, worker.entropy()),
        };
        verifier.map(|v| (Sealed::Verifier { text: v.into(), by: None }, None)).map_err(|e| SessionError::of(&e))
    })
    .await?
}

/// Hashes off the runtime's threads, a few at once.
async fn on_pool<T: Send + 'static>(
    engine: &Engine,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SessionError> {
    let permit = engine.hashing().acquire_owned().await.map_err(|_| SessionError::bug("the hashing pool is closed"))?;
    let hashed = tokio::task::spawn_blocking(move || {
        // Whoever stops waiting for it does not stop it.
        let _permit = permit;
        work()
    });
    hashed.await.map_err(|_| SessionError::bug("hashing a password panicked"))
}

/// Whether a verifier, which was made elsewhere, is the one of the empty password.
fn is_of_nothing(verifier: &str, of: Option<&Name>) -> bool {
    let nothing = Sensitive::new(String::new());
    scram::matches(&nothing, verifier)
        || argon2::matches(&nothing, verifier)
        || of.is_some_and(|name| md5::is_of_nothing(verifier, name.as_str()))
}

/// What the role has for a password after `sealed`, a verifier that is not sealed yet. `None`: what it had.
pub(super) fn new_password(sealed: &Sealed) -> Option<NewPassword> {
    match sealed {
        Sealed::Verifier { text, .. } => Some(NewPassword::Verifier(dataglot_vault::hash(text.as_bytes()).0)),
        Sealed::EmptyPassword => Some(NewPassword::None),
        Sealed::Unchanged { .. } | Sealed::Envelope { .. } => None,
    }
}

/// The verifier, sealed for the role `name` where there is a key.
///
/// # Errors
/// It cannot be sealed.
pub(super) fn seal<'a>(
    engine: &Engine,
    verifier: Sealed,
    name: Option<&Name>,
    org: &OrgName,
    sealer: impl FnOnce() -> Result<Sealer<'a>, VaultError>,
) -> Result<Sealed, SessionError> {
    let Sealed::Verifier { text, by: None } = &verifier else { return Ok(verifier) };
    if !engine.has_key() {
        return Ok(verifier);
    }
    let name = name.ok_or_else(|| SessionError::bug("a password of no role"))?;
    let sealed = sealer().and_then(|sealer| sealer.verifier(org, name, text));
    let (text, by) = sealed.map_err(|e| SessionError::of(&e))?;
    Ok(Sealed::Verifier { text, by: Some(by) })
}

/// A role that is renamed, and whose verifier is sealed for its name.
pub(super) struct Rename {
    pub(super) seen: SeenPassword,
    to: Name,
    at: Span,
}

/// Whether `command` renames a role whose verifier has to be sealed again.
pub(super) fn renamed(command: &Command<Sealed>, image: &Image, actor: &Actor) -> Option<Rename> {
    if let Command::AlterRole(AlterRole { role, action: AlterRoleAction::Rename { to, .. }, .. }) = command {
        let from = super::selected(role, actor)?;
        let role = image.role(&from).filter(|role| role.def.has_sealed_verifier())?;
        let verifier = role.def.verifier.clone()?;
        let is_free = image.role(to).is_none();
        return is_free.then(|| Rename {
            seen: SeenPassword { role: from, verifier },
            to: to.value.clone(),
            at: to.span,
        });
    }
    None
}

/// The same verifier, sealed for the new name.
///
/// # Errors
/// It does not open, or cannot be sealed.
pub(super) fn reseal(engine: &Engine, image: &Image, rename: &Rename) -> Result<Sealed, SessionError> {
    let Rename { seen: SeenPassword { role, verifier }, to, at } = rename;
    let opened = keys::open_stored(engine, image, role, verifier).map_err(|error| match error {
        VaultError::Damaged | VaultError::UnknownForm | VaultError::NoDataKey { .. } => {
            let message = format!("the password of role \"{}\" is damaged and cannot be kept", role.as_str());
            SessionError::new(SqlState::DataCorrupted, message)
                .with_hint("Set it again with ALTER ROLE ... PASSWORD, or remove it with PASSWORD NULL.")
                .at(*at)
        }
        VaultError::NoKey
        | VaultError::WrongKey { .. }
        | VaultError::OtherStore
        | VaultError::KeyForm { .. }
        | VaultError::ValueTooLong { .. }
        | VaultError::EmptyPassword
        | VaultError::PasswordTooLong
        | VaultError::Iterations { .. }
        | VaultError::Entropy(_) => SessionError::of(&error),
    })?;
    let sealed = Sealer::of(engine, image).and_then(|sealer| sealer.verifier(image.org(), to, &opened));
    let (text, by) = sealed.map_err(|e| SessionError::of(&e))?;
    Ok(Sealed::Verifier { text, by: Some(by) })
}

/// Whether an md5 verifier may be stored: one that is brought along, while logins by md5 are configured, and in no
/// better one's place.
fn takes_md5(engine: &Engine, present: &Present) -> bool {
    engine.config().accept_md5
        && match present {
            Present::None | Present::Unused => true,
            Present::Verifier(_, opened) => md5::is_verifier(opened),
        }
}

/// Whether `verifier` is of `text` and of the kind that is wanted: another kind is made anew.
fn matches(kind: PasswordKind, text: &Sensitive, verifier: &str) -> bool {
    match kind {
        PasswordKind::Scram => scram::matches(text, verifier),
        PasswordKind::Argon2id => argon2::matches(text, verifier),
    }
}
