//! The tables of a store.

use std::fmt;

/// A table. The discriminant goes into every checksum: it never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Table {
    /// The header that every kind of object has.
    Objects = 1,
    /// Catalogs.
    Entries = 2,
    /// Ciphertexts of secrets.
    Secrets = 3,
    /// Roles that may log in.
    Users = 4,
    /// Roles that may not.
    Roles = 5,
    /// Memberships.
    RoleMembers = 6,
    /// Masks and row filters.
    Policies = 7,
    /// Grants of privileges.
    Grants = 8,
    /// Views.
    DerivedProducts = 9,
    /// Committed transactions.
    Changes = 10,
    /// What a store has once: schema version, its id, the key canary, the head of each org.
    Meta = 11,
    /// Data keys, wrapped.
    DataKeys = 12,
    /// Ciphertexts of the values that secrets had before.
    PreviousSecrets = 13,
}

impl Table {
    /// Every table.
    pub const ALL: [Table; 13] = [
        Table::Objects,
        Table::Entries,
        Table::Secrets,
        Table::Users,
        Table::Roles,
        Table::RoleMembers,
        Table::Policies,
        Table::Grants,
        Table::DerivedProducts,
        Table::Changes,
        Table::Meta,
        Table::DataKeys,
        Table::PreviousSecrets,
    ];

    /// The tables whose rows make up an org's image, in the order in which they are loaded.
    pub const IMAGE: [Table; 11] = [
        Table::Objects,
        Table::Entries,
        Table::Secrets,
        Table::Users,
        Table::Roles,
        Table::RoleMembers,
        Table::Policies,
        Table::Grants,
        Table::DerivedProducts,
        Table::DataKeys,
        Table::PreviousSecrets,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Table::Objects => "objects",
            Table::Entries => "entries",
            Table::Secrets => "secrets",
            Table::Users => "users",
            Table::Roles => "roles",
            Table::RoleMembers => "role_members",
            Table::Policies => "policies",
            Table::Grants => "grants",
            Table::DerivedProducts => "derived_products",
            Table::Changes => "changes",
            Table::Meta => "meta",
            Table::DataKeys => "data_keys",
            Table::PreviousSecrets => "previous_secrets",
        }
    }

    /// The table of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.as_str() == name)
    }

    /// The byte that stands for it in a checksum.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
