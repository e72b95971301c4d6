//! Takes the credential out of a command, and puts its sealed form in. A command carries one at most.

use dataglot_model::command::{
    AlterRole, AlterRoleAction, AlterSecret, CreateRole, CreateSecret, PasswordChange, RoleAttributes, SecretAction,
    SecretValue,
};
use dataglot_model::{At, Command, OrgCommand, Sealed, Sensitive};

/// A plaintext, and what it is.
pub(crate) enum Credential {
    /// A secret's value.
    Secret(Sensitive),
    /// A user's password.
    Password(Sensitive),
}

/// What stands in a command for a credential that was taken out: "it is what it was". A plan that
/// finds nothing to be unchanged is stale, so this can never be taken for a value.
const PLACEHOLDER: Sealed = Sealed::Unchanged { seen: None };

/// The command with placeholders, and the credential.
pub(crate) fn detach(command: Command<Sensitive>) -> (Command<Sealed>, Option<Credential>) {
    let mut out = None;
    let command = match command {
        Command::CreateSecret(CreateSecret { name, on_existing, value, comment }) => {
            let value = secret_value(value, &mut out);
            Command::CreateSecret(CreateSecret { name, on_existing, value, comment })
        }
        Command::AlterSecret(AlterSecret { name, on_missing, expected, action }) => {
            let action = match action {
                SecretAction::Value { value, grace } => {
                    SecretAction::Value { value: secret_value(value, &mut out), grace }
                }
                // The grammar gives no resealed value: it is made here.
                SecretAction::Rename { to, resealed: _, resealed_previous: _ } => {
                    SecretAction::Rename { to, resealed: None, resealed_previous: None }
                }
                SecretAction::Owner(owner) => SecretAction::Owner(owner),
            };
            Command::AlterSecret(AlterSecret { name, on_missing, expected, action })
        }
        Command::CreateRole(CreateRole { form, name, on_existing, attributes, in_roles, members, admins, comment }) => {
            let attributes = role_attributes(attributes, &mut out);
            Command::CreateRole(CreateRole { form, name, on_existing, attributes, in_roles, members, admins, comment })
        }
        Command::AlterRole(AlterRole { role, on_missing, expected, action }) => {
            let action = match action {
                AlterRoleAction::Attributes { attributes, comment } => {
                    AlterRoleAction::Attributes { attributes: role_attributes(attributes, &mut out), comment }
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
    };
    (command, out)
}

/// Puts the resealed value before the present one into a rename.
pub(crate) fn attach_former(command: &mut Command<Sealed>, sealed: Sealed) {
    if let Command::AlterSecret(AlterSecret { action: SecretAction::Rename { resealed_previous, .. }, .. }) = command {
        *resealed_previous = Some(sealed);
    }
}

/// Puts the sealed form where the credential was, or where a rename has its resealed value.
pub(crate) fn attach(command: &mut Command<Sealed>, sealed: Sealed) {
    match command {
        Command::CreateSecret(CreateSecret { value, .. }) => put_value(&mut value.value, sealed),
        Command::AlterSecret(AlterSecret { action, .. }) => match action {
            SecretAction::Value { value, grace: _ } => put_value(&mut value.value, sealed),
            SecretAction::Rename { resealed, .. } => *resealed = Some(sealed),
            SecretAction::Owner(_) => {}
        },
        Command::CreateRole(CreateRole { attributes, .. })
        | Command::AlterRole(AlterRole { action: AlterRoleAction::Attributes { attributes, .. }, .. }) => {
            put_password(&mut attributes.password, sealed);
        }
        Command::AlterRole(AlterRole { action: AlterRoleAction::Rename { resealed, .. }, .. }) => {
            *resealed = Some(sealed);
        }
        Command::AlterRole(AlterRole {
            action: AlterRoleAction::Set { .. } | AlterRoleAction::Reset(_) | AlterRoleAction::ResetAll,
            ..
        })
        | Command::CreateCatalog(_)
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
        | Command::DropOwned(_) => {}
    }
}

/// The same for a statement on orgs.
pub(crate) fn detach_org(command: OrgCommand<Sensitive>) -> (OrgCommand<Sealed>, Option<Sensitive>) {
    match command {
        OrgCommand::Create { name, on_existing, admin, password } => {
            let mut out = None;
            let password = password.map(|p| password_change(p, &mut out));
            let out = match out {
                Some(Credential::Password(text) | Credential::Secret(text)) => Some(text),
                None => None,
            };
            (OrgCommand::Create { name, on_existing, admin, password }, out)
        }
        OrgCommand::Drop { name, on_missing, behavior } => (OrgCommand::Drop { name, on_missing, behavior }, None),
    }
}

pub(super) fn attach_org(command: &mut OrgCommand<Sealed>, sealed: Sealed) {
    match command {
        OrgCommand::Create { password, .. } => put_password(password, sealed),
        OrgCommand::Drop { .. } => {}
    }
}

fn secret_value(value: At<SecretValue<Sensitive>>, out: &mut Option<Credential>) -> At<SecretValue<Sealed>> {
    value.map(|value| match value {
        SecretValue::Value(text) => {
            *out = Some(Credential::Secret(text));
            SecretValue::Value(PLACEHOLDER)
        }
        SecretValue::Env(name) => SecretValue::Env(name),
        SecretValue::File(path) => SecretValue::File(path),
        SecretValue::Redacted => SecretValue::Redacted,
    })
}

fn role_attributes(attributes: RoleAttributes<Sensitive>, out: &mut Option<Credential>) -> RoleAttributes<Sealed> {
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
    RoleAttributes {
        superuser,
        createrole,
        login,
        inherit,
        bypassrls,
        connection_limit,
        password: password.map(|p| password_change(p, out)),
        valid_until,
        ignored,
    }
}

fn password_change(
    password: At<PasswordChange<Sensitive>>,
    out: &mut Option<Credential>,
) -> At<PasswordChange<Sealed>> {
    password.map(|change| match change {
        PasswordChange::Set(text) => {
            *out = Some(Credential::Password(text));
            PasswordChange::Set(PLACEHOLDER)
        }
        PasswordChange::Remove => PasswordChange::Remove,
    })
}

fn put_value(value: &mut SecretValue<Sealed>, sealed: Sealed) {
    match value {
        SecretValue::Value(slot) => *slot = sealed,
        SecretValue::Env(_) | SecretValue::File(_) | SecretValue::Redacted => {}
    }
}

fn put_password(password: &mut Option<At<PasswordChange<Sealed>>>, sealed: Sealed) {
    match password {
        Some(At { value: PasswordChange::Set(slot), .. }) => *slot = sealed,
        Some(At { value: PasswordChange::Remove, .. }) | None => {}
    }
}
