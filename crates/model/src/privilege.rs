//! Privileges, what they are granted on, and to whom.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Name, ObjectRef, SchemaRef};

/// A right on an object. `ALL` is no privilege: it stands for every privilege of its target's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "named as in SQL")]
#[repr(u8)]
pub enum Privilege {
    Select,
    Usage,
    Create,
    Alter,
    Manage,
    Apply,
    CreateCatalog,
    CreateSecret,
    CreateRole,
    CreateView,
    CreatePolicy,
    ManageGrants,
    Audit,
}

impl Privilege {
    /// Every privilege, in the order in which lists print them.
    pub const ALL: [Privilege; 13] = [
        Privilege::Select,
        Privilege::Usage,
        Privilege::Create,
        Privilege::Alter,
        Privilege::Manage,
        Privilege::Apply,
        Privilege::CreateCatalog,
        Privilege::CreateSecret,
        Privilege::CreateRole,
        Privilege::CreateView,
        Privilege::CreatePolicy,
        Privilege::ManageGrants,
        Privilege::Audit,
    ];

    /// As SQL spells it.
    pub const fn keyword(self) -> &'static str {
        match self {
            Privilege::Select => "SELECT",
            Privilege::Usage => "USAGE",
            Privilege::Create => "CREATE",
            Privilege::Alter => "ALTER",
            Privilege::Manage => "MANAGE",
            Privilege::Apply => "APPLY",
            Privilege::CreateCatalog => "CREATE CATALOG",
            Privilege::CreateSecret => "CREATE SECRET",
            Privilege::CreateRole => "CREATE ROLE",
            Privilege::CreateView => "CREATE VIEW",
            Privilege::CreatePolicy => "CREATE POLICY",
            Privilege::ManageGrants => "MANAGE GRANTS",
            Privilege::Audit => "AUDIT",
        }
    }

    /// The privilege that SQL spells as `words`, in upper case with single blanks.
    pub fn from_keyword(words: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.keyword() == words)
    }

    const fn bit(self) -> u32 {
        1 << (self as u8)
    }
}

/// A set of privileges.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrivilegeSet(u32);

impl PrivilegeSet {
    /// No privilege.
    pub const EMPTY: PrivilegeSet = PrivilegeSet(0);

    /// Exactly the privileges of `list`.
    pub const fn of(list: &[Privilege]) -> Self {
        let mut bits = 0;
        let mut rest = list;
        while let [first, tail @ ..] = rest {
            bits |= first.bit();
            rest = tail;
        }
        PrivilegeSet(bits)
    }

    /// Whether `privilege` is one of them.
    pub const fn contains(self, privilege: Privilege) -> bool {
        self.0 & privilege.bit() != 0
    }

    /// Whether every one of `other` is one of them.
    pub const fn contains_all(self, other: PrivilegeSet) -> bool {
        self.0 & other.0 == other.0
    }

    /// Those in either.
    #[must_use]
    pub const fn union(self, other: PrivilegeSet) -> Self {
        PrivilegeSet(self.0 | other.0)
    }

    /// Those in both.
    #[must_use]
    pub const fn intersection(self, other: PrivilegeSet) -> Self {
        PrivilegeSet(self.0 & other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub const fn difference(self, other: PrivilegeSet) -> Self {
        PrivilegeSet(self.0 & !other.0)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The privileges in order.
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        Privilege::ALL.into_iter().filter(move |p| self.contains(*p))
    }
}

impl FromIterator<Privilege> for PrivilegeSet {
    fn from_iter<I: IntoIterator<Item = Privilege>>(iter: I) -> Self {
        PrivilegeSet(iter.into_iter().fold(0, |bits, p| bits | p.bit()))
    }
}

impl fmt::Debug for PrivilegeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for PrivilegeSet {
    /// As the list of key words, so that a stored grant can be read and a new privilege moves no bit.
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(self.iter().map(Privilege::keyword))
    }
}

impl<'de> Deserialize<'de> for PrivilegeSet {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let words = Vec::<std::borrow::Cow<'de, str>>::deserialize(d)?;
        words
            .iter()
            .map(|w| Privilege::from_keyword(w).ok_or_else(|| serde::de::Error::custom("unknown privilege")))
            .collect()
    }
}

/// Which privileges a target may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the rows of the privilege table")]
pub enum TargetClass {
    System,
    Catalog,
    Schema,
    Table,
    Secret,
    Policy,
}

impl TargetClass {
    /// What `ALL` means on it.
    pub const fn all(self) -> PrivilegeSet {
        match self {
            TargetClass::System => PrivilegeSet::of(&[
                Privilege::CreateCatalog,
                Privilege::CreateSecret,
                Privilege::CreateRole,
                Privilege::CreateView,
                Privilege::CreatePolicy,
                Privilege::ManageGrants,
                Privilege::Audit,
            ]),
            TargetClass::Catalog => {
                PrivilegeSet::of(&[Privilege::Usage, Privilege::Create, Privilege::Alter, Privilege::Manage])
            }
            TargetClass::Schema => PrivilegeSet::of(&[Privilege::Usage, Privilege::Create]),
            TargetClass::Table => PrivilegeSet::of(&[Privilege::Select, Privilege::Apply]),
            TargetClass::Secret => PrivilegeSet::of(&[Privilege::Usage]),
            TargetClass::Policy => PrivilegeSet::of(&[Privilege::Apply]),
        }
    }

