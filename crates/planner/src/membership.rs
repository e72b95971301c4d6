//! GRANT and REVOKE of membership.
//!
//! A membership has one set of options for each grantor. The graph of memberships has no cycle: each plan is
//! made on the newest image, so two transactions cannot each add a half of one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dataglot_model::command::{Behavior, GrantMembership, MembershipOption, RevokeMembership, RoleSpec};
use dataglot_model::def::{MembershipKey, MembershipOptions, MembershipRecord};
use dataglot_model::{At, Name, Notice, Row, RowKey, Span, SqlState};

use crate::grant::cascades;
use crate::{Draft, Image, PlanError};

/// Most memberships that one statement may speak of: its roles times its members.
pub(crate) const MEMBERSHIPS_MAX: usize = 10_000;

/// The options that a statement names.
#[derive(Clone, Copy, Default)]
struct Named {
    admin: Option<bool>,
    inherit: Option<bool>,
    set: Option<bool>,
}

pub(crate) fn plan_grant_membership(draft: &mut Draft<'_>, c: &GrantMembership) -> Result<(), PlanError> {
    let GrantMembership { roles, members, admin, inherit, set, granted_by } = c;
    check_size(roles.len(), members.len())?;
    let pairs = pairs(draft, roles, members)?;
    let named = Named { admin: *admin, inherit: *inherit, set: *set };
    let grantor = resolve_grantor(draft, granted_by.as_ref())?;
    if let Some(spec) = granted_by {
        check_admin(draft, &grantor, roles, spec.span)?;
    }
    let mut loosened = BTreeSet::new();
    for (key, at) in pairs {
        let old = draft.image.membership(&key).and_then(|record| record.by.get(&grantor)).copied();
        let new = match old {
            // What is not named stays as it is.
            Some(old) => MembershipOptions {
                admin: named.admin.unwrap_or(old.admin),
                inherit: named.inherit.unwrap_or(old.inherit),
                set: named.set.unwrap_or(old.set),
            },
            None => {
                check_acyclic(&draft.image, &key, at)?;
                MembershipOptions {
                    admin: named.admin.unwrap_or(false),
                    inherit: named.inherit.unwrap_or_else(|| inherits(&draft.image, &key.member)),
                    set: named.set.unwrap_or(true),
                }
            }
        };
        if old == Some(new) {
            draft.notice(Notice::note(format!(
                "{} has already been granted membership in {} by {}",
                role(&key.member),
                role(&key.role),
                role(&grantor)
            )));
            continue;
        }
        if old.is_some_and(|old| old.admin && !new.admin) {
            loosened.insert(key.role.clone());
        }
        put(draft, key, &grantor, Some(new));
    }
    take_dependents(draft, &loosened, Behavior::Restrict)
}

pub(crate) fn plan_revoke_membership(draft: &mut Draft<'_>, c: &RevokeMembership) -> Result<(), PlanError> {
    let RevokeMembership { option_only, roles, members, granted_by, behavior } = c;
    check_size(roles.len(), members.len())?;
    let pairs = pairs(draft, roles, members)?;
    let grantor = resolve_grantor(draft, granted_by.as_ref())?;
    let mut loosened = BTreeSet::new();
    for (key, _) in pairs {
        let old = draft.image.membership(&key).and_then(|record| record.by.get(&grantor)).copied();
        let Some(old) = old else {
            let warning = not_granted(&draft.image, &key, &grantor);
            draft.notice(warning);
            continue;
        };
        let new = option_only.map(|option| without(old, option));
        if new == Some(old) {
            draft.notice(Notice::warning(format!(
                "{} has not been granted {} option on {} by {}",
                role(&key.member),
                option_only.map_or("any", keyword),
                role(&key.role),
                role(&grantor)
            )));
            continue;
        }
        if old.admin && !new.is_some_and(|new| new.admin) {
            loosened.insert(key.role.clone());
        }
        put(draft, key, &grantor, new);
    }
    take_dependents(draft, &loosened, *behavior)
}

