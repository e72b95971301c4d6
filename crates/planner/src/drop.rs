//! DROP of every kind, and what it takes along.

use std::collections::{BTreeSet, VecDeque};

use dataglot_model::command::{Behavior, DropObjects, OnMissing};
use dataglot_model::def::{GrantKey, PolicyDef};
use dataglot_model::{
    At, Audience, GrantTarget, Grantee, Kind, Name, Notice, ObjectRef, Others, RowKey, Span, SqlState,
};

use crate::image::{kind_of_policy, place_of, policy_ref};
use crate::policy::not_on;
use crate::rename::{audience_mut, change_policy};
use crate::{Draft, Image, PlanError, catalog, dependencies, grant, membership, role};

pub(crate) fn plan_drop(draft: &mut Draft<'_>, c: &DropObjects) -> Result<(), PlanError> {
    let DropObjects { kind, objects, on, on_missing, behavior } = c;
    let mut there: Vec<At<ObjectRef>> = Vec::new();
    for object in objects {
        let found = find(draft, object, on.as_ref(), *on_missing)?;
        if found && !there.iter().any(|other| other.value == object.value) {
            there.push(object.clone());
        }
    }
    let cascade = *behavior == Behavior::Cascade;
    if *kind == Kind::Role {
        return drop_roles(draft, &there, cascade);
    }
    let objects: Vec<ObjectRef> = there.into_iter().map(|at| at.value).collect();
    drop_with_dependents(draft, &objects, cascade)
}

/// Whether the object is there to be dropped; a notice where it need not be.
///
/// # Errors
/// 42704 and its kin, 42809, 42939, 0A000.
fn find(
    draft: &mut Draft<'_>,
    object: &At<ObjectRef>,
    on: Option<&At<ObjectRef>>,
    on_missing: OnMissing,
) -> Result<bool, PlanError> {
    let kind = object.value.kind();
    match &object.value {
        ObjectRef::Catalog(name) => catalog::check_name(&At::new(name.clone(), object.span))?,
        ObjectRef::Mask(name) | ObjectRef::RowFilter(name) => {
            if let Some(policy) = draft.image.policy(name) {
                let found = kind_of_policy(policy.def);
                if found != kind {
                    let name = name.as_str().to_owned();
                    let error = PlanError::WrongKind { name, wanted: kind, found, verb: "DROP", span: None };
                    return Err(error.at(object.span));
                }
                if let Some(on) = on
                    && target_of(policy.def) != on.value
                {
                    let what = not_on(&object.value, &on.value);
                    return missing_on(draft, what, object.span, on_missing).map(|()| false);
                }
            }
        }
        ObjectRef::Role(_) | ObjectRef::Secret(_) | ObjectRef::View(_) => {}
        ObjectRef::Org(_) | ObjectRef::Schema(_) | ObjectRef::Table(_) | ObjectRef::Column(_) => {
            let message = format!("DROP {} is not supported", kind.keyword());
            return Err(PlanError::rule(SqlState::FeatureNotSupported, message).at(object.span));
        }
    }
    if draft.image.header(&object.value).is_some() {
        return Ok(true);
    }
    match on_missing {
        OnMissing::Error => Err(PlanError::undefined(object.value.clone(), object.span)),
        OnMissing::Skip => {
            draft.skip_missing(&object.value);
            Ok(false)
        }
    }
}

/// What the `ON` of a statement on a policy names.
fn target_of(def: &PolicyDef) -> ObjectRef {
    match def {
        PolicyDef::Mask(mask) => match &mask.target {
            dataglot_model::def::MaskTarget::Column(column) => ObjectRef::Column(column.clone()),
        },
        PolicyDef::RowFilter(_) => place_of(def),
    }
}

