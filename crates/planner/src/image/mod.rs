//! The state of one org: every object in persistent maps, so that a fork costs nothing.
//!
//! Built and changed by [`Image::apply`] alone, which never fails and takes rows in any order; an
//! object whose header or body has not come yet is kept aside ([`Image::damaged`]) and no look-up
//! finds it. Indices answer every question of the planner by a range of its own, so no statement
//! walks over objects that it does not concern.

mod apply;
mod index;
mod row;
mod slot;
#[cfg(test)]
mod tests;
mod within;

use std::sync::Arc;

use dataglot_model::def::{
    CatalogDef, GrantKey, GrantRecord, Header, MembershipKey, MembershipRecord, ObjectId, PolicyDef, RoleDef,
    SecretMeta, SecretOrigin, ViewDef,
};
use dataglot_model::{
    GrantTarget, Grantee, HeadRecord, Kind, Name, ObjectRef, OrgName, SecretHash, Seq, TableRef, Timestamp,
};
use imbl::{OrdMap, OrdSet};

pub(crate) use apply::{place_of, policy_ref, roles_of, secrets_of};
use index::{ByGrantee, ByGrantor, ByMember, first_grant_on, seconds};
use slot::{PolicySlot, SecretSlot, Slot};

/// The state of one org.
#[derive(Clone)]
pub struct Image {
    org: OrgName,
    head: HeadRecord,
    catalogs: OrdMap<Name, Slot<CatalogDef>>,
    secrets: OrdMap<Name, SecretSlot>,
    roles: OrdMap<Name, Slot<RoleDef>>,
    policies: OrdMap<Name, PolicySlot>,
    views: OrdMap<TableRef, Slot<ViewDef>>,
    /// Headers of what has no body here: orgs, and what is known of a source by its comment alone.
    bare: OrdMap<ObjectRef, Arc<Header>>,
    grants: OrdMap<Arc<GrantKey>, Arc<GrantRecord>>,
    memberships: OrdMap<Arc<MembershipKey>, Arc<MembershipRecord>>,
    /// The org's data keys, wrapped, by number.
    data_keys: OrdMap<u32, (Arc<[u8]>, SecretHash)>,
    /// Secrets whose ciphertext was found damaged.
    unreadable: OrdSet<Name>,

    role_ids: OrdMap<ObjectId, Name>,
    superusers: OrdSet<(ObjectId, Name)>,
    /// Owner, object.
    owned: OrdSet<(Name, ObjectRef)>,
    /// Secret, catalog that uses it.
    secret_users: OrdSet<(Name, Name)>,
    /// Table or view, view that names it.
    view_users: OrdSet<(TableRef, TableRef)>,
    /// Catalog, schema or table, policy on it.
    policy_places: OrdSet<(ObjectRef, Name)>,
    /// Role, policy that names it.
    mentions: OrdSet<(Name, Name)>,
    grants_by_grantee: OrdSet<ByGrantee>,
    grants_by_grantor: OrdSet<ByGrantor>,
    memberships_by_member: OrdSet<ByMember>,
    /// Grantor, membership.
    memberships_by_grantor: OrdSet<(Name, Arc<MembershipKey>)>,

    /// The last bodies put: most rows of these tables are equal to another one, and share it.
    last_role: Option<Arc<RoleDef>>,
    last_grant: Option<Arc<GrantRecord>>,
    last_membership: Option<Arc<MembershipRecord>>,
}

/// An object that is whole.
#[derive(Debug)]
pub struct Object<'a, D> {
    /// What every kind has.
    pub header: &'a Arc<Header>,
    /// What its kind has.
    pub def: &'a Arc<D>,
}

impl<D> Clone for Object<'_, D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for Object<'_, D> {}

/// A secret.
#[derive(Clone, Copy)]
pub struct Secret<'a> {
    /// What every kind has.
    pub header: &'a Arc<Header>,
    /// What is known of the value; from the header.
    pub meta: &'a SecretMeta,
    /// The ciphertext. `None` where the value is not in the store, or was lost.
    pub envelope: Option<&'a Arc<[u8]>>,
    /// The ciphertext of the value before it. `None` where that is not in the store, is not kept, or was lost.
    pub previous: Option<&'a Arc<[u8]>>,
}

