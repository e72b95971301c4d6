//! Rows into the image, and every index with them.

use std::sync::Arc;

use dataglot_model::def::{
    CatalogDef, GrantKey, GrantRecord, Header, MaskTarget, MembershipKey, MembershipRecord, ObjectId, OptionValue,
    PolicyDef, RoleDef, RowFilterTarget, ViewDef,
};
use dataglot_model::{Grantee, Mutation, Name, ObjectRef, Row, RowKey, TableRef};
use imbl::{OrdMap, OrdSet};

use super::Image;
use super::index::{ByGrantee, ByGrantor, ByMember};
use super::slot::{Hold, PolicySlot, SecretSlot, Slot};

impl Image {
    /// Applies a mutation. Never fails; a row may come before the others of its object.
    pub fn apply(&mut self, mutation: &Mutation) {
        match mutation {
            Mutation::Put(row) => self.put(row),
            Mutation::Delete(key) => self.delete(key),
        }
    }

    fn put(&mut self, row: &Row) {
        match row {
            Row::Header(object, header) => {
                let next = ObjectId(header.id.0.saturating_add(1));
                self.head.next_id = self.head.next_id.max(next);
                self.set_header(object, Some(header.clone()));
            }
            Row::Catalog(name, def) => self.set_catalog(name, |slot| slot.def = Some(def.clone())),
            Row::Secret(name, bytes, hash) => {
                self.unreadable.remove(name);
                self.set_secret(name, |slot| slot.envelope = Some((bytes.clone(), *hash)));
            }
            Row::Role(name, def) => {
                let def = shared(&mut self.last_role, def);
                self.set_role(name, |slot| slot.def = Some(def));
            }
            Row::Policy(name, def) => self.set_policy(name, |slot| slot.def = Some(def.clone())),
            Row::View(name, def) => self.set_view(name, |slot| slot.def = Some(def.clone())),
            Row::Grant(key, record) => self.put_grant(key, record),
            Row::Membership(key, record) => self.put_membership(key, record),
            Row::PreviousSecret(name, bytes, hash) => {
                self.set_secret(name, |slot| slot.previous = Some(Box::new((bytes.clone(), *hash))));
            }
            Row::DataKey(no, wrapped, hash) => {
                self.data_keys.insert(*no, (wrapped.clone(), *hash));
            }
        }
    }

    fn delete(&mut self, key: &RowKey) {
        match key {
            RowKey::Header(object) => self.set_header(object, None),
            RowKey::Catalog(name) => self.set_catalog(name, |slot| slot.def = None),
            RowKey::Secret(name) => {
                self.unreadable.remove(name);
                self.set_secret(name, |slot| slot.envelope = None);
            }
            RowKey::Role { name, login } => self.set_role(name, |slot| {
                if slot.def.as_ref().is_some_and(|def| def.login == *login) {
                    slot.def = None;
                }
            }),
            RowKey::Policy(name) => self.set_policy(name, |slot| slot.def = None),
            RowKey::View(name) => self.set_view(name, |slot| slot.def = None),
            RowKey::PreviousSecret(name) => self.set_secret(name, |slot| slot.previous = None),
            RowKey::DataKey(no) => {
                self.data_keys.remove(no);
            }
            RowKey::Grant(key) => {
                if let Some((key, _)) = self.grants.remove_with_key(key) {
                    self.grants_by_grantee.remove(&ByGrantee(key.clone()));
                    self.grants_by_grantor.remove(&ByGrantor(key));
                }
            }
            RowKey::Membership(key) => {
                if let Some((key, record)) = self.memberships.remove_with_key(key) {
                    self.memberships_by_member.remove(&ByMember(key.clone()));
                    for grantor in record.by.keys() {
                        self.memberships_by_grantor.remove(&(grantor.clone(), key.clone()));
                    }
                }
            }
        }
    }

    fn set_header(&mut self, object: &ObjectRef, header: Option<Arc<Header>>) {
        match object {
            ObjectRef::Role(name) => self.set_role(name, |slot| slot.header = header),
            ObjectRef::Secret(name) => {
                if header.is_none() {
                    self.unreadable.remove(name);
                }
                self.set_secret(name, |slot| slot.header = header);
            }
            ObjectRef::Catalog(name) => self.set_catalog(name, |slot| slot.header = header),
            ObjectRef::View(name) => self.set_view(name, |slot| slot.header = header),
            ObjectRef::Mask(name) => self.set_policy(name, |slot| slot.mask = header),
            ObjectRef::RowFilter(name) => self.set_policy(name, |slot| slot.filter = header),
            ObjectRef::Org(_) | ObjectRef::Schema(_) | ObjectRef::Table(_) | ObjectRef::Column(_) => {
                match header {
                    Some(header) => self.bare.insert(object.clone(), header),
                    None => self.bare.remove(object),
                };
            }
        }
    }

