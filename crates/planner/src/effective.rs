//! Who may do what: grants as they work out, with memberships, patterns, `PUBLIC` and ownership.
//!
//! Reads an [`Image`], changes nothing. Every walk over memberships visits a role once, so a cycle in
//! a damaged store ends it like anything else.

use std::collections::{BTreeMap, BTreeSet};

use dataglot_model::def::{GrantRecord, MembershipRecord};
use dataglot_model::{
    ColumnRef, GrantTarget, Grantee, Name, ObjectRef, PatternKind, PatternScope, Privilege, PrivilegeSet, RemoteName,
    TableRef,
};

use crate::image::Image;

/// Privileges that someone has on a target, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveGrant {
    /// On what. A pattern stays a pattern.
    pub target: GrantTarget,
    /// The privileges.
    pub privileges: PrivilegeSet,
    /// `SELECT (column)`, and whether it may be granted on.
    pub columns: BTreeMap<RemoteName, bool>,
    /// Those of the privileges that may be granted on.
    pub grantable: PrivilegeSet,
    /// They are all that ALL meant when it was granted.
    pub as_all: bool,
    /// Whose grant it is: the grantee's own, that of a role it inherits from, or everyone's.
    pub via: Grantee,
    /// The right of an owner, which nobody granted.
    pub implied: bool,
}

/// What works for `grantee`, by target, then by whose grant it is. The grants of several grantors
/// are one line each target; superusers have more, since they bypass grants.
pub fn effective_grants(image: &Image, grantee: &Grantee) -> Vec<EffectiveGrant> {
    let mut found: BTreeMap<(GrantTarget, Grantee, bool), EffectiveGrant> = BTreeMap::new();
    let roles = match grantee {
        Grantee::Public => BTreeSet::new(),
        Grantee::Role(role) => inherited(image, role),
    };
    for role in &roles {
        for object in image.owned_by(role) {
            let target = GrantTarget::Object(object.clone());
            let Some(class) = target.class() else { continue };
            let via = Grantee::Role(role.clone());
            let grant = EffectiveGrant {
                target: target.clone(),
                privileges: class.all(),
                columns: BTreeMap::new(),
                grantable: class.all(),
                as_all: true,
                via: via.clone(),
                implied: true,
            };
            found.insert((target, via, true), grant);
        }
    }
    let everyone = roles.into_iter().map(Grantee::Role).chain([Grantee::Public]);
    for via in everyone {
        for (key, record) in image.grants_to(&via) {
            let slot = found.entry((key.target.clone(), via.clone(), false)).or_insert_with(|| EffectiveGrant {
                target: key.target.clone(),
                privileges: PrivilegeSet::EMPTY,
                columns: BTreeMap::new(),
                grantable: PrivilegeSet::EMPTY,
                as_all: false,
                via: via.clone(),
                implied: false,
            });
            slot.privileges = slot.privileges.union(record.privileges);
            slot.grantable = slot.grantable.union(record.grantable);
            slot.as_all |= record.as_all;
            for (column, option) in &record.columns {
                *slot.columns.entry(column.clone()).or_default() |= *option;
            }
        }
    }
    found.into_values().collect()
}

/// Whether `role` may use `privilege` on `target`: as superuser, as owner, by a grant to it, to a
/// role it inherits from or to `PUBLIC`, on the target or on a pattern that covers it.
///
/// A column target asks for SELECT on that column. A `FUTURE` pattern counts for views alone, where
/// it has become a grant on the view when that was made: when a table of a source appeared is not
/// known here.
pub fn has_privilege(image: &Image, role: &Name, target: &GrantTarget, privilege: Privilege) -> bool {
    if image.role(role).is_some_and(|found| found.def.superuser) {
        return true;
    }
    let roles = inherited(image, role);
    if owner_of(image, target).is_some_and(|owner| roles.contains(&owner)) {
        return true;
    }
    let column = column_of(target);
    let holds = |record: &GrantRecord| {
        let by_column = column.as_ref().is_some_and(|c| record.columns.contains_key(&c.column()));
        record.privileges.contains(privilege) || (privilege == Privilege::Select && by_column)
    };
    covering(image, target).iter().any(|target| {
        image.grants_on(target).any(|(key, record)| {
            let named = match &key.grantee {
                Grantee::Public => true,
                Grantee::Role(name) => roles.contains(name),
            };
            named && holds(record)
        })
    })
}