impl Image {
    /// An org without an object.
    pub fn new(org: OrgName, head: HeadRecord) -> Self {
        Image {
            org,
            head,
            catalogs: OrdMap::new(),
            secrets: OrdMap::new(),
            roles: OrdMap::new(),
            policies: OrdMap::new(),
            views: OrdMap::new(),
            bare: OrdMap::new(),
            grants: OrdMap::new(),
            memberships: OrdMap::new(),
            data_keys: OrdMap::new(),
            unreadable: OrdSet::new(),
            role_ids: OrdMap::new(),
            superusers: OrdSet::new(),
            owned: OrdSet::new(),
            secret_users: OrdSet::new(),
            view_users: OrdSet::new(),
            policy_places: OrdSet::new(),
            mentions: OrdSet::new(),
            grants_by_grantee: OrdSet::new(),
            grants_by_grantor: OrdSet::new(),
            memberships_by_member: OrdSet::new(),
            memberships_by_grantor: OrdSet::new(),
            last_role: None,
            last_grant: None,
            last_membership: None,
        }
    }

    /// Which org.
    pub fn org(&self) -> &OrgName {
        &self.org
    }

    /// What is kept of it besides its rows.
    pub fn head(&self) -> HeadRecord {
        self.head
    }

    /// Its last transaction.
    pub fn seq(&self) -> Seq {
        self.head.seq
    }

    /// A transaction of number `seq`, started at `at`, was committed: its mutations have been applied.
    pub fn advance(&mut self, seq: Seq, at: Timestamp) {
        self.head.seq = seq;
        self.head.at = at;
    }

    /// Other transactions were committed: what they have made of the rows has been applied.
    pub fn set_head(&mut self, head: HeadRecord) {
        self.head = head;
    }

    /// How many rows it holds: objects, grants and memberships.
    pub fn rows(&self) -> usize {
        self.catalogs.len()
            + self.secrets.len()
            + self.roles.len()
            + self.policies.len()
            + self.views.len()
            + self.bare.len()
            + self.grants.len()
            + self.memberships.len()
    }

