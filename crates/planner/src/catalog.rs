//! CREATE CATALOG, ALTER CATALOG.

use std::sync::Arc;

use dataglot_model::command::{
    AlterCatalog, CatalogAction, CreateCatalog, OnExisting, OnMissing, OptionChange, ValidateMode,
};
use dataglot_model::def::{CatalogDef, Header};
use dataglot_model::{At, DEFAULT_CATALOG, Kind, Name, ObjectRef, Row, SqlState};

use crate::draft::{comment_of, comment_text};
use crate::{Draft, PlanError, options, rename};

/// Refuses the name of the built-in catalog.
///
/// # Errors
/// 42939.
pub(crate) fn check_name(name: &At<Name>) -> Result<(), PlanError> {
    if name.as_str() != DEFAULT_CATALOG {
        return Ok(());
    }
    let error = PlanError::Reserved {
        kind: Kind::Catalog,
        name: DEFAULT_CATALOG.to_owned(),
        detail: "This catalog is built in and holds the views; it cannot be created, changed or dropped.",
        span: None,
    };
    Err(error.at(name.span))
}

/// Refuses a catalog that is neither there nor built in.
///
/// # Errors
/// 42704.
pub(crate) fn check_exists(draft: &Draft<'_>, catalog: &Name, at: dataglot_model::Span) -> Result<(), PlanError> {
    if catalog.as_str() == DEFAULT_CATALOG || draft.image.catalog(catalog).is_some() {
        return Ok(());
    }
    Err(PlanError::undefined(ObjectRef::Catalog(catalog.clone()), at))
}

pub(crate) fn plan_create_catalog(draft: &mut Draft<'_>, c: &CreateCatalog) -> Result<(), PlanError> {
    let CreateCatalog { name, on_existing, connector, options: entries, comment, owner, validate } = c;
    check_name(name)?;
    let object = ObjectRef::Catalog(name.value.clone());
    let old = draft.image.catalog(name).map(|o| (o.header.clone(), o.def.clone()));
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
    let owner = owner.as_ref().map(|role| draft.resolve_role(role)).transpose()?;
    let options = options::check_all(&draft.image, connector.value, entries)?;
    if *validate == ValidateMode::Schema
        && let Some(spec) = options::missing(connector.value, &options).next()
    {
        return Err(options::required(connector.value, spec, connector.span));
    }
    let Some((_, old)) = old else {
        let owner = owner.unwrap_or_else(|| draft.actor.current_user.clone());
        let header = draft.new_header(Some(owner), comment.as_deref());
        draft.put_header(object, header);
        let def = CatalogDef { connector: connector.value, options, enabled: true, extra: None };
        draft.put(Row::Catalog(name.value.clone(), Arc::new(def)));
        return Ok(());
    };
    if old.connector != connector.value {
        return Err(connector_change(&object).at(connector.span));
    }
    let new = CatalogDef { options, ..CatalogDef::clone(&old) };
    put_changed(draft, name, &old, new);
    if let Some(comment) = comment {
        draft.set_comment(&object, Some(comment));
    }
    if let Some(owner) = owner {
        crate::owned::set_owner(draft, &object, &owner);
    }
    Ok(())
}

fn connector_change(object: &ObjectRef) -> PlanError {
    PlanError::rule(SqlState::FeatureNotSupported, format!("cannot change the connector of {object}"))
        .with_hint("Drop the catalog and create it anew, or create another one.")
}

/// Puts the definition if it differs from `old`.
fn put_changed(draft: &mut Draft<'_>, name: &Name, old: &CatalogDef, new: CatalogDef) {
    if *old != new {
        draft.touch_header(&ObjectRef::Catalog(name.clone()), |_| {});
        draft.put(Row::Catalog(name.clone(), Arc::new(new)));
    }
}

/// In what an existing catalog differs from the one that the statement describes, by name.
fn differences(draft: &Draft<'_>, c: &CreateCatalog) -> Vec<String> {
    let Some(old) = draft.image.catalog(&c.name) else { return Vec::new() };
    let (header, def): (&Header, &CatalogDef) = (old.header, old.def);
    let mut differs = Vec::new();
    if def.connector != c.connector.value {
        differs.push("connector".to_owned());
    }
    let mut new: std::collections::BTreeMap<_, _> = std::collections::BTreeMap::new();
    for entry in &c.options {
        let (key, value) = options::as_stored(c.connector.value, &entry.key.value, &entry.value.value);
        new.insert(key, value);
    }
    let keys: std::collections::BTreeSet<_> = def.options.keys().chain(new.keys()).collect();
    differs.extend(keys.into_iter().filter(|key| def.options.get(*key) != new.get(*key)).cloned());
    if let Some(comment) = &c.comment
        && header.comment != comment_of(Some(comment))
    {
        differs.push("comment".to_owned());
    }
    if let Some(owner) = &c.owner
        && header.owner.as_ref() != Some(draft.role_name(owner))
    {
        differs.push("owner".to_owned());
    }
    differs
}

