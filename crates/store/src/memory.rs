//! The reference: a store in memory. It is gone with the process, and says so in its facts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use dataglot_model::{HeadRecord, OrgName, Seq, TransactionId};

use crate::feed::Feed;
use crate::record::{key, transaction_id};
use crate::redb::backup;
use crate::{Base, CommitError, DeltaSink, Group, ImageSink, MetaStore, StoreError, StoreFacts, Table, Watcher};

/// The format that this version writes; the reference has the one of the redb backend.
const SCHEMA_VERSION: u32 = crate::redb::SCHEMA_VERSION;

/// A store in memory.
pub(crate) struct MemoryStore {
    store_id: [u8; 16],
    content: RwLock<Content>,
}

#[derive(Default)]
struct Content {
    /// By table and key, the org first in the key.
    rows: BTreeMap<(Table, Vec<u8>), Vec<u8>>,
    heads: BTreeMap<OrgName, HeadRecord>,
    meta: BTreeMap<String, Vec<u8>>,
}

/// A new, empty store in memory.
///
/// # Errors
/// The operating system gives no random number for its id.
pub fn open_memory() -> Result<Arc<dyn MetaStore>, StoreError> {
    let store_id = crate::redb::new_store_id()?;
    Ok(Arc::new(MemoryStore { store_id, content: RwLock::default() }))
}

impl MemoryStore {
    fn content(&self) -> std::sync::RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    /// Rows of one table whose key starts with `prefix` and is at least `from`; keys without the prefix.
    fn scan<'a>(
        &'a self,
        table: Table,
        prefix: &'a [u8],
        from: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a [u8])> {
        let range = (table, [prefix, from].concat())..(table, key::prefix_end(prefix));
        self.rows.range(range).map(|((_, key), value)| (key.get(prefix.len()..).unwrap_or_default(), value.as_slice()))
    }

    fn is_at(&self, org: &OrgName, base: Base) -> bool {
        self.heads.get(org).map_or(Base::Absent, Base::from) == base
    }
}

impl MetaStore for MemoryStore {
    fn facts(&self) -> StoreFacts {
        StoreFacts {
            backend: "memory",
            location: "memory".to_owned(),
            path: None,
            store_id: self.store_id,
            schema_version: SCHEMA_VERSION,
            durable: false,
            shared: false,
        }
    }

    fn heads(&self) -> Result<Vec<(OrgName, HeadRecord)>, StoreError> {
        Ok(self.content().heads.iter().map(|(org, head)| (org.clone(), *head)).collect())
    }

    fn head(&self, org: &OrgName) -> Result<Option<HeadRecord>, StoreError> {
        Ok(self.content().heads.get(org).copied())
    }

    fn load(&self, org: &OrgName, sink: &mut dyn ImageSink) -> Result<(), StoreError> {
        let content = self.content();
        let Some(head) = content.heads.get(org) else { return Ok(()) };
        sink.begin(*head);
        let mut prefix = Vec::new();
        key::org_prefix(org, &mut prefix);
        for table in Table::IMAGE {
            content.scan(table, &prefix, &[]).for_each(|(key, value)| sink.row(table, key, value));
        }
        Ok(())
    }

    fn delta(&self, org: &OrgName, from: Seq, sink: &mut dyn DeltaSink) -> Result<(), StoreError> {
        let content = self.content();
        let Some(head) = content.heads.get(org) else { return Ok(()) };
        if !sink.begin(*head) {
            return Ok(());
        }
        let mut prefix = Vec::new();
        key::org_prefix(org, &mut prefix);
        for (key, value) in content.scan(Table::Changes, &prefix, &key::of_change(from, 0)) {
            if let Ok((seq, step)) = key::read_change(key)
                && !sink.change(seq, step, value)
            {
                break;
            }
        }
        for (table, key) in sink.touched() {
            let value = content.rows.get(&(table, [prefix.as_slice(), &key].concat()));
            sink.row(table, &key, value.map(Vec::as_slice));
        }
        Ok(())
    }

    fn watch(&self, _watcher: Arc<dyn Watcher>) -> Result<(), StoreError> {
        Ok(())
    }

    fn orgs_added(&self) {}

    fn halt(&self, _org: &OrgName, _seen: Seq) -> Result<(), StoreError> {
        Ok(())
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        if group.orgs.iter().any(|o| !content.is_at(o.org, o.base)) {
            return Err(CommitError::Conflict);
        }
        // Everything that can fail comes before the first change.
        let mut prefix = Vec::new();
        let mut writes = Vec::new();
        for org in &group.orgs {
            key::org_prefix(org.org, &mut prefix);
            let write = &mut |table, key: &[u8], value: Option<&[u8]>| {
                writes.push((table, [prefix.as_slice(), key].concat(), value.map(<[u8]>::to_vec)));
                Ok(())
            };
            org.rows.write(write).map_err(CommitError::Failed)?;
        }
        for org in group.orgs.iter().filter(|o| o.erase) {
            key::org_prefix(org.org, &mut prefix);
            content.rows.retain(|(_, key), _| !key.starts_with(&prefix));
        }
        for (table, key, value) in writes {
            match value {
                Some(value) => content.rows.insert((table, key), value),
                None => content.rows.remove(&(table, key)),
            };
        }
        for org in &group.orgs {
            match org.head {
                Some(head) => content.heads.insert(org.org.clone(), head),
                None => content.heads.remove(org.org),
            };
        }
        Ok(())
    }

    fn changes(
        &self,
        org: &OrgName,
        after: Seq,
        limit: usize,
        sink: &mut dyn FnMut(Seq, u32, &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let content = self.content();
        let mut prefix = Vec::new();
        key::org_prefix(org, &mut prefix);
        let from = key::of_change(after.next(), 0);
        let mut feed = Feed::new(limit, sink);
        for (key, value) in content.scan(Table::Changes, &prefix, &from) {
            let Ok((seq, step)) = key::read_change(key) else { continue };
            if !feed.row(seq, step, value) {
                break;
            }
        }
        Ok(())
    }

    fn find_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        let content = self.content();
        let mut prefix = Vec::new();
        key::org_prefix(org, &mut prefix);
        let mut rows = content.scan(Table::Changes, &prefix, &[]).rev();
        let found = rows.find(|(_, value)| transaction_id(value) == Some(id));
        Ok(found.and_then(|(key, _)| key::read_change(key).ok()).map(|(seq, _)| seq))
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.content().meta.get(key).cloned())
    }

    fn metas(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        Ok(self.content().meta.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn meta_init(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        Ok(content.meta.entry(key.to_owned()).or_insert_with(|| value.to_vec()).clone())
    }

    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        content.meta.insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    fn health(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// A file of the redb backend.
    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let content = self.content();
        backup::write(to, &self.facts(), &mut |sink| {
            for (org, head) in &content.heads {
                sink.head(org, head)?;
            }
            for (key, value) in &content.meta {
                sink.meta(key, value)?;
            }
            for ((table, key), value) in &content.rows {
                sink.row(*table, key, value)?;
            }
            Ok(())
        })
    }

    fn size(&self) -> Result<u64, StoreError> {
        let content = self.content();
        let bytes: usize = content.rows.iter().map(|((_, key), value)| key.len() + value.len()).sum();
        Ok(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}
