//! Copies between two files, with a target that fails in every way, and with a source that moves.

use std::path::Path;
use std::sync::Arc;

use dataglot_model::{ChangedStatement, Mutation, Seq, Timestamp, TransactionId};
use tempfile::TempDir;

use super::*;
use crate::conformance::image::Image;
use crate::conformance::sample::{name, org, role, rows, secret};
use crate::fault::{Fault, FaultStore};
use crate::group::{Build, Transaction, empty_head};
use crate::{DeltaSink, ImageSink, RedbOptions, State as _, StoreFacts, Table, Watcher, open_redb};

const STORE_ID: [u8; 16] = [7; 16];

fn open(directory: &TempDir, file: &str, store_id: [u8; 16]) -> Arc<dyn MetaStore> {
    let options = RedbOptions { store_id: Some(store_id), ..RedbOptions::default() };
    open_redb(&directory.path().join(file), options).unwrap()
}

/// Adds a transaction to a group; the first one of an org makes it.
fn add(build: &mut Build<Image>, image: &mut Image, id: u128, mutations: Vec<Mutation>) {
    let (before, seq, at) = (image.head, image.head.seq.next(), Timestamp(i64::try_from(id).unwrap()));
    mutations.iter().for_each(|m| image.apply(m));
    image.advance(seq, at);
    let statements = vec![ChangedStatement { sql: format!("statement {id}").into(), mutations }];
    let actor = name("admin");
    let transaction = Transaction { id: TransactionId(id), seq, at, actor, session: "test".into(), statements };
    if seq == Seq(1) {
        build.create(image.org.clone(), image.clone(), transaction);
    } else {
        build.push(&image.org.clone(), &before, image.clone(), transaction);
    }
}

fn commit(store: &dyn MetaStore, image: &mut Image, id: u128, mutations: Vec<Mutation>) {
    let mut build = Build::new();
    add(&mut build, image, id, mutations);
    build.commit(store).unwrap();
}

fn put_role(text: String) -> Mutation {
    Mutation::Put(role(&text))
}

/// A store with three orgs, rows of every kind, a long history and values of its own.
fn filled(store: &dyn MetaStore) {
    store.meta_put("key_canary", b"\0\xffcanary").unwrap();
    store.meta_put("other", b"").unwrap();
    let mut build = Build::new();
    let mut first = Image::new(org("default"), empty_head(1, Timestamp(0)));
    add(&mut build, &mut first, 1, rows().into_iter().map(Mutation::Put).collect());
    (2..600).for_each(|n| add(&mut build, &mut first, n, vec![put_role(format!("r{n}"))]));
    let mut second = Image::new(org("acme-1"), empty_head(2, Timestamp(0)));
    add(&mut build, &mut second, 1001, vec![Mutation::Put(secret("s1", 9))]);
    // More than fits in the batches that wait.
    add(&mut build, &mut second, 1002, (0..20_000).map(|n| put_role(format!("r{n}"))).collect());
    let mut third = Image::new(org("zz"), empty_head(3, Timestamp(0)));
    add(&mut build, &mut third, 2001, vec![Mutation::Put(role("alone"))]);
    build.commit(store).unwrap();
}

fn source(directory: &TempDir) -> Arc<dyn MetaStore> {
    let store = open(directory, "from", STORE_ID);
    filled(store.as_ref());
    store
}

#[test]
fn a_copy_holds_what_the_source_holds() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (source(&directory), open(&directory, "to", STORE_ID));
    let copied = copy(from.as_ref(), to.as_ref()).unwrap();
    assert_eq!(
        copied.orgs.iter().map(|(org, head)| (org.as_str(), head.seq.0)).collect::<Vec<_>>(),
        [("acme-1", 2), ("default", 599), ("zz", 1)]
    );
    assert_eq!((copied.damaged, copied.tables.get(&Table::Meta)), (0, Some(&2)));
    assert!(copied.rows() > 20_000);
    drop((from, to));
    let (from, to) = (open(&directory, "from", STORE_ID), open(&directory, "to", STORE_ID));
    assert_eq!(summarize(from.as_ref()).unwrap(), copied);
    assert_eq!(summarize(to.as_ref()).unwrap(), copied);
    assert_eq!(to.find_transaction(&org("default"), TransactionId(300)).unwrap(), Some(Seq(300)));
    assert_eq!(to.facts().store_id, STORE_ID);
}

#[test]
fn an_empty_store_is_copied_too() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (open(&directory, "from", STORE_ID), open(&directory, "to", STORE_ID));
    let copied = copy(from.as_ref(), to.as_ref()).unwrap();
    assert_eq!((copied.rows(), copied.orgs.len()), (0, 0));
}

