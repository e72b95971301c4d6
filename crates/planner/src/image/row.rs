//! Whether a row is there as it is: how a plan finds out what it does not change.

use std::sync::Arc;

use dataglot_model::{ObjectRef, Row, RowKey};

use super::Image;

impl Image {
    /// Whether the store holds exactly this row.
    pub(crate) fn holds(&self, row: &Row) -> bool {
        match row {
            Row::Header(object, new) => self.raw_header(object).is_some_and(|old| equal(old, new)),
            Row::Catalog(name, new) => {
                self.catalogs.get(name).and_then(|s| s.def.as_ref()).is_some_and(|old| equal(old, new))
            }
            Row::Secret(name, bytes, hash) => self
                .secrets
                .get(name)
                .and_then(|s| s.envelope.as_ref())
                .is_some_and(|(old, old_hash)| old_hash == hash && old == bytes),
            Row::Role(name, new) => {
                self.roles.get(name).and_then(|s| s.def.as_ref()).is_some_and(|old| equal(old, new))
            }
            Row::Membership(key, new) => self.memberships.get(key).is_some_and(|old| equal(old, new)),
            Row::Policy(name, new) => {
                self.policies.get(name).and_then(|s| s.def.as_ref()).is_some_and(|old| equal(old, new))
            }
            Row::Grant(key, new) => self.grants.get(key).is_some_and(|old| equal(old, new)),
            Row::View(name, new) => {
                self.views.get(name).and_then(|s| s.def.as_ref()).is_some_and(|old| equal(old, new))
            }
        }
    }

    /// Whether the store holds a row of that key.
    pub(crate) fn has(&self, key: &RowKey) -> bool {
        match key {
            RowKey::Header(object) => self.raw_header(object).is_some(),
            RowKey::Catalog(name) => self.catalogs.get(name).is_some_and(|s| s.def.is_some()),
            RowKey::Secret(name) => self.secrets.get(name).is_some_and(|s| s.envelope.is_some()),
            RowKey::Role { name, login } => {
                self.roles.get(name).and_then(|s| s.def.as_ref()).is_some_and(|def| def.login == *login)
            }
            RowKey::Membership(key) => self.memberships.contains_key(key),
            RowKey::Policy(name) => self.policies.get(name).is_some_and(|s| s.def.is_some()),
            RowKey::Grant(key) => self.grants.contains_key(key),
            RowKey::View(name) => self.views.get(name).is_some_and(|s| s.def.is_some()),
        }
    }

    /// The header of an object that may not be whole.
    fn raw_header(&self, object: &ObjectRef) -> Option<&Arc<dataglot_model::def::Header>> {
        match object {
            ObjectRef::Role(name) => self.roles.get(name)?.header.as_ref(),
            ObjectRef::Secret(name) => self.secrets.get(name)?.header.as_ref(),
            ObjectRef::Catalog(name) => self.catalogs.get(name)?.header.as_ref(),
            ObjectRef::View(name) => self.views.get(name)?.header.as_ref(),
            ObjectRef::Mask(name) => self.policies.get(name)?.mask.as_ref(),
            ObjectRef::RowFilter(name) => self.policies.get(name)?.filter.as_ref(),
            ObjectRef::Org(_) | ObjectRef::Schema(_) | ObjectRef::Table(_) | ObjectRef::Column(_) => {
                self.bare.get(object)
            }
        }
    }
}

fn equal<T: PartialEq>(old: &Arc<T>, new: &Arc<T>) -> bool {
    Arc::ptr_eq(old, new) || **old == **new
}
