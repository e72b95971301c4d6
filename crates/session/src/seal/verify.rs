//! Whether all that is sealed opens, and is what history last recorded. Opens everything, and keeps nothing of it.

use std::collections::BTreeMap;

use dataglot_model::def::SecretOrigin;
use dataglot_model::{Change, Mutation, Name, Row, RowKey, SecretHash, Seq};
use dataglot_planner::{Image, Secret};
use dataglot_store::ChangeEntry;
use dataglot_vault::{self as vault, DataKeys, VaultError};

use super::keys::{self, ciphertext};
use super::{Left, secret};
use crate::engine::Engine;

/// What history has last recorded of each sealed value.
#[derive(Default)]
pub(crate) struct Recorded {
    data_keys: BTreeMap<u32, SecretHash>,
    values: BTreeMap<Name, SecretHash>,
    former: BTreeMap<Name, SecretHash>,
    /// The last transaction that was looked at.
    seq: Seq,
    damaged: Vec<Seq>,
}

impl Recorded {
    /// The last transaction that was looked at.
    pub(crate) fn seq(&self) -> Seq {
        self.seq
    }

    /// Takes the next transaction.
    pub(crate) fn note(&mut self, entry: &ChangeEntry) {
        self.seq = entry.seq();
        match entry {
            ChangeEntry::Intact(Change { statements, .. }) => {
                statements.iter().flat_map(|statement| &statement.mutations).for_each(|mutation| self.step(mutation));
            }
            ChangeEntry::Damaged { seq, damage: _ } => self.damaged.push(*seq),
        }
    }

    fn step(&mut self, mutation: &Mutation) {
        match mutation {
            Mutation::Put(Row::Secret(name, _, hash)) => {
                self.values.insert(name.clone(), *hash);
            }
            Mutation::Put(Row::PreviousSecret(name, _, hash)) => {
                self.former.insert(name.clone(), *hash);
            }
            Mutation::Put(Row::DataKey(no, _, hash)) => {
                self.data_keys.insert(*no, *hash);
            }
            Mutation::Delete(RowKey::Secret(name)) => {
                self.values.remove(name);
            }
            Mutation::Delete(RowKey::PreviousSecret(name)) => {
                self.former.remove(name);
            }
            Mutation::Delete(RowKey::DataKey(no)) => {
                self.data_keys.remove(no);
            }
            // What seals nothing. Of a verifier history records that there was one.
            Mutation::Put(
                Row::Header(..)
                | Row::Catalog(..)
                | Row::Role(..)
                | Row::Membership(..)
                | Row::Policy(..)
                | Row::Grant(..)
                | Row::View(..),
            )
            | Mutation::Delete(
                RowKey::Header(..)
                | RowKey::Catalog(..)
                | RowKey::Role { .. }
                | RowKey::Membership(..)
                | RowKey::Policy(..)
                | RowKey::Grant(..)
                | RowKey::View(..),
            ) => {}
        }
    }
}

/// One thing that is not as it should be: what, and why. Holds no part of a value.
pub(crate) struct Problem {
    pub(crate) object: String,
    pub(crate) problem: String,
}

/// All that is not as it should be in an org.
pub(crate) fn problems(engine: &Engine, image: &Image, recorded: &Recorded) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut note = |object: &dyn std::fmt::Display, problem: String| {
        found.push(Problem { object: object.to_string(), problem });
    };
    for (no, wrapped, hash) in image.data_keys() {
        let opened = DataKeys::open(engine.ring(), engine.store_id(), image.org(), [(no, wrapped.as_ref())]);
        let problem = match opened {
            Err(error) => Some(error.to_string()),
            Ok(_) => unlike(wrapped, hash, recorded.data_keys.get(&no)),
        };
        problem.into_iter().for_each(|problem| note(&Left::DataKey(no), problem));
    }
    for (name, secret) in image.secrets() {
        for is_previous in [false, true] {
            if let Some(problem) = of_value(engine, image, name, &secret, is_previous, recorded) {
                note(&Left::Secret { name: name.clone(), is_previous }, problem);
            }
        }
    }
    for (name, role) in image.roles() {
        let Some(stored) = role.def.verifier.as_deref().filter(|stored| ciphertext(stored).is_some()) else { continue };
        if let Err(error) = keys::open_stored(engine, image, name, stored) {
            note(&Left::Verifier(name.clone()), error.to_string());
        }
    }
    for seq in &recorded.damaged {
        note(&format_args!("transaction {}", seq.0), "its record cannot be read".to_owned());
    }
    found
}

fn of_value(
    engine: &Engine,
    image: &Image,
    name: &Name,
    secret: &Secret<'_>,
    is_previous: bool,
    recorded: &Recorded,
) -> Option<String> {
    let (value_version, origin, envelope, is_broken, last) = if is_previous {
        let previous = secret.meta.previous.as_deref()?;
        let broken = image.is_previous_unreadable(name);
        (previous.value_version, &previous.origin, secret.previous, broken, recorded.former.get(name))
    } else {
        let broken = image.is_unreadable(name);
        (secret.meta.value_version, &secret.meta.origin, secret.envelope, broken, recorded.values.get(name))
    };
    let hash = match origin {
        SecretOrigin::Sealed(hash) => *hash,
        SecretOrigin::Env(_) | SecretOrigin::File(_) => return None,
    };
    let Some(envelope) = envelope else { return Some("it is lost".to_owned()) };
    if is_broken {
        return Some("it is damaged, or not the one that its object was changed with".to_owned());
    }
    match keys::open(engine, image, &secret::place(engine, image, name, value_version), envelope) {
        Err(error) => Some(error.to_string()),
        Ok(_) => unlike(envelope, hash, last),
    }
}

/// Whether it is another one than its record says, or than history has recorded.
fn unlike(bytes: &[u8], hash: SecretHash, last: Option<&SecretHash>) -> Option<String> {
    if vault::hash(bytes) != hash {
        return Some(VaultError::Damaged.to_string());
    }
    match last {
        Some(last) if *last == hash => None,
        Some(_) => Some("it is not the one that history recorded last: an older one may have been put back".to_owned()),
        None => Some("history has no record of it".to_owned()),
    }
}
