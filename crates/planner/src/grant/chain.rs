//! Grants that rest on a grant option: whoever was given the option may have granted on.
//!
//! Who may grant on a target is found from its owner downwards, not by asking of each grantor whether
//! somebody gave him the option: two grantors who gave it to each other would keep themselves alive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dataglot_model::def::{GrantKey, GrantRecord};
use dataglot_model::{DEFAULT_CATALOG, GrantTarget, Grantee, Name, Privilege, PrivilegeSet, RemoteName};

use super::{covering, owner_of, put_or_delete};
use crate::effective::catalog_of;
use crate::{Draft, Image};

/// A part of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Privileges on the whole.
    pub(super) set: PrivilegeSet,
    /// SELECT on these columns.
    pub(super) columns: BTreeSet<RemoteName>,
}

impl Part {
    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.columns.is_empty()
    }
}

/// Parts of records, by record.
pub(super) type Parts = BTreeMap<GrantKey, Part>;

/// What rests on an option that its grantor has lost between `before` and `after`: the grants on `target` and
/// on what it covers.
pub(super) fn newly_unsupported(before: &Image, after: &Image, target: &GrantTarget) -> Parts {
    let mut lost = unsupported(after, target);
    if lost.is_empty() {
        return lost;
    }
    for (key, old) in unsupported(before, target) {
        if let Some(part) = lost.get_mut(&key) {
            part.set = part.set.difference(old.set);
            part.columns.retain(|column| !old.columns.contains(column));
        }
    }
    lost.retain(|_, part| !part.is_empty());
    lost
}

/// The grants on `target` and on what it covers whose grantors may not grant them.
fn unsupported(image: &Image, target: &GrantTarget) -> Parts {
    let mut found = Parts::new();
    for (key, record) in grants_under(image, target) {
        if owner_of(image, &key.target).as_ref() == Some(&key.grantor) {
            continue;
        }
        let able = |privilege, column: Option<&RemoteName>| {
            holders(image, &key.target, privilege, column).contains(&key.grantor)
        };
        let part = Part {
            set: record.privileges.iter().filter(|privilege| !able(*privilege, None)).collect(),
            columns: record.columns.keys().filter(|c| !able(Privilege::Select, Some(c))).cloned().collect(),
        };
        if !part.is_empty() {
            found.insert(key.clone(), part);
        }
    }
    found
}

/// The grants on `target` and on everything that it covers.
fn grants_under<'a>(image: &'a Image, target: &GrantTarget) -> Vec<(&'a GrantKey, &'a Arc<GrantRecord>)> {
    let under = |key: &GrantKey| covering(image, &key.target).contains(target);
    match target {
        GrantTarget::System | GrantTarget::Object(_) => image.grants_on(target).collect(),
        // Views are in the built-in catalog, and grants on them not in one range.
        GrantTarget::Pattern { .. } => match catalog_of(target).filter(|name| name.as_str() != DEFAULT_CATALOG) {
            Some(catalog) => image.grants_in_catalog(&catalog).filter(|(key, _)| under(key)).collect(),
            None => image.grants().filter(|(key, _)| under(key)).collect(),
        },
        GrantTarget::AllCatalogs | GrantTarget::AllSecrets => image.grants().filter(|(key, _)| under(key)).collect(),
    }
}

/// Who may grant `privilege` on `target`, or SELECT on `column` of it: its owner, and whoever has the option
/// from one of them.
fn holders(image: &Image, target: &GrantTarget, privilege: Privilege, column: Option<&RemoteName>) -> BTreeSet<Name> {
    let given = |record: &GrantRecord| {
        record.grantable.contains(privilege)
            || column.is_some_and(|column| record.columns.get(column).copied().unwrap_or(false))
    };
    reach(image, target, given)
}

/// Who may grant anything on `target`.
pub(super) fn all_holders(image: &Image, target: &GrantTarget) -> BTreeSet<Name> {
    reach(image, target, |record| !record.grantable.is_empty() || record.columns.values().any(|option| *option))
}

fn reach(image: &Image, target: &GrantTarget, given: impl Fn(&GrantRecord) -> bool) -> BTreeSet<Name> {
    let mut able: BTreeSet<Name> = owner_of(image, target).into_iter().collect();
    let mut edges = Vec::new();
    for broader in covering(image, target) {
        let owner = owner_of(image, &broader);
        for (key, record) in image.grants_on(&broader) {
            if let Grantee::Role(grantee) = &key.grantee
                && given(record)
            {
                edges.push((owner.as_ref() == Some(&key.grantor), &key.grantor, grantee));
            }
        }
    }
    loop {
        let before = able.len();
        for (by_owner, grantor, grantee) in &edges {
            if *by_owner || able.contains(*grantor) {
                able.insert((*grantee).clone());
            }
        }
        if able.len() == before {
            return able;
        }
    }
}

/// Takes `parts` out of their records.
pub(super) fn strip(draft: &mut Draft<'_>, parts: &Parts) {
    for (key, part) in parts {
        let Some(old) = draft.image.grant(key) else { continue };
        let mut new = GrantRecord::clone(old);
        new.privileges = new.privileges.difference(part.set);
        new.grantable = new.grantable.difference(part.set);
        new.columns.retain(|column, _| !part.columns.contains(column));
        new.as_all &= part.set.is_empty();
        put_or_delete(draft, key.clone(), new);
    }
}
