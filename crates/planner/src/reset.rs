//! The reset of what no key opens any more, after the master key was lost.
//!
//! A lost value's ciphertext goes, and the secret stays with its name, its number, its owner, its grants and all that
//! refers to it, until it is given a new value. A lost verifier goes: that user has no password. What is there by then
//! needs no key that is lost.

use std::sync::Arc;

use dataglot_model::def::RoleDef;
use dataglot_model::{Actor, Name, ObjectRef, Row, RowKey};

use crate::secret::drop_previous;
use crate::{Draft, Image, Plan, PlanCx};

/// The statement, as history has it.
pub const RESET_TAG: &str = "RESET SECRETS";

/// What no key opens. Whoever finds it knows the keys; the planner does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Data keys, by their numbers.
    pub data_keys: Vec<u32>,
    /// Secrets whose value is lost.
    pub secrets: Vec<Name>,
    /// Secrets whose value before the present one is lost.
    pub former: Vec<Name>,
    /// Roles whose password is lost.
    pub passwords: Vec<Name>,
}

impl Lost {
    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        let Lost { data_keys, secrets, former, passwords } = self;
        data_keys.is_empty() && secrets.is_empty() && former.is_empty() && passwords.is_empty()
    }
}

/// Marks as lost what is. `actor` is who history says it was: nobody is logged in.
pub fn plan_reset(image: &Image, cx: &PlanCx, actor: &Actor, lost: &Lost) -> (Plan, Image) {
    let Lost { data_keys, secrets, former, passwords } = lost;
    let mut draft = Draft::new(image.clone(), cx, actor);
    for name in former {
        drop_previous(&mut draft, name);
    }
    for name in secrets {
        draft.touch_header(&ObjectRef::Secret(name.clone()), |_| {});
        draft.delete(RowKey::Secret(name.clone()));
    }
    for name in passwords {
        let Some(def) = draft.image.role(name).map(|role| Arc::clone(role.def)) else { continue };
        draft.touch_header(&ObjectRef::Role(name.clone()), |_| {});
        draft.put(Row::Role(name.clone(), Arc::new(RoleDef { verifier: None, ..RoleDef::clone(&def) })));
    }
    for no in data_keys {
        draft.delete(RowKey::DataKey(*no));
    }
    draft.finish(RESET_TAG)
}