/// Whether every role there is has `privilege` on `target`, since `PUBLIC` has it.
pub(crate) fn public_has_privilege(image: &Image, target: &GrantTarget, privilege: Privilege) -> bool {
    covering(image, target).iter().any(|target| {
        image.grants_on(target).any(|(key, r)| key.grantee == Grantee::Public && r.privileges.contains(privilege))
    })
}

/// The roles whose privileges `role` uses without SET ROLE: itself first, then the others by name.
pub fn usable_roles(image: &Image, role: &Name) -> Vec<Name> {
    let others = roles_of_transitive(image, role, Along::Inherit).into_iter().filter(|other| other != role);
    std::iter::once(role.clone()).chain(others).collect()
}

/// Over which memberships one comes from a role to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Along {
    /// Over all of them.
    Any,
    /// Over those that inherit.
    Inherit,
    /// Over those with the SET option.
    Set,
}

impl Along {
    fn passes(self, record: &MembershipRecord) -> bool {
        match self {
            Along::Any => true,
            Along::Inherit => record.by.values().any(|options| options.inherit),
            Along::Set => record.by.values().any(|options| options.set),
        }
    }
}

/// The roles that `role` is a member of, over any number of hops, without itself unless a cycle
/// leads back.
pub fn roles_of_transitive(image: &Image, role: &Name, along: Along) -> BTreeSet<Name> {
    let mut seen = BTreeSet::new();
    let mut queue = vec![role.clone()];
    while let Some(member) = queue.pop() {
        for (key, record) in image.roles_of(&member) {
            if along.passes(record) && seen.insert(key.role.clone()) {
                queue.push(key.role.clone());
            }
        }
    }
    seen
}

/// `role` and what it inherits from.
fn inherited(image: &Image, role: &Name) -> BTreeSet<Name> {
    let mut roles = roles_of_transitive(image, role, Along::Inherit);
    roles.insert(role.clone());
    roles
}

/// Who owns `target`, and so grants on it: the owner of the object; for what lies in a catalog and is
/// not ours, the catalog's; for the rest the bootstrap superuser.
pub(crate) fn owner_of(image: &Image, target: &GrantTarget) -> Option<Name> {
    let by_header = |object: &ObjectRef| image.header(object).and_then(|header| header.owner.clone());
    let by_catalog = |catalog: Name| by_header(&ObjectRef::Catalog(catalog));
    let owner = match target {
        GrantTarget::System | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => None,
        GrantTarget::Pattern { within: PatternScope::Schema(schema), .. } => by_catalog(schema.catalog()),
        GrantTarget::Pattern { within: PatternScope::Catalog(catalog), .. } => by_catalog(catalog.clone()),
        GrantTarget::Object(object) => match object {
            ObjectRef::Schema(schema) => by_catalog(schema.catalog()),
            ObjectRef::Table(table) => {
                by_header(&ObjectRef::View(table.clone())).or_else(|| by_catalog(table.catalog()))
            }
            ObjectRef::Column(column) => {
                by_header(&ObjectRef::View(column.table())).or_else(|| by_catalog(column.catalog()))
            }
            ObjectRef::Catalog(_)
            | ObjectRef::Secret(_)
            | ObjectRef::View(_)
            | ObjectRef::Mask(_)
            | ObjectRef::RowFilter(_)
            | ObjectRef::Org(_)
            | ObjectRef::Role(_) => by_header(object),
        },
    };
    owner.or_else(|| image.bootstrap_superuser().cloned())
}

fn column_of(target: &GrantTarget) -> Option<ColumnRef> {
    let GrantTarget::Object(ObjectRef::Column(column)) = target else { return None };
    Some(column.clone())
}

fn pattern(of: PatternKind, within: PatternScope, future: bool) -> GrantTarget {
    GrantTarget::Pattern { of, within, future }
}

