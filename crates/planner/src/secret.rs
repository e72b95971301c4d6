//! CREATE SECRET, ALTER SECRET.
//!
//! A value comes sealed, made against the ciphertext that was there when it was sealed. If another one is
//! there now, the answer is [`PlanError::Stale`]: the session seals again and the statement starts over.

use std::sync::Arc;

use dataglot_model::command::{AlterSecret, CreateSecret, Grace, OnExisting, OnMissing, SecretAction, SecretValue};
use dataglot_model::def::{PreviousSecret, SecretMeta, SecretOrigin};
use dataglot_model::{At, Name, Notice, ObjectRef, Row, RowKey, Sealed, SecretHash, SqlState, Timestamp};

use crate::{Draft, PlanError, platform, rename};

pub(crate) fn plan_create_secret(draft: &mut Draft<'_>, c: &CreateSecret<Sealed>) -> Result<(), PlanError> {
    let CreateSecret { name, on_existing, value, comment } = c;
    let object = ObjectRef::Secret(name.value.clone());
    if draft.image.secret(name).is_some() {
        return match on_existing {
            OnExisting::Error => Err(PlanError::exists(object, name.span)),
            OnExisting::Skip => {
                // Nothing is said of the value: that would tell whether it is the same.
                draft.skip_existing(&object, &[]);
                Ok(())
            }
            OnExisting::Replace | OnExisting::Alter => {
                set_value(draft, name, value, None)?;
                if let Some(comment) = comment {
                    draft.set_comment(&object, Some(comment));
                }
                Ok(())
            }
        };
    }
    let stale = || PlanError::Stale { object: object.clone() };
    let (origin, envelope) = match &value.value {
        SecretValue::Value(Sealed::Envelope { bytes, hash, value_version: 1, seen: None, by }) => {
            draft.bring_key(&object, by.as_ref())?;
            (SecretOrigin::Sealed(*hash), Some((bytes.clone(), *hash)))
        }
        SecretValue::Value(
            Sealed::Envelope { .. } | Sealed::Unchanged { .. } | Sealed::Verifier { .. } | Sealed::EmptyPassword,
        ) => return Err(stale()),
        SecretValue::Env(variable) => {
            platform::may_name_origins(&draft.image)?;
            (SecretOrigin::Env(variable.clone()), None)
        }
        SecretValue::File(path) => {
            platform::may_name_origins(&draft.image)?;
            (SecretOrigin::File(path.clone()), None)
        }
        SecretValue::Redacted => return Err(placeholder(&object).at(value.span)),
    };
    let owner = draft.actor.current_user.clone();
    let mut header = draft.new_header(Some(owner), comment.as_deref());
    header.secret = Some(Box::new(SecretMeta { value_version: 1, origin, set_at: draft.cx.now, previous: None }));
    draft.put_header(object, header);
    if let Some((bytes, hash)) = envelope {
        draft.put(Row::Secret(name.value.clone(), bytes, hash));
    }
    Ok(())
}

pub(crate) fn plan_alter_secret(draft: &mut Draft<'_>, c: &AlterSecret<Sealed>) -> Result<(), PlanError> {
    let AlterSecret { name, on_missing, expected, action } = c;
    let object = ObjectRef::Secret(name.value.clone());
    if draft.image.secret(name).is_none() {
        return match on_missing {
            OnMissing::Error => Err(PlanError::undefined(object, name.span)),
            OnMissing::Skip => {
                draft.skip_missing(&object);
                Ok(())
            }
        };
    }
    draft.check_version(&object, expected)?;
    drop_expired(draft, name);
    match action {
        SecretAction::Value { value, grace } => {
            if !set_value(draft, name, value, *grace)? && grace.is_none() {
                // The value is the one that is there. The one before it goes all the same.
                drop_previous(draft, name);
            }
            Ok(())
        }
        SecretAction::Owner(role) => {
            let owner = draft.resolve_role(role)?;
            crate::owned::set_owner(draft, &object, &owner);
            Ok(())
        }
        SecretAction::Rename { to, resealed, resealed_previous } => {
            if draft.image.secret(to).is_some() {
                return Err(PlanError::exists(ObjectRef::Secret(to.value.clone()), to.span));
            }
            rename_secret(draft, name, to, resealed.as_ref(), resealed_previous.as_ref())
        }
    }
}

