//! What depends on what, in a fixed order: by kind, then by name.

use std::collections::BTreeSet;

use dataglot_model::def::{GrantKey, SecurityMode};
use dataglot_model::{DEFAULT_CATALOG, GrantTarget, Grantee, Kind, Name, ObjectRef, TableRef};

use crate::Image;
use crate::drop::grant_text;
use crate::image::{place_of, policy_ref, roles_of, secrets_of};

/// Something that depends on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependent {
    /// `view "c.s.v"`, `privileges of role "r" on catalog "pg"`
    pub object: String,
    /// In what way: `references`, `owner`, `privilege` …
    pub via: &'static str,
    /// What it tells of: it is for those who may see all of them.
    pub about: Vec<ObjectRef>,
}

/// The objects that cannot be there without `object`: those that DROP … CASCADE takes along.
pub(crate) fn users_of(image: &Image, object: &ObjectRef) -> Vec<ObjectRef> {
    let views = |table: &TableRef| image.views_using(table).cloned().map(ObjectRef::View).collect::<BTreeSet<_>>();
    let policies = |names: Vec<&Name>| {
        let objects = names.into_iter().filter_map(|name| Some(policy_ref(name, image.policy(name)?.def)));
        objects.collect::<BTreeSet<_>>()
    };
    let mut found: BTreeSet<ObjectRef> = BTreeSet::new();
    match object {
        ObjectRef::Secret(name) => found.extend(image.catalogs_using(name).cloned().map(ObjectRef::Catalog)),
        ObjectRef::Catalog(name) => {
            found.extend(image.views_using_catalog(name).map(|(_, view)| ObjectRef::View(view.clone())));
            found.extend(policies(image.policies_in_catalog(name).collect()));
        }
        ObjectRef::Schema(_) => found.extend(policies(image.policies_on(object).collect())),
        ObjectRef::Table(table) | ObjectRef::View(table) => {
            found.extend(views(table));
            found.extend(policies(image.policies_on(&ObjectRef::Table(table.clone())).collect()));
        }
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Column(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => {}
    }
    found.into_iter().collect()
}

/// What `object` depends on: what it refers to, and its owner.
pub fn dependencies(image: &Image, object: &ObjectRef) -> Vec<ObjectRef> {
    let mut found: BTreeSet<ObjectRef> = BTreeSet::new();
    let owner = |found: &mut BTreeSet<ObjectRef>| {
        let owner = image.header(object).and_then(|header| header.owner.clone());
        found.extend(owner.map(ObjectRef::Role));
    };
    let place = |found: &mut BTreeSet<ObjectRef>, place: ObjectRef| match place {
        ObjectRef::Table(table) => found.extend(table_and_catalog(&table)),
        ObjectRef::Schema(schema) => {
            found.extend(catalog(&schema.catalog()));
            found.insert(ObjectRef::Schema(schema));
        }
        ObjectRef::Catalog(name) => found.extend(catalog(&name)),
        ObjectRef::Org(_)
        | ObjectRef::Role(_)
        | ObjectRef::Secret(_)
        | ObjectRef::Column(_)
        | ObjectRef::View(_)
        | ObjectRef::Mask(_)
        | ObjectRef::RowFilter(_) => {}
    };
    match object {
        ObjectRef::Catalog(name) => {
            if let Some(found_catalog) = image.catalog(name) {
                found.extend(secrets_of(found_catalog.def).cloned().map(ObjectRef::Secret));
            }
            owner(&mut found);
        }
        ObjectRef::Secret(_) => owner(&mut found),
        ObjectRef::View(name) => {
            if let Some(view) = image.view(name) {
                found.extend(view.def.references.iter().flat_map(|r| table_and_catalog(&r.table)));
            }
            owner(&mut found);
        }
        ObjectRef::Mask(name) | ObjectRef::RowFilter(name) => {
            if let Some(policy) = image.policy(name).filter(|_| image.header(object).is_some()) {
                place(&mut found, place_of(policy.def));
                found.extend(roles_of(policy.def).cloned().map(ObjectRef::Role));
            }
            owner(&mut found);
        }
        ObjectRef::Role(name) => {
            found.extend(image.roles_of(name).map(|(key, _)| ObjectRef::Role(key.role.clone())));
        }
        ObjectRef::Schema(_) | ObjectRef::Table(_) => place(&mut found, object.clone()),
        ObjectRef::Column(column) => found.extend(table_and_catalog(&column.table())),
        ObjectRef::Org(_) => {}
    }
    found.remove(object);
    found.into_iter().collect()
}

fn catalog(name: &Name) -> Option<ObjectRef> {
    (name.as_str() != DEFAULT_CATALOG).then(|| ObjectRef::Catalog(name.clone()))
}

/// A table of a source and its catalog; a view of the built-in one.
fn table_and_catalog(table: &TableRef) -> Vec<ObjectRef> {
    match catalog(&table.catalog()) {
        Some(catalog) => vec![catalog, ObjectRef::Table(table.clone())],
        None => vec![ObjectRef::View(table.clone())],
    }
}

/// What depends on `object` directly: objects, then privileges, then memberships.
pub fn dependents(image: &Image, object: &ObjectRef) -> Vec<Dependent> {
    let mut found: Vec<Dependent> = Vec::new();
    let mut add = |dependent: Dependent| found.push(dependent);
    let object_of = |object: ObjectRef, via| Dependent { object: object.to_string(), via, about: vec![object] };
    for user in users_of(image, object) {
        let via = match user.kind() {
            Kind::Mask | Kind::RowFilter => "applies to",
            Kind::Catalog => "uses",
            Kind::Org | Kind::Role | Kind::Secret | Kind::Schema | Kind::Table | Kind::Column | Kind::View => {
                "references"
            }
        };
        add(object_of(user, via));
    }
    if let ObjectRef::Role(name) = object {
        for owned in image.owned_by(name) {
            let definer = match owned {
                ObjectRef::View(view) => {
                    image.view(view).is_some_and(|view| view.def.security == SecurityMode::Definer)
                }
                ObjectRef::Org(_)
                | ObjectRef::Role(_)
                | ObjectRef::Secret(_)
                | ObjectRef::Catalog(_)
                | ObjectRef::Schema(_)
                | ObjectRef::Table(_)
                | ObjectRef::Column(_)
                | ObjectRef::Mask(_)
                | ObjectRef::RowFilter(_) => false,
            };
            add(object_of(owned.clone(), if definer { "owner and definer" } else { "owner" }));
        }
        for policy in image.policies_naming(name) {
            if let Some(found) = image.policy(policy) {
                add(object_of(policy_ref(policy, found.def), "audience"));
            }
        }
        for (key, _) in image.grants_to(&Grantee::Role(name.clone())) {
            add(grant_of(key, "grantee"));
        }
        for (key, _) in image.grants_by(name) {
            add(grant_of(key, "grantor"));
        }
        for (key, _) in image.members_of(name) {
            add(object_of(ObjectRef::Role(key.member.clone()), "member"));
        }
    } else {
        let target = GrantTarget::Object(object.clone());
        for (key, _) in image.grants_on(&target) {
            add(grant_of(key, "privilege"));
        }
    }
    found
}

fn grant_of(key: &GrantKey, via: &'static str) -> Dependent {
    let grantee = match &key.grantee {
        Grantee::Role(name) => Some(ObjectRef::Role(name.clone())),
        Grantee::Public => None,
    };
    let target = match &key.target {
        GrantTarget::Object(object) => Some(object.clone()),
        GrantTarget::System | GrantTarget::Pattern { .. } | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => None,
    };
    Dependent { object: grant_text(key), via, about: grantee.into_iter().chain(target).collect() }
}
