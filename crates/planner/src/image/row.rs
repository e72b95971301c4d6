//! The row of a key as it is: how a plan finds out what it does not change.

use std::sync::Arc;

use dataglot_model::{ObjectRef, Row, RowKey};

use super::Image;

impl Image {
    /// The row of that key.
    pub(crate) fn row(&self, key: &RowKey) -> Option<Row> {
        Some(match key {
            RowKey::Header(object) => Row::Header(object.clone(), Arc::clone(self.raw_header(object)?)),
            RowKey::Catalog(name) => Row::Catalog(name.clone(), Arc::clone(self.catalogs.get(name)?.def.as_ref()?)),
            RowKey::Secret(name) => {
                let (bytes, hash) = self.secrets.get(name)?.envelope.as_ref()?;
                Row::Secret(name.clone(), Arc::clone(bytes), *hash)
            }
            RowKey::Role { name, login } => {
                let def = self.roles.get(name)?.def.as_ref().filter(|def| def.login == *login)?;
                Row::Role(name.clone(), Arc::clone(def))
            }
            RowKey::Membership(key) => Row::Membership(key.clone(), Arc::clone(self.memberships.get(key)?)),
            RowKey::Policy(name) => Row::Policy(name.clone(), Arc::clone(self.policies.get(name)?.def.as_ref()?)),
            RowKey::Grant(key) => Row::Grant(key.clone(), Arc::clone(self.grants.get(key)?)),
            RowKey::View(name) => Row::View(name.clone(), Arc::clone(self.views.get(name)?.def.as_ref()?)),
            RowKey::PreviousSecret(name) => {
                let (bytes, hash) = self.secrets.get(name)?.previous.as_deref()?;
                Row::PreviousSecret(name.clone(), Arc::clone(bytes), *hash)
            }
            RowKey::DataKey(no) => {
                let (wrapped, hash) = self.data_keys.get(no)?;
                Row::DataKey(*no, Arc::clone(wrapped), *hash)
            }
        })
    }

    /// Whether the store holds a row of that key.
    pub(crate) fn has(&self, key: &RowKey) -> bool {
        self.row(key).is_some()
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
