//! Grants follow what they name: they go with it, and move when it is renamed or has a new owner.

use std::sync::Arc;

use dataglot_model::def::{GrantKey, GrantRecord};
use dataglot_model::{GrantTarget, Grantee, Name, ObjectRef, PatternKind, PatternScope, Row, RowKey, TableRef};

use super::{chain, owner_of};
use crate::effective::with_catalog;
use crate::{Draft, membership};

type Found = Vec<(GrantKey, Arc<GrantRecord>)>;

/// The grants on that object; on a catalog: on all in it too, patterns included.
fn grants_of(draft: &Draft<'_>, object: &ObjectRef) -> Found {
    let own = |(key, record): (&GrantKey, &Arc<GrantRecord>)| (key.clone(), record.clone());
    match object {
        ObjectRef::Catalog(name) => draft.image.grants_in_catalog(name).map(own).collect(),
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Secret(_)
        | ObjectRef::Schema(_)
        | ObjectRef::Table(_)
        | ObjectRef::Column(_)
        | ObjectRef::View(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => draft.image.grants_on(&GrantTarget::Object(object.clone())).map(own).collect(),
    }
}

/// Puts each record under the key that `key` makes of its own, where there is none yet.
fn rekey(draft: &mut Draft<'_>, found: Found, key: impl Fn(&GrantKey) -> GrantKey) {
    for (old_key, record) in found {
        let new_key = key(&old_key);
        if new_key == old_key {
            continue;
        }
        draft.delete(RowKey::Grant(old_key));
        draft.put(Row::Grant(new_key, record));
    }
}

/// Makes the grants on `FUTURE` views and tables that hold for a view which is new: from now on they are grants
/// on the view, made by its owner.
pub(crate) fn apply_future(draft: &mut Draft<'_>, view: &TableRef) {
    let target = GrantTarget::Object(ObjectRef::View(view.clone()));
    let Some(grantor) = owner_of(&draft.image, &target) else { return };
    let mut found: Found = Vec::new();
    for of in [PatternKind::Tables, PatternKind::Views] {
        for within in [PatternScope::Schema(view.schema()), PatternScope::Catalog(view.catalog())] {
            let pattern = GrantTarget::Pattern { of, within, future: true };
            found.extend(draft.image.grants_on(&pattern).map(|(key, record)| (key.clone(), record.clone())));
        }
    }
    for (from, record) in found {
        let key = GrantKey { target: target.clone(), grantee: from.grantee, grantor: grantor.clone() };
        let mut new = draft.image.grant(&key).map(|there| GrantRecord::clone(there)).unwrap_or_default();
        new.privileges = new.privileges.union(record.privileges);
        new.grantable = new.grantable.union(record.grantable);
        new.as_all |= record.as_all;
        draft.put(Row::Grant(key, Arc::new(new)));
    }
}

/// Deletes every grant on that object (a catalog: on all in it too, patterns included).
pub(crate) fn drop_grants_of_object(draft: &mut Draft<'_>, object: &ObjectRef) {
    for (key, _) in grants_of(draft, object) {
        draft.delete(RowKey::Grant(key));
    }
}

/// Deletes every grant to and by that role, and those that rest on them; says which went or shrank.
pub(crate) fn drop_grants_naming_role(draft: &mut Draft<'_>, role: &Name) -> Vec<GrantKey> {
    let before = draft.image.clone();
    let mut gone: Vec<GrantKey> = before.grants_naming(role).map(|(key, _)| key.clone()).collect();
    let mut loosened = Vec::new();
    for key in &gone {
        let passed_on = before
            .grant(key)
            .is_some_and(|record| !record.grantable.is_empty() || record.columns.values().any(|option| *option));
        if passed_on {
            loosened.push(key.target.clone());
        }
        draft.delete(RowKey::Grant(key.clone()));
    }
    loosened.sort();
    loosened.dedup();
    for target in loosened {
        let lost = chain::newly_unsupported(&before, &draft.image, &target);
        chain::strip(draft, &lost);
        gone.extend(lost.into_keys());
    }
    gone
}

/// Moves the grants on an object to its new name.
pub(crate) fn rename_object(draft: &mut Draft<'_>, from: &ObjectRef, to: &ObjectRef) {
    let found = draft.image.grants_on(&GrantTarget::Object(from.clone()));
    let found = found.map(|(key, record)| (key.clone(), record.clone())).collect();
    rekey(draft, found, |key| GrantKey { target: GrantTarget::Object(to.clone()), ..key.clone() });
}

/// Moves the grants to and by a role, and memberships of, in and by it, to its new name.
pub(crate) fn rename_role(draft: &mut Draft<'_>, from: &Name, to: &Name) {
    let found = draft.image.grants_naming(from).map(|(key, record)| (key.clone(), record.clone())).collect();
    let renamed = |name: &Name| if name == from { to.clone() } else { name.clone() };
    rekey(draft, found, |key| GrantKey {
        target: key.target.clone(),
        grantee: match &key.grantee {
            Grantee::Public => Grantee::Public,
            Grantee::Role(name) => Grantee::Role(renamed(name)),
        },
        grantor: renamed(&key.grantor),
    });
    membership::rename(draft, from, to);
}

/// Moves the grants on a catalog and on all in it to its new name.
pub(crate) fn rename_catalog(draft: &mut Draft<'_>, from: &Name, to: &Name) {
    let found = grants_of(draft, &ObjectRef::Catalog(from.clone()));
    rekey(draft, found, |key| GrantKey { target: with_catalog(&key.target, to), ..key.clone() });
}
