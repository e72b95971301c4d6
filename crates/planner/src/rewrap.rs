//! REWRAP SECRETS: rows whose bytes change and whose meaning does not.
//!
//! Each comes with what it was made from. One that has changed since is left as it is: whoever changed it wrote
//! it with the keys of today, or it is found when the statement looks for what is left.

use std::sync::Arc;

use dataglot_model::def::{RoleDef, SecretOrigin};
use dataglot_model::{Actor, Name, ObjectRef, Row, SealedBy, SecretHash};

use crate::authorize::authorize_rewrap;
use crate::{Draft, Image, Plan, PlanCx, PlanError};

/// The command tag.
pub const REWRAP_TAG: &str = "REWRAP SECRETS";

/// A row to be written anew.
#[derive(Clone)]
pub enum Rewrapped {
    /// A data key, wrapped under another master key.
    DataKey {
        /// Its number.
        no: u32,
        /// Hash of what it was made from.
        seen: SecretHash,
        /// As it is stored.
        wrapped: Arc<[u8]>,
        /// Hash of that.
        hash: SecretHash,
    },
    /// A secret's value, sealed with another data key.
    Secret {
        /// Whose.
        name: Name,
        /// It is the value before the present one.
        is_previous: bool,
        /// Hash of what it was made from.
        seen: SecretHash,
        /// As it is stored.
        envelope: Arc<[u8]>,
        /// Hash of that.
        hash: SecretHash,
    },
    /// A password's verifier, sealed with a data key.
    Verifier {
        /// Whose.
        role: Name,
        /// What it was made from.
        seen: Arc<str>,
        /// As it is stored.
        text: Arc<str>,
    },
}

/// Some rows, and the data key that values and verifiers among them are sealed with.
#[derive(Clone, Default)]
pub struct RewrapBatch {
    /// `None`: there are only data keys.
    pub by: Option<SealedBy>,
    /// The rows.
    pub rows: Vec<Rewrapped>,
}

/// Plans a batch.
///
/// # Errors
/// The actor may not; [`PlanError::Stale`]: the org has another data key by now.
pub fn plan_rewrap(image: &Image, cx: &PlanCx, actor: &Actor, batch: &RewrapBatch) -> Result<(Plan, Image), PlanError> {
    let actor = authorize_rewrap(image, actor)?;
    let mut draft = Draft::new(image.clone(), cx, &actor);
    draft.bring_key(&ObjectRef::Org(image.org().clone()), batch.by.as_ref())?;
    for row in &batch.rows {
        match row {
            Rewrapped::DataKey { no, seen, wrapped, hash } => {
                if draft.image.data_key(*no).is_some_and(|(_, found)| found == *seen) {
                    draft.put(Row::DataKey(*no, Arc::clone(wrapped), *hash));
                }
            }
            Rewrapped::Secret { name, is_previous: false, seen, envelope, hash } => {
                put_secret(&mut draft, name, *seen, envelope, *hash);
            }
            Rewrapped::Secret { name, is_previous: true, seen, envelope, hash } => {
                put_previous(&mut draft, name, *seen, envelope, *hash);
            }
            Rewrapped::Verifier { role, seen, text } => {
                let def = draft.image.role(role).map(|o| Arc::clone(o.def));
                if let Some(def) = def.filter(|def| def.verifier.as_ref() == Some(seen)) {
                    let verifier = Some(Arc::clone(text));
                    draft.put(Row::Role(role.clone(), Arc::new(RoleDef { verifier, ..RoleDef::clone(&def) })));
                }
            }
        }
    }
    Ok(draft.finish(REWRAP_TAG))
}

/// The value is the same: its number stays, and so does the secret's version.
fn put_secret(draft: &mut Draft<'_>, name: &Name, seen: SecretHash, envelope: &Arc<[u8]>, hash: SecretHash) {
    if draft.image.sealed_hash(name) != Some(seen) || draft.image.is_unreadable(name) {
        return;
    }
    draft.amend_header(&ObjectRef::Secret(name.clone()), |header| {
        if let Some(meta) = &mut header.secret {
            meta.origin = SecretOrigin::Sealed(hash);
        }
    });
    draft.put(Row::Secret(name.clone(), Arc::clone(envelope), hash));
}

/// As [`put_secret`], for the value before the present one.
fn put_previous(draft: &mut Draft<'_>, name: &Name, seen: SecretHash, envelope: &Arc<[u8]>, hash: SecretHash) {
    if draft.image.previous_hash(name) != Some(seen) || draft.image.is_previous_unreadable(name) {
        return;
    }
    draft.amend_header(&ObjectRef::Secret(name.clone()), |header| {
        if let Some(previous) = header.secret.as_mut().and_then(|meta| meta.previous.as_mut()) {
            previous.origin = SecretOrigin::Sealed(hash);
        }
    });
    draft.put(Row::PreviousSecret(name.clone(), Arc::clone(envelope), hash));
}