    /// The catalog of that name. Never the built-in one.
    pub fn catalog(&self, name: &Name) -> Option<Object<'_, CatalogDef>> {
        self.catalogs.get(name).and_then(Slot::object)
    }

    /// The role of that name.
    pub fn role(&self, name: &Name) -> Option<Object<'_, RoleDef>> {
        self.roles.get(name).and_then(Slot::object)
    }

    /// The mask or row filter of that name.
    pub fn policy(&self, name: &Name) -> Option<Object<'_, PolicyDef>> {
        self.policies.get(name).and_then(PolicySlot::object)
    }

    /// The view of that name.
    pub fn view(&self, name: &TableRef) -> Option<Object<'_, ViewDef>> {
        self.views.get(name).and_then(Slot::object)
    }

    /// The secret of that name, also one whose ciphertext is damaged or lost.
    pub fn secret(&self, name: &Name) -> Option<Secret<'_>> {
        self.secrets.get(name).and_then(SecretSlot::secret)
    }

    /// The header of a whole object, of a commented schema, table or column, or of an org.
    pub fn header(&self, object: &ObjectRef) -> Option<&Arc<Header>> {
        match object {
            ObjectRef::Role(name) => self.role(name).map(|o| o.header),
            ObjectRef::Secret(name) => self.secret(name).map(|o| o.header),
            ObjectRef::Catalog(name) => self.catalog(name).map(|o| o.header),
            ObjectRef::View(name) => self.view(name).map(|o| o.header),
            ObjectRef::Mask(name) | ObjectRef::RowFilter(name) => {
                self.policy(name).filter(|o| kind_of_policy(o.def) == object.kind()).map(|o| o.header)
            }
            ObjectRef::Org(_) | ObjectRef::Schema(_) | ObjectRef::Table(_) | ObjectRef::Column(_) => {
                self.bare.get(object)
            }
        }
    }

    /// The present name of the role of that identity.
    pub fn role_by_id(&self, id: ObjectId) -> Option<Name> {
        self.role_ids.get(&id).filter(|name| self.role(name).is_some_and(|r| r.header.id == id)).cloned()
    }

    /// Whether the org exists. Only the image of the org `default` knows.
    pub fn org_exists(&self, name: &OrgName) -> bool {
        name.is_default() || self.bare.contains_key(&ObjectRef::Org(name.clone()))
    }

    /// The orgs besides `default`, in order. Only the image of the org `default` knows them.
    pub fn orgs(&self) -> impl Iterator<Item = (&OrgName, &Arc<Header>)> {
        self.bare.iter().map_while(|(object, header)| match object {
            ObjectRef::Org(name) => Some((name, header)),
            ObjectRef::Role(_)
            | ObjectRef::Secret(_)
            | ObjectRef::Catalog(_)
            | ObjectRef::Schema(_)
            | ObjectRef::Table(_)
            | ObjectRef::Column(_)
            | ObjectRef::View(_)
            | ObjectRef::Mask(_)
            | ObjectRef::RowFilter(_) => None,
        })
    }

    /// Every catalog, in the order of their names.
    pub fn catalogs(&self) -> impl Iterator<Item = (&Name, Object<'_, CatalogDef>)> {
        self.catalogs.iter().filter_map(|(name, slot)| Some((name, slot.object()?)))
    }

    /// Every secret, in the order of their names.
    pub fn secrets(&self) -> impl Iterator<Item = (&Name, Secret<'_>)> {
        self.secrets.iter().filter_map(|(name, slot)| Some((name, slot.secret()?)))
    }

    /// The org's data keys, wrapped, with their hashes, in the order of their numbers.
    pub fn data_keys(&self) -> impl Iterator<Item = (u32, &Arc<[u8]>, SecretHash)> {
        self.data_keys.iter().map(|(no, (wrapped, hash))| (*no, wrapped, *hash))
    }

    /// The data key of that number, wrapped, with its hash.
    pub fn data_key(&self, no: u32) -> Option<(&Arc<[u8]>, SecretHash)> {
        self.data_keys.get(&no).map(|(wrapped, hash)| (wrapped, *hash))
    }

    /// Every role, users among them, in the order of their names.
    pub fn roles(&self) -> impl Iterator<Item = (&Name, Object<'_, RoleDef>)> {
        self.roles.iter().filter_map(|(name, slot)| Some((name, slot.object()?)))
    }

    /// Every mask and row filter, in the order of their names.
    pub fn policies(&self) -> impl Iterator<Item = (&Name, Object<'_, PolicyDef>)> {
        self.policies.iter().filter_map(|(name, slot)| Some((name, slot.object()?)))
    }

    /// Every view, in the order of their names.
    pub fn views(&self) -> impl Iterator<Item = (&TableRef, Object<'_, ViewDef>)> {
        self.views.iter().filter_map(|(name, slot)| Some((name, slot.object()?)))
    }

    /// The commented schemas, tables and columns, in that order and by name.
    pub fn comments(&self) -> impl Iterator<Item = (&ObjectRef, &Arc<Header>)> {
        self.bare.iter().filter(|(object, _)| object.kind() != Kind::Org)
    }

    /// Every grant of privileges, in the order of targets.
    pub fn grants(&self) -> impl Iterator<Item = (&GrantKey, &Arc<GrantRecord>)> {
        self.grants.iter().map(|(key, record)| (&**key, record))
    }

    /// One grant.
    pub fn grant(&self, key: &GrantKey) -> Option<&Arc<GrantRecord>> {
        self.grants.get(key)
    }

    /// The grants on exactly that target.
    pub fn grants_on<'a>(
        &'a self,
        target: &GrantTarget,
    ) -> impl Iterator<Item = (&'a GrantKey, &'a Arc<GrantRecord>)> + use<'a> {
        let wanted = target.clone();
        self.grants
            .range(first_grant_on(target.clone())..)
            .map(|(key, record)| (&**key, record))
            .take_while(move |(key, _)| key.target == wanted)
    }

    /// The grants to exactly that grantee, in the order of targets.
    pub fn grants_to<'a>(
        &'a self,
        grantee: &Grantee,
    ) -> impl Iterator<Item = (&'a GrantKey, &'a Arc<GrantRecord>)> + use<'a> {
        let wanted = grantee.clone();
        let probe = GrantKey { target: GrantTarget::System, grantee: grantee.clone(), grantor: Name::LEAST };
        self.grants_by_grantee
            .range(ByGrantee(Arc::new(probe))..)
            .take_while(move |k| k.0.grantee == wanted)
            .filter_map(|k| Some((&*k.0, self.grants.get(&*k.0)?)))
    }

    /// The grants by that role, in the order of targets.
    pub fn grants_by<'a>(
        &'a self,
        grantor: &Name,
    ) -> impl Iterator<Item = (&'a GrantKey, &'a Arc<GrantRecord>)> + use<'a> {
        let wanted = grantor.clone();
        let probe = GrantKey { target: GrantTarget::System, grantee: Grantee::Public, grantor: grantor.clone() };
        self.grants_by_grantor
            .range(ByGrantor(Arc::new(probe))..)
            .take_while(move |k| k.0.grantor == wanted)
            .filter_map(|k| Some((&*k.0, self.grants.get(&*k.0)?)))
    }

    /// The grants to that role, then those that it has made to others.
    pub fn grants_naming<'a>(
        &'a self,
        role: &Name,
    ) -> impl Iterator<Item = (&'a GrantKey, &'a Arc<GrantRecord>)> + use<'a> {
        let grantee = Grantee::Role(role.clone());
        let to = self.grants_to(&grantee);
        to.chain(self.grants_by(role).filter(move |(key, _)| key.grantee != grantee))
    }

    /// Every membership, in the order of the role granted, then of the member.
    pub fn memberships(&self) -> impl Iterator<Item = (&MembershipKey, &Arc<MembershipRecord>)> {
        self.memberships.iter().map(|(key, record)| (&**key, record))
    }

    /// One membership.
    pub fn membership(&self, key: &MembershipKey) -> Option<&Arc<MembershipRecord>> {
        self.memberships.get(key)
    }

    /// The memberships in that role, in the order of members.
    pub fn members_of<'a>(
        &'a self,
        role: &Name,
    ) -> impl Iterator<Item = (&'a MembershipKey, &'a Arc<MembershipRecord>)> + use<'a> {
        let wanted = role.clone();
        self.memberships
            .range(MembershipKey { role: role.clone(), member: Name::LEAST }..)
            .map(|(key, record)| (&**key, record))
            .take_while(move |(key, _)| key.role == wanted)
    }

    /// The memberships of that role in others, in the order of those.
    pub fn roles_of<'a>(
        &'a self,
        member: &Name,
    ) -> impl Iterator<Item = (&'a MembershipKey, &'a Arc<MembershipRecord>)> + use<'a> {
        let wanted = member.clone();
        let probe = MembershipKey { role: Name::LEAST, member: member.clone() };
        self.memberships_by_member
            .range(ByMember(Arc::new(probe))..)
            .take_while(move |k| k.0.member == wanted)
            .filter_map(|k| Some((&*k.0, self.memberships.get(&*k.0)?)))
    }

    /// The memberships that this role has granted, in order.
    pub fn memberships_by<'a>(&'a self, grantor: &Name) -> impl Iterator<Item = &'a MembershipKey> + use<'a> {
        let wanted = grantor.clone();
        let probe = Arc::new(MembershipKey { role: Name::LEAST, member: Name::LEAST });
        self.memberships_by_grantor
            .range((grantor.clone(), probe)..)
            .take_while(move |(by, _)| *by == wanted)
            .map(|(_, key)| &**key)
    }

    /// What that role owns, in the order of kinds and names.
    pub fn owned_by<'a>(&'a self, owner: &Name) -> impl Iterator<Item = &'a ObjectRef> + use<'a> {
        seconds(&self.owned, owner)
    }

    /// The catalogs whose options refer to that secret, in order.
    pub fn catalogs_using<'a>(&'a self, secret: &Name) -> impl Iterator<Item = &'a Name> + use<'a> {
        seconds(&self.secret_users, secret)
    }

    /// The views whose queries name exactly that table or view, in order.
    pub fn views_using<'a>(&'a self, table: &TableRef) -> impl Iterator<Item = &'a TableRef> + use<'a> {
        seconds(&self.view_users, table)
    }

    /// The policies on exactly that catalog, schema, table or view (named as a table), in order. A mask is
    /// on the table that has its column.
    pub fn policies_on<'a>(&'a self, place: &ObjectRef) -> impl Iterator<Item = &'a Name> + use<'a> {
        seconds(&self.policy_places, place)
    }

    /// The policies that name that role, in order.
    pub fn policies_naming<'a>(&'a self, role: &Name) -> impl Iterator<Item = &'a Name> + use<'a> {
        seconds(&self.mentions, role)
    }

    /// The superuser that is there longest: it stands for the system as a grantor.
    pub fn bootstrap_superuser(&self) -> Option<&Name> {
        self.superusers.get_min().map(|(_, name)| name)
    }

    /// The superusers, by age.
    pub fn superusers(&self) -> impl Iterator<Item = &Name> {
        self.superusers.iter().map(|(_, name)| name)
    }

    /// Marks a secret as one whose ciphertext is damaged, or takes the mark away. A new value does, too.
    pub fn mark_unreadable(&mut self, secret: &Name, yes: bool) {
        if yes {
            self.unreadable.insert(secret.clone());
        } else {
            self.unreadable.remove(secret);
        }
    }

    /// Whether the value of that secret is in the store and cannot be had from it: its ciphertext is marked
    /// as damaged, is lost, or is not the one that the header was written for.
    pub fn is_unreadable(&self, secret: &Name) -> bool {
        self.unreadable.contains(secret) || self.secrets.get(secret).is_some_and(SecretSlot::is_broken)
    }

    /// Whether the value of that secret was in the store and is not any more, as after its key was lost.
    pub fn is_lost(&self, secret: &Name) -> bool {
        self.sealed_hash(secret).is_some()
            && !self.unreadable.contains(secret)
            && self.secrets.get(secret).is_some_and(|slot| slot.envelope.is_none())
    }

    /// What is there in part only: a header without its body, or a body without its header.
    pub fn damaged(&self) -> Vec<ObjectRef> {
        let mut found = Vec::new();
        let roles = self.roles.iter().filter(|(_, s)| s.object().is_none());
        found.extend(roles.map(|(name, _)| ObjectRef::Role(name.clone())));
        let secrets = self.secrets.iter().filter(|(_, s)| s.is_broken() || s.is_previous_broken());
        found.extend(secrets.map(|(name, _)| ObjectRef::Secret(name.clone())));
        let catalogs = self.catalogs.iter().filter(|(_, s)| s.object().is_none());
        found.extend(catalogs.map(|(name, _)| ObjectRef::Catalog(name.clone())));
        let views = self.views.iter().filter(|(_, s)| s.object().is_none());
        found.extend(views.map(|(name, _)| ObjectRef::View(name.clone())));
        let policies = self.policies.iter().filter(|(_, s)| !s.is_whole());
        found.extend(policies.map(|(name, slot)| slot.object_ref(name)));
        found
    }

    /// Whether the value that the secret had before is kept in the store and cannot be had from it.
    pub fn is_previous_unreadable(&self, secret: &Name) -> bool {
        self.secrets.get(secret).is_some_and(SecretSlot::is_previous_broken)
    }

    /// The ciphertext that a secret's value was sealed into; `None` where its value is not in the store.
    pub(crate) fn sealed_hash(&self, secret: &Name) -> Option<SecretHash> {
        match &self.secret(secret)?.meta.origin {
            SecretOrigin::Sealed(hash) => Some(*hash),
            SecretOrigin::Env(_) | SecretOrigin::File(_) => None,
        }
    }

    /// The ciphertext that the value before it was sealed into; `None` where there is none, or not in the store.
    pub(crate) fn previous_hash(&self, secret: &Name) -> Option<SecretHash> {
        match &self.secret(secret)?.meta.previous.as_ref()?.origin {
            SecretOrigin::Sealed(hash) => Some(*hash),
            SecretOrigin::Env(_) | SecretOrigin::File(_) => None,
        }
    }
}

impl std::fmt::Debug for Image {
    /// Which one, not what is in it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("org", &self.org).field("head", &self.head).finish_non_exhaustive()
    }
}

/// Whether a policy is a mask or a row filter.
pub(crate) const fn kind_of_policy(def: &PolicyDef) -> Kind {
    match def {
        PolicyDef::Mask(_) => Kind::Mask,
        PolicyDef::RowFilter(_) => Kind::RowFilter,
    }
}
