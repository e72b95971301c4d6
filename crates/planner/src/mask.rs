//! CREATE MASK, ALTER MASK.

use std::sync::Arc;

use dataglot_model::command::{AlterMask, CreateMask, MaskAction, OnExisting, OnMissing};
use dataglot_model::def::{MaskDef, MaskTarget, PolicyDef};
use dataglot_model::{At, ColumnRef, Kind, Name, ObjectRef, Row, SqlState};

use crate::draft::{comment_of, comment_text};
use crate::policy::{
    change_audience, check_column, check_free_of, find, may_meet, not_on, put_changed, resolve_audience,
};
use crate::{Draft, PlanError, rename};

pub(crate) fn plan_create_mask(draft: &mut Draft<'_>, c: &CreateMask) -> Result<(), PlanError> {
    let CreateMask { name, on_existing, target, function, when, audience, priority, enabled, comment } = c;
    let object = ObjectRef::Mask(name.value.clone());
    check_free_of(draft, name, Kind::RowFilter)?;
    let old = draft.image.policy(name).map(|o| o.def.clone());
    if old.is_some() && *on_existing == OnExisting::Error {
        return Err(PlanError::exists(object, name.span));
    }
    if let (Some(old), OnExisting::Skip) = (&old, on_existing) {
        let differs = differences(draft, c, old);
        draft.skip_existing(&object, &differs);
        return Ok(());
    }
    let MaskTarget::Column(column) = &target.value;
    check_column(draft, column, target.span)?;
    let def = MaskDef {
        target: target.value.clone(),
        function: function.clone(),
        when: when.clone(),
        audience: resolve_audience(draft, audience)?,
        priority: *priority,
        enabled: *enabled,
        extra: old.as_deref().and_then(mask_of).and_then(|mask| mask.extra.clone()),
    };
    check_conflict(draft, name, &def)?;
    match old {
        None => {
            let header = draft.new_header(Some(draft.actor.current_user.clone()), comment.as_deref());
            draft.put_header(object, header);
            draft.put(Row::Policy(name.value.clone(), Arc::new(PolicyDef::Mask(def))));
        }
        Some(old) => {
            put_changed(draft, name, &old, PolicyDef::Mask(def));
            if let Some(comment) = comment {
                draft.set_comment(&object, Some(comment));
            }
        }
    }
    Ok(())
}

fn mask_of(def: &PolicyDef) -> Option<&MaskDef> {
    match def {
        PolicyDef::Mask(mask) => Some(mask),
        PolicyDef::RowFilter(_) => None,
    }
}

fn differences(draft: &Draft<'_>, c: &CreateMask, old: &PolicyDef) -> Vec<String> {
    let Some(mask) = mask_of(old) else { return Vec::new() };
    let comment = draft.image.policy(&c.name).and_then(|p| p.header.comment.clone());
    // A role that does not exist is a difference too.
    let audience = resolve_audience(draft, &c.audience).ok();
    let checks = [
        (mask.target != c.target.value, "target"),
        (mask.function != c.function, "function"),
        (mask.when != c.when, "WHEN"),
        (audience.as_ref() != Some(&mask.audience), "audience"),
        (mask.priority != c.priority, "PRIORITY"),
        (mask.enabled != c.enabled, "ENABLE"),
        (c.comment.as_ref().is_some_and(|text| comment_of(Some(text)) != comment), "COMMENT"),
    ];
    checks.into_iter().filter(|(differs, _)| *differs).map(|(_, what)| what.to_owned()).collect()
}

/// Refuses a mask that could meet another one of the same priority on its column: which one would win?
///
/// # Errors
/// 42710 naming the other one.
fn check_conflict(draft: &Draft<'_>, name: &At<Name>, def: &MaskDef) -> Result<(), PlanError> {
    let MaskTarget::Column(column) = &def.target;
    for other_name in draft.image.policies_on(&ObjectRef::Table(column.table())) {
        let Some(other) = draft.image.policy(other_name).and_then(|p| mask_of(p.def)) else { continue };
        if *other_name != name.value
            && other.target == def.target
            && other.priority == def.priority
            && may_meet(&other.audience, &def.audience)
        {
            return Err(conflict(&name.value, other_name, column).at(name.span));
        }
    }
    Ok(())
}

fn conflict(name: &Name, other: &Name, column: &ColumnRef) -> PlanError {
    let (new, old) = (ObjectRef::Mask(name.clone()), ObjectRef::Mask(other.clone()));
    let on = ObjectRef::Column(column.clone());
    PlanError::rule(SqlState::DuplicateObject, format!("{new} conflicts with {old}"))
        .with_detail(format!("Both are on {on} with the same priority, and someone could be subject to both."))
        .with_hint("Give one of them another PRIORITY, or name the roles of the one in EXCEPT of the other.")
}

pub(crate) fn plan_alter_mask(draft: &mut Draft<'_>, c: &AlterMask) -> Result<(), PlanError> {
    let AlterMask { name, on, on_missing, expected, actions } = c;
    let mut name = name.clone();
    let object = ObjectRef::Mask(name.value.clone());
    let old = find(draft, &name, Kind::Mask, "ALTER")?;
    let there = match (&old, on) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(old), Some(on)) => mask_of(old).is_some_and(|mask| mask.target == on.value),
    };
    if !there {
        let MaskTarget::Column(column) = match on {
            Some(on) if old.is_some() => &on.value,
            Some(_) | None => return missing(draft, object, &name, *on_missing),
        };
        let what = not_on(&object, &ObjectRef::Column(column.clone()));
        return crate::drop::missing_on(draft, what, name.span, *on_missing);
    }
    draft.check_version(&object, expected)?;
    for action in actions {
        alter(draft, &mut name, action)?;
    }
    Ok(())
}

fn missing(draft: &mut Draft<'_>, object: ObjectRef, name: &At<Name>, on_missing: OnMissing) -> Result<(), PlanError> {
    match on_missing {
        OnMissing::Error => Err(PlanError::undefined(object, name.span)),
        OnMissing::Skip => {
            draft.skip_missing(&object);
            Ok(())
        }
    }
}

/// One clause; `name` follows a rename.
fn alter(draft: &mut Draft<'_>, name: &mut At<Name>, action: &MaskAction) -> Result<(), PlanError> {
    let object = ObjectRef::Mask(name.value.clone());
    let Some(old) = draft.image.policy(name).map(|p| p.def.clone()) else {
        return Err(PlanError::undefined(object, name.span));
    };
    let Some(mut new) = mask_of(&old).cloned() else {
        return Err(PlanError::undefined(object, name.span));
    };
    match action {
        MaskAction::Rename(to) => {
            rename::rename_policy(draft, name, to)?;
            *name = to.clone();
            return Ok(());
        }
        MaskAction::Owner(role) => {
            let owner = draft.resolve_role(role)?;
            crate::owned::set_owner(draft, &object, &owner);
            return Ok(());
        }
        MaskAction::Comment(text) => {
            draft.set_comment(&object, comment_text(text));
            return Ok(());
        }
        MaskAction::Function(function) => new.function = function.clone(),
        MaskAction::When(when) => new.when = when.clone(),
        MaskAction::Audience(change) => {
            change_audience(draft, &object, &mut new.audience, change)?;
        }
        MaskAction::Priority(priority) => new.priority = *priority,
        MaskAction::Enable(enabled) => new.enabled = *enabled,
    }
    check_conflict(draft, name, &new)?;
    put_changed(draft, name, &old, PolicyDef::Mask(new));
    Ok(())
}
