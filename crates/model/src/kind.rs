//! The kinds of object, and the address of one.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ColumnRef, Name, OrgName, SchemaRef, SqlState, TableRef};

/// What an object is. The order is the order in which a dump lists kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A tenant. Lives in the org `default` alone.
    Org,
    /// A role; one that may log in is also called a user.
    Role,
    /// A value that is kept encrypted.
    Secret,
    /// A connection to a source.
    Catalog,
    /// A schema of a source or of the default catalog. Not ours: only its comment is kept.
    Schema,
    /// A table of a source. Not ours: only its comment is kept.
    Table,
    /// A column of a table or view. Only its comment is kept.
    Column,
    /// A derived product.
    View,
    /// A rule that hides the values of a column.
    Mask,
    /// A rule that hides rows of a table.
    RowFilter,
}

impl Kind {
    /// Every kind, in order.
    pub const ALL: [Kind; 10] = [
        Kind::Org,
        Kind::Role,
        Kind::Secret,
        Kind::Catalog,
        Kind::Schema,
        Kind::Table,
        Kind::Column,
        Kind::View,
        Kind::Mask,
        Kind::RowFilter,
    ];

    /// As messages name it: `row filter`.
    pub const fn noun(self) -> &'static str {
        match self {
            Kind::Org => "org",
            Kind::Role => "role",
            Kind::Secret => "secret",
            Kind::Catalog => "catalog",
            Kind::Schema => "schema",
            Kind::Table => "table",
            Kind::Column => "column",
            Kind::View => "view",
            Kind::Mask => "mask",
            Kind::RowFilter => "row filter",
        }
    }

    /// As SQL names it: `ROW FILTER`.
    pub const fn keyword(self) -> &'static str {
        match self {
            Kind::Org => "ORG",
            Kind::Role => "ROLE",
            Kind::Secret => "SECRET",
            Kind::Catalog => "CATALOG",
            Kind::Schema => "SCHEMA",
            Kind::Table => "TABLE",
            Kind::Column => "COLUMN",
            Kind::View => "VIEW",
            Kind::Mask => "MASK",
            Kind::RowFilter => "ROW FILTER",
        }
    }

    /// The SQLSTATE for one that is not there.
    pub const fn undefined(self) -> SqlState {
        match self {
            Kind::Org => SqlState::UndefinedDatabase,
            Kind::Role | Kind::Secret | Kind::Catalog | Kind::Mask | Kind::RowFilter => SqlState::UndefinedObject,
            Kind::Schema => SqlState::UndefinedSchema,
            Kind::Table | Kind::View => SqlState::UndefinedTable,
            Kind::Column => SqlState::UndefinedColumn,
        }
    }

    /// The SQLSTATE for one that is there already.
    pub const fn duplicate(self) -> SqlState {
        match self {
            Kind::Org => SqlState::DuplicateDatabase,
            Kind::Role | Kind::Secret | Kind::Catalog | Kind::Schema | Kind::Mask | Kind::RowFilter => {
                SqlState::DuplicateObject
            }
            Kind::Table | Kind::View => SqlState::DuplicateTable,
            Kind::Column => SqlState::DuplicateColumn,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.noun())
    }
}

/// The address of an object within its org.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "one variant a kind; see `Kind`")]
pub enum ObjectRef {
    Org(OrgName),
    Role(Name),
    Secret(Name),
    Catalog(Name),
    Schema(SchemaRef),
    Table(TableRef),
    Column(ColumnRef),
    View(TableRef),
    Mask(Name),
    RowFilter(Name),
}

impl ObjectRef {
    /// What it is.
    pub const fn kind(&self) -> Kind {
        match self {
            ObjectRef::Org(_) => Kind::Org,
            ObjectRef::Role(_) => Kind::Role,
            ObjectRef::Secret(_) => Kind::Secret,
            ObjectRef::Catalog(_) => Kind::Catalog,
            ObjectRef::Schema(_) => Kind::Schema,
            ObjectRef::Table(_) => Kind::Table,
            ObjectRef::Column(_) => Kind::Column,
            ObjectRef::View(_) => Kind::View,
            ObjectRef::Mask(_) => Kind::Mask,
            ObjectRef::RowFilter(_) => Kind::RowFilter,
        }
    }

    /// Its name as SQL spells it: `c.s.v`, `"r;2"`.
    pub fn sql_name(&self) -> String {
        match self {
            ObjectRef::Org(name) => name.to_string(),
            ObjectRef::Role(name)
            | ObjectRef::Secret(name)
            | ObjectRef::Catalog(name)
            | ObjectRef::Mask(name)
            | ObjectRef::RowFilter(name) => name.to_string(),
            ObjectRef::Schema(name) => name.to_string(),
            ObjectRef::Table(name) | ObjectRef::View(name) => name.to_string(),
            ObjectRef::Column(name) => name.to_string(),
        }
    }

    /// Its name as messages quote it, without SQL's quoting: `c.s.v`.
    pub fn plain_name(&self) -> String {
        match self {
            ObjectRef::Org(name) => name.as_str().to_owned(),
            ObjectRef::Role(name)
            | ObjectRef::Secret(name)
            | ObjectRef::Catalog(name)
            | ObjectRef::Mask(name)
            | ObjectRef::RowFilter(name) => name.as_str().to_owned(),
            ObjectRef::Schema(name) => name.parts().join("."),
            ObjectRef::Table(name) | ObjectRef::View(name) => name.parts().join("."),
            ObjectRef::Column(name) => name.parts().join("."),
        }
    }
}

impl fmt::Display for ObjectRef {
    /// As messages name it: `catalog "pg"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\"", self.kind().noun(), self.plain_name())
    }
}