pub(crate) fn plan_alter_catalog(draft: &mut Draft<'_>, c: &AlterCatalog) -> Result<(), PlanError> {
    let AlterCatalog { name, on_missing, expected, actions } = c;
    check_name(name)?;
    let mut name = name.clone();
    let object = ObjectRef::Catalog(name.value.clone());
    if draft.image.catalog(&name).is_none() {
        return match on_missing {
            OnMissing::Error => Err(PlanError::undefined(object, name.span)),
            OnMissing::Skip => {
                draft.skip_missing(&object);
                Ok(())
            }
        };
    }
    draft.check_version(&object, expected)?;
    for action in actions {
        alter(draft, &mut name, action)?;
    }
    Ok(())
}

/// One clause; `name` follows a rename.
fn alter(draft: &mut Draft<'_>, name: &mut At<Name>, action: &CatalogAction) -> Result<(), PlanError> {
    let object = ObjectRef::Catalog(name.value.clone());
    let Some(old) = draft.image.catalog(name).map(|o| o.def.clone()) else {
        return Err(PlanError::undefined(object, name.span));
    };
    let mut new = CatalogDef::clone(&old);
    match action {
        CatalogAction::Set(entries) => {
            for (key, value) in options::check_all(&draft.image, old.connector, entries)? {
                new.options.insert(key, value);
            }
        }
        CatalogAction::Reset(keys) => {
            for key in keys {
                let spec = options::spec_of(old.connector, &key.value, key.span)?;
                new.options.remove(spec.key);
            }
        }
        CatalogAction::Options(changes) => {
            for change in changes {
                change_option(draft, &object, &mut new, change)?;
            }
        }
        CatalogAction::Replace(entries) => new.options = options::check_all(&draft.image, old.connector, entries)?,
        CatalogAction::Enable(enabled) => new.enabled = *enabled,
        CatalogAction::Rename(to) => {
            check_name(to)?;
            let target = ObjectRef::Catalog(to.value.clone());
            if draft.image.catalog(to).is_some() {
                return Err(PlanError::exists(target, to.span));
            }
            rename::rename_catalog(draft, name, to)?;
            *name = to.clone();
            return Ok(());
        }
        CatalogAction::Owner(role) => {
            let owner = draft.resolve_role(role)?;
            crate::owned::set_owner(draft, &object, &owner);
            return Ok(());
        }
        CatalogAction::Comment(text) => {
            draft.set_comment(&object, comment_text(text));
            return Ok(());
        }
    }
    // What was made with VALIDATE OFF may lack options; an ALTER may not take another one away.
    let lacked: Vec<_> = options::missing(old.connector, &old.options).map(|spec| spec.key).collect();
    if let Some(spec) = options::missing(new.connector, &new.options).find(|spec| !lacked.contains(&spec.key)) {
        return Err(options::required(new.connector, spec, name.span));
    }
    put_changed(draft, name, &old, new);
    Ok(())
}

/// One item of `OPTIONS (…)`, as PostgreSQL treats those of a server.
fn change_option(
    draft: &Draft<'_>,
    object: &ObjectRef,
    def: &mut CatalogDef,
    change: &OptionChange,
) -> Result<(), PlanError> {
    let not_set = |key: &str, at| {
        let message = format!("option \"{key}\" of {object} is not set");
        Err(PlanError::rule(SqlState::UndefinedObject, message).at(at))
    };
    match change {
        OptionChange::Add(entry) => {
            let (key, value) = options::check(&draft.image, def.connector, entry)?;
            if def.options.contains_key(&key) {
                return Err(options::twice(&key, &entry.key));
            }
            def.options.insert(key, value);
        }
        OptionChange::Set(entry) => {
            let (key, value) = options::check(&draft.image, def.connector, entry)?;
            if !def.options.contains_key(&key) {
                return not_set(&key, entry.key.span);
            }
            def.options.insert(key, value);
        }
        OptionChange::Drop(key) => {
            let spec = options::spec_of(def.connector, &key.value, key.span)?;
            if def.options.remove(spec.key).is_none() {
                return not_set(spec.key, key.span);
            }
        }
    }
    Ok(())
}
