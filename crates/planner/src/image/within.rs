//! Everything that has a catalog's name in its own.

use dataglot_model::def::{GrantKey, GrantRecord, Header};
use dataglot_model::{ColumnRef, GrantTarget, Name, ObjectRef, PatternKind, PatternScope, SchemaRef, TableRef};

use super::Image;
use super::index::{catalog_of, first_column_of, first_grant_on, first_schema_of, first_table_of};
use std::sync::Arc;

impl Image {
    /// The views whose queries name a table of that catalog, each with that table, in the order of tables.
    pub(crate) fn views_using_catalog<'a>(
        &'a self,
        catalog: &Name,
    ) -> impl Iterator<Item = (&'a TableRef, &'a TableRef)> + use<'a> {
        let wanted = catalog.clone();
        let probe = TableRef::least_within(&[catalog.as_str()]);
        self.view_users
            .range((probe.clone(), probe)..)
            .take_while(move |(table, _)| table.catalog() == wanted)
            .map(|(table, view)| (table, view))
    }

    /// The policies on that catalog, on its schemas and on its tables, in that order.
    pub(crate) fn policies_in_catalog<'a>(&'a self, catalog: &Name) -> impl Iterator<Item = &'a Name> + use<'a> {
        let below = [first_schema_of(catalog), first_table_of(catalog)];
        let wanted = catalog.clone();
        self.policies_on(&ObjectRef::Catalog(catalog.clone())).chain(below.into_iter().flat_map(move |first| {
            let (kind, wanted) = (first.kind(), wanted.clone());
            self.policy_places
                .range((first, Name::LEAST)..)
                .take_while(move |(place, _)| place.kind() == kind && catalog_of(place).as_ref() == Some(&wanted))
                .map(|(_, policy)| policy)
        }))
    }

    /// The commented schemas, tables and columns of that catalog.
    pub(crate) fn comments_in_catalog<'a>(
        &'a self,
        catalog: &Name,
    ) -> impl Iterator<Item = (&'a ObjectRef, &'a Arc<Header>)> + use<'a> {
        let wanted = catalog.clone();
        let below = [first_schema_of(catalog), first_table_of(catalog), first_column_of(catalog)];
        below.into_iter().flat_map(move |first| {
            let (kind, wanted) = (first.kind(), wanted.clone());
            self.bare
                .range(first..)
                .take_while(move |(object, _)| object.kind() == kind && catalog_of(object).as_ref() == Some(&wanted))
        })
    }

    /// The commented columns of that table or view.
    pub(crate) fn comments_on_columns<'a>(
        &'a self,
        table: &TableRef,
    ) -> impl Iterator<Item = (&'a ColumnRef, &'a Arc<Header>)> + use<'a> {
        let wanted = table.clone();
        let first = ObjectRef::Column(ColumnRef::least_within(&table.parts()));
        self.bare.range(first..).map_while(move |(object, header)| match object {
            ObjectRef::Column(column) if column.table() == wanted => Some((column, header)),
            ObjectRef::Column(_)
            | ObjectRef::Org(_)
            | ObjectRef::Role(_)
            | ObjectRef::Secret(_)
            | ObjectRef::Catalog(_)
            | ObjectRef::Schema(_)
            | ObjectRef::Table(_)
            | ObjectRef::View(_)
            | ObjectRef::Mask(_)
            | ObjectRef::RowFilter(_) => None,
        })
    }

    /// The grants on that catalog, on its schemas and tables, and on patterns within it.
    pub(crate) fn grants_in_catalog<'a>(
        &'a self,
        catalog: &Name,
    ) -> impl Iterator<Item = (&'a GrantKey, &'a Arc<GrantRecord>)> + use<'a> {
        let mut starts = vec![
            GrantTarget::Object(ObjectRef::Catalog(catalog.clone())),
            GrantTarget::Object(first_schema_of(catalog)),
            GrantTarget::Object(first_table_of(catalog)),
        ];
        for of in [PatternKind::Tables, PatternKind::Views, PatternKind::Schemas] {
            let schema = PatternScope::Schema(SchemaRef::least_within(&[catalog.as_str()]));
            starts.push(GrantTarget::Pattern { of, within: schema, future: false });
            starts.push(GrantTarget::Pattern { of, within: PatternScope::Catalog(catalog.clone()), future: false });
        }
        let wanted = catalog.clone();
        starts.into_iter().flat_map(move |start| {
            let (first, wanted) = (start.clone(), wanted.clone());
            self.grants
                .range(first_grant_on(start)..)
                .map(|(key, record)| (&**key, record))
                .take_while(move |(key, _)| alike(&first, &key.target) && is_in(&key.target, &wanted))
        })
    }
}

/// Whether two targets lie in the same range of a catalog's targets.
fn alike(a: &GrantTarget, b: &GrantTarget) -> bool {
    match (a, b) {
        (GrantTarget::Object(a), GrantTarget::Object(b)) => a.kind() == b.kind(),
        (GrantTarget::Pattern { of: a, within: x, .. }, GrantTarget::Pattern { of: b, within: y, .. }) => {
            a == b && matches!(x, PatternScope::Schema(_)) == matches!(y, PatternScope::Schema(_))
        }
        (
            GrantTarget::System
            | GrantTarget::Object(_)
            | GrantTarget::Pattern { .. }
            | GrantTarget::AllCatalogs
            | GrantTarget::AllSecrets,
            _,
        ) => false,
    }
}

/// Whether a target is that catalog or lies in it.
pub(crate) fn is_in(target: &GrantTarget, catalog: &Name) -> bool {
    match target {
        GrantTarget::Object(ObjectRef::Catalog(name)) => name == catalog,
        GrantTarget::Object(object) => catalog_of(object).as_ref() == Some(catalog),
        GrantTarget::Pattern { within: PatternScope::Catalog(name), .. } => name == catalog,
        GrantTarget::Pattern { within: PatternScope::Schema(schema), .. } => schema.catalog() == *catalog,
        GrantTarget::System | GrantTarget::AllCatalogs | GrantTarget::AllSecrets => false,
    }
}
