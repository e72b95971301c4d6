//! Renames, and every reference that follows.
//!
//! References are kept as names, so a rename rewrites each of them in the same plan: grants, owners,
//! audiences, options, targets, comments below the name, and the text of views at the places that were
//! found when it was parsed, never by searching it.

use std::collections::BTreeSet;
use std::sync::Arc;

use dataglot_model::def::{
    CatalogDef, MaskTarget, OptionValue, PolicyDef, ReferenceRole, RoleDef, RowFilterTarget, ViewDef, ViewReference,
};
use dataglot_model::{At, Audience, ColumnRef, Grantee, Name, ObjectRef, Row, RowKey, TableRef};

use crate::image::policy_ref;
use crate::{Draft, PlanError, grant};

/// Renames a catalog that exists to a name that is free.
///
/// # Errors
/// 2BP01 where a view's text cannot be rewritten.
pub(crate) fn rename_catalog(draft: &mut Draft<'_>, from: &Name, to: &Name) -> Result<(), PlanError> {
    let object = ObjectRef::Catalog(from.clone());
    let Some(def) = draft.image.catalog(from).map(|o| o.def.clone()) else { return Ok(()) };
    let views: BTreeSet<TableRef> = draft.image.views_using_catalog(from).map(|(_, view)| view.clone()).collect();
    let policies: Vec<Name> = draft.image.policies_in_catalog(from).cloned().collect();
    let comments: Vec<_> = draft.image.comments_in_catalog(from).map(|(o, h)| (o.clone(), h.clone())).collect();

    draft.move_header(&object, &ObjectRef::Catalog(to.clone()));
    draft.delete(RowKey::Catalog(from.clone()));
    draft.put(Row::Catalog(to.clone(), def));
    for (commented, header) in comments {
        draft.delete(RowKey::Header(commented.clone()));
        draft.put(Row::Header(moved_object(&commented, to), header));
    }
    let follow = |table: &TableRef| (table.catalog() == *from).then(|| table.with_catalog(to));
    for view in views {
        follow_in_view(draft, &view, &object, &follow)?;
    }
    for policy in policies {
        change_policy(draft, &policy, |def| match def {
            PolicyDef::Mask(mask) => match &mut mask.target {
                MaskTarget::Column(column) => *column = column.with_catalog(to),
            },
            PolicyDef::RowFilter(filter) => match &mut filter.target {
                RowFilterTarget::Table(table) => *table = table.with_catalog(to),
                RowFilterTarget::Schema(schema) => *schema = schema.with_catalog(to),
                RowFilterTarget::Catalog(catalog) => *catalog = to.clone(),
            },
        });
    }
    grant::rename_catalog(draft, from, to);
    Ok(())
}

