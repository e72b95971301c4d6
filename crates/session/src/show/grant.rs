//! `SHOW GRANTS` in its forms. A grant of ALL prints as ALL for as long as it holds all that ALL means;
//! what an owner may do without a grant is marked `implied`.

use std::collections::BTreeMap;

use dataglot_model::def::GrantRecord;
use dataglot_model::{GrantTarget, Grantee, Name, ObjectRef, PrivilegeSet, RemoteName, ShowGrants};
use dataglot_planner::effective_grants;

use super::{ReadCx, role, undefined};
use crate::error::SessionError;
use crate::value::{Type, Value};

const COLUMNS: &[(&str, Type)] = &[
    ("object", Type::Text),
    ("privilege", Type::Text),
    ("grantee", Type::Text),
    ("grantor", Type::Text),
    ("grantable", Type::Bool),
    ("implied", Type::Bool),
];
const FOR_COLUMNS: &[(&str, Type)] = &[
    ("object", Type::Text),
    ("privilege", Type::Text),
    ("via", Type::Text),
    ("grantable", Type::Bool),
    ("implied", Type::Bool),
];

pub(super) const fn columns(form: &ShowGrants) -> &'static [(&'static str, Type)] {
    match form {
        ShowGrants::All | ShowGrants::On(_) | ShowGrants::To(_) => COLUMNS,
        ShowGrants::Of(_) => role::GRANT_COLUMNS,
        ShowGrants::For(_) => FOR_COLUMNS,
    }
}

pub(super) fn rows(cx: ReadCx<'_>, form: &ShowGrants) -> Result<Vec<Vec<Value>>, SessionError> {
    match form {
        ShowGrants::All => Ok(recorded(cx, |_, _| true)),
        ShowGrants::On(target) => {
            let target = resolve(cx, target).map_err(|e| e.at(target.span))?;
            let mut rows = owner_of(cx, &target);
            rows.extend(recorded(cx, |on, _| *on == target));
            Ok(rows)
        }
        ShowGrants::To(spec) => {
            let grantee = cx.grantee(spec).map_err(|e| e.at(spec.span))?;
            Ok(recorded(cx, |_, to| *to == grantee))
        }
        ShowGrants::Of(name) => {
            let object = ObjectRef::Role(name.value.clone());
            if !cx.exists(&object) {
                return Err(undefined(&object).at(name.span));
            }
            Ok(role::grants(cx, Some(name)))
        }
        ShowGrants::For(spec) => {
            let grantee = cx.grantee(spec).map_err(|e| e.at(spec.span))?;
            Ok(effective(cx, &grantee))
        }
    }
}

/// What GRANT has recorded, as far as the caller may see object and grantee.
fn recorded(cx: ReadCx<'_>, wanted: impl Fn(&GrantTarget, &Grantee) -> bool) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for (key, record) in cx.image.grants() {
        if !wanted(&key.target, &key.grantee) || !sees(cx, &key.target, &key.grantee) {
            continue;
        }
        let GrantRecord { privileges, grantable, columns, as_all, extra: _ } = &**record;
        for (privilege, grantable) in words(&key.target, *privileges, *grantable, columns, *as_all) {
            rows.push(vec![
                Value::Text(key.target.to_string()),
                Value::Text(privilege),
                Value::Text(key.grantee.to_string()),
                Value::from(key.grantor.as_str()),
                Value::Bool(grantable),
                Value::Bool(false),
            ]);
        }
    }
    rows
}

fn effective(cx: ReadCx<'_>, grantee: &Grantee) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for grant in effective_grants(cx.image, grantee) {
        if !sees(cx, &grant.target, &grant.via) {
            continue;
        }
        for (privilege, grantable) in
            words(&grant.target, grant.privileges, grant.grantable, &grant.columns, grant.as_all)
        {
            rows.push(vec![
                Value::Text(grant.target.to_string()),
                Value::Text(privilege),
                Value::Text(grant.via.to_string()),
                Value::Bool(grantable),
                Value::Bool(grant.implied),
            ]);
        }
    }
    rows
}

/// The privileges of one grant as words, each with whether it may be granted on.
fn words(
    target: &GrantTarget,
    privileges: PrivilegeSet,
    grantable: PrivilegeSet,
    columns: &BTreeMap<RemoteName, bool>,
    as_all: bool,
) -> Vec<(String, bool)> {
    let all = target.class().map(|c| c.all()).unwrap_or_default();
    let mut words = Vec::new();
    let uniform = grantable.is_empty() || grantable.contains_all(privileges);
    if as_all && uniform && !all.is_empty() && privileges.contains_all(all) {
        words.push(("ALL".to_owned(), !grantable.is_empty()));
    } else {
        words.extend(privileges.iter().map(|p| (p.keyword().to_owned(), grantable.contains(p))));
    }
    for grantable in [false, true] {
        let names: Vec<String> = columns.iter().filter(|(_, g)| **g == grantable).map(|(n, _)| n.to_string()).collect();
        if !names.is_empty() {
            words.push((format!("SELECT ({})", names.join(", ")), grantable));
        }
    }
    words
}

/// The owner's right on an object, which no grant records.
fn owner_of(cx: ReadCx<'_>, target: &GrantTarget) -> Vec<Vec<Value>> {
    let GrantTarget::Object(object) = target else { return Vec::new() };
    let owner: Option<Name> = cx.image.header(object).and_then(|h| h.owner.clone());
    owner
        .filter(|o| cx.may_see(&ObjectRef::Role(o.clone())))
        .map(|owner| {
            vec![
                Value::Text(target.to_string()),
                Value::from("ALL"),
                Value::Text(owner.to_string()),
                Value::Null,
                Value::Bool(true),
                Value::Bool(true),
            ]
        })
        .into_iter()
        .collect()
}

fn sees(cx: ReadCx<'_>, target: &GrantTarget, grantee: &Grantee) -> bool {
    let grantee = match grantee {
        Grantee::Public => true,
        Grantee::Role(name) => cx.may_see(&ObjectRef::Role(name.clone())),
    };
    grantee
        && match target {
            GrantTarget::Object(object) => cx.may_see(object),
            GrantTarget::System | GrantTarget::Pattern { .. } | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => {
                true
            }
        }
}

/// The target that a statement names: a table may turn out to be a view.
fn resolve(cx: ReadCx<'_>, target: &GrantTarget) -> Result<GrantTarget, SessionError> {
    let GrantTarget::Object(object) = target else { return Ok(target.clone()) };
    let object = match object {
        ObjectRef::Table(name) if cx.image.view(name).is_some() => ObjectRef::View(name.clone()),
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Secret(_)
        | ObjectRef::Catalog(_)
        | ObjectRef::Schema(_)
        | ObjectRef::Table(_)
        | ObjectRef::Column(_)
        | ObjectRef::View(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => object.clone(),
    };
    let there = match &object {
        ObjectRef::Schema(name) => is_catalog(cx, &name.catalog()),
        ObjectRef::Table(name) => is_catalog(cx, &name.catalog()),
        ObjectRef::Column(name) => is_catalog(cx, &name.catalog()),
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Secret(_)
        | ObjectRef::Catalog(_)
        | ObjectRef::View(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => cx.exists(&object),
    };
    if there { Ok(GrantTarget::Object(object)) } else { Err(undefined(&object)) }
}

/// Whether a schema or table of that catalog can be spoken of.
fn is_catalog(cx: ReadCx<'_>, name: &Name) -> bool {
    name.as_str() == dataglot_model::DEFAULT_CATALOG || cx.exists(&ObjectRef::Catalog(name.clone()))
}
