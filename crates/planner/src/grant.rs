//! GRANT and REVOKE of privileges.
//!
//! A grant is a set: what one grantor gives one grantee on one target is one record, and granting it again
//! adds to the record or changes nothing. A superuser grants as the owner of the target.

mod chain;
mod moves;
mod say;
mod target;

use std::collections::BTreeSet;

use dataglot_model::command::{Behavior, GrantPrivileges, GranteeSpec, RevokePrivileges, RoleSpec};
use dataglot_model::def::{GrantKey, GrantRecord};
use dataglot_model::{At, GrantTarget, Grantee, Name, Notice, Privilege, PrivilegeSet, Row, RowKey, Span, SqlState};

use crate::effective::{covering, owner_of};
use crate::{Draft, PlanError};

pub(crate) use moves::{
    apply_future, drop_grants_naming_role, drop_grants_of_object, rename_catalog, rename_object, rename_role,
};
pub(crate) use say::cascades;
use target::{Rights, rights_on};

/// Most grants that one statement may speak of: its targets times its grantees.
pub(crate) const GRANTS_MAX: usize = 100_000;

/// The targets of a statement, each with who grants on it and what it names of it; and the grantees.
struct Scope {
    targets: Vec<Granted>,
    grantees: Vec<Grantee>,
}

/// A target, who grants on it, and which rights the statement names.
struct Granted {
    target: GrantTarget,
    grantor: Name,
    rights: Rights,
}

pub(crate) fn plan_grant_privileges(draft: &mut Draft<'_>, c: &GrantPrivileges) -> Result<(), PlanError> {
    let GrantPrivileges { privileges, targets, grantees, grant_option, granted_by } = c;
    check_grantor(draft, granted_by.as_ref())?;
    if *grant_option && let Some(public) = grantees.iter().find(|g| g.value == GranteeSpec::Public) {
        let message = "grant options can only be granted to roles";
        return Err(PlanError::rule(SqlState::InvalidGrantOperation, message).at(public.span));
    }
    let Scope { targets, grantees } = resolve(draft, privileges, targets, grantees)?;
    let mut patterns = Vec::new();
    let mut unchecked = Vec::new();
    let mut lacking: BTreeSet<(&Grantee, Name)> = BTreeSet::new();
    for Granted { target, grantor, rights } in &targets {
        let mut changed = false;
        for grantee in &grantees {
            let key = GrantKey { target: target.clone(), grantee: grantee.clone(), grantor: grantor.clone() };
            let old = draft.image.grant(&key).cloned();
            let new = granted(old.as_deref(), rights, *grant_option);
            if old.is_some_and(|old| *old == new) {
                continue;
            }
            changed = true;
            draft.put(Row::Grant(key, new.into()));
            if let Some(catalog) = say::catalog_to_reach(target).filter(|_| rights.selects()) {
                lacking.insert((grantee, catalog));
            }
        }
        if changed && say::is_pattern(target) {
            patterns.push(target);
        }
        if changed && !rights.columns.is_empty() && !target::knows_columns(draft, target) {
            unchecked.push(target);
        }
    }
    for target in patterns {
        draft.notice(say::kept_as_pattern(target));
    }
    for target in unchecked {
        draft.notice(Notice::note(format!("columns of {target} are not known here and were not checked")));
    }
    say::missing_usage(draft, &lacking);
    Ok(())
}

pub(crate) fn plan_revoke_privileges(draft: &mut Draft<'_>, c: &RevokePrivileges) -> Result<(), PlanError> {
    let RevokePrivileges { grant_option_only, privileges, targets, grantees, granted_by, behavior } = c;
    check_grantor(draft, granted_by.as_ref())?;
    let Scope { targets, grantees } = resolve(draft, privileges, targets, grantees)?;
    let mut loosened = BTreeSet::new();
    for Granted { target, grantor, rights } in &targets {
        for grantee in &grantees {
            let mut found = false;
            for grantor in grantors_within_reach(draft, target, grantee, grantor) {
                let key = GrantKey { target: target.clone(), grantee: grantee.clone(), grantor };
                let Some(old) = draft.image.grant(&key).cloned() else { continue };
                let new = revoked(&old, rights, *grant_option_only);
                if *old == new {
                    continue;
                }
                found = true;
                if new.grantable != old.grantable || options(&new) != options(&old) {
                    loosened.insert(target);
                }
                put_or_delete(draft, key, new);
            }
            if !found {
                let warning = say::nothing_to_revoke(draft, target, grantee, rights, *grant_option_only);
                draft.notice(warning);
            }
        }
    }
    for target in loosened {
        take_dependents(draft, target, *behavior)?;
    }
    Ok(())
}

/// What rests on a grant option that is gone is refused, or goes too.
fn take_dependents(draft: &mut Draft<'_>, target: &GrantTarget, behavior: Behavior) -> Result<(), PlanError> {
    let lost = chain::newly_unsupported(&draft.before(), &draft.image, target);
    if lost.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = lost.iter().map(|(key, part)| say::describe(key, part)).collect();
    match behavior {
        Behavior::Restrict => Err(PlanError::Dependents {
            message: "dependent privileges exist".to_owned(),
            list: lines,
            hint: "Use CASCADE to revoke them too.".to_owned(),
        }),
        Behavior::Cascade => {
            chain::strip(draft, &lost);
            say::cascades(draft, &lines);
            Ok(())
        }
    }
}

