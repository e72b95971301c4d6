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
            && self.data_keys.is_empty()
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

fn resident_mib() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096 / (1024 * 1024)
}

/// Prints what a million objects of a kind cost; run it by name, on its own.
#[test]
#[ignore = "takes long and prints"]
fn a_million_objects() {
    use dataglot_model::def::{
        GrantRecord, MembershipKey, MembershipOptions, MembershipRecord, ReferenceRole, SecurityMode, ViewDef,
        ViewReference,
    };
    use dataglot_model::{GrantTarget, Grantee, Privilege, PrivilegeSet, TableRef};
    let mut image = empty();
    let owner = Name::new("admin").unwrap();
    let name = |what: &str, i: u64| Name::new(&format!("{what}_{i:07}")).unwrap();
    let owned = |i: u64| {
        let mut header = Header::clone(&header(i));
        header.owner = Some(owner.clone());
        Arc::new(header)
    };
    let mut last = resident_mib();
    let mut report = |what: &str, count: u64, start: std::time::Instant| {
        let now = resident_mib();
        println!(
            "{what}: {} B each, {:?}",
            (now - last) * 1024 * 1024 / count as usize,
            start.elapsed() / count as u32
        );
        last = now;
    };
    let count = 200_000;
    let start = std::time::Instant::now();
    for i in 0..count {
        image.apply(&Mutation::Put(Row::Header(ObjectRef::Role(name("role", i)), header(i))));
    }
    for i in 0..count {
        image.apply(&Mutation::Put(Row::Role(name("role", i), Arc::new(RoleDef::default()))));
    }
    report("role", count, start);
    let start = std::time::Instant::now();
    for i in 0..count {
        let verifier: Option<Arc<str>> = Some(Arc::from(format!("{i:0133}")));
        image.apply(&Mutation::Put(Row::Header(ObjectRef::Role(name("user", i)), header(count + i))));
        let def = RoleDef { login: true, verifier, ..RoleDef::default() };
        image.apply(&Mutation::Put(Row::Role(name("user", i), Arc::new(def))));
    }
    report("user", count, start);
    let start = std::time::Instant::now();
    for i in 0..count {
        let key = GrantKey {
            target: GrantTarget::Object(ObjectRef::Catalog(name("catalog", i / 100))),
            grantee: Grantee::Role(name("role", i)),
            grantor: owner.clone(),
        };
        let privileges = PrivilegeSet::of(&[Privilege::Usage]);
        image.apply(&Mutation::Put(Row::Grant(key, Arc::new(GrantRecord { privileges, ..GrantRecord::default() }))));
    }
    report("grant", count, start);
    let start = std::time::Instant::now();
    for i in 0..count {
        let key = MembershipKey { role: name("role", i % 1000), member: name("user", i) };
        let options = MembershipOptions { admin: false, inherit: true, set: true };
        let by = std::iter::once((owner.clone(), options)).collect();
        image.apply(&Mutation::Put(Row::Membership(key, Arc::new(MembershipRecord { by, extra: None }))));
    }
    report("membership", count, start);
    let start = std::time::Instant::now();
    for i in 0..count {
        let view = TableRef::from_parts(["dataglot", "public", &format!("v_{i:07}")]).unwrap();
        let table = TableRef::from_parts(["pg", "public", &format!("t_{:05}", i % 10_000)]).unwrap();
        let def = ViewDef {
            query: Arc::from(format!("SELECT a, b, c FROM {table} WHERE a > {i}")),
            references: vec![ViewReference { table, start: 20, end: 37, role: ReferenceRole::Bare }],
            columns: None,
            security: SecurityMode::Invoker,
            options: Default::default(),
            extra: None,
        };
        image.apply(&Mutation::Put(Row::Header(ObjectRef::View(view.clone()), owned(2 * count + i))));
        image.apply(&Mutation::Put(Row::View(view, Arc::new(def))));
    }
    report("view", count, start);
}