/// Gives an existing secret a value. False: it is the one that is there, and nothing was changed. The value
/// before it is kept as `grace` says.
fn set_value(
    draft: &mut Draft<'_>,
    name: &At<Name>,
    value: &At<SecretValue<Sealed>>,
    grace: Option<Grace>,
) -> Result<bool, PlanError> {
    let object = ObjectRef::Secret(name.value.clone());
    let Some(secret) = draft.image.secret(name) else {
        return Err(PlanError::undefined(object, name.span));
    };
    let old = secret.meta.clone();
    let next = old.value_version.saturating_add(1);
    let present = draft.image.sealed_hash(name);
    let stale = || Err(PlanError::Stale { object: object.clone() });
    let mut envelope = None;
    let origin = match &value.value {
        SecretValue::Value(Sealed::Envelope { bytes, hash, value_version, seen, by }) => {
            if *seen != present || *value_version != next {
                return stale();
            }
            draft.bring_key(&object, by.as_ref())?;
            envelope = Some((bytes.clone(), *hash));
            SecretOrigin::Sealed(*hash)
        }
        SecretValue::Value(Sealed::Unchanged { seen }) => {
            if *seen != present || present.is_none() {
                return stale();
            }
            return Ok(false);
        }
        SecretValue::Value(Sealed::Verifier { .. } | Sealed::EmptyPassword) => return stale(),
        SecretValue::Env(variable) => {
            platform::may_name_origins(&draft.image)?;
            SecretOrigin::Env(variable.clone())
        }
        SecretValue::File(path) => {
            platform::may_name_origins(&draft.image)?;
            SecretOrigin::File(path.clone())
        }
        SecretValue::Redacted => return Ok(false),
    };
    if origin == old.origin && envelope.is_none() {
        return Ok(false);
    }
    let former = match grace {
        Some(grace) => keep_former(draft, name, &old, grace),
        None => {
            draft.delete(RowKey::PreviousSecret(name.value.clone()));
            None
        }
    };
    let (now, previous) = (draft.cx.now, former.map(Box::new));
    draft.touch_header(&object, |header| {
        header.secret = Some(Box::new(SecretMeta { value_version: next, origin, set_at: now, previous }));
    });
    match envelope {
        Some((bytes, hash)) => draft.put(Row::Secret(name.value.clone(), bytes, hash)),
        None => draft.delete(RowKey::Secret(name.value.clone())),
    }
    Ok(true)
}

fn rename_secret(
    draft: &mut Draft<'_>,
    name: &At<Name>,
    to: &At<Name>,
    resealed: Option<&Sealed>,
    resealed_previous: Option<&Sealed>,
) -> Result<(), PlanError> {
    let (from, target) = (ObjectRef::Secret(name.value.clone()), ObjectRef::Secret(to.value.clone()));
    let Some(mut meta) = draft.image.secret(name).map(|s| s.meta.clone()) else {
        return Err(PlanError::undefined(from, name.span));
    };
    let present = draft.image.sealed_hash(name);
    let mut envelope = None;
    if present.is_some() {
        if draft.image.is_unreadable(name) {
            let message = format!("the value of {from} is damaged and cannot be sealed for another name");
            let error = PlanError::rule(SqlState::DataCorrupted, message);
            return Err(error.with_hint("Set it again with ALTER SECRET ... AS.").at(name.span));
        }
        let kept = meta.value_version;
        match resealed {
            Some(Sealed::Envelope { bytes, hash, value_version, seen, by })
                if *seen == present && (*value_version == kept || *value_version == kept.saturating_add(1)) =>
            {
                draft.bring_key(&from, by.as_ref())?;
                (meta.value_version, meta.origin) = (*value_version, SecretOrigin::Sealed(*hash));
                envelope = Some((bytes.clone(), *hash));
            }
            Some(
                Sealed::Envelope { .. } | Sealed::Unchanged { .. } | Sealed::Verifier { .. } | Sealed::EmptyPassword,
            )
            | None => return Err(PlanError::Stale { object: from }),
        }
    }
    let previous = resealed_former(draft, name, &mut meta, resealed_previous)?;
    draft.delete(RowKey::PreviousSecret(name.value.clone()));
    draft.delete(RowKey::Secret(name.value.clone()));
    draft.move_header(&from, &target);
    draft.amend_header(&target, |header| header.secret = Some(Box::new(meta)));
    if let Some((bytes, hash)) = envelope {
        draft.put(Row::Secret(to.value.clone(), bytes, hash));
    }
    if let Some((bytes, hash)) = previous {
        draft.put(Row::PreviousSecret(to.value.clone(), bytes, hash));
    }
    rename::secret_in_catalogs(draft, name, to);
    crate::grant::rename_object(draft, &from, &target);
    Ok(())
}