const fn without(options: MembershipOptions, option: MembershipOption) -> MembershipOptions {
    match option {
        MembershipOption::Admin => MembershipOptions { admin: false, ..options },
        MembershipOption::Inherit => MembershipOptions { inherit: false, ..options },
        MembershipOption::Set => MembershipOptions { set: false, ..options },
    }
}

const fn keyword(option: MembershipOption) -> &'static str {
    match option {
        MembershipOption::Admin => "ADMIN",
        MembershipOption::Inherit => "INHERIT",
        MembershipOption::Set => "SET",
    }
}

fn role(name: &Name) -> String {
    format!("role \"{}\"", name.as_str())
}

fn not_granted(image: &Image, key: &MembershipKey, grantor: &Name) -> Notice {
    let notice = Notice::warning(format!(
        "{} has not been granted membership in {} by {}",
        role(&key.member),
        role(&key.role),
        role(grantor)
    ));
    let others: Vec<&Name> = image.membership(key).into_iter().flat_map(|record| record.by.keys()).collect();
    let Some(first) = others.first() else { return notice };
    let listed: Vec<String> = others.iter().map(|name| role(name)).collect();
    notice
        .with_detail(format!("It was granted by {}.", listed.join(", ")))
        .with_hint(format!("REVOKE {} FROM {} GRANTED BY {first};", key.role, key.member))
}

fn check_size(roles: usize, members: usize) -> Result<(), PlanError> {
    let count = roles.saturating_mul(members);
    if count <= MEMBERSHIPS_MAX {
        return Ok(());
    }
    let message = format!("statement speaks of {count} memberships, over the limit of {MEMBERSHIPS_MAX}");
    Err(PlanError::rule(SqlState::ProgramLimitExceeded, message).with_hint("Split it into several."))
}

/// Every role with every member, each with the place of the member in the text.
fn pairs(
    draft: &Draft<'_>,
    roles: &[At<RoleSpec>],
    members: &[At<RoleSpec>],
) -> Result<Vec<(MembershipKey, Span)>, PlanError> {
    let roles = roles.iter().map(|spec| draft.resolve_role(spec)).collect::<Result<Vec<_>, _>>()?;
    let mut found = Vec::new();
    let mut named = Vec::new();
    for spec in members {
        named.push((draft.resolve_role(spec)?, spec.span));
    }
    for role in &roles {
        for (member, at) in &named {
            found.push((MembershipKey { role: role.clone(), member: member.clone() }, *at));
        }
    }
    Ok(found)
}

/// Who grants: `GRANTED BY`, else the bootstrap superuser for a superuser, else the current user.
fn resolve_grantor(draft: &Draft<'_>, granted_by: Option<&At<RoleSpec>>) -> Result<Name, PlanError> {
    if let Some(spec) = granted_by {
        return draft.resolve_role(spec);
    }
    let user = &draft.actor.current_user;
    let superuser = draft.image.role(user).is_some_and(|found| found.def.superuser);
    let bootstrap = draft.image.bootstrap_superuser().filter(|_| superuser);
    Ok(bootstrap.unwrap_or(user).clone())
}

/// Refuses a grantor who could not have granted it himself.
///
/// # Errors
/// 42501.
fn check_admin(draft: &Draft<'_>, grantor: &Name, roles: &[At<RoleSpec>], at: Span) -> Result<(), PlanError> {
    for spec in roles {
        let name = draft.resolve_role(spec)?;
        if !admins(&draft.image, &name).contains(grantor) {
            let error = PlanError::rule(
                SqlState::InsufficientPrivilege,
                format!("permission denied to grant privileges as {}", role(grantor)),
            );
            let detail = format!("The grantor must have the ADMIN option on {}.", role(&name));
            return Err(error.with_detail(detail).at(at));
        }
    }
    Ok(())
}