/// There is a policy of that name, but not on the target that the statement names.
///
/// # Errors
/// 42704, unless the statement says IF EXISTS.
pub(crate) fn missing_on(
    draft: &mut Draft<'_>,
    what: String,
    at: Span,
    on_missing: OnMissing,
) -> Result<(), PlanError> {
    match on_missing {
        OnMissing::Error => Err(PlanError::rule(SqlState::UndefinedObject, format!("{what} does not exist")).at(at)),
        OnMissing::Skip => {
            draft.notice(Notice::note(format!("{what} does not exist, skipping")));
            Ok(())
        }
    }
}

/// Drops `objects`, none of them a role, and with `cascade` all that depends on them.
///
/// # Errors
/// 2BP01 listing all that depends on them, directly or through others.
pub(crate) fn drop_with_dependents(
    draft: &mut Draft<'_>,
    objects: &[ObjectRef],
    cascade: bool,
) -> Result<(), PlanError> {
    let dependents = all_dependents(&draft.image, objects);
    if !dependents.is_empty() && !cascade {
        let list = dependents.iter().map(|(object, on)| format!("{object} depends on {on}")).collect();
        return Err(match objects {
            [one] => PlanError::dependents(one, list),
            [] | [_, _, ..] => PlanError::Dependents {
                message: "cannot drop desired objects because other objects depend on them".to_owned(),
                list,
                hint: "Use DROP ... CASCADE to drop the dependent objects too.".to_owned(),
            },
        });
    }
    let lines: Vec<String> = dependents.iter().map(|(object, _)| object.to_string()).collect();
    draft.notice_cascade(&lines);
    for object in dependents.iter().rev().map(|(object, _)| object).chain(objects) {
        remove(draft, object);
    }
    Ok(())
}

/// What depends on `objects`, nearest first and each once, with what it depends on. The objects themselves
/// are not among them.
fn all_dependents(image: &Image, objects: &[ObjectRef]) -> Vec<(ObjectRef, ObjectRef)> {
    let mut seen: BTreeSet<ObjectRef> = objects.iter().cloned().collect();
    let mut rest: VecDeque<ObjectRef> = objects.iter().cloned().collect();
    let mut found = Vec::new();
    while let Some(object) = rest.pop_front() {
        for dependent in dependencies::users_of(image, &object) {
            if seen.insert(dependent.clone()) {
                rest.push_back(dependent.clone());
                found.push((dependent, object.clone()));
            }
        }
    }
    found
}

/// Deletes an object, the grants on it and the comments below it.
fn remove(draft: &mut Draft<'_>, object: &ObjectRef) {
    grant::drop_grants_of_object(draft, object);
    let mut comments: Vec<ObjectRef> = Vec::new();
    let body = match object {
        ObjectRef::Catalog(name) => {
            comments.extend(draft.image.comments_in_catalog(name).map(|(below, _)| below.clone()));
            Some(RowKey::Catalog(name.clone()))
        }
        ObjectRef::View(name) => {
            grant::drop_grants_of_object(draft, &ObjectRef::Table(name.clone()));
            let columns = draft.image.comments_on_columns(name);
            comments.extend(columns.map(|(column, _)| ObjectRef::Column(column.clone())));
            Some(RowKey::View(name.clone()))
        }
        ObjectRef::Secret(name) => {
            draft.delete(RowKey::PreviousSecret(name.clone()));
            Some(RowKey::Secret(name.clone()))
        }
        ObjectRef::Mask(name) | ObjectRef::RowFilter(name) => Some(RowKey::Policy(name.clone())),
        ObjectRef::Role(name) => {
            draft.image.role(name).map(|role| RowKey::Role { name: name.clone(), login: role.def.login })
        }
        ObjectRef::Org(_) | ObjectRef::Schema(_) | ObjectRef::Table(_) | ObjectRef::Column(_) => None,
    };
    for comment in comments {
        draft.delete(RowKey::Header(comment));
    }
    if let Some(body) = body {
        draft.delete(body);
    }
    draft.delete(RowKey::Header(object.clone()));
}

