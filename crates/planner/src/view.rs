//! CREATE VIEW, ALTER VIEW.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dataglot_model::command::{AlterView, CreateView, OnExisting, OnMissing, OptionEntry, ViewAction, ViewQuery};
use dataglot_model::connector::Connector;
use dataglot_model::def::{OptionValue, PolicyDef, SecurityMode, ViewDef};
use dataglot_model::{At, DEFAULT_CATALOG, ObjectRef, RemoteName, Row, Span, SqlState, TableRef};

use crate::draft::comment_of;
use crate::{Draft, Image, PlanError, grant, options, policy, rename};

pub(crate) fn plan_create_view(draft: &mut Draft<'_>, c: &CreateView) -> Result<(), PlanError> {
    let CreateView { name, on_existing, columns, comment, security, options, query } = c;
    check_place(name, name.span)?;
    let object = ObjectRef::View(name.value.clone());
    let old = draft.image.view(name).map(|o| o.def.clone());
    if old.is_some() {
        match on_existing {
            OnExisting::Error => return Err(PlanError::exists(object, name.span)),
            OnExisting::Skip => {
                let differs = differences(draft, c);
                draft.skip_existing(&object, &differs);
                return Ok(());
            }
            OnExisting::Replace | OnExisting::Alter => {}
        }
    }
    check_columns(columns.as_deref(), name.span)?;
    check_query(draft, name, query)?;
    let options = check_options(options)?;
    match old {
        None => {
            let header = draft.new_header(Some(draft.actor.current_user.clone()), comment.as_deref());
            draft.put_header(object, header);
            let def = ViewDef {
                query: query.text.clone(),
                references: query.references.clone(),
                columns: columns.clone(),
                security: security.unwrap_or(SecurityMode::Invoker),
                options,
                extra: None,
            };
            draft.put(Row::View(name.value.clone(), Arc::new(def)));
            grant::apply_future(draft, name);
        }
        Some(old) => {
            let new = ViewDef {
                query: query.text.clone(),
                references: query.references.clone(),
                columns: columns.clone(),
                security: security.unwrap_or(old.security),
                options,
                extra: old.extra.clone(),
            };
            check_masked_columns(&draft.image, name, &new)?;
            put_changed(draft, name, &old, new);
            if let Some(comment) = comment {
                draft.set_comment(&object, Some(comment));
            }
        }
    }
    Ok(())
}

fn put_changed(draft: &mut Draft<'_>, name: &TableRef, old: &ViewDef, new: ViewDef) {
    if *old != new {
        draft.touch_header(&ObjectRef::View(name.clone()), |_| {});
        draft.put(Row::View(name.clone(), Arc::new(new)));
    }
}

/// Views live in the built-in catalog.
///
/// # Errors
/// 0A000.
fn check_place(name: &TableRef, at: Span) -> Result<(), PlanError> {
    if name.catalog().as_str() == DEFAULT_CATALOG {
        return Ok(());
    }
    let [_, schema, table] = name.parts();
    let message = format!("views live in the catalog \"{DEFAULT_CATALOG}\" only");
    let hint = format!(
        "Create it as {DEFAULT_CATALOG}.{}.{}.",
        dataglot_model::quote_ident(schema),
        dataglot_model::quote_ident(table)
    );
    Err(PlanError::rule(SqlState::FeatureNotSupported, message).with_hint(hint).at(at))
}

fn check_columns(columns: Option<&[RemoteName]>, at: Span) -> Result<(), PlanError> {
    let mut seen = BTreeSet::new();
    for column in columns.into_iter().flatten() {
        if !seen.insert(column) {
            let message = format!("column \"{}\" specified more than once", column.as_str());
            return Err(PlanError::rule(SqlState::DuplicateColumn, message).at(at));
        }
    }
    Ok(())
}

/// Everything that the query names must be there, and none of it may lead back to the view.
///
/// # Errors
/// 42704, 42P01, 42P17.
fn check_query(draft: &Draft<'_>, name: &TableRef, query: &At<ViewQuery>) -> Result<(), PlanError> {
    let place = |start: u32, end: u32| {
        // The query's text stands at its span as it is.
        if query.span.end <= query.span.start {
            return Span::default();
        }
        Span::new(query.span.start.saturating_add(start), query.span.start.saturating_add(end))
    };
    for reference in &query.references {
        let at = place(reference.start, reference.end);
        if reference.table == *name {
            let message = format!("{} would refer to itself", ObjectRef::View(name.clone()));
            return Err(PlanError::rule(SqlState::InvalidObjectDefinition, message).at(at));
        }
        policy::check_table(draft, &reference.table, at)?;
    }
    for reference in &query.references {
        if let Some(path) = path_to(&draft.image, &reference.table, name) {
            let at = place(reference.start, reference.end);
            let message = format!("{} would refer to itself through other views", ObjectRef::View(name.clone()));
            let path = path.iter().map(|view| view.parts().join(".")).collect::<Vec<_>>().join("\" -> \"");
            return Err(PlanError::rule(SqlState::InvalidObjectDefinition, message)
                .with_detail(format!("The way back is \"{}\" -> \"{path}\".", name.parts().join(".")))
                .at(at));
        }
    }
    Ok(())
}