/// Whether new memberships of `member` inherit.
fn inherits(image: &Image, member: &Name) -> bool {
    image.role(member).is_none_or(|found| found.def.inherit)
}

/// Refuses a membership that would close a ring.
///
/// # Errors
/// 0LP01, the way that leads back in DETAIL.
fn check_acyclic(image: &Image, key: &MembershipKey, at: Span) -> Result<(), PlanError> {
    let Some(path) = path(image, &key.role, &key.member) else { return Ok(()) };
    let message = format!("{} is a member of {}", role(&key.role), role(&key.member));
    let names: Vec<String> = path.iter().map(|name| format!("\"{}\"", name.as_str())).collect();
    let detail = match names.as_slice() {
        [only] => format!("A role cannot be a member of itself: {only}."),
        [] | [_, ..] => format!("Each is a member of the next: {}.", names.join(" -> ")),
    };
    Err(PlanError::rule(SqlState::InvalidGrantOperation, message).with_detail(detail).at(at))
}

/// The shortest way up from `from` to `to`, both included. `None`: there is none.
fn path(image: &Image, from: &Name, to: &Name) -> Option<Vec<Name>> {
    let mut reached: BTreeMap<Name, Option<Name>> = BTreeMap::from([(from.clone(), None)]);
    let mut queue = std::collections::VecDeque::from([from.clone()]);
    while let Some(member) = queue.pop_front() {
        if member == *to {
            let mut path = vec![member];
            while let Some(Some(before)) = path.last().and_then(|last| reached.get(last)) {
                path.push(before.clone());
            }
            path.reverse();
            return Some(path);
        }
        for (key, _) in image.roles_of(&member) {
            if !reached.contains_key(&key.role) {
                reached.insert(key.role.clone(), Some(member.clone()));
                queue.push_back(key.role.clone());
            }
        }
    }
    None
}

/// Puts or takes away what `grantor` has granted of a membership; the last grant takes the membership along.
fn put(draft: &mut Draft<'_>, key: MembershipKey, grantor: &Name, options: Option<MembershipOptions>) {
    let mut record = draft.image.membership(&key).map(|r| MembershipRecord::clone(r)).unwrap_or_default();
    match options {
        Some(options) => {
            record.by.insert(grantor.clone(), options);
        }
        None => {
            record.by.remove(grantor);
        }
    }
    if record.by.is_empty() {
        draft.delete(RowKey::Membership(key));
    } else {
        draft.put(Row::Membership(key, Arc::new(record)));
    }
}

/// Who may grant membership in `role`: superusers, and whoever has the ADMIN option from one of those who may.
/// Found from the superusers downwards: two who gave it to each other do not keep it.
fn admins(image: &Image, role: &Name) -> BTreeSet<Name> {
    let mut able: BTreeSet<Name> = image.superusers().cloned().collect();
    let mut edges = Vec::new();
    for (key, record) in image.members_of(role) {
        edges.extend(record.by.iter().filter(|(_, options)| options.admin).map(|(grantor, _)| (grantor, &key.member)));
    }
    loop {
        let before = able.len();
        for (grantor, member) in &edges {
            if able.contains(*grantor) {
                able.insert((*member).clone());
            }
        }
        if able.len() == before {
            return able;
        }
    }
}

/// The grants of membership in `role` whose grantors may not grant it.
fn unsupported(image: &Image, role: &Name) -> BTreeSet<(MembershipKey, Name)> {
    let mut grants = Vec::new();
    for (key, record) in image.members_of(role) {
        grants.extend(record.by.keys().map(|grantor| (key, grantor)));
    }
    let able = admins(image, role);
    let lost = grants.into_iter().filter(|(_, grantor)| !able.contains(*grantor));
    lost.map(|(key, grantor)| (key.clone(), grantor.clone())).collect()
}