    /// As messages name it.
    pub const fn noun(self) -> &'static str {
        match self {
            TargetClass::System => "system",
            TargetClass::Catalog => "catalog",
            TargetClass::Schema => "schema",
            TargetClass::Table => "table",
            TargetClass::Secret => "secret",
            TargetClass::Policy => "policy",
        }
    }
}

/// What the objects of a pattern grant are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum PatternKind {
    Tables,
    Views,
    Schemas,
}

impl PatternKind {
    /// As SQL spells it.
    pub const fn keyword(self) -> &'static str {
        match self {
            PatternKind::Tables => "TABLES",
            PatternKind::Views => "VIEWS",
            PatternKind::Schemas => "SCHEMAS",
        }
    }
}

/// Where the objects of a pattern grant are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum PatternScope {
    Schema(SchemaRef),
    Catalog(Name),
}

/// What privileges are granted on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantTarget {
    /// The whole org.
    System,
    /// One object: a catalog, schema, table, view, secret, mask or row filter.
    Object(ObjectRef),
    /// `ALL TABLES IN SCHEMA …`: kept as a pattern and evaluated when access is checked, since the
    /// tables of a source cannot be listed here. `future`: those made after the grant only.
    Pattern {
        /// What they are.
        of: PatternKind,
        /// Where they are.
        within: PatternScope,
        /// `FUTURE` instead of `ALL`.
        future: bool,
    },
    /// `ALL CATALOGS`.
    AllCatalogs,
    /// `ALL SECRETS`.
    AllSecrets,
}

impl GrantTarget {
    /// Which privileges it may carry. `None`: nothing can be granted on it (a role, an org, a column).
    pub const fn class(&self) -> Option<TargetClass> {
        match self {
            GrantTarget::System => Some(TargetClass::System),
            GrantTarget::AllCatalogs => Some(TargetClass::Catalog),
            GrantTarget::AllSecrets => Some(TargetClass::Secret),
            GrantTarget::Pattern { of: PatternKind::Tables | PatternKind::Views, .. } => Some(TargetClass::Table),
            GrantTarget::Pattern { of: PatternKind::Schemas, .. } => Some(TargetClass::Schema),
            GrantTarget::Object(object) => match object {
                ObjectRef::Catalog(_) => Some(TargetClass::Catalog),
                ObjectRef::Schema(_) => Some(TargetClass::Schema),
                ObjectRef::Table(_) | ObjectRef::View(_) => Some(TargetClass::Table),
                ObjectRef::Secret(_) => Some(TargetClass::Secret),
                ObjectRef::Mask(_) | ObjectRef::RowFilter(_) => Some(TargetClass::Policy),
                ObjectRef::Org(_) | ObjectRef::Role(_) | ObjectRef::Column(_) => None,
            },
        }
    }
}

impl fmt::Display for GrantTarget {
    /// As it stands after `ON`: `CATALOG pg`, `ALL TABLES IN SCHEMA pg.public`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrantTarget::System => f.write_str("SYSTEM"),
            GrantTarget::AllCatalogs => f.write_str("ALL CATALOGS"),
            GrantTarget::AllSecrets => f.write_str("ALL SECRETS"),
            GrantTarget::Object(object) => write!(f, "{} {}", object.kind().keyword(), object.sql_name()),
            GrantTarget::Pattern { of, within, future } => {
                let scope = if *future { "FUTURE" } else { "ALL" };
                write!(f, "{scope} {} IN ", of.keyword())?;
                match within {
                    PatternScope::Schema(schema) => write!(f, "SCHEMA {schema}"),
                    PatternScope::Catalog(catalog) => write!(f, "CATALOG {catalog}"),
                }
            }
        }
    }
}

/// Who a privilege is granted to, or whom a policy names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grantee {
    /// Everyone. No role can have this name.
    Public,
    /// A role or user.
    Role(Name),
}

impl fmt::Display for Grantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grantee::Public => f.write_str("PUBLIC"),
            Grantee::Role(name) => fmt::Display::fmt(name, f),
        }
    }
}

/// What those see whom a row filter with `TO` does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Others {
    /// `ELSE ALL ROWS`: the filter does not touch them.
    AllRows,
    /// `ELSE NO ROWS`.
    NoRows,
}

/// Whom a policy applies to. `R` names a role: by name when stored, by [`crate::command::RoleSpec`] in a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audience<G, R> {
    /// `TO`; `None`: everyone.
    pub to: Option<Vec<G>>,
    /// `EXCEPT`.
    pub except: Vec<R>,
}
