//! CREATE ROW FILTER, ALTER ROW FILTER.

use std::sync::Arc;

use dataglot_model::command::{AlterRowFilter, CreateRowFilter, OnExisting, OnMissing, RowFilterAction};
use dataglot_model::def::{PolicyDef, RowFilterDef, RowFilterTarget};
use dataglot_model::{At, Kind, Name, ObjectRef, Row, SqlState};

use crate::draft::{comment_of, comment_text};
use crate::image::place_of;
use crate::policy::{change_audience, check_free_of, check_table, find, not_on, put_changed, resolve_audience};
use crate::{Draft, PlanError, catalog, rename};

pub(crate) fn plan_create_row_filter(draft: &mut Draft<'_>, c: &CreateRowFilter) -> Result<(), PlanError> {
    let CreateRowFilter { name, on_existing, target, using, audience, others, enabled, comment } = c;
    let object = ObjectRef::RowFilter(name.value.clone());
    check_free_of(draft, name, Kind::Mask)?;
    let old = draft.image.policy(name).map(|o| o.def.clone());
    if old.is_some() && *on_existing == OnExisting::Error {
        return Err(PlanError::exists(object, name.span));
    }
    if let (Some(old), OnExisting::Skip) = (&old, on_existing) {
        let differs = differences(draft, c, old);
        draft.skip_existing(&object, &differs);
        return Ok(());
    }
    match &target.value {
        RowFilterTarget::Table(table) => check_table(draft, table, target.span)?,
        RowFilterTarget::Schema(schema) => catalog::check_exists(draft, &schema.catalog(), target.span)?,
        RowFilterTarget::Catalog(name) => catalog::check_exists(draft, name, target.span)?,
    }
    let def = RowFilterDef {
        target: target.value.clone(),
        using: using.clone(),
        audience: resolve_audience(draft, audience)?,
        others: *others,
        enabled: *enabled,
        extra: old.as_deref().and_then(filter_of).and_then(|filter| filter.extra.clone()),
    };
    check_others(&object, &def)?;
    match old {
        None => {
            let header = draft.new_header(Some(draft.actor.current_user.clone()), comment.as_deref());
            draft.put_header(object, header);
            draft.put(Row::Policy(name.value.clone(), Arc::new(PolicyDef::RowFilter(def))));
        }
        Some(old) => {
            put_changed(draft, name, &old, PolicyDef::RowFilter(def));
            if let Some(comment) = comment {
                draft.set_comment(&object, Some(comment));
            }
        }
    }
    Ok(())
}

/// A filter with TO says what the others see, and one without has no others.
fn check_others(object: &ObjectRef, def: &RowFilterDef) -> Result<(), PlanError> {
    match (&def.audience.to, def.others) {
        (Some(_), Some(_)) | (None, None) => Ok(()),
        (Some(_), None) => {
            let message = format!("{object} does not say what those see whom TO does not name");
            Err(PlanError::rule(SqlState::SyntaxError, message).with_hint("Add ELSE ALL ROWS or ELSE NO ROWS."))
        }
        (None, Some(_)) => {
            let message = format!("{object} applies to everyone: ELSE has nobody to apply to");
            Err(PlanError::rule(SqlState::SyntaxError, message).with_hint("Name an audience with TO."))
        }
    }
}

fn filter_of(def: &PolicyDef) -> Option<&RowFilterDef> {
    match def {
        PolicyDef::RowFilter(filter) => Some(filter),
        PolicyDef::Mask(_) => None,
    }
}

fn differences(draft: &Draft<'_>, c: &CreateRowFilter, old: &PolicyDef) -> Vec<String> {
    let Some(filter) = filter_of(old) else { return Vec::new() };
    let comment = draft.image.policy(&c.name).and_then(|p| p.header.comment.clone());
    let audience = resolve_audience(draft, &c.audience).ok();
    let checks = [
        (filter.target != c.target.value, "target"),
        (filter.using != c.using, "USING"),
        (audience.as_ref() != Some(&filter.audience), "audience"),
        (filter.others != c.others, "ELSE"),
        (filter.enabled != c.enabled, "ENABLE"),
        (c.comment.as_ref().is_some_and(|text| comment_of(Some(text)) != comment), "COMMENT"),
    ];
    checks.into_iter().filter(|(differs, _)| *differs).map(|(_, what)| what.to_owned()).collect()
}

pub(crate) fn plan_alter_row_filter(draft: &mut Draft<'_>, c: &AlterRowFilter) -> Result<(), PlanError> {
    let AlterRowFilter { name, on, on_missing, expected, actions } = c;
    let mut name = name.clone();
    let object = ObjectRef::RowFilter(name.value.clone());
    let Some(old) = find(draft, &name, Kind::RowFilter, "ALTER")? else {
        return match on_missing {
            OnMissing::Error => Err(PlanError::undefined(object, name.span)),
            OnMissing::Skip => {
                draft.skip_missing(&object);
                Ok(())
            }
        };
    };
    if let Some(on) = on {
        let wanted = target_ref(&on.value);
        if place_of(&old) != wanted {
            return crate::drop::missing_on(draft, not_on(&object, &wanted), name.span, *on_missing);
        }
    }
    draft.check_version(&object, expected)?;
    for action in actions {
        alter(draft, &mut name, action)?;
    }
    Ok(())
}

/// The object that a target is.
fn target_ref(target: &RowFilterTarget) -> ObjectRef {
    match target {
        RowFilterTarget::Table(table) => ObjectRef::Table(table.clone()),
        RowFilterTarget::Schema(schema) => ObjectRef::Schema(schema.clone()),
        RowFilterTarget::Catalog(name) => ObjectRef::Catalog(name.clone()),
    }
}

/// One clause; `name` follows a rename.
fn alter(draft: &mut Draft<'_>, name: &mut At<Name>, action: &RowFilterAction) -> Result<(), PlanError> {
    let object = ObjectRef::RowFilter(name.value.clone());
    let Some(old) = draft.image.policy(name).map(|p| p.def.clone()) else {
        return Err(PlanError::undefined(object, name.span));
    };
    let Some(mut new) = filter_of(&old).cloned() else {
        return Err(PlanError::undefined(object, name.span));
    };
    match action {
        RowFilterAction::Rename(to) => {
            rename::rename_policy(draft, name, to)?;
            *name = to.clone();
            return Ok(());
        }
        RowFilterAction::Owner(role) => {
            let owner = draft.resolve_role(role)?;
            crate::owned::set_owner(draft, &object, &owner);
            return Ok(());
        }
        RowFilterAction::Comment(text) => {
            draft.set_comment(&object, comment_text(text));
            return Ok(());
        }
        RowFilterAction::Using(using) => new.using = using.clone(),
        RowFilterAction::Audience(change) => {
            if let Some(others) = change_audience(draft, &object, &mut new.audience, change)? {
                new.others = Some(others);
            }
            check_others(&object, &new)?;
        }
        RowFilterAction::Enable(enabled) => new.enabled = *enabled,
    }
    put_changed(draft, name, &old, PolicyDef::RowFilter(new));
    Ok(())
}
