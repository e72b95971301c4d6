//! From stored rows to an image.

use dataglot_model::{HeadRecord, Mutation, Name, OrgName, Row, RowKey};

use super::{Damage, decode_row, key};
use crate::{ImageSink, MetaStore, State, StoreError, Table};

/// A row as it was found in a store.
pub enum Loaded {
    /// It is as it was written.
    Row(Row),
    /// It cannot be read.
    Damaged(Damage),
}

/// Decodes a row of an image, or says how it is damaged.
pub fn decode_image_row(table: Table, key: &[u8], value: &[u8]) -> Loaded {
    match decode_row(table, key, value) {
        Ok(row) => Loaded::Row(row),
        Err(why) => Loaded::Damaged(Damage { table, key: key.to_vec(), why }),
    }
}

/// An image while it is being loaded.
struct Loading<'a, S> {
    org: &'a OrgName,
    state: Option<S>,
    damage: Vec<Damage>,
    unreadable: Vec<Name>,
}

impl<S: State> ImageSink for Loading<'_, S> {
    fn begin(&mut self, head: HeadRecord) {
        self.state = Some(S::new(self.org.clone(), head));
    }

    fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
        let Some(state) = &mut self.state else { return };
        match decode_row(table, key, value) {
            Ok(row) => state.apply(&Mutation::Put(row)),
            Err(why) => {
                if let (Table::Secrets, Ok(RowKey::Secret(name))) = (table, key::read(table, key)) {
                    self.unreadable.push(name);
                }
                self.damage.push(Damage { table, key: key.to_vec(), why });
            }
        }
    }
}

/// Loads an org's image. What is damaged is left out and listed; a secret whose ciphertext is damaged
/// is there, marked.
pub(crate) fn load_state<S: State>(
    store: &dyn MetaStore,
    org: &OrgName,
) -> Result<Option<(S, Vec<Damage>)>, StoreError> {
    let mut loading = Loading::<S> { org, state: None, damage: Vec::new(), unreadable: Vec::new() };
    store.load(org, &mut loading)?;
    let Loading { state, damage, unreadable, .. } = loading;
    damage.iter().for_each(|d| tracing::error!(org = org.as_str(), "damaged: {d}"));
    Ok(state.map(|mut state| {
        unreadable.iter().for_each(|name| state.mark_unreadable(name));
        (state, damage)
    }))
}