fn drop_roles(draft: &mut Draft<'_>, roles: &[At<ObjectRef>], cascade: bool) -> Result<(), PlanError> {
    let mut names: Vec<At<Name>> = Vec::new();
    for role in roles {
        if let ObjectRef::Role(name) = &role.value {
            names.push(At::new(name.clone(), role.span));
        }
    }
    let dropped: BTreeSet<Name> = names.iter().map(|at| at.value.clone()).collect();
    for name in &names {
        role::check_not_in_use(draft, name, name.span)?;
    }
    for name in &names {
        let owned: Vec<String> = draft.image.owned_by(name).map(|object| format!("owner of {object}")).collect();
        if cascade {
            if !owned.is_empty() {
                return Err(still_needed(name, owned, "Use REASSIGN OWNED or DROP OWNED first."));
            }
            let widened = widened_by_dropping(&draft.image, name, &dropped);
            if !widened.is_empty() {
                let hint = "Change whom these apply to first: dropping the role would show more to its members.";
                return Err(still_needed(name, widened, hint));
            }
        } else {
            let mut list = owned;
            list.extend(mentions_of(&draft.image, name, &dropped));
            if !list.is_empty() {
                // Memberships alone are no obstacle; where there is one, the list names all that rests on the role.
                list.extend(memberships_of(&draft.image, name));
                let hint = "Use REASSIGN OWNED and DROP OWNED first, or DROP ROLE ... CASCADE.";
                return Err(still_needed(name, list, hint));
            }
        }
    }
    for name in &names {
        if cascade {
            let lines = cut_loose(draft, name, &dropped);
            draft.notice_cascade(&lines);
        }
        membership::drop_memberships_naming(draft, name);
        remove(draft, &ObjectRef::Role(name.value.clone()));
    }
    match names.first() {
        Some(name) => role::check_superuser_left(draft, name),
        None => Ok(()),
    }
}

fn still_needed(role: &Name, list: Vec<String>, hint: &str) -> PlanError {
    let object = ObjectRef::Role(role.clone());
    PlanError::Dependents {
        message: format!("{object} cannot be dropped because some objects depend on it"),
        list,
        hint: hint.to_owned(),
    }
}

/// What keeps a role from being dropped without CASCADE, besides what it owns.
fn mentions_of(image: &Image, name: &Name, dropped: &BTreeSet<Name>) -> Vec<String> {
    let to = Grantee::Role(name.clone());
    let held = image.grants_to(&to).map(|(key, _)| format!("privileges on {}", target_text(&key.target)));
    let made = image
        .grants_by(name)
        .filter(|(key, _)| key.grantee != to)
        .map(|(key, _)| format!("grantor of privileges on {}", target_text(&key.target)));
    let memberships = image
        .memberships_by(name)
        .filter(|key| !dropped.contains(&key.role) && !dropped.contains(&key.member))
        .map(|key| format!("grantor of {}", membership_text(&key.role, &key.member)));
    let audiences = image.policies_naming(name).filter_map(|policy| Some((policy, image.policy(policy)?)));
    let audiences = audiences.map(|(policy, object)| format!("target of {}", policy_ref(policy, object.def)));
    held.chain(made).chain(memberships).chain(audiences).collect()
}

fn membership_text(role: &Name, member: &Name) -> String {
    format!("membership of role \"{}\" in role \"{}\"", member.as_str(), role.as_str())
}

/// A target as messages name it.
pub(crate) fn target_text(target: &GrantTarget) -> String {
    match target {
        GrantTarget::Object(object) => object.to_string(),
        GrantTarget::System | GrantTarget::Pattern { .. } | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => {
            target.to_string()
        }
    }
}

/// A grant as messages name it.
pub(crate) fn grant_text(key: &GrantKey) -> String {
    let who = match &key.grantee {
        Grantee::Public => "PUBLIC".to_owned(),
        Grantee::Role(name) => ObjectRef::Role(name.clone()).to_string(),
    };
    format!("privileges of {who} on {}", target_text(&key.target))
}