    fn set_role(&mut self, name: &Name, change: impl FnOnce(&mut Slot<RoleDef>)) {
        let (old, new) = change_slot(&mut self.roles, name, change);
        let id = |slot: &Slot<RoleDef>| slot.header.as_ref().map(|h| h.id);
        if id(&old) != id(&new) {
            if let Some(id) = id(&old)
                && self.role_ids.get(&id) == Some(name)
            {
                self.role_ids.remove(&id);
            }
            if let Some(id) = id(&new) {
                self.role_ids.insert(id, name.clone());
            }
        }
        let power = |slot: &Slot<RoleDef>| slot.object().filter(|r| r.def.superuser).map(|r| r.header.id);
        if power(&old) != power(&new) {
            if let Some(id) = power(&old) {
                self.superusers.remove(&(id, name.clone()));
            }
            if let Some(id) = power(&new) {
                self.superusers.insert((id, name.clone()));
            }
        }
    }

    fn set_catalog(&mut self, name: &Name, change: impl FnOnce(&mut Slot<CatalogDef>)) {
        let (old, new) = change_slot(&mut self.catalogs, name, change);
        move_owner(&mut self.owned, old.owner(), new.owner(), || ObjectRef::Catalog(name.clone()));
        if !same(&old.def, &new.def) {
            for secret in old.def.iter().flat_map(|def| secrets_of(def)) {
                self.secret_users.remove(&(secret.clone(), name.clone()));
            }
            for secret in new.def.iter().flat_map(|def| secrets_of(def)) {
                self.secret_users.insert((secret.clone(), name.clone()));
            }
        }
    }

    fn set_secret(&mut self, name: &Name, change: impl FnOnce(&mut SecretSlot)) {
        let (old, new) = change_slot(&mut self.secrets, name, change);
        let owner = |slot: &SecretSlot| slot.header.as_ref().and_then(|h| h.owner.clone());
        move_owner(&mut self.owned, owner(&old).as_ref(), owner(&new).as_ref(), || ObjectRef::Secret(name.clone()));
    }

    fn set_policy(&mut self, name: &Name, change: impl FnOnce(&mut PolicySlot)) {
        let (old, new) = change_slot(&mut self.policies, name, change);
        let owner = |header: &Option<Arc<Header>>| header.as_ref().and_then(|h| h.owner.clone());
        let [mask, filter] = [ObjectRef::Mask(name.clone()), ObjectRef::RowFilter(name.clone())];
        move_owner(&mut self.owned, owner(&old.mask).as_ref(), owner(&new.mask).as_ref(), || mask);
        move_owner(&mut self.owned, owner(&old.filter).as_ref(), owner(&new.filter).as_ref(), || filter);
        if !same(&old.def, &new.def) {
            if let Some(def) = &old.def {
                self.policy_places.remove(&(place_of(def), name.clone()));
                for role in roles_of(def) {
                    self.mentions.remove(&(role.clone(), name.clone()));
                }
            }
            if let Some(def) = &new.def {
                self.policy_places.insert((place_of(def), name.clone()));
                for role in roles_of(def) {
                    self.mentions.insert((role.clone(), name.clone()));
                }
            }
        }
    }

    fn set_view(&mut self, name: &TableRef, change: impl FnOnce(&mut Slot<ViewDef>)) {
        let (old, new) = change_slot(&mut self.views, name, change);
        move_owner(&mut self.owned, old.owner(), new.owner(), || ObjectRef::View(name.clone()));
        if !same(&old.def, &new.def) {
            for reference in old.def.iter().flat_map(|def| &def.references) {
                self.view_users.remove(&(reference.table.clone(), name.clone()));
            }
            for reference in new.def.iter().flat_map(|def| &def.references) {
                self.view_users.insert((reference.table.clone(), name.clone()));
            }
        }
    }

    fn put_grant(&mut self, key: &GrantKey, record: &Arc<GrantRecord>) {
        let record = shared(&mut self.last_grant, record);
        if let Some(place) = self.grants.get_mut(key) {
            *place = record;
            return;
        }
        let key = Arc::new(key.clone());
        self.grants_by_grantee.insert(ByGrantee(key.clone()));
        self.grants_by_grantor.insert(ByGrantor(key.clone()));
        self.grants.insert(key, record);
    }