/// The file is a whole copy or not there, and nothing else is beside it.
#[test]
fn a_file_is_there_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let from = source(&directory);
    let out = directory.path().join("out");
    let path = out.join("copy");
    let copied = copy_to_file(from.as_ref(), &path).unwrap();
    let names = || std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(names(), ["copy"]);
    let before = std::fs::read(&path).unwrap();
    assert_eq!(copy_to_file(from.as_ref(), &path), Err(CopyError::Exists(path.clone())));
    assert!(std::fs::read(&path).unwrap() == before);
    assert_eq!(summarize(open_redb(&path, RedbOptions::default()).unwrap().as_ref()).unwrap(), copied);
    std::fs::remove_file(&path).unwrap();

    let moving = Box::new(|store: &dyn MetaStore, count: usize| {
        if count == 2 {
            store.meta_put("other", b"now").unwrap();
        }
    });
    let from = Moving { inner: from, before_load: moving, loads: 0.into() };
    assert!(matches!(copy_to_file(&from, &path), Err(CopyError::Differs { .. })));
    assert!(names().is_empty());
}

/// One byte, one row or one number less or more is another digest.
#[test]
fn a_digest_sees_every_difference() {
    let directory = tempfile::tempdir().unwrap();
    let from = source(&directory);
    let whole = summarize(from.as_ref()).unwrap();
    from.meta_put("other", b"x").unwrap();
    let other = summarize(from.as_ref()).unwrap();
    assert_ne!(whole.digest, other.digest);
    from.meta_put("other", b"").unwrap();
    assert_eq!(summarize(from.as_ref()).unwrap(), whole);
    let zz = org("zz");
    let head = from.head(&zz).unwrap().unwrap();
    let moved = HeadRecord { next_id: dataglot_model::def::ObjectId(head.next_id.0 + 1), ..head };
    let orgs = vec![OrgGroup { org: &zz, base: Base::from(&head), erase: false, head: Some(moved), rows: &Nothing }];
    from.commit(&Group { orgs }).unwrap();
    assert_ne!(summarize(from.as_ref()).unwrap().digest, whole.digest);
}

#[test]
fn a_target_that_is_not_empty_or_another_store_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (source(&directory), open(&directory, "to", STORE_ID));
    let mut image = Image::new(org("mine"), empty_head(1, Timestamp(0)));
    commit(to.as_ref(), &mut image, 1, vec![Mutation::Put(role("r"))]);
    let before = summarize(to.as_ref()).unwrap();
    let refused = copy(from.as_ref(), to.as_ref()).unwrap_err();
    assert_eq!(refused, CopyError::TargetNotEmpty { orgs: 1 });
    assert_eq!(refused.to_string(), "the target is not empty: it has 1 database");
    assert_eq!(summarize(to.as_ref()).unwrap(), before);
    let other = open(&directory, "other", [8; 16]);
    assert_eq!(copy(from.as_ref(), other.as_ref()), Err(CopyError::OtherIdentity));
}

#[test]
fn a_target_that_fails_is_left_empty() {
    let directory = tempfile::tempdir().unwrap();
    let from = source(&directory);
    for (n, fault) in [Fault::Fail, Fault::Full, Fault::LostRequest, Fault::Conflict].into_iter().enumerate() {
        let to = FaultStore::new(open(&directory, &format!("to{n}"), STORE_ID));
        to.next([fault]);
        let refused = copy(from.as_ref(), to.as_ref()).unwrap_err();
        assert!(matches!(refused, CopyError::Target(_) | CopyError::TargetNotEmpty { .. }), "{fault:?}: {refused:?}");
        assert_eq!(to.heads().unwrap(), [], "{fault:?}");
        // And it does for the next try.
        copy(from.as_ref(), to.as_ref()).unwrap();
    }
}

/// The commit is there, and its answer is not: that is found out.
#[test]
fn a_lost_answer_is_found_out() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (source(&directory), FaultStore::new(open(&directory, "to", STORE_ID)));
    to.next([Fault::LostReply]);
    assert_eq!(copy(from.as_ref(), to.as_ref()), summarize(from.as_ref()).map_err(CopyError::Source));
    let unclear = FaultStore::new(open(&directory, "unclear", STORE_ID));
    unclear.next([Fault::LostReply]);
    unclear.fail_lookups(1);
    assert!(matches!(copy(from.as_ref(), unclear.as_ref()), Err(CopyError::NotRemoved { .. })));
}

/// What somebody else does to a store.
type Meddle = Box<dyn Fn(&dyn MetaStore, usize) + Send + Sync>;

/// A store that somebody else writes to while its rows are read.
struct Moving {
    inner: Arc<dyn MetaStore>,
    /// Called before the image of an org is read: how many have been.
    before_load: Meddle,
    loads: std::sync::atomic::AtomicUsize,
}

