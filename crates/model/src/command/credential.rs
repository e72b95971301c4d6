//! Which commands carry a credential, and where it stands in them. This is the one place that says it: a new
//! command does not compile until it is said here, too.

use super::{
    AlterRole, AlterRoleAction, AlterSecret, CreateRole, CreateSecret, PasswordChange, RoleAttributes, SecretAction,
    SecretValue,
};
use crate::Command;

/// A command of a kind that may carry a credential. Whether this one does is another question:
/// [`Command::credential`].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "named as the commands are")]
pub enum Carrier<'a, V> {
    CreateSecret(&'a CreateSecret<V>),
    AlterSecret(&'a AlterSecret<V>),
    CreateRole(&'a CreateRole<V>),
    AlterRole(&'a AlterRole<V>),
}

/// A credential, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential<V> {
    /// A secret's value.
    Secret(V),
    /// A role's password.
    Password(V),
}

impl<V> Command<V> {
    /// The command, if it is of a kind that may carry a credential, or one that is sealed again.
    pub const fn carrier(&self) -> Option<Carrier<'_, V>> {
        match self {
            Command::CreateSecret(c) => Some(Carrier::CreateSecret(c)),
            Command::AlterSecret(c) => Some(Carrier::AlterSecret(c)),
            Command::CreateRole(c) => Some(Carrier::CreateRole(c)),
            Command::AlterRole(c) => Some(Carrier::AlterRole(c)),
            Command::CreateCatalog(_)
            | Command::AlterCatalog(_)
            | Command::CreateMask(_)
            | Command::AlterMask(_)
            | Command::CreateRowFilter(_)
            | Command::AlterRowFilter(_)
            | Command::CreateView(_)
            | Command::AlterView(_)
            | Command::Drop(_)
            | Command::GrantPrivileges(_)
            | Command::RevokePrivileges(_)
            | Command::GrantMembership(_)
            | Command::RevokeMembership(_)
            | Command::Comment(_)
            | Command::ReassignOwned(_)
            | Command::DropOwned(_) => None,
        }
    }

    /// The credential in the command; there is one at most. A value that a rename seals again is none: it does not
    /// stand in the statement.
    pub fn credential(&self) -> Option<Credential<&V>> {
        match self.carrier()? {
            Carrier::CreateSecret(CreateSecret { name: _, on_existing: _, value, comment: _ }) => {
                in_value(&value.value)
            }
            Carrier::AlterSecret(AlterSecret { name: _, on_missing: _, expected: _, action }) => match action {
                SecretAction::Value { value, grace: _ } => in_value(&value.value),
                SecretAction::Rename { to: _, resealed: _, resealed_previous: _ } | SecretAction::Owner(_) => None,
            },
            Carrier::CreateRole(CreateRole {
                form: _,
                name: _,
                on_existing: _,
                attributes,
                in_roles: _,
                members: _,
                admins: _,
                comment: _,
            }) => in_attributes(attributes),
            Carrier::AlterRole(AlterRole { role: _, on_missing: _, expected: _, action }) => match action {
                AlterRoleAction::Attributes { attributes, comment: _ } => in_attributes(attributes),
                AlterRoleAction::Rename { to: _, resealed: _ }
                | AlterRoleAction::Set { name: _, value: _ }
                | AlterRoleAction::Reset(_)
                | AlterRoleAction::ResetAll => None,
            },
        }
    }

    /// The command with another form of its credential. What a rename has sealed again is left out: it is made for
    /// one state.
    pub fn map_credential<W>(self, mut f: impl FnMut(Credential<V>) -> W) -> Command<W> {
        match self {
            Command::CreateSecret(CreateSecret { name, on_existing, value, comment }) => {
                let value = value.map(|value| map_value(value, &mut f));
                Command::CreateSecret(CreateSecret { name, on_existing, value, comment })
            }
            Command::AlterSecret(AlterSecret { name, on_missing, expected, action }) => {
                let action = match action {
                    SecretAction::Value { value, grace } => {
                        SecretAction::Value { value: value.map(|value| map_value(value, &mut f)), grace }
                    }
                    SecretAction::Rename { to, resealed: _, resealed_previous: _ } => {
                        SecretAction::Rename { to, resealed: None, resealed_previous: None }
                    }
                    SecretAction::Owner(owner) => SecretAction::Owner(owner),
                };
                Command::AlterSecret(AlterSecret { name, on_missing, expected, action })
            }
            Command::CreateRole(c) => {
                let CreateRole { form, name, on_existing, attributes, in_roles, members, admins, comment } = c;
                let attributes = map_attributes(attributes, &mut f);
                Command::CreateRole(CreateRole {
                    form,
                    name,
                    on_existing,
                    attributes,
                    in_roles,
                    members,
                    admins,
                    comment,
                })
            }
            Command::AlterRole(AlterRole { role, on_missing, expected, action }) => {
                let action = match action {
                    AlterRoleAction::Attributes { attributes, comment } => {
                        AlterRoleAction::Attributes { attributes: map_attributes(attributes, &mut f), comment }
                    }
                    AlterRoleAction::Rename { to, resealed: _ } => AlterRoleAction::Rename { to, resealed: None },
                    AlterRoleAction::Set { name, value } => AlterRoleAction::Set { name, value },
                    AlterRoleAction::Reset(name) => AlterRoleAction::Reset(name),
                    AlterRoleAction::ResetAll => AlterRoleAction::ResetAll,
                };
                Command::AlterRole(AlterRole { role, on_missing, expected, action })
            }
            Command::CreateCatalog(c) => Command::CreateCatalog(c),
            Command::AlterCatalog(c) => Command::AlterCatalog(c),
            Command::CreateMask(c) => Command::CreateMask(c),
            Command::AlterMask(c) => Command::AlterMask(c),
            Command::CreateRowFilter(c) => Command::CreateRowFilter(c),
            Command::AlterRowFilter(c) => Command::AlterRowFilter(c),
            Command::CreateView(c) => Command::CreateView(c),
            Command::AlterView(c) => Command::AlterView(c),
            Command::Drop(c) => Command::Drop(c),
            Command::GrantPrivileges(c) => Command::GrantPrivileges(c),
            Command::RevokePrivileges(c) => Command::RevokePrivileges(c),
            Command::GrantMembership(c) => Command::GrantMembership(c),
            Command::RevokeMembership(c) => Command::RevokeMembership(c),
            Command::Comment(c) => Command::Comment(c),
            Command::ReassignOwned(c) => Command::ReassignOwned(c),
            Command::DropOwned(c) => Command::DropOwned(c),
        }
    }
}

impl<V> PasswordChange<V> {
    /// The password that it sets.
    pub const fn password(&self) -> Option<&V> {
        match self {
            PasswordChange::Set(password) => Some(password),
            PasswordChange::Remove => None,
        }
    }

    /// The same with another form of the password.
    pub fn map<W>(self, f: impl FnOnce(V) -> W) -> PasswordChange<W> {
        match self {
            PasswordChange::Set(password) => PasswordChange::Set(f(password)),
            PasswordChange::Remove => PasswordChange::Remove,
        }
    }
}

fn in_value<V>(value: &SecretValue<V>) -> Option<Credential<&V>> {
    match value {
        SecretValue::Value(value) => Some(Credential::Secret(value)),
        SecretValue::Env(_) | SecretValue::File(_) | SecretValue::Redacted => None,
    }
}

fn in_attributes<V>(attributes: &RoleAttributes<V>) -> Option<Credential<&V>> {
    let RoleAttributes {
        superuser: _,
        createrole: _,
        login: _,
        inherit: _,
        bypassrls: _,
        connection_limit: _,
        password,
        valid_until: _,
        ignored: _,
    } = attributes;
    password.as_ref().and_then(|change| change.value.password()).map(Credential::Password)
}

fn map_value<V, W>(value: SecretValue<V>, f: &mut impl FnMut(Credential<V>) -> W) -> SecretValue<W> {
    match value {
        SecretValue::Value(value) => SecretValue::Value(f(Credential::Secret(value))),
        SecretValue::Env(name) => SecretValue::Env(name),
        SecretValue::File(path) => SecretValue::File(path),
        SecretValue::Redacted => SecretValue::Redacted,
    }
}

fn map_attributes<V, W>(attributes: RoleAttributes<V>, f: &mut impl FnMut(Credential<V>) -> W) -> RoleAttributes<W> {
    let RoleAttributes {
        superuser,
        createrole,
        login,
        inherit,
        bypassrls,
        connection_limit,
        password,
        valid_until,
        ignored,
    } = attributes;
    let password = password.map(|at| at.map(|change| change.map(|password| f(Credential::Password(password)))));
    RoleAttributes {
        superuser,
        createrole,
        login,
        inherit,
        bypassrls,
        connection_limit,
        password,
        valid_until,
        ignored,
    }
}