/// What rests on an ADMIN option in one of `roles` that went since `before`.
fn newly_unsupported(before: &Image, after: &Image, roles: &BTreeSet<Name>) -> Vec<(MembershipKey, Name)> {
    let lost = roles.iter().flat_map(|role| {
        let old = unsupported(before, role);
        unsupported(after, role).into_iter().filter(move |grant| !old.contains(grant))
    });
    lost.collect()
}

/// What rests on an ADMIN option that is gone is refused, or goes too.
fn take_dependents(draft: &mut Draft<'_>, roles: &BTreeSet<Name>, behavior: Behavior) -> Result<(), PlanError> {
    let lost = newly_unsupported(&draft.before(), &draft.image, roles);
    if lost.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = lost.iter().map(|(key, grantor)| describe(key, grantor)).collect();
    match behavior {
        Behavior::Restrict => Err(PlanError::Dependents {
            message: "dependent privileges exist".to_owned(),
            list: lines,
            hint: "Use CASCADE to revoke them too.".to_owned(),
        }),
        Behavior::Cascade => {
            for (key, grantor) in lost {
                put(draft, key, &grantor, None);
            }
            cascades(draft, &lines);
            Ok(())
        }
    }
}

/// `membership of role "u" in role "r" granted by role "g"`
fn describe(key: &MembershipKey, grantor: &Name) -> String {
    format!("membership of {} in {} granted by {}", role(&key.member), role(&key.role), role(grantor))
}

/// Makes `member` a member of `role`, granted by `grantor`. Silent if it is one already: the ADMIN option is
/// added, the others stay.
///
/// # Errors
/// 0LP01 if that closes a ring.
pub(crate) fn add(
    draft: &mut Draft<'_>,
    role: &Name,
    member: &Name,
    options: MembershipOptions,
    grantor: &Name,
) -> Result<(), PlanError> {
    let key = MembershipKey { role: role.clone(), member: member.clone() };
    let old = draft.image.membership(&key).and_then(|record| record.by.get(grantor)).copied();
    let new = match old {
        Some(old) => MembershipOptions { admin: old.admin || options.admin, ..old },
        None => {
            check_acyclic(&draft.image, &key, Span::default())?;
            options
        }
    };
    if old != Some(new) {
        put(draft, key, grantor, Some(new));
    }
    Ok(())
}

/// Deletes the memberships of, in and granted by that role, and those that rest on them.
pub(crate) fn drop_memberships_naming(draft: &mut Draft<'_>, name: &Name) {
    let before = draft.image.clone();
    let of = before.members_of(name).chain(before.roles_of(name)).map(|(key, _)| key.clone());
    for key in of {
        draft.delete(RowKey::Membership(key));
    }
    let mut roles: BTreeSet<Name> = before.roles_of(name).map(|(key, _)| key.role.clone()).collect();
    for key in before.memberships_by(name) {
        roles.insert(key.role.clone());
        if draft.image.membership(key).is_some() {
            put(draft, key.clone(), name, None);
        }
    }
    for (key, grantor) in newly_unsupported(&before, &draft.image, &roles) {
        put(draft, key, &grantor, None);
    }
}

/// Moves the memberships of, in and granted by a role to its new name.
pub(crate) fn rename(draft: &mut Draft<'_>, from: &Name, to: &Name) {
    let before = draft.image.clone();
    let of = before.members_of(from).chain(before.roles_of(from)).map(|(key, _)| key);
    let keys: BTreeSet<&MembershipKey> = of.chain(before.memberships_by(from)).collect();
    let renamed = |name: &Name| if name == from { to.clone() } else { name.clone() };
    for key in keys {
        let Some(record) = before.membership(key) else { continue };
        let by = record.by.iter().map(|(grantor, options)| (renamed(grantor), *options)).collect();
        let new_key = MembershipKey { role: renamed(&key.role), member: renamed(&key.member) };
        if new_key != *key {
            draft.delete(RowKey::Membership(key.clone()));
        }
        draft.put(Row::Membership(new_key, Arc::new(MembershipRecord { by, extra: record.extra.clone() })));
    }
}

#[cfg(test)]
mod tests;