impl MetaStore for Moving {
    fn facts(&self) -> StoreFacts {
        self.inner.facts()
    }
    fn heads(&self) -> Result<Vec<(OrgName, HeadRecord)>, StoreError> {
        self.inner.heads()
    }
    fn head(&self, org: &OrgName) -> Result<Option<HeadRecord>, StoreError> {
        self.inner.head(org)
    }
    fn load(&self, org: &OrgName, sink: &mut dyn ImageSink) -> Result<(), StoreError> {
        let count = self.loads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (self.before_load)(self.inner.as_ref(), count);
        self.inner.load(org, sink)
    }
    fn delta(&self, org: &OrgName, from: Seq, sink: &mut dyn DeltaSink) -> Result<(), StoreError> {
        self.inner.delta(org, from, sink)
    }
    fn watch(&self, watcher: Arc<dyn Watcher>) -> Result<(), StoreError> {
        self.inner.watch(watcher)
    }
    fn orgs_added(&self) {
        self.inner.orgs_added();
    }

    fn halt(&self, org: &OrgName, seen: Seq) -> Result<(), StoreError> {
        self.inner.halt(org, seen)
    }
    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        self.inner.commit(group)
    }
    fn changes(
        &self,
        org: &OrgName,
        after: Seq,
        limit: usize,
        sink: &mut dyn FnMut(Seq, u32, &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.inner.changes(org, after, limit, sink)
    }
    fn find_transaction(&self, org: &OrgName, id: TransactionId) -> Result<Option<Seq>, StoreError> {
        self.inner.find_transaction(org, id)
    }
    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.meta_get(key)
    }
    fn metas(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.inner.metas()
    }
    fn meta_init(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.inner.meta_init(key, value)
    }
    fn meta_put(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.inner.meta_put(key, value)
    }
    fn health(&self) -> Result<(), StoreError> {
        self.inner.health()
    }
    fn backup(&self, to: &Path) -> Result<(), StoreError> {
        self.inner.backup(to)
    }
    fn size(&self) -> Result<u64, StoreError> {
        self.inner.size()
    }
}

/// Whenever the source moves, before it is written or before it is read back, nothing is left of the copy.
#[test]
fn a_source_that_moves_gives_no_copy() {
    let directory = tempfile::tempdir().unwrap();
    let inner = source(&directory);
    for moment in 0..6 {
        let to = open(&directory, &format!("to{moment}"), STORE_ID);
        let before_load = Box::new(move |store: &dyn MetaStore, count: usize| {
            if count == moment {
                let org = org("zz");
                let head = store.head(&org).unwrap().unwrap();
                let mut image = Image::new(org, head);
                commit(store, &mut image, 3000 + u128::from(head.seq.0), vec![put_role(format!("x{moment}"))]);
            }
        });
        let from = Moving { inner: Arc::clone(&inner), before_load, loads: 0.into() };
        assert_eq!(copy(&from, to.as_ref()), Err(CopyError::SourceMoved), "before the image {moment}");
        assert_eq!(to.heads().unwrap(), [], "before the image {moment}");
    }
}

/// A source that cannot be read to the end gives no copy either.
#[test]
fn a_source_that_fails_gives_no_copy() {
    let directory = tempfile::tempdir().unwrap();
    let (inner, to) = (source(&directory), open(&directory, "to", STORE_ID));
    let path = directory.path().join("from");
    drop(inner);
    // The org is dropped after its head was read.
    let before_load = Box::new(move |store: &dyn MetaStore, count: usize| {
        if count == 0 {
            let org = org("zz");
            let head = store.head(&org).unwrap().unwrap();
            let base = Base::from(&head);
            let orgs = vec![OrgGroup { org: &org, base, erase: true, head: None, rows: &Nothing }];
            store.commit(&Group { orgs }).unwrap();
        }
    });
    let inner = open_redb(&path, RedbOptions::default()).unwrap();
    let from = Moving { inner, before_load, loads: 0.into() };
    assert_eq!(copy(&from, to.as_ref()), Err(CopyError::SourceMoved));
    assert_eq!(to.heads().unwrap(), []);
}

/// Damage is no reason to lose the rest: it comes along, and is counted.
#[test]
fn damaged_rows_come_along_as_they_are() {
    struct Bad;
    impl Rows for Bad {
        fn write(&self, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
            sink(Table::Roles, b"r2", Some(b"\x01garbage"))?;
            sink(Table::Entries, b"", Some(b""))
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (source(&directory), open(&directory, "to", STORE_ID));
    let zz = org("zz");
    let head = from.head(&zz).unwrap().unwrap();
    let orgs = vec![OrgGroup { org: &zz, base: Base::from(&head), erase: false, head: Some(head), rows: &Bad }];
    from.commit(&Group { orgs }).unwrap();
    let copied = copy(from.as_ref(), to.as_ref()).unwrap();
    assert_eq!(copied.damaged, 2);
}
