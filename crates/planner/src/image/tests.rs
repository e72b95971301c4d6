//! What the image keeps, whatever order rows come in.
#![allow(clippy::unwrap_used)]

use std::mem::size_of;
use std::sync::Arc;

use dataglot_model::def::{GrantKey, Header, ObjectId, RoleDef, Stamp};
use dataglot_model::{HeadRecord, Mutation, Name, ObjectRef, OrgName, Row, RowKey, Seq, Timestamp};

use super::Image;
use super::slot::{PolicySlot, SecretSlot, Slot};

impl Image {
    /// Every index, as text.
    pub(crate) fn indices(&self) -> String {
        let keys = |k: &Arc<GrantKey>| format!("{k:?}");
        format!(
            "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
            self.role_ids.iter().collect::<Vec<_>>(),
            self.superusers.iter().collect::<Vec<_>>(),
            self.owned.iter().collect::<Vec<_>>(),
            self.secret_users.iter().collect::<Vec<_>>(),
            self.view_users.iter().collect::<Vec<_>>(),
            self.policy_places.iter().collect::<Vec<_>>(),
            self.mentions.iter().collect::<Vec<_>>(),
            self.grants_by_grantee.iter().map(|k| keys(&k.0)).collect::<Vec<_>>(),
            self.grants_by_grantor.iter().map(|k| keys(&k.0)).collect::<Vec<_>>(),
            self.memberships_by_member.iter().map(|k| format!("{:?}", k.0)).collect::<Vec<_>>(),
            self.memberships_by_grantor.iter().collect::<Vec<_>>(),
        )
    }

    /// Whether every map and index is empty.
    pub(crate) fn is_empty_inside(&self) -> bool {
        self.catalogs.is_empty()
            && self.secrets.is_empty()
            && self.roles.is_empty()
            && self.policies.is_empty()
            && self.views.is_empty()
            && self.bare.is_empty()
            && self.grants.is_empty()
            && self.memberships.is_empty()
            && self.unreadable.is_empty()
            && self.role_ids.is_empty()
            && self.superusers.is_empty()
            && self.owned.is_empty()
            && self.secret_users.is_empty()
            && self.view_users.is_empty()
            && self.policy_places.is_empty()
            && self.mentions.is_empty()
            && self.grants_by_grantee.is_empty()
            && self.grants_by_grantor.is_empty()
            && self.memberships_by_member.is_empty()
            && self.memberships_by_grantor.is_empty()
    }
}

fn empty() -> Image {
    let head = HeadRecord { org_id: 1, seq: Seq(0), next_id: ObjectId(1), at: Timestamp(0) };
    Image::new(OrgName::default_org(), head)
}

fn header(id: u64) -> Arc<Header> {
    let stamp = Stamp { seq: Seq(1), at: Timestamp(0), by: Name::new("a").unwrap() };
    Arc::new(Header {
        id: ObjectId(id),
        owner: None,
        comment: None,
        version: 1,
        created: stamp.clone(),
        changed: stamp,
        secret: None,
        extra: None,
    })
}

#[test]
fn half_an_object_is_damaged_and_not_found() {
    let mut image = empty();
    let name = Name::new("r").unwrap();
    image.apply(&Mutation::Put(Row::Role(name.clone(), Arc::new(RoleDef::default()))));
    assert!(image.role(&name).is_none());
    assert_eq!(image.damaged(), [ObjectRef::Role(name.clone())]);
    image.apply(&Mutation::Put(Row::Header(ObjectRef::Role(name.clone()), header(7))));
    assert!(image.role(&name).is_some());
    assert_eq!(image.damaged(), []);
    assert_eq!(image.role_by_id(ObjectId(7)), Some(name.clone()));
    assert_eq!(image.head().next_id, ObjectId(8));
    // A row of the other table is not this one.
    image.apply(&Mutation::Delete(RowKey::Role { name: name.clone(), login: true }));
    assert!(image.role(&name).is_some());
    image.apply(&Mutation::Delete(RowKey::Role { name: name.clone(), login: false }));
    assert!(image.role(&name).is_none());
    assert_eq!(image.role_by_id(ObjectId(7)), None);
    image.apply(&Mutation::Delete(RowKey::Header(ObjectRef::Role(name))));
    assert!(image.is_empty_inside());
}

#[test]
fn a_fork_does_not_change_with_its_origin() {
    let mut image = empty();
    let fork = image.clone();
    image.apply(&Mutation::Put(Row::Role(Name::new("r").unwrap(), Arc::new(RoleDef::default()))));
    assert!(fork.is_empty_inside());
}

#[test]
fn equal_bodies_are_kept_once() {
    let mut image = empty();
    for i in 1..=2 {
        let name = Name::new(&format!("r{i}")).unwrap();
        image.apply(&Mutation::Put(Row::Role(name.clone(), Arc::new(RoleDef::default()))));
        image.apply(&Mutation::Put(Row::Header(ObjectRef::Role(name), header(i))));
    }
    let defs: Vec<_> = image.roles().map(|(_, role)| Arc::as_ptr(role.def)).collect();
    assert_eq!(defs[0], defs[1]);
}

/// A million objects have to fit into 600 MiB with all that is around them: entries are paid for twice,
/// since the nodes of a map that is filled in order are half empty.
#[test]
fn entries_stay_small() {
    assert_eq!(size_of::<(Name, Slot<RoleDef>)>(), 40);
    assert_eq!(size_of::<(Name, PolicySlot)>(), 48);
    assert!(size_of::<(Name, SecretSlot)>() <= 88);
    assert_eq!(size_of::<(Name, ObjectRef)>(), 56);
    assert!(size_of::<Header>() <= 160);
    assert!(size_of::<RoleDef>() <= 72);
    assert!(size_of::<GrantKey>() <= 96);
}