/// The targets whose grants hold for `target`: itself first, then broader ones.
pub(crate) fn covering(image: &Image, target: &GrantTarget) -> Vec<GrantTarget> {
    let table = |table: &TableRef| {
        let is_view = image.view(table).is_some();
        let own = if is_view { ObjectRef::View(table.clone()) } else { ObjectRef::Table(table.clone()) };
        let mut all = vec![GrantTarget::Object(own)];
        // As in PostgreSQL, a view is one of ALL TABLES.
        let kinds: &[PatternKind] =
            if is_view { &[PatternKind::Tables, PatternKind::Views] } else { &[PatternKind::Tables] };
        for of in kinds {
            all.push(pattern(*of, PatternScope::Schema(table.schema()), false));
            all.push(pattern(*of, PatternScope::Catalog(table.catalog()), false));
        }
        all
    };
    match target {
        GrantTarget::System | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => vec![target.clone()],
        GrantTarget::Pattern { of, within, future } => {
            let kinds = match of {
                PatternKind::Tables => vec![PatternKind::Tables],
                PatternKind::Views => vec![PatternKind::Views, PatternKind::Tables],
                PatternKind::Schemas => vec![PatternKind::Schemas],
            };
            let scopes = match within {
                PatternScope::Schema(schema) => vec![within.clone(), PatternScope::Catalog(schema.catalog())],
                PatternScope::Catalog(_) => vec![within.clone()],
            };
            let ages: &[bool] = if *future { &[true, false] } else { &[false] };
            let mut all = Vec::new();
            for of in kinds {
                for scope in &scopes {
                    all.extend(ages.iter().map(|future| pattern(of, scope.clone(), *future)));
                }
            }
            all
        }
        GrantTarget::Object(object) => match object {
            ObjectRef::Catalog(_) => vec![target.clone(), GrantTarget::AllCatalogs],
            ObjectRef::Secret(_) => vec![target.clone(), GrantTarget::AllSecrets],
            ObjectRef::Schema(schema) => {
                vec![target.clone(), pattern(PatternKind::Schemas, PatternScope::Catalog(schema.catalog()), false)]
            }
            ObjectRef::Table(name) | ObjectRef::View(name) => table(name),
            ObjectRef::Column(column) => table(&column.table()),
            ObjectRef::Mask(_) | ObjectRef::RowFilter(_) | ObjectRef::Org(_) | ObjectRef::Role(_) => {
                vec![target.clone()]
            }
        },
    }
}

/// The catalog that `target` lies in or is.
pub(crate) fn catalog_of(target: &GrantTarget) -> Option<Name> {
    match target {
        GrantTarget::System | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => None,
        GrantTarget::Pattern { within: PatternScope::Schema(schema), .. } => Some(schema.catalog()),
        GrantTarget::Pattern { within: PatternScope::Catalog(catalog), .. } => Some(catalog.clone()),
        GrantTarget::Object(object) => match object {
            ObjectRef::Catalog(name) => Some(name.clone()),
            ObjectRef::Schema(schema) => Some(schema.catalog()),
            ObjectRef::Table(table) | ObjectRef::View(table) => Some(table.catalog()),
            ObjectRef::Column(column) => Some(column.catalog()),
            ObjectRef::Org(_)
            | ObjectRef::Role(_)
            | ObjectRef::Secret(_)
            | ObjectRef::Mask(_)
            | ObjectRef::RowFilter(_) => None,
        },
    }
}

/// `target`, which lies in a catalog or is one, as it is called once that catalog is called `to`.
pub(crate) fn with_catalog(target: &GrantTarget, to: &Name) -> GrantTarget {
    match target {
        GrantTarget::System | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => target.clone(),
        GrantTarget::Pattern { of, within, future } => {
            let within = match within {
                PatternScope::Schema(schema) => PatternScope::Schema(schema.with_catalog(to)),
                PatternScope::Catalog(_) => PatternScope::Catalog(to.clone()),
            };
            pattern(*of, within, *future)
        }
        GrantTarget::Object(object) => GrantTarget::Object(match object {
            ObjectRef::Catalog(_) => ObjectRef::Catalog(to.clone()),
            ObjectRef::Schema(schema) => ObjectRef::Schema(schema.with_catalog(to)),
            ObjectRef::Table(table) => ObjectRef::Table(table.with_catalog(to)),
            ObjectRef::View(table) => ObjectRef::View(table.with_catalog(to)),
            ObjectRef::Column(column) => ObjectRef::Column(column.with_catalog(to)),
            ObjectRef::Org(_)
            | ObjectRef::Role(_)
            | ObjectRef::Secret(_)
            | ObjectRef::Mask(_)
            | ObjectRef::RowFilter(_) => object.clone(),
        }),
    }
}

#[cfg(test)]
mod tests;