/// Keeps the value that `name` has had until now, for as long as `grace` says; tells where it cannot. Called after
/// the new value was judged, and before it is put.
fn keep_former(draft: &mut Draft<'_>, name: &Name, old: &SecretMeta, grace: Grace) -> Option<PreviousSecret> {
    match draft.image.row(&RowKey::Secret(name.clone())) {
        _ if draft.image.is_unreadable(name) => {
            let object = ObjectRef::Secret(name.clone());
            draft.notice(Notice::note(format!("the former value of {object} is damaged and is not kept")));
            draft.delete(RowKey::PreviousSecret(name.clone()));
            return None;
        }
        Some(Row::Secret(_, bytes, hash)) => draft.put(Row::PreviousSecret(name.clone(), bytes, hash)),
        Some(_) | None => draft.delete(RowKey::PreviousSecret(name.clone())),
    }
    let micros = i64::from(grace.seconds()).saturating_mul(1_000_000);
    let until = Timestamp(draft.cx.now.0.saturating_add(micros));
    Some(PreviousSecret { value_version: old.value_version, origin: old.origin.clone(), until })
}

/// The value before the present one is not kept any longer.
pub(crate) fn drop_previous(draft: &mut Draft<'_>, name: &Name) {
    let object = ObjectRef::Secret(name.clone());
    if draft.image.secret(name).is_some_and(|secret| secret.meta.previous.is_some()) {
        draft.touch_header(&object, |header| {
            if let Some(meta) = &mut header.secret {
                meta.previous = None;
            }
        });
    }
    draft.delete(RowKey::PreviousSecret(name.clone()));
}

/// What may not be resolved any more goes with the next statement on the secret.
fn drop_expired(draft: &mut Draft<'_>, name: &Name) {
    let now = draft.cx.now;
    if draft.image.secret(name).is_some_and(|secret| secret.meta.previous_at(now).is_none()) {
        drop_previous(draft, name);
    }
}

/// A ciphertext and its hash.
type Ciphertext = (Arc<[u8]>, SecretHash);

/// The value before the present one, as it goes to another name with it. One that is damaged stays behind.
fn resealed_former(
    draft: &mut Draft<'_>,
    name: &Name,
    meta: &mut SecretMeta,
    resealed: Option<&Sealed>,
) -> Result<Option<Ciphertext>, PlanError> {
    let from = ObjectRef::Secret(name.clone());
    let (Some(previous), Some(present)) = (&mut meta.previous, draft.image.previous_hash(name)) else {
        return Ok(None);
    };
    if draft.image.is_previous_unreadable(name) {
        draft.notice(Notice::note(format!("the former value of {from} is damaged and is not kept")));
        meta.previous = None;
        return Ok(None);
    }
    match resealed {
        Some(Sealed::Envelope { bytes, hash, value_version, seen, by })
            if *seen == Some(present) && *value_version == previous.value_version =>
        {
            draft.bring_key(&from, by.as_ref())?;
            previous.origin = SecretOrigin::Sealed(*hash);
            Ok(Some((bytes.clone(), *hash)))
        }
        Some(Sealed::Envelope { .. } | Sealed::Unchanged { .. } | Sealed::Verifier { .. } | Sealed::EmptyPassword)
        | None => Err(PlanError::Stale { object: from }),
    }
}

/// The answer to `REDACTED` where there is no value to keep.
fn placeholder(object: &ObjectRef) -> PlanError {
    PlanError::rule(SqlState::InvalidParameterValue, format!("REDACTED stands for a value, and {object} has none"))
        .with_hint("Give the value: AS '...', AS ENV '...' or AS FILE '...'.")
}