    fn put_membership(&mut self, key: &MembershipKey, record: &Arc<MembershipRecord>) {
        let record = shared(&mut self.last_membership, record);
        let (key, old) = match self.memberships.get_key_value(key) {
            Some((key, old)) => (key.clone(), Some(old.clone())),
            None => (Arc::new(key.clone()), None),
        };
        match old {
            Some(old) => {
                for gone in old.by.keys().filter(|by| !record.by.contains_key(*by)) {
                    self.memberships_by_grantor.remove(&(gone.clone(), key.clone()));
                }
            }
            None => {
                self.memberships_by_member.insert(ByMember(key.clone()));
            }
        }
        for grantor in record.by.keys() {
            self.memberships_by_grantor.insert((grantor.clone(), key.clone()));
        }
        self.memberships.insert(key, record);
    }
}

/// Changes the slot of a name, which is there for as long as it holds something; gives it before and after.
fn change_slot<K: Ord + Clone, S: Hold>(slots: &mut OrdMap<K, S>, name: &K, change: impl FnOnce(&mut S)) -> (S, S) {
    if let Some(slot) = slots.get_mut(name) {
        let old = slot.clone();
        change(slot);
        let new = slot.clone();
        if new.is_empty() {
            slots.remove(name);
        }
        return (old, new);
    }
    let mut new = S::default();
    change(&mut new);
    if !new.is_empty() {
        slots.insert(name.clone(), new.clone());
    }
    (S::default(), new)
}

/// `value`, or the last one put if it is equal: a million default roles are one allocation.
fn shared<T: PartialEq>(last: &mut Option<Arc<T>>, value: &Arc<T>) -> Arc<T> {
    match last {
        Some(last) if **last == **value => last.clone(),
        Some(_) | None => last.insert(value.clone()).clone(),
    }
}

fn same<T>(a: &Option<Arc<T>>, b: &Option<Arc<T>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

fn move_owner(
    owned: &mut OrdSet<(Name, ObjectRef)>,
    old: Option<&Name>,
    new: Option<&Name>,
    object: impl FnOnce() -> ObjectRef,
) {
    if old == new {
        return;
    }
    let object = object();
    if let Some(old) = old {
        owned.remove(&(old.clone(), object.clone()));
    }
    if let Some(new) = new {
        owned.insert((new.clone(), object));
    }
}

/// The secrets that a catalog's options refer to.
pub(crate) fn secrets_of(def: &CatalogDef) -> impl Iterator<Item = &Name> {
    def.options.values().filter_map(|value| match value {
        OptionValue::Secret { name, .. } => Some(name),
        OptionValue::Text(_)
        | OptionValue::Integer(_)
        | OptionValue::Decimal(_)
        | OptionValue::Boolean(_)
        | OptionValue::Json(_)
        | OptionValue::Env(_) => None,
    })
}

/// The catalog, schema or table (a view is named as a table) that a policy is on.
pub(crate) fn place_of(def: &PolicyDef) -> ObjectRef {
    match def {
        PolicyDef::Mask(mask) => match &mask.target {
            MaskTarget::Column(column) => ObjectRef::Table(column.table()),
        },
        PolicyDef::RowFilter(filter) => match &filter.target {
            RowFilterTarget::Table(table) => ObjectRef::Table(table.clone()),
            RowFilterTarget::Schema(schema) => ObjectRef::Schema(schema.clone()),
            RowFilterTarget::Catalog(catalog) => ObjectRef::Catalog(catalog.clone()),
        },
    }
}

/// The roles that a policy's TO and EXCEPT name.
pub(crate) fn roles_of(def: &PolicyDef) -> impl Iterator<Item = &Name> {
    let audience = match def {
        PolicyDef::Mask(mask) => &mask.audience,
        PolicyDef::RowFilter(filter) => &filter.audience,
    };
    let to = audience.to.iter().flatten().filter_map(|grantee| match grantee {
        Grantee::Public => None,
        Grantee::Role(name) => Some(name),
    });
    to.chain(&audience.except)
}

/// The address of a policy.
pub(crate) fn policy_ref(name: &Name, def: &PolicyDef) -> ObjectRef {
    match def {
        PolicyDef::Mask(_) => ObjectRef::Mask(name.clone()),
        PolicyDef::RowFilter(_) => ObjectRef::RowFilter(name.clone()),
    }
}
