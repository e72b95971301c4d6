//! Takes the credential out of a command, and puts its sealed form in. A command carries one at most.

use dataglot_model::command::{AlterRole, AlterRoleAction, AlterSecret, Credential, SecretAction};
use dataglot_model::{Command, OrgCommand, Sealed, Sensitive};

/// What stands in a command for a credential that was taken out: "it is what it was". A plan that
/// finds nothing to be unchanged is stale, so this can never be taken for a value.
const PLACEHOLDER: Sealed = Sealed::Unchanged { seen: None };

/// The command with placeholders, and the credential.
pub(crate) fn detach(command: Command<Sensitive>) -> (Command<Sealed>, Option<Credential<Sensitive>>) {
    let mut out = None;
    let command = command.map_credential(|credential| {
        out = Some(credential);
        PLACEHOLDER
    });
    (command, out)
}

/// Puts the sealed form where the credential was.
pub(crate) fn attach(command: Command<Sealed>, sealed: &Sealed) -> Command<Sealed> {
    command.map_credential(|_| sealed.clone())
}

/// Puts what was sealed again into a rename: the present value or verifier, and the value before it.
pub(crate) fn attach_renamed(command: &mut Command<Sealed>, value: Option<Sealed>, former: Option<Sealed>) {
    if let Command::AlterSecret(AlterSecret {
        action: SecretAction::Rename { resealed, resealed_previous, .. }, ..
    }) = command
    {
        *resealed = value;
        *resealed_previous = former;
    } else if let Command::AlterRole(AlterRole { action: AlterRoleAction::Rename { resealed, .. }, .. }) = command {
        *resealed = value;
    }
}

/// The same for a statement on orgs.
pub(crate) fn detach_org(command: OrgCommand<Sensitive>) -> (OrgCommand<Sealed>, Option<Sensitive>) {
    match command {
        OrgCommand::Create { name, on_existing, admin, password } => {
            let mut out = None;
            let mut take = |text| {
                out = Some(text);
                PLACEHOLDER
            };
            let password = password.map(|at| at.map(|change| change.map(&mut take)));
            (OrgCommand::Create { name, on_existing, admin, password }, out)
        }
        OrgCommand::Drop { name, on_missing, behavior } => (OrgCommand::Drop { name, on_missing, behavior }, None),
    }
}

pub(super) fn attach_org(command: OrgCommand<Sealed>, sealed: &Sealed) -> OrgCommand<Sealed> {
    match command {
        OrgCommand::Create { name, on_existing, admin, password } => {
            let password = password.map(|at| at.map(|change| change.map(|_| sealed.clone())));
            OrgCommand::Create { name, on_existing, admin, password }
        }
        OrgCommand::Drop { name, on_missing, behavior } => OrgCommand::Drop { name, on_missing, behavior },
    }
}
