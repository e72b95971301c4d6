//! Keys of the image's indices.
//!
//! An index is a flat ordered set of pairs: it costs no more for a name with one entry than for one
//! with a million, and a range of it starts at a probe whose second part sorts before every other.
//! Keys of several names are shared (`Arc`) between the map and its indices.

use std::cmp::Ordering;
use std::sync::Arc;

use dataglot_model::def::{GrantKey, MembershipKey};
use dataglot_model::{ColumnRef, GrantTarget, Grantee, Name, ObjectRef, OrgName, SchemaRef, TableRef};
use imbl::OrdSet;

/// A value that sorts before every one that a key can hold.
pub(super) trait Least {
    fn least() -> Self;
}

impl Least for Name {
    fn least() -> Self {
        Name::LEAST
    }
}

impl Least for TableRef {
    fn least() -> Self {
        TableRef::least_within(&[])
    }
}

impl Least for ObjectRef {
    /// Orgs sort first, and no index of objects holds one.
    fn least() -> Self {
        ObjectRef::Org(OrgName::default_org())
    }
}

/// The second parts of the pairs that begin with `first`, in order.
pub(super) fn seconds<'a, A, B>(pairs: &'a OrdSet<(A, B)>, first: &A) -> impl Iterator<Item = &'a B> + use<'a, A, B>
where
    A: Ord + Clone,
    B: Ord + Clone + Least,
{
    let wanted = first.clone();
    pairs.range((first.clone(), B::least())..).take_while(move |(a, _)| *a == wanted).map(|(_, b)| b)
}

/// A grant, in the order of its grantee.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ByGrantee(pub(super) Arc<GrantKey>);

impl Ord for ByGrantee {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&*self.0, &*other.0);
        a.grantee.cmp(&b.grantee).then_with(|| a.cmp(b))
    }
}

impl PartialOrd for ByGrantee {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A grant, in the order of its grantor.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ByGrantor(pub(super) Arc<GrantKey>);

impl Ord for ByGrantor {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&*self.0, &*other.0);
        a.grantor.cmp(&b.grantor).then_with(|| a.cmp(b))
    }
}

impl PartialOrd for ByGrantor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A membership, in the order of its member.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ByMember(pub(super) Arc<MembershipKey>);

impl Ord for ByMember {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (&*self.0, &*other.0);
        a.member.cmp(&b.member).then_with(|| a.role.cmp(&b.role))
    }
}

impl PartialOrd for ByMember {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Where the grants on `target` start.
pub(super) fn first_grant_on(target: GrantTarget) -> GrantKey {
    GrantKey { target, grantee: Grantee::Public, grantor: Name::LEAST }
}

/// Where the schemas, tables and columns of a catalog start, among targets and headers.
pub(super) fn first_schema_of(catalog: &Name) -> ObjectRef {
    ObjectRef::Schema(SchemaRef::least_within(&[catalog.as_str()]))
}

/// As [`first_schema_of`].
pub(super) fn first_table_of(catalog: &Name) -> ObjectRef {
    ObjectRef::Table(TableRef::least_within(&[catalog.as_str()]))
}

/// As [`first_schema_of`].
pub(super) fn first_column_of(catalog: &Name) -> ObjectRef {
    ObjectRef::Column(ColumnRef::least_within(&[catalog.as_str()]))
}

/// The catalog that an object is in; `None` for one that is in none, and for a catalog itself.
pub(crate) fn catalog_of(object: &ObjectRef) -> Option<Name> {
    match object {
        ObjectRef::Schema(name) => Some(name.catalog()),
        ObjectRef::Table(name) | ObjectRef::View(name) => Some(name.catalog()),
        ObjectRef::Column(name) => Some(name.catalog()),
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Secret(_)
        | ObjectRef::Catalog(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => None,
    }
}