/// Refuses a grantor other than the current user.
///
/// # Errors
/// 42704, 0A000.
fn check_grantor(draft: &Draft<'_>, granted_by: Option<&At<RoleSpec>>) -> Result<(), PlanError> {
    let Some(spec) = granted_by else { return Ok(()) };
    if draft.resolve_role(spec)? == draft.actor.current_user {
        return Ok(());
    }
    Err(PlanError::rule(SqlState::FeatureNotSupported, "grantor must be current user").at(spec.span))
}

/// Looks everything up, so that a list is granted whole or not at all.
fn resolve(
    draft: &Draft<'_>,
    privileges: &dataglot_model::command::Privileges,
    targets: &[At<GrantTarget>],
    grantees: &[At<GranteeSpec>],
) -> Result<Scope, PlanError> {
    let count = targets.len().saturating_mul(grantees.len());
    if count > GRANTS_MAX {
        let message = format!("statement speaks of {count} grants, over the limit of {GRANTS_MAX}");
        return Err(PlanError::rule(SqlState::ProgramLimitExceeded, message).with_hint("Split it into several."));
    }
    let mut found = Vec::with_capacity(targets.len());
    for spec in targets {
        let target = target::resolve(draft, spec)?;
        let rights = rights_on(draft, privileges, &target, spec.span)?;
        let grantor = grantor_on(draft, &target, spec.span)?;
        found.push(Granted { target, grantor, rights });
    }
    let grantees = grantees.iter().map(|spec| draft.resolve_grantee(spec)).collect::<Result<_, _>>()?;
    Ok(Scope { targets: found, grantees })
}

/// As whom the current user grants on `target`: a superuser as its owner, anyone else as himself.
fn grantor_on(draft: &Draft<'_>, target: &GrantTarget, at: Span) -> Result<Name, PlanError> {
    let user = &draft.actor.current_user;
    if !draft.image.role(user).is_some_and(|role| role.def.superuser) {
        return Ok(user.clone());
    }
    // An owner that is gone can only be damage; the system then stands in.
    let owner = owner_of(&draft.image, target).filter(|owner| draft.image.role(owner).is_some());
    let owner = owner.or_else(|| draft.image.bootstrap_superuser().cloned());
    owner.ok_or_else(|| PlanError::rule(SqlState::ObjectNotInPrerequisiteState, "no superuser exists").at(at))
}

/// Whose grants on `target` to `grantee` a REVOKE takes: those of `grantor`, and those of grantors who have
/// no right to grant on it any more, whom nobody else could speak for.
fn grantors_within_reach(draft: &Draft<'_>, target: &GrantTarget, grantee: &Grantee, grantor: &Name) -> Vec<Name> {
    let mut reach = vec![grantor.clone()];
    let others = draft.image.grants_on(target).filter(|(key, _)| key.grantee == *grantee && key.grantor != *grantor);
    let others: Vec<&Name> = others.map(|(key, _)| &key.grantor).collect();
    if !others.is_empty() && draft.image.role(&draft.actor.current_user).is_some_and(|role| role.def.superuser) {
        let able = chain::all_holders(&draft.image, target);
        reach.extend(others.into_iter().filter(|other| !able.contains(*other)).cloned());
    }
    reach
}

/// What a record becomes when `rights` are granted.
fn granted(old: Option<&GrantRecord>, rights: &Rights, option: bool) -> GrantRecord {
    let mut new = old.cloned().unwrap_or_default();
    // ALL was settled when it was granted first: a privilege that came to be since then is no part of it.
    let set = if rights.all && new.as_all { new.privileges } else { rights.set };
    new.privileges = new.privileges.union(set);
    new.as_all |= rights.all;
    if option {
        new.grantable = new.grantable.union(set);
    }
    for column in &rights.columns {
        *new.columns.entry(column.clone()).or_default() |= option;
    }
    new
}

/// What a record becomes when `rights`, or the options to grant them on, are revoked.
fn revoked(old: &GrantRecord, rights: &Rights, option_only: bool) -> GrantRecord {
    let mut new = old.clone();
    let set = if rights.all { old.privileges.union(old.grantable) } else { rights.set };
    // SELECT on the whole takes SELECT on the columns along, as in PostgreSQL.
    let every_column = rights.all || rights.set.contains(Privilege::Select);
    new.grantable = old.grantable.difference(set);
    if option_only {
        for (column, option) in &mut new.columns {
            *option &= !(every_column || rights.columns.contains(column));
        }
        return new;
    }
    new.privileges = old.privileges.difference(set);
    new.as_all &= new.privileges == old.privileges;
    new.columns.retain(|column, _| !(every_column || rights.columns.contains(column)));
    new
}

/// The columns that may be granted on.
fn options(record: &GrantRecord) -> Vec<&dataglot_model::RemoteName> {
    record.columns.iter().filter(|(_, option)| **option).map(|(column, _)| column).collect()
}

/// Puts a record; one that gives nothing goes.
fn put_or_delete(draft: &mut Draft<'_>, key: GrantKey, record: GrantRecord) {
    if record.privileges == PrivilegeSet::EMPTY && record.columns.is_empty() {
        draft.delete(RowKey::Grant(key));
    } else {
        draft.put(Row::Grant(key, record.into()));
    }
}

#[cfg(test)]
mod tests;