/// Takes a role out of grants and audiences; its memberships go with it. Says what goes.
fn cut_loose(draft: &mut Draft<'_>, name: &Name, dropped: &BTreeSet<Name>) -> Vec<String> {
    let image = &draft.image;
    let granted = image
        .memberships_by(name)
        .filter(|key| key.role != *name && key.member != *name && !dropped.contains(&key.role))
        .map(|key| format!("grant of {}", membership_text(&key.role, &key.member)));
    let mut lines: Vec<String> = memberships_of(image, name).chain(granted).collect();
    let policies: Vec<Name> = image.policies_naming(name).cloned().collect();
    lines.extend(grant::drop_grants_naming_role(draft, name).iter().map(grant_text));
    for policy in policies {
        if let Some(object) = draft.image.policy(&policy).map(|p| policy_ref(&policy, p.def)) {
            lines.push(format!("mention of role \"{}\" in {object}", name.as_str()));
        }
        change_policy(draft, &policy, |def| {
            let audience = audience_mut(def);
            if let Some(to) = &mut audience.to {
                to.retain(|grantee| *grantee != Grantee::Role(name.clone()));
            }
            audience.except.retain(|role| role != name);
        });
    }
    lines
}

/// The memberships of the role and in it, in words.
fn memberships_of(image: &Image, name: &Name) -> impl Iterator<Item = String> {
    let of = image.roles_of(name).map(|(key, _)| membership_text(&key.role, &key.member));
    of.chain(image.members_of(name).map(|(key, _)| membership_text(&key.role, &key.member)))
}

/// The policies that hide less once `name` is taken out of their TO: masks, and filters whose others see all
/// rows, where the list would be empty or a member of the role is in it by that role alone.
fn widened_by_dropping(image: &Image, name: &Name, dropped: &BTreeSet<Name>) -> Vec<String> {
    let mut found = Vec::new();
    for policy in image.policies_naming(name) {
        let Some(object) = image.policy(policy) else { continue };
        let (audience, hides_by_list) = match &**object.def {
            PolicyDef::Mask(mask) => (&mask.audience, true),
            PolicyDef::RowFilter(filter) => (&filter.audience, filter.others != Some(Others::NoRows)),
        };
        if hides_by_list && list_shrinks(image, audience, name, dropped) {
            found.push(format!("target of {}", policy_ref(policy, object.def)));
        }
    }
    found
}

/// Whether someone who is left leaves the TO list when `name` is dropped.
fn list_shrinks(image: &Image, audience: &Audience<Grantee, Name>, name: &Name, dropped: &BTreeSet<Name>) -> bool {
    let Some(to) = &audience.to else { return false };
    let gone = |grantee: &Grantee| matches!(grantee, Grantee::Role(role) if dropped.contains(role));
    if !to.contains(&Grantee::Role(name.clone())) || to.contains(&Grantee::Public) {
        return false;
    }
    if to.iter().all(gone) {
        return true;
    }
    let members = image.members_of(name).map(|(key, _)| &key.member).filter(|member| !dropped.contains(*member));
    members.into_iter().any(|member| !stays_in(image, member, audience, dropped))
}

/// Whether `member` is in the list or exempt without any role that is dropped.
fn stays_in(image: &Image, member: &Name, audience: &Audience<Grantee, Name>, dropped: &BTreeSet<Name>) -> bool {
    let mut seen = BTreeSet::from([member.clone()]);
    let mut rest = vec![member.clone()];
    while let Some(role) = rest.pop() {
        let listed = audience.to.iter().flatten().any(|g| matches!(g, Grantee::Role(name) if *name == role));
        if listed || audience.except.contains(&role) {
            return true;
        }
        for (key, _) in image.roles_of(&role) {
            if !dropped.contains(&key.role) && seen.insert(key.role.clone()) {
                rest.push(key.role.clone());
            }
        }
    }
    false
}