/// The views by which `from` leads to `to`, both included.
fn path_to(image: &Image, from: &TableRef, to: &TableRef) -> Option<Vec<TableRef>> {
    // Nothing leads to a view that is not there yet.
    image.view(to)?;
    let mut came_from: BTreeMap<TableRef, Option<TableRef>> = BTreeMap::from([(from.clone(), None)]);
    let mut rest = vec![from.clone()];
    while let Some(view) = rest.pop() {
        if view == *to {
            let mut path = vec![view.clone()];
            let mut at = &view;
            while let Some(Some(before)) = came_from.get(at) {
                path.push(before.clone());
                at = before;
            }
            path.reverse();
            return Some(path);
        }
        for reference in image.view(&view).into_iter().flat_map(|v| &v.def.references) {
            if !came_from.contains_key(&reference.table) {
                came_from.insert(reference.table.clone(), Some(view.clone()));
                rest.push(reference.table.clone());
            }
        }
    }
    None
}

/// A view's options: literals, none of which may be a credential.
fn check_options(entries: &[OptionEntry]) -> Result<BTreeMap<String, OptionValue>, PlanError> {
    let mut found = BTreeMap::new();
    for entry in entries {
        let key = &entry.key.value;
        match &entry.value.value {
            OptionValue::Secret { .. } | OptionValue::Env(_) => {
                let message = format!("option \"{key}\" of a view takes no reference");
                return Err(PlanError::rule(SqlState::InvalidParameterValue, message).at(entry.value.span));
            }
            OptionValue::Text(_)
            | OptionValue::Integer(_)
            | OptionValue::Decimal(_)
            | OptionValue::Boolean(_)
            | OptionValue::Json(_) => {
                if Connector::any_takes_credential(key) {
                    let message = format!("option \"{key}\" would hold a credential");
                    let error = PlanError::rule(SqlState::InsufficientPrivilege, message);
                    return Err(error.with_hint("Credentials belong to catalogs.").at(entry.value.span));
                }
            }
        }
        if found.contains_key(key) {
            return Err(options::twice(key, &entry.key));
        }
        found.insert(key.clone(), entry.value.value.clone());
    }
    Ok(found)
}

/// A declared column list must keep the columns that masks hide.
///
/// # Errors
/// 2BP01 listing the masks.
fn check_masked_columns(image: &Image, name: &TableRef, new: &ViewDef) -> Result<(), PlanError> {
    let Some(columns) = &new.columns else { return Ok(()) };
    let object = ObjectRef::View(name.clone());
    let mut list = Vec::new();
    for policy in image.policies_on(&ObjectRef::Table(name.clone())) {
        let Some(found) = image.policy(policy) else { continue };
        match &**found.def {
            PolicyDef::Mask(mask) => match &mask.target {
                dataglot_model::def::MaskTarget::Column(column) if !columns.contains(&column.column()) => {
                    let mask = ObjectRef::Mask(policy.clone());
                    list.push(format!("{mask} depends on {}", ObjectRef::Column(column.clone())));
                }
                dataglot_model::def::MaskTarget::Column(_) => {}
            },
            PolicyDef::RowFilter(_) => {}
        }
    }
    if list.is_empty() {
        return Ok(());
    }
    Err(PlanError::Dependents {
        message: format!("cannot drop columns of {object} because other objects depend on them"),
        list,
        hint: "Drop the masks first, or keep the columns.".to_owned(),
    })
}

fn differences(draft: &Draft<'_>, c: &CreateView) -> Vec<String> {
    let Some(old) = draft.image.view(&c.name) else { return Vec::new() };
    let options: BTreeMap<_, _> =
        c.options.iter().map(|entry| (entry.key.value.clone(), entry.value.value.clone())).collect();
    let checks = [
        (old.def.query != c.query.text || old.def.references != c.query.references, "query"),
        (old.def.columns != c.columns, "columns"),
        (c.security.is_some_and(|security| security != old.def.security), "SECURITY"),
        (old.def.options != options, "options"),
        (c.comment.as_ref().is_some_and(|text| comment_of(Some(text)) != old.header.comment), "COMMENT"),
    ];
    checks.into_iter().filter(|(differs, _)| *differs).map(|(_, what)| what.to_owned()).collect()
}

pub(crate) fn plan_alter_view(draft: &mut Draft<'_>, c: &AlterView) -> Result<(), PlanError> {
    let AlterView { name, on_missing, expected, action } = c;
    let object = ObjectRef::View(name.value.clone());
    let Some(old) = draft.image.view(name).map(|o| o.def.clone()) else {
        return match on_missing {
            OnMissing::Error => Err(PlanError::undefined(object, name.span)),
            OnMissing::Skip => {
                draft.skip_missing(&object);
                Ok(())
            }
        };
    };
    draft.check_version(&object, expected)?;
    let mut new = ViewDef::clone(&old);
    match action {
        ViewAction::Rename(to) => {
            let target = TableRef::within(&name.schema(), &to.value);
            return move_to(draft, name, &target, to.span);
        }
        ViewAction::SetSchema(schema) => {
            let target = TableRef::within(&schema.value, &name.table());
            check_place(&target, schema.span)?;
            if target == name.value {
                return Ok(());
            }
            return move_to(draft, name, &target, schema.span);
        }
        ViewAction::Owner(role) => {
            let owner = draft.resolve_role(role)?;
            crate::owned::set_owner(draft, &object, &owner);
            return Ok(());
        }
        ViewAction::Query(query) => {
            check_query(draft, name, query)?;
            new.query = query.text.clone();
            new.references = query.references.clone();
        }
        ViewAction::Security(security) => new.security = *security,
        ViewAction::Options(entries) => new.options.extend(check_options(entries)?),
    }
    put_changed(draft, name, &old, new);
    Ok(())
}

fn move_to(draft: &mut Draft<'_>, from: &TableRef, to: &TableRef, at: Span) -> Result<(), PlanError> {
    if draft.image.view(to).is_some() {
        return Err(PlanError::exists(ObjectRef::View(to.clone()), at));
    }
    rename::rename_view(draft, from, to)
}