/// What lies in a catalog, in another one.
fn moved_object(object: &ObjectRef, catalog: &Name) -> ObjectRef {
    match object {
        ObjectRef::Catalog(_) => ObjectRef::Catalog(catalog.clone()),
        ObjectRef::Schema(name) => ObjectRef::Schema(name.with_catalog(catalog)),
        ObjectRef::Table(name) => ObjectRef::Table(name.with_catalog(catalog)),
        ObjectRef::Column(name) => ObjectRef::Column(name.with_catalog(catalog)),
        ObjectRef::View(name) => ObjectRef::View(name.with_catalog(catalog)),
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Secret(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => object.clone(),
    }
}

/// Gives a view that exists a full name that is free.
///
/// # Errors
/// 2BP01 where the text of a view that names it cannot be rewritten.
pub(crate) fn rename_view(draft: &mut Draft<'_>, from: &TableRef, to: &TableRef) -> Result<(), PlanError> {
    let (object, target) = (ObjectRef::View(from.clone()), ObjectRef::View(to.clone()));
    let Some(def) = draft.image.view(from).map(|o| o.def.clone()) else { return Ok(()) };
    let views: Vec<TableRef> = draft.image.views_using(from).cloned().collect();
    let policies: Vec<Name> = draft.image.policies_on(&ObjectRef::Table(from.clone())).cloned().collect();
    let comments: Vec<_> = draft.image.comments_on_columns(from).map(|(c, h)| (c.clone(), h.clone())).collect();

    draft.move_header(&object, &target);
    draft.delete(RowKey::View(from.clone()));
    draft.put(Row::View(to.clone(), def));
    for (column, header) in comments {
        draft.delete(RowKey::Header(ObjectRef::Column(column.clone())));
        draft.put(Row::Header(ObjectRef::Column(ColumnRef::new(to, &column.column())), header));
    }
    let follow = |table: &TableRef| (table == from).then(|| to.clone());
    for view in views {
        follow_in_view(draft, &view, &object, &follow)?;
    }
    for policy in policies {
        change_policy(draft, &policy, |def| match def {
            PolicyDef::Mask(mask) => match &mut mask.target {
                MaskTarget::Column(column) => *column = ColumnRef::new(to, &column.column()),
            },
            PolicyDef::RowFilter(filter) => match &mut filter.target {
                RowFilterTarget::Table(table) => *table = to.clone(),
                RowFilterTarget::Schema(_) | RowFilterTarget::Catalog(_) => {}
            },
        });
    }
    grant::rename_object(draft, &object, &target);
    grant::rename_object(draft, &ObjectRef::Table(from.clone()), &ObjectRef::Table(to.clone()));
    Ok(())
}

/// Renames a role that exists to a name that is free; `verifier` is its own for that name. Stamps keep the
/// name that it had: they are history.
pub(crate) fn rename_role(draft: &mut Draft<'_>, from: &Name, to: &Name, verifier: Option<Arc<str>>) {
    let Some(mut def) = draft.image.role(from).map(|o| o.def.clone()) else { return };
    if def.verifier != verifier {
        def = Arc::new(RoleDef { verifier, ..RoleDef::clone(&def) });
    }
    let owned: Vec<ObjectRef> = draft.image.owned_by(from).cloned().collect();
    let policies: Vec<Name> = draft.image.policies_naming(from).cloned().collect();
    draft.move_header(&ObjectRef::Role(from.clone()), &ObjectRef::Role(to.clone()));
    move_role(draft, from, to, def);
    for object in owned {
        draft.amend_header(&object, |header| header.owner = Some(to.clone()));
    }
    for policy in policies {
        change_policy(draft, &policy, |def| {
            rename_in_audience(audience_mut(def), from, to);
        });
    }
    grant::rename_role(draft, from, to);
}

fn move_role(draft: &mut Draft<'_>, from: &Name, to: &Name, def: Arc<RoleDef>) {
    draft.delete(RowKey::Role { name: from.clone(), login: def.login });
    draft.put(Row::Role(to.clone(), def));
}

/// Whom a policy applies to.
pub(crate) fn audience_mut(def: &mut PolicyDef) -> &mut Audience<Grantee, Name> {
    match def {
        PolicyDef::Mask(mask) => &mut mask.audience,
        PolicyDef::RowFilter(filter) => &mut filter.audience,
    }
}

fn rename_in_audience(audience: &mut Audience<Grantee, Name>, from: &Name, to: &Name) {
    if let Some(list) = &mut audience.to {
        for grantee in list.iter_mut() {
            if *grantee == Grantee::Role(from.clone()) {
                *grantee = Grantee::Role(to.clone());
            }
        }
        list.sort();
    }
    for name in &mut audience.except {
        if name == from {
            *name = to.clone();
        }
    }
    audience.except.sort();
}

/// Renames a mask or row filter that exists.
///
/// # Errors
/// 42710 if a policy of either kind has the new name.
pub(crate) fn rename_policy(draft: &mut Draft<'_>, from: &Name, to: &At<Name>) -> Result<(), PlanError> {
    if let Some(other) = draft.image.policy(to) {
        return Err(PlanError::exists(policy_ref(to, other.def), to.span));
    }
    let Some(def) = draft.image.policy(from).map(|p| p.def.clone()) else { return Ok(()) };
    let (object, target) = (policy_ref(from, &def), policy_ref(to, &def));
    draft.move_header(&object, &target);
    draft.delete(RowKey::Policy(from.clone()));
    draft.put(Row::Policy(to.value.clone(), def));
    grant::rename_object(draft, &object, &target);
    Ok(())
}

/// Changes a policy's definition; a new version of it.
pub(crate) fn change_policy(draft: &mut Draft<'_>, name: &Name, change: impl FnOnce(&mut PolicyDef)) {
    let Some(old) = draft.image.policy(name).map(|p| p.def.clone()) else { return };
    let mut new = PolicyDef::clone(&old);
    change(&mut new);
    if *old != new {
        draft.touch_header(&policy_ref(name, &old), |_| {});
        draft.put(Row::Policy(name.clone(), Arc::new(new)));
    }
}

/// Makes the options that refer to the secret `from` refer to `to`.
pub(crate) fn secret_in_catalogs(draft: &mut Draft<'_>, from: &Name, to: &Name) {
    let catalogs: Vec<Name> = draft.image.catalogs_using(from).cloned().collect();
    for catalog in catalogs {
        let Some(old) = draft.image.catalog(&catalog).map(|o| o.def.clone()) else { continue };
        let mut new = CatalogDef::clone(&old);
        for value in new.options.values_mut() {
            if let OptionValue::Secret { name, .. } = value
                && name == from
            {
                *name = to.clone();
            }
        }
        draft.touch_header(&ObjectRef::Catalog(catalog.clone()), |_| {});
        draft.put(Row::Catalog(catalog, Arc::new(new)));
    }
}

/// Rewrites one view that names what is renamed.
fn follow_in_view(
    draft: &mut Draft<'_>,
    view: &TableRef,
    renamed: &ObjectRef,
    follow: &dyn Fn(&TableRef) -> Option<TableRef>,
) -> Result<(), PlanError> {
    let Some(old) = draft.image.view(view).map(|o| o.def.clone()) else { return Ok(()) };
    let object = ObjectRef::View(view.clone());
    let Some(new) = rewritten(&old, follow) else {
        return Err(PlanError::Dependents {
            message: format!("cannot rename {renamed} because the text of another object cannot follow"),
            list: vec![format!("{object} depends on {renamed}")],
            hint: "Replace the view by one that does not name it first.".to_owned(),
        });
    };
    draft.touch_header(&object, |_| {});
    draft.put(Row::View(view.clone(), Arc::new(new)));
    Ok(())
}

/// A view's definition with the tables that `follow` renames under their new names; `None` where the places
/// of its references do not fit its text.
///
/// A name in FROM without an alias gets its old last part as one where that part changes, so that columns
/// qualified by it still mean the same; a full name before a column then becomes that alias, which hides it.
pub(crate) fn rewritten(def: &ViewDef, follow: &dyn Fn(&TableRef) -> Option<TableRef>) -> Option<ViewDef> {
    let text = &*def.query;
    let aliased: BTreeSet<&TableRef> =
        def.references.iter().filter(|r| r.role == ReferenceRole::Bare).map(|r| &r.table).collect();
    let mut out = String::with_capacity(text.len().saturating_add(32));
    let mut references = Vec::with_capacity(def.references.len());
    let mut copied = 0usize;
    for reference in &def.references {
        let (start, end) = (usize::try_from(reference.start).ok()?, usize::try_from(reference.end).ok()?);
        out.push_str(text.get(copied..start)?);
        let written = text.get(start..end)?;
        copied = end;
        let at = u32::try_from(out.len()).ok()?;
        let Some(table) = follow(&reference.table) else {
            out.push_str(written);
            let end = u32::try_from(out.len()).ok()?;
            references.push(ViewReference { table: reference.table.clone(), start: at, end, role: reference.role });
            continue;
        };
        let alias = reference.table.table();
        let keeps_alias = table.table() == alias;
        if reference.role == ReferenceRole::Qualifier && !keeps_alias && aliased.contains(&reference.table) {
            out.push_str(&alias.to_string());
            continue;
        }
        out.push_str(&table.to_string());
        let end = u32::try_from(out.len()).ok()?;
        let mut role = reference.role;
        if role == ReferenceRole::Bare && !keeps_alias {
            out.push_str(&format!(" AS {alias}"));
            role = ReferenceRole::Aliased;
        }
        references.push(ViewReference { table, start: at, end, role });
    }
    out.push_str(text.get(copied..)?);
    Some(ViewDef { query: Arc::from(out), references, ..def.clone() })
}
