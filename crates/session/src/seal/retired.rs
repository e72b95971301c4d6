//! Master keys that another one has taken the place of. They open, and seal nothing any more, on no coordinator of the
//! store: else one with an older configuration would make anew what needs them, unseen.
//!
//! Each is a value in the store. It is written before it is looked for the last time whether something needs the key,
//! and asked for in the committer, right before a data key is written. What the committer of another coordinator had
//! asked for before, and commits after that last look, is not seen by it: `dataglot rekey remove` looks again, later,
//! and before anybody takes the key away.

use dataglot_model::{ChangedStatement, Mutation, Row, SqlState};
use dataglot_store::{MetaStore, StoreError};
use dataglot_vault::{self as vault, KeyId};

use crate::error::SessionError;

/// What its name in the store begins with; the fingerprint follows.
const PREFIX: &str = "retired_key:";

/// Whether it is one. Blocks.
pub(crate) fn is_retired(store: &dyn MetaStore, key: KeyId) -> Result<bool, StoreError> {
    Ok(store.meta_get(&format!("{PREFIX}{key}"))?.is_some())
}

/// All of them. Blocks.
pub(crate) fn retired(store: &dyn MetaStore) -> Result<Vec<KeyId>, StoreError> {
    let names = store.metas()?.into_iter();
    Ok(names.filter_map(|(name, _)| KeyId::parse(name.strip_prefix(PREFIX)?)).collect())
}

/// Makes it one, for good. Blocks.
pub(crate) fn retire(store: &dyn MetaStore, key: KeyId) -> Result<(), StoreError> {
    store.meta_init(&format!("{PREFIX}{key}"), &[1]).map(drop)
}

/// Refuses to write a data key that is wrapped under one of them. Blocks.
pub(crate) fn check<'a>(
    store: &dyn MetaStore,
    statements: impl IntoIterator<Item = &'a ChangedStatement>,
) -> Result<(), SessionError> {
    for mutation in statements.into_iter().flat_map(|statement| &statement.mutations) {
        if let Mutation::Put(Row::DataKey(_, wrapped, _)) = mutation
            && let Ok(key) = vault::wrapped_with(wrapped)
            && is_retired(store, key).map_err(|e| SessionError::of(&e))?
        {
            return Err(refused(key));
        }
    }
    Ok(())
}

/// It is to seal, and does not.
pub(crate) fn refused(key: KeyId) -> SessionError {
    SessionError::new(
        SqlState::ObjectNotInPrerequisiteState,
        format!("another secret key has taken the place of key {key}, which seals nothing any more"),
    )
    .with_hint("Start the server with the key that is in use in front, or with a new one.")
}
