//! Orgs: tenants, which only the org `default` knows of.

use std::sync::Arc;

use dataglot_model::command::{Behavior, OnExisting, OnMissing, PasswordChange};
use dataglot_model::def::{Header, ObjectId, RoleDef, Stamp};
use dataglot_model::{
    At, Mutation, Name, Notice, ObjectRef, OrgCommand, OrgName, Row, RowKey, Sealed, Seq, SqlState, Timestamp,
};

use crate::{AuthorizedOrg, Draft, Image, Plan, PlanCx, PlanError};

/// The first superuser of an org for which the statement names none.
pub const FIRST_SUPERUSER: &str = "admin";

/// What a statement on orgs changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrgPlan {
    /// In the org `default`.
    pub plan: Plan,
    /// In the org that it names.
    pub effect: OrgEffect,
}

/// What happens to the org that a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrgEffect {
    /// Nothing.
    Nothing,
    /// It is made.
    Create {
        /// Its name.
        name: OrgName,
        /// Its identity.
        org_id: u64,
        /// What is in it, as its transaction 1.
        mutations: Vec<Mutation>,
    },
    /// It goes, with all that is in it.
    Drop {
        /// Its name.
        name: OrgName,
    },
}

/// Plans a statement on orgs. `image` is that of the org `default`, `target` that of the org named, if it exists.
///
/// # Errors
/// [`PlanError`]: the statement is refused.
pub fn plan_org(
    image: &Image,
    target: Option<&Image>,
    cx: &PlanCx,
    authorized: AuthorizedOrg<'_>,
) -> Result<OrgPlan, PlanError> {
    let (command, actor) = authorized.parts();
    let mut draft = Draft::new(image.clone(), cx, &actor);
    let effect = match command {
        OrgCommand::Create { name, on_existing, admin, password } => {
            create(&mut draft, name, *on_existing, admin.as_ref(), password.as_ref())?
        }
        OrgCommand::Drop { name, on_missing, behavior } => drop(&mut draft, target, name, *on_missing, *behavior)?,
    };
    let (plan, _) = draft.finish(command.tag());
    Ok(OrgPlan { plan, effect })
}

fn create(
    draft: &mut Draft<'_>,
    name: &At<OrgName>,
    on_existing: OnExisting,
    admin: Option<&At<Name>>,
    password: Option<&At<PasswordChange<Sealed>>>,
) -> Result<OrgEffect, PlanError> {
    let object = ObjectRef::Org(name.value.clone());
    if draft.image.org_exists(name) {
        return match on_existing {
            OnExisting::Skip => {
                draft.skip_existing(&object, &[]);
                Ok(OrgEffect::Nothing)
            }
            OnExisting::Error | OnExisting::Replace | OnExisting::Alter => Err(PlanError::exists(object, name.span)),
        };
    }
    let admin = match admin {
        Some(admin) => {
            crate::role::check_name(admin)?;
            admin.value.clone()
        }
        None => Name::new(FIRST_SUPERUSER)
            .map_err(|_| PlanError::rule(SqlState::InvalidName, "no name for the first superuser"))?,
    };
    let (mut verifier, mut key) = (None, None);
    match password.map(|p| &p.value) {
        None | Some(PasswordChange::Remove) => {}
        Some(PasswordChange::Set(sealed)) => match sealed {
            Sealed::Verifier { text, by } => {
                verifier = Some(text.clone());
                key = by.as_ref().and_then(|by| Some(Row::DataKey(by.no, by.made.clone()?, by.hash)));
            }
            Sealed::EmptyPassword => draft.notice(Notice::note(crate::role::EMPTY_PASSWORD)),
            Sealed::Envelope { .. } | Sealed::Unchanged { .. } => {
                return Err(PlanError::Stale { object: ObjectRef::Role(admin) });
            }
        },
    }
    let header = draft.new_header(None, None);
    let org_id = header.id.0;
    draft.put_header(object, header);
    let mut mutations = initial_superuser(&admin, verifier, draft.cx.now);
    mutations.extend(key.map(Mutation::Put));
    Ok(OrgEffect::Create { name: name.value.clone(), org_id, mutations })
}

fn drop(
    draft: &mut Draft<'_>,
    target: Option<&Image>,
    name: &At<OrgName>,
    on_missing: OnMissing,
    behavior: Behavior,
) -> Result<OrgEffect, PlanError> {
    let object = ObjectRef::Org(name.value.clone());
    if name.is_default() {
        return Err(PlanError::rule(SqlState::ObjectInUse, "cannot drop the currently open org").at(name.span));
    }
    if !draft.image.org_exists(name) {
        return match on_missing {
            OnMissing::Skip => {
                draft.skip_missing(&object);
                Ok(OrgEffect::Nothing)
            }
            OnMissing::Error => Err(PlanError::undefined(object, name.span)),
        };
    }
    let inside = target.map(inventory).unwrap_or_default();
    if behavior == Behavior::Restrict && !inside.is_empty() {
        return Err(PlanError::Dependents {
            message: format!("cannot drop {object} because it is not empty"),
            list: inside,
            hint: "Use DROP ORG ... CASCADE to drop all that is in it too.".to_owned(),
        });
    }
    draft.delete(RowKey::Header(object));
    Ok(OrgEffect::Drop { name: name.value.clone() })
}

/// What an org holds besides its first superuser, a line a kind.
fn inventory(image: &Image) -> Vec<String> {
    let counts = [
        (image.roles().count().saturating_sub(1), "role"),
        (image.secrets().count(), "secret"),
        (image.catalogs().count(), "catalog"),
        (image.views().count(), "view"),
        (image.policies().count(), "mask or row filter"),
        (image.comments().count(), "comment"),
        (image.grants().count(), "grant"),
        (image.memberships().count(), "membership"),
    ];
    let line = |(count, noun): (usize, &str)| match count {
        0 => None,
        1 => Some(format!("1 {noun}")),
        n => Some(match noun {
            "mask or row filter" => format!("{n} masks and row filters"),
            noun => format!("{n} {noun}s"),
        }),
    };
    counts.into_iter().filter_map(line).collect()
}

/// The first superuser of a new org, as its transaction 1: identity 1, made by itself.
pub fn initial_superuser(name: &Name, verifier: Option<Arc<str>>, now: Timestamp) -> Vec<Mutation> {
    let stamp = Stamp { seq: Seq(1), at: now, by: name.clone() };
    let header = Header {
        id: ObjectId(1),
        owner: None,
        comment: None,
        version: 1,
        created: stamp.clone(),
        changed: stamp,
        secret: None,
        extra: None,
    };
    let def = RoleDef { superuser: true, createrole: true, login: true, verifier, ..RoleDef::default() };
    vec![
        Mutation::Put(Row::Header(ObjectRef::Role(name.clone()), Arc::new(header))),
        Mutation::Put(Row::Role(name.clone(), Arc::new(def))),
    ]
}

/// The actor that the first superuser of a new org is.
#[cfg(test)]
pub(crate) fn initial_actor(name: &Name) -> dataglot_model::Actor {
    dataglot_model::Actor {
        session_user: name.clone(),
        session_user_id: ObjectId(1),
        current_user: name.clone(),
        current_user_id: ObjectId(1),
    }
}
