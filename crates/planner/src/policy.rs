//! What masks and row filters have in common: one name space, targets and audiences.

use std::sync::Arc;

use dataglot_model::command::{AudienceChange, GranteeSpec, RoleSpec};
use dataglot_model::def::PolicyDef;
use dataglot_model::{
    At, Audience, ColumnRef, DEFAULT_CATALOG, Grantee, Kind, Name, ObjectRef, Others, Row, Span, SqlState, TableRef,
};

use crate::image::{kind_of_policy, policy_ref};
use crate::{Draft, PlanError, catalog};

/// Whom a policy applies to, as it is kept.
pub(crate) type StoredAudience = Audience<Grantee, Name>;

/// Puts the definition that a policy has now, if it is another one.
pub(crate) fn put_changed(draft: &mut Draft<'_>, name: &Name, old: &PolicyDef, new: PolicyDef) {
    if *old != new {
        draft.touch_header(&policy_ref(name, &new), |_| {});
        draft.put(Row::Policy(name.clone(), Arc::new(new)));
    }
}

/// The policy of that name, if there is one.
///
/// # Errors
/// 42809 if it is of the other kind.
pub(crate) fn find(
    draft: &Draft<'_>,
    name: &At<Name>,
    wanted: Kind,
    verb: &'static str,
) -> Result<Option<Arc<PolicyDef>>, PlanError> {
    let Some(policy) = draft.image.policy(name) else { return Ok(None) };
    let found = kind_of_policy(policy.def);
    if found == wanted {
        return Ok(Some(policy.def.clone()));
    }
    let error = PlanError::WrongKind { name: name.as_str().to_owned(), wanted, found, verb, span: None };
    Err(error.at(name.span))
}

/// Refuses a name that a policy of either kind has, whatever the statement says of an existing one: IF NOT
/// EXISTS and OR REPLACE mean objects of their own kind.
///
/// # Errors
/// 42710.
pub(crate) fn check_free_of(draft: &Draft<'_>, name: &At<Name>, other: Kind) -> Result<(), PlanError> {
    match draft.image.policy(name) {
        Some(policy) if kind_of_policy(policy.def) == other => {
            Err(PlanError::exists(policy_ref(name, policy.def), name.span))
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses a table that cannot be there: its catalog must exist, and in the built-in catalog the view.
///
/// # Errors
/// 42704, 42P01.
pub(crate) fn check_table(draft: &Draft<'_>, table: &TableRef, at: Span) -> Result<(), PlanError> {
    let name = table.catalog();
    catalog::check_exists(draft, &name, at)?;
    if name.as_str() == DEFAULT_CATALOG && draft.image.view(table).is_none() {
        return Err(PlanError::undefined(ObjectRef::View(table.clone()), at));
    }
    Ok(())
}

/// Refuses a column that cannot be there: as [`check_table`], and a view that declares its columns must have it.
///
/// # Errors
/// 42704, 42P01, 42703.
pub(crate) fn check_column(draft: &Draft<'_>, column: &ColumnRef, at: Span) -> Result<(), PlanError> {
    let table = column.table();
    check_table(draft, &table, at)?;
    let wanted = column.column();
    match draft.image.view(&table).and_then(|view| view.def.columns.as_ref()) {
        Some(columns) if !columns.contains(&wanted) => Err(PlanError::undefined(ObjectRef::Column(column.clone()), at)),
        Some(_) | None => Ok(()),
    }
}

/// The audience that a statement describes.
///
/// # Errors
/// 42704 at the first role that does not exist.
pub(crate) fn resolve_audience(
    draft: &Draft<'_>,
    audience: &Audience<At<GranteeSpec>, At<RoleSpec>>,
) -> Result<StoredAudience, PlanError> {
    let to = audience.to.as_ref().map(|to| resolve_to(draft, to)).transpose()?;
    Ok(Audience { to, except: resolve_except(draft, &audience.except)? })
}

/// In order and each once, so that two ways to write one audience are one.
fn resolve_to(draft: &Draft<'_>, specs: &[At<GranteeSpec>]) -> Result<Vec<Grantee>, PlanError> {
    let mut to = specs.iter().map(|spec| draft.resolve_grantee(spec)).collect::<Result<Vec<_>, _>>()?;
    to.sort();
    to.dedup();
    Ok(to)
}

fn resolve_except(draft: &Draft<'_>, specs: &[At<RoleSpec>]) -> Result<Vec<Name>, PlanError> {
    let mut except = specs.iter().map(|spec| draft.resolve_role(spec)).collect::<Result<Vec<_>, _>>()?;
    except.sort();
    except.dedup();
    Ok(except)
}

/// Applies `SET TO`, `ADD TO`, `DROP TO` or `SET EXCEPT`. Gives the `ELSE` clause that the statement names.
///
/// # Errors
/// 42704 for a role that does not exist or is not in the list, 55000 where the list cannot be changed so.
pub(crate) fn change_audience(
    draft: &Draft<'_>,
    object: &ObjectRef,
    audience: &mut StoredAudience,
    change: &AudienceChange,
) -> Result<Option<Others>, PlanError> {
    match change {
        AudienceChange::SetTo(specs, others) => {
            audience.to = Some(resolve_to(draft, specs)?);
            Ok(*others)
        }
        AudienceChange::AddTo(specs) => {
            let added = resolve_to(draft, specs)?;
            let Some(to) = &mut audience.to else { return Err(everyone(object)) };
            to.extend(added);
            to.sort();
            to.dedup();
            Ok(None)
        }
        AudienceChange::DropTo(specs) => {
            let Some(to) = &mut audience.to else { return Err(everyone(object)) };
            for spec in specs {
                let grantee = draft.resolve_grantee(spec)?;
                let before = to.len();
                to.retain(|g| *g != grantee);
                if to.len() == before {
                    let who = match &grantee {
                        Grantee::Public => "PUBLIC".to_owned(),
                        Grantee::Role(name) => ObjectRef::Role(name.clone()).to_string(),
                    };
                    let message = format!("{who} is not in the TO list of {object}");
                    return Err(PlanError::rule(SqlState::UndefinedObject, message).at(spec.span));
                }
            }
            if to.is_empty() {
                let message = format!("{object} would apply to no one");
                let error = PlanError::rule(SqlState::ObjectNotInPrerequisiteState, message);
                return Err(error.with_hint("Name others with SET TO, or say so with DISABLE."));
            }
            Ok(None)
        }
        AudienceChange::SetExcept(specs) => {
            audience.except = resolve_except(draft, specs)?;
            Ok(None)
        }
    }
}

fn everyone(object: &ObjectRef) -> PlanError {
    PlanError::rule(SqlState::ObjectNotInPrerequisiteState, format!("{object} has no TO list: it applies to everyone"))
        .with_hint("Give it one with SET TO.")
}

/// A policy that is not on the target that the statement names.
pub(crate) fn not_on(object: &ObjectRef, target: &ObjectRef) -> String {
    format!("{object} on {target}")
}

/// Whether some role could be in both audiences, now or after some grant of membership. It cannot where one
/// names no one, or where all that one names are exempt from the other.
pub(crate) fn may_meet(a: &StoredAudience, b: &StoredAudience) -> bool {
    let exempt = |inner: &StoredAudience, outer: &StoredAudience| match &inner.to {
        None => false,
        Some(to) => to.iter().all(|grantee| match grantee {
            Grantee::Public => false,
            Grantee::Role(name) => outer.except.contains(name),
        }),
    };
    !exempt(a, b) && !exempt(b, a)
}
