//! Cases on a store itself.

use std::sync::Arc;

use dataglot_model::{Change, ChangedStatement, HeadRecord, Mutation, OrgName, Row, Seq, Timestamp, TransactionId};

use super::image::Image;
use super::sample::{name, org, role, rows, secret, user};
use super::{Dice, Rig};
use crate::group::{Build, Transaction, empty_head};
use crate::record::{self, ChangeEntry, Damage, VERIFIER_PLACEHOLDER, load_state, read_changes};
use crate::{
    Base, CommitError, DeltaSink, Group, MetaStore, OrgGroup, RowSink, Rows, State, StoreError, Table, open_redb,
};

fn transaction(id: u128, seq: Seq, mutations: Vec<Mutation>) -> Transaction {
    let sql = format!("statement {id} 'of' \"{seq}\"");
    Transaction {
        id: TransactionId(id),
        seq,
        at: Timestamp(i64::try_from(id).unwrap()),
        actor: name("admin"),
        session: Arc::from("7 (\"psql\")"),
        statements: vec![ChangedStatement { sql: sql.into(), mutations }],
    }
}

fn put(row: Row) -> Mutation {
    Mutation::Put(row)
}

/// An empty org that is not in the store yet.
fn new_org(name: &str, org_id: u64) -> Image {
    Image::new(org(name), empty_head(org_id, Timestamp(0)))
}

/// Adds a transaction to a group; the first one of an org makes it.
fn add(build: &mut Build<Image>, image: &mut Image, id: u128, mutations: Vec<Mutation>) {
    let before = image.head;
    let seq = before.seq.next();
    mutations.iter().for_each(|m| image.apply(m));
    image.advance(seq, Timestamp(i64::try_from(id).unwrap()));
    let transaction = transaction(id, seq, mutations);
    if seq == Seq(1) {
        build.create(image.org.clone(), image.clone(), transaction);
    } else {
        build.push(&image.org.clone(), &before, image.clone(), transaction);
    }
}

/// Commits, and asks and tries again where the store does not say what became of it.
fn settle(store: &dyn MetaStore, build: &Build<Image>) -> Result<(), CommitError> {
    for _ in 0..10 {
        match build.commit(store) {
            Err(CommitError::Unknown(_)) => {
                let (org, id, seq) = build.probe().unwrap();
                if store.find_transaction(&org, id).unwrap() == Some(seq) {
                    return Ok(());
                }
            }
            known => return known,
        }
    }
    panic!("no answer after 10 tries")
}

fn commit(store: &dyn MetaStore, image: &mut Image, id: u128, mutations: Vec<Mutation>) {
    let mut build = Build::new();
    add(&mut build, image, id, mutations);
    settle(store, &build).unwrap();
}

fn load(store: &dyn MetaStore, org: &OrgName) -> Option<(Image, Vec<Damage>)> {
    load_state::<Image>(store, org).unwrap()
}

/// What the store holds is `image`, undamaged.
#[track_caller]
fn holds(store: &dyn MetaStore, image: &Image) {
    let (found, damage) = load(store, &image.org).unwrap();
    assert_eq!(damage, []);
    assert_eq!(&found, image);
    assert_eq!(store.head(&image.org).unwrap(), Some(image.head));
}

fn intact(entries: Vec<ChangeEntry>) -> Vec<Change> {
    let change = |entry| match entry {
        ChangeEntry::Intact(change) => change,
        ChangeEntry::Damaged { damage, .. } => panic!("{damage}"),
    };
    entries.into_iter().map(change).collect()
}

/// Rows as bytes, to write what no record would be.
struct Raw(Vec<(Table, Vec<u8>, Option<Vec<u8>>)>);

impl Rows for Raw {
    fn write(&self, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
        self.0.iter().try_for_each(|(table, key, value)| sink(*table, key, value.as_deref()))
    }
}

/// Overwrites rows of an org without a transaction, as a bad disk would.
fn overwrite(store: &dyn MetaStore, image: &Image, rows: Vec<(Table, Vec<u8>, Option<Vec<u8>>)>) {
    let rows = Raw(rows);
    for _ in 0..10 {
        let (base, head) = (Base::from(&image.head), Some(image.head));
        let orgs = vec![OrgGroup { org: &image.org, base, erase: false, head, rows: &rows }];
        if store.commit(&Group { orgs }).is_ok() {
            return;
        }
    }
    panic!("no answer after 10 tries")
}

pub fn a_new_store_is_empty(rig: &dyn Rig) {
    let store = rig.store();
    assert_eq!(store.heads().unwrap(), []);
    assert_eq!(store.head(&org("default")).unwrap(), None);
    assert!(load(store.as_ref(), &org("default")).is_none());
    assert_eq!(read_changes(store.as_ref(), &org("default"), Seq(0), 9).unwrap(), []);
    assert_eq!(store.find_transaction(&org("default"), TransactionId(1)).unwrap(), None);
    assert_eq!(store.commit(&Group { orgs: Vec::new() }), Ok(()));
    assert_ne!(store.facts().store_id, [0; 16]);
    assert_eq!(store.facts().store_id, rig.store().facts().store_id);
    store.health().unwrap();
}

pub fn a_commit_is_there_for_every_handle(rig: &dyn Rig) {
    let (a, b) = (rig.store(), rig.store());
    let mut image = new_org("default", 1);
    commit(a.as_ref(), &mut image, 1, rows().into_iter().map(put).collect());
    holds(a.as_ref(), &image);
    holds(b.as_ref(), &image);

    let gone: Vec<_> = image.rows.keys().step_by(3).cloned().map(Mutation::Delete).collect();
    commit(b.as_ref(), &mut image, 2, gone);
    holds(a.as_ref(), &image);
    assert_eq!(a.heads().unwrap(), [(image.org.clone(), image.head)]);
}

/// Either all orgs of a group change, or none.
pub fn a_group_is_one_step(rig: &dyn Rig) {
    let store = rig.store();
    let (mut one, mut two) = (new_org("one", 1), new_org("two", 2));
    let mut build = Build::new();
    add(&mut build, &mut one, 1, vec![put(role("a"))]);
    add(&mut build, &mut two, 2, vec![put(role("b"))]);
    add(&mut build, &mut one, 3, vec![put(role("c"))]);
    settle(store.as_ref(), &build).unwrap();
    holds(store.as_ref(), &one);
    holds(store.as_ref(), &two);

    // One of them is stale: the other one stays too.
    let mut build = Build::new();
    add(&mut build, &mut one.clone(), 4, vec![put(role("d"))]);
    let mut stale = two.clone();
    stale.head.seq = Seq(9);
    add(&mut build, &mut stale, 5, vec![put(role("e"))]);
    assert_eq!(settle(store.as_ref(), &build), Err(CommitError::Conflict));
    holds(store.as_ref(), &one);
    holds(store.as_ref(), &two);
    assert_eq!(store.find_transaction(&one.org, TransactionId(4)).unwrap(), None);
}

/// Two writers plan on one state. Exactly one wins; the loser leaves no trace.
pub fn a_stale_group_is_refused_whole(rig: &dyn Rig) {
    let (a, b) = (rig.store(), rig.store());
    let mut image = new_org("default", 1);
    commit(a.as_ref(), &mut image, 1, vec![put(role("x"))]);
    let (mut first, mut second) = (image.clone(), image.clone());
    commit(a.as_ref(), &mut first, 2, vec![put(role("first"))]);
    let refused = |image: &mut Image, id| {
        let mut build = Build::new();
        add(&mut build, image, id, vec![put(role("second"))]);
        assert_eq!(settle(b.as_ref(), &build), Err(CommitError::Conflict));
        holds(a.as_ref(), &first);
    };
    refused(&mut second, 3);
    // Another org of the same name, at the same number.
    let mut other = first.clone();
    other.head.org_id = 77;
    refused(&mut other, 4);
    // One that is there is not made again.
    refused(&mut new_org("default", 5), 6);
    // One that is not there is not changed.
    let mut absent = first.clone();
    absent.org = org("absent");
    refused(&mut absent, 7);
    assert_eq!(a.heads().unwrap().len(), 1);
}

pub fn rows_that_fail_leave_nothing(rig: &dyn Rig) {
    struct Failing(Raw);
    impl Rows for Failing {
        fn write(&self, sink: &mut RowSink<'_>) -> Result<(), StoreError> {
            self.0.write(sink)?;
            Err(StoreError::Internal)
        }
    }
    let store = rig.store();
    let mut image = new_org("default", 1);
    commit(store.as_ref(), &mut image, 1, vec![put(role("x"))]);
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let table = record::encode_row(&role("y"), &mut key, &mut value).unwrap();
    let rows = Failing(Raw(vec![(table, key, Some(value)), (Table::Roles, b"x".to_vec(), None)]));
    let head = Some(HeadRecord { seq: Seq(2), ..image.head });
    let orgs = vec![OrgGroup { org: &image.org, base: Base::from(&image.head), erase: true, head, rows: &rows }];
    assert!(store.commit(&Group { orgs }).is_err());
    holds(store.as_ref(), &image);
    commit(store.as_ref(), &mut image, 2, vec![put(role("z"))]);
    holds(store.as_ref(), &image);
}

/// Names that start with one another, or would, with a careless separator.
pub fn orgs_do_not_leak_into_each_other(rig: &dyn Rig) {
    let store = rig.store();
    let names = ["a", "a-", "a-b", "a0", "a_", "aa", "ab", "b"];
    let mut images: Vec<_> = names.iter().zip(1..).map(|(n, id)| new_org(n, id)).collect();
    let mut build = Build::new();
    for (image, id) in images.iter_mut().zip(1u8..) {
        let rows = [role("same"), role(&format!("only-{id}")), secret("s", id), user("u")];
        add(&mut build, image, u128::from(id), rows.map(put).to_vec());
    }
    settle(store.as_ref(), &build).unwrap();
    images.iter().for_each(|image| holds(store.as_ref(), image));

    for at in [0, 2, 3] {
        let gone = images.remove(at);
        let mut build = Build::new();
        build.drop_org(gone.org.clone(), gone.clone());
        // A drop comes with a statement of another org.
        let id = 100 + u128::try_from(at).unwrap();
        add(&mut build, &mut images[4 - at], id, vec![put(role("witness"))]);
        settle(store.as_ref(), &build).unwrap();
        assert!(load(store.as_ref(), &gone.org).is_none());
        assert_eq!(read_changes(store.as_ref(), &gone.org, Seq(0), 9).unwrap(), []);
        images.iter().for_each(|image| holds(store.as_ref(), image));
    }
    for image in &images {
        let changes = intact(read_changes(store.as_ref(), &image.org, Seq(0), 9).unwrap());
        assert!(changes.iter().all(|c| c.org == image.org));
        assert_eq!(changes.len(), usize::try_from(image.head.seq.0).unwrap());
    }
}

/// The new org has nothing of the old one.
pub fn an_org_can_be_dropped_and_made_anew_at_once(rig: &dyn Rig) {
    let store = rig.store();
    let (mut default, mut acme) = (new_org("default", 1), new_org("acme", 2));
    let mut build = Build::new();
    add(&mut build, &mut default, 1, vec![put(role("admin"))]);
    add(&mut build, &mut acme, 2, vec![put(role("old")), put(secret("s", 1))]);
    settle(store.as_ref(), &build).unwrap();

    let mut anew = new_org("acme", 3);
    let mut build = Build::new();
    add(&mut build, &mut default, 3, vec![put(role("other"))]);
    build.drop_org(acme.org.clone(), acme.clone());
    add(&mut build, &mut anew, 4, vec![put(role("new"))]);
    settle(store.as_ref(), &build).unwrap();
    holds(store.as_ref(), &anew);
    holds(store.as_ref(), &default);
    assert_eq!(store.find_transaction(&acme.org, TransactionId(2)).unwrap(), None);
    assert_eq!(store.find_transaction(&anew.org, TransactionId(4)).unwrap(), Some(Seq(1)));
}

pub fn changes_come_in_order_and_up_to_the_limit(rig: &dyn Rig) {
    let store = rig.store();
    let mut image = new_org("default", 1);
    let mut build = Build::new();
    for id in 1..=9 {
        add(&mut build, &mut image, id, vec![put(role(&format!("r{id}")))]);
    }
    settle(store.as_ref(), &build).unwrap();
    let seqs = |after, limit| -> Vec<u64> {
        let entries = read_changes(store.as_ref(), &image.org, Seq(after), limit).unwrap();
        entries.iter().map(|e| e.seq().0).collect()
    };
    assert_eq!(seqs(0, 100), (1..=9).collect::<Vec<_>>());
    assert_eq!(seqs(3, 2), [4, 5]);
    assert_eq!(seqs(8, 2), [9]);
    assert!(seqs(9, 2).is_empty());
    assert!(seqs(0, 0).is_empty());
    assert!(seqs(u64::MAX - 1, 2).is_empty());

    let mut seen = Vec::new();
    let stop = &mut |seq: Seq, step, _: &[u8]| {
        seen.push((seq.0, step));
        seq.0 < 3
    };
    store.changes(&image.org, Seq(1), 100, stop).unwrap();
    assert_eq!(seen, [(2, 0), (3, 0)]);

    let changes = intact(read_changes(store.as_ref(), &image.org, Seq(4), 1).unwrap());
    let Transaction { id, seq, at, actor, session, statements } = transaction(5, Seq(5), vec![put(role("r5"))]);
    assert_eq!(changes, [Change { org: image.org.clone(), seq, id, at, actor, session, statements }]);
}

pub fn a_transaction_is_found_by_its_id(rig: &dyn Rig) {
    let store = rig.store();
    let mut image = new_org("default", 1);
    let ids = [u128::MAX, 1 << 64, 0, 42];
    for id in ids {
        let mut build = Build::new();
        let before = image.head;
        let seq = before.seq.next();
        let mutations = vec![put(role(&format!("r{seq}")))];
        mutations.iter().for_each(|m| image.apply(m));
        image.advance(seq, Timestamp(1));
        let transaction = Transaction { at: Timestamp(1), ..transaction(1, seq, mutations) };
        let transaction = Transaction { id: TransactionId(id), ..transaction };
        if seq == Seq(1) {
            build.create(image.org.clone(), image.clone(), transaction);
        } else {
            build.push(&image.org.clone(), &before, image.clone(), transaction);
        }
        settle(store.as_ref(), &build).unwrap();
    }
    for (id, seq) in ids.into_iter().zip(1..) {
        assert_eq!(store.find_transaction(&image.org, TransactionId(id)).unwrap(), Some(Seq(seq)));
    }
    assert_eq!(store.find_transaction(&image.org, TransactionId(7)).unwrap(), None);
    assert_eq!(store.find_transaction(&org("other"), TransactionId(42)).unwrap(), None);
}

/// Many statements, and one statement with many mutations.
pub fn a_large_transaction_is_many_small_rows(rig: &dyn Rig) {
    let store = rig.store();
    let mut image = new_org("default", 1);
    let before = image.head;
    let statement = |sql: String, mutations| ChangedStatement { sql: sql.into(), mutations };
    let mut statements: Vec<_> =
        (0..2_000).map(|i| statement(format!("CREATE ROLE r{i}"), vec![put(role(&format!("r{i}")))])).collect();
    statements.push(statement(
        "DROP".to_owned(),
        (0..1_500).map(|i| Mutation::Delete(role(&format!("r{i}")).key())).collect(),
    ));
    statements.push(statement("empty".to_owned(), Vec::new()));
    statements.iter().flat_map(|s| &s.mutations).for_each(|m| image.apply(m));
    image.advance(Seq(1), Timestamp(1));
    let expected = statements.clone();
    let mut build = Build::new();
    build.create(image.org.clone(), image.clone(), Transaction { statements, ..transaction(1, Seq(1), Vec::new()) });
    settle(store.as_ref(), &build).unwrap();
    assert_eq!(before.seq, Seq(0));
    holds(store.as_ref(), &image);

    let mut sizes = Vec::new();
    store
        .changes(&image.org, Seq(0), 1, &mut |_, step, value| {
            assert_eq!(usize::try_from(step).unwrap(), sizes.len());
            sizes.push(value.len());
            true
        })
        .unwrap();
    assert!(sizes.len() > 10, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size < 20_000), "{sizes:?}");
    let [change] =
        <[Change; 1]>::try_from(intact(read_changes(store.as_ref(), &image.org, Seq(0), 9).unwrap())).unwrap();
    assert_eq!(change.statements, expected);
}

/// A sink that wants nothing but the head.
struct Unwanted(Option<HeadRecord>);

impl DeltaSink for Unwanted {
    fn begin(&mut self, head: HeadRecord) -> bool {
        self.0 = Some(head);
        false
    }
    fn change(&mut self, _: Seq, _: u32, _: &[u8]) -> bool {
        panic!("it was not wanted")
    }
    fn touched(&mut self) -> Vec<(Table, Vec<u8>)> {
        panic!("it was not wanted")
    }
    fn row(&mut self, _: Table, _: &[u8], _: Option<&[u8]>) {
        panic!("it was not wanted")
    }
}

pub fn a_delta_that_is_not_wanted_ends_there(rig: &dyn Rig) {
    let store = rig.store();
    let mut image = new_org("default", 1);
    // More history than fits into any buffer on the way.
    let statement =
        |i| ChangedStatement { sql: "x".repeat(4_000).into(), mutations: vec![put(role(&format!("r{i}")))] };
    let statements: Vec<_> = (0..2_000).map(statement).collect();
    statements.iter().flat_map(|s| &s.mutations).for_each(|m| image.apply(m));
    image.advance(Seq(1), Timestamp(1));
    let mut build = Build::new();
    build.create(image.org.clone(), image.clone(), Transaction { statements, ..transaction(1, Seq(1), Vec::new()) });
    settle(store.as_ref(), &build).unwrap();
    for _ in 0..2 {
        let mut sink = Unwanted(None);
        store.delta(&image.org, Seq(1), &mut sink).unwrap();
        assert_eq!(sink.0, Some(image.head));
    }
}

/// Every kind of damage to every table: the rest loads, and each damaged record is named.
pub fn damage_takes_nothing_else_down(rig: &dyn Rig) {
    let store = rig.store();
    let mut image = new_org("default", 1);
    commit(store.as_ref(), &mut image, 1, rows().into_iter().map(put).collect());
    let mut dice = Dice::new(rig.seed());
    let mut victims = Vec::new();
    let mut writes = Vec::new();
    for table in Table::IMAGE {
        let of_table = image.rows.values().find(|row| {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            record::encode_row(row, &mut key, &mut value).unwrap() == table
        });
        let row = of_table.unwrap().clone();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        record::encode_row(&row, &mut key, &mut value).unwrap();
        match dice.roll(4) {
            0 => value.truncate(dice.roll(value.len())),
            1 => {
                let at = dice.roll(value.len());
                value[at] ^= 1 << dice.roll(8);
            }
            2 => value = vec![0xff; 70],
            _ => value[0] = 200,
        }
        victims.push((table, key.clone(), row.key()));
        writes.push((table, key, Some(value)));
    }
    // A key that is none.
    writes.push((Table::Roles, vec![0xff, 0, b'x'], Some(b"whatever".to_vec())));
    overwrite(store.as_ref(), &image, writes);

    let (found, damage) = load(store.as_ref(), &image.org).unwrap();
    let mut named: Vec<_> = damage.into_iter().map(|d| (d.table, d.key)).collect();
    let mut expected: Vec<_> = victims.iter().map(|(table, key, _)| (*table, key.clone())).collect();
    expected.push((Table::Roles, vec![0xff, 0, b'x']));
    named.sort();
    expected.sort();
    assert_eq!(named, expected);
    let damaged_secret = name("s1");
    victims.iter().for_each(|(_, _, key)| drop(image.rows.remove(key)));
    image.unreadable.insert(damaged_secret);
    // The ids of damaged headers are not known, and not needed: the head has the next one.
    assert_eq!(found, image);
}

pub fn damaged_history_takes_nothing_else_down(rig: &dyn Rig) {
    let store = rig.store();
    let mut image = new_org("default", 1);
    let mut build = Build::new();
    (1..=5).for_each(|id| add(&mut build, &mut image, id, vec![put(role(&format!("r{id}")))]));
    settle(store.as_ref(), &build).unwrap();
    let key = |seq, step| record::key::of_change(Seq(seq), step).to_vec();
    let mut third = Vec::new();
    store
        .changes(&image.org, Seq(2), 1, &mut |_, _, value| {
            third = value.to_vec();
            true
        })
        .unwrap();
    let flipped = {
        let mut bytes = third.clone();
        *bytes.last_mut().unwrap() ^= 1;
        bytes
    };
    for (key, value) in [
        (key(2, 0), flipped),
        // A row of another transaction, and a row too many.
        (key(4, 0), third.clone()),
        (key(5, 1), third),
    ] {
        // History that several processes share lets nobody overwrite it.
        if !rig.overwrite_history(&image.org, &key, &value) {
            overwrite(store.as_ref(), &image, vec![(Table::Changes, key, Some(value))]);
        }
    }
    let entries = read_changes(store.as_ref(), &image.org, Seq(0), 9).unwrap();
    let damaged: Vec<_> =
        entries.iter().filter(|e| matches!(e, ChangeEntry::Damaged { .. })).map(|e| e.seq().0).collect();
    assert_eq!(entries.iter().map(|e| e.seq().0).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(damaged, [2, 4, 5]);
    holds(store.as_ref(), &image);
}

/// What is not durable says so, and is empty.
pub fn reopening_keeps_everything(rig: &dyn Rig) {
    let store = rig.store();
    let (mut one, mut two) = (new_org("default", 1), new_org("acme", 2));
    commit(store.as_ref(), &mut one, 1, rows().into_iter().map(put).collect());
    commit(store.as_ref(), &mut two, 2, vec![put(role("b"))]);
    store.meta_put("canary", b"tweet").unwrap();
    let (facts, changes) = (store.facts(), read_changes(store.as_ref(), &one.org, Seq(0), 9).unwrap());
    drop(store);
    let store = rig.reopen();
    if facts.durable {
        assert_eq!(store.facts(), facts);
        holds(store.as_ref(), &one);
        holds(store.as_ref(), &two);
        assert_eq!(read_changes(store.as_ref(), &one.org, Seq(0), 9).unwrap(), changes);
        assert_eq!(store.meta_get("canary").unwrap().as_deref(), Some(&b"tweet"[..]));
    } else {
        assert_eq!(store.heads().unwrap(), []);
        assert_ne!(store.facts().store_id, facts.store_id);
    }
}

pub fn a_backup_is_the_store(rig: &dyn Rig) {
    let store = rig.store();
    let mut image = new_org("default", 1);
    commit(store.as_ref(), &mut image, 1, rows().into_iter().map(put).collect());
    store.meta_put("canary", b"tweet").unwrap();
    let to = rig.dir().join("backup.redb");
    store.backup(&to).unwrap();
    let earlier = image.clone();
    commit(store.as_ref(), &mut image, 2, vec![put(role("later"))]);
    let check = |expected: &Image| {
        let copy = open_redb(&to, crate::RedbOptions { create: false, ..Default::default() }).unwrap();
        assert_eq!(copy.facts().store_id, store.facts().store_id);
        holds(copy.as_ref(), expected);
        assert_eq!(copy.heads().unwrap().len(), 1);
        assert_eq!(copy.meta_get("canary").unwrap().as_deref(), Some(&b"tweet"[..]));
        let history = |s: &dyn MetaStore, last| {
            let mut entries = read_changes(s, &image.org, Seq(0), 9).unwrap();
            entries.retain(|e| e.seq() <= last);
            entries
        };
        let last = expected.head.seq;
        assert_eq!(history(copy.as_ref(), last), history(store.as_ref(), last));
    };
    check(&earlier);
    // Over the last one.
    store.backup(&to).unwrap();
    check(&image);
    let left: Vec<_> = std::fs::read_dir(rig.dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|n| n.to_string_lossy().contains(".backup-")), "{left:?}");
}

/// A damaged store is not copied over a good backup.
pub fn a_backup_that_fails_leaves_the_last_one(rig: &dyn Rig) {
    let store = rig.store();
    let mut image = new_org("default", 1);
    commit(store.as_ref(), &mut image, 1, vec![put(role("a"))]);
    let to = rig.dir().join("backup.redb");
    store.backup(&to).unwrap();
    let good = std::fs::read(&to).unwrap();
    overwrite(store.as_ref(), &image, vec![(Table::Roles, b"a".to_vec(), Some(b"\x01bad".to_vec()))]);
    let Err(StoreError::Damaged { damage }) = store.backup(&to) else { panic!("a damaged store was copied") };
    assert_eq!(damage.len(), 1);
    assert_eq!(damage[0].to_string(), "record \"a\" in roles is cut short");
    assert!(std::fs::read(&to).unwrap() == good);
    assert!(store.backup(&rig.dir().join("no/such/directory/backup.redb")).is_err());
}

pub fn single_values_are_kept(rig: &dyn Rig) {
    let store = rig.store();
    assert_eq!(store.meta_get("canary").unwrap(), None);
    store.meta_put("canary", &[0, 255]).unwrap();
    store.meta_put("canary", &[1, 2, 3]).unwrap();
    assert_eq!(rig.store().meta_get("canary").unwrap(), Some(vec![1, 2, 3]));
    // What the store has for itself is out of reach.
    for own in ["schema_version", "store_id", "head/default", ""] {
        assert_eq!(store.meta_get(own).unwrap(), None);
        store.meta_put(own, b"x").unwrap();
    }
    assert_eq!(store.heads().unwrap(), []);
    store.health().unwrap();
}

/// The image without what history does not keep.
fn without_values(image: &Image) -> Image {
    let mut image = image.clone();
    for row in image.rows.values_mut() {
        let kept = match &*row {
            Row::Role(name, def) if def.verifier.is_some() => {
                let mut def = def.as_ref().clone();
                def.verifier = Some(VERIFIER_PLACEHOLDER.into());
                Row::Role(name.clone(), Arc::new(def))
            }
            Row::Secret(name, _, hash) => Row::Secret(name.clone(), Arc::from([].as_slice()), *hash),
            Row::PreviousSecret(name, _, hash) => Row::PreviousSecret(name.clone(), Arc::from([].as_slice()), *hash),
            Row::DataKey(no, _, hash) => Row::DataKey(*no, Arc::from([].as_slice()), *hash),
            Row::Header(..)
            | Row::Catalog(..)
            | Row::Role(..)
            | Row::Membership(..)
            | Row::Policy(..)
            | Row::Grant(..)
            | Row::View(..) => continue,
        };
        *row = kept;
    }
    image
}

/// Random batches, and what they should come to.
pub(super) fn random_batch(dice: &mut Dice, image: &Image) -> Vec<Mutation> {
    let samples = rows();
    (0..=dice.roll(6))
        .filter_map(|_| match dice.roll(5) {
            0 | 1 => Some(put(samples[dice.roll(samples.len())].clone())),
            2 => Some(put(role(&format!("r{}", dice.roll(5))))),
            3 => Some(put(secret("s", u8::try_from(dice.roll(256)).unwrap()))),
            _ => {
                let at = dice.roll(image.rows.len());
                image.rows.keys().nth(at).cloned().map(Mutation::Delete)
            }
        })
        .collect()
}

/// The history from the beginning makes the state, but for ciphertexts and verifiers.
pub fn replay_gives_the_state(rig: &dyn Rig) {
    let store = rig.store();
    let mut dice = Dice::new(rig.seed());
    let mut image = new_org("default", 1);
    for id in 1..=12 {
        let batch = random_batch(&mut dice, &image);
        commit(store.as_ref(), &mut image, id, batch);
    }
    let mut replayed = new_org("default", 1);
    let mut after = Seq(0);
    loop {
        let changes = intact(read_changes(store.as_ref(), &image.org, after, 5).unwrap());
        let Some(last) = changes.last() else { break };
        after = last.seq;
        for change in &changes {
            change.statements.iter().flat_map(|s| &s.mutations).for_each(|m| replayed.apply(m));
            replayed.advance(change.seq, change.at);
        }
    }
    assert_eq!(replayed, without_values(&image));
}

/// Batches on several orgs, drops among them, on two handles.
pub fn random_batches_do_what_a_model_says(rig: &dyn Rig) {
    let mut dice = Dice::new(rig.seed());
    let names = ["a", "a-b", "ab", "default"];
    let mut model: Vec<Option<Image>> = vec![None; names.len()];
    let mut id = 0;
    for round in 0..25 {
        let store = rig.store();
        let mut build = Build::new();
        let mut next = model.clone();
        for (at, image) in next.iter_mut().enumerate() {
            if dice.roll(2) == 0 {
                continue;
            }
            id += 1;
            let mut now = image.take().unwrap_or_else(|| new_org(names[at], u64::try_from(id).unwrap()));
            let exists = now.head.seq > Seq(0);
            // The last org always has a transaction in the group that can be asked for.
            if exists && at + 1 < names.len() && dice.roll(6) == 0 {
                build.drop_org(now.org.clone(), now.clone());
                continue;
            }
            let batch = random_batch(&mut dice, &now);
            add(&mut build, &mut now, id, batch);
            *image = Some(now);
        }
        if build.probe().is_none() {
            continue;
        }
        let spoiled = dice.roll(5) == 0;
        if spoiled {
            // Somebody else was faster with one of them.
            let mut stale = next.iter().flatten().next().unwrap().clone();
            stale.head.seq.0 += 1;
            stale.org = org("nobody");
            id += 1;
            add(&mut build, &mut stale, id, vec![put(role("x"))]);
        }
        match settle(store.as_ref(), &build) {
            Ok(()) if !spoiled => model = next,
            Err(CommitError::Conflict) if spoiled => {}
            other => panic!("round {round}: {other:?}"),
        }
        for (image, name) in model.iter().zip(names) {
            match image {
                Some(image) => holds(rig.store().as_ref(), image),
                None => assert!(load(rig.store().as_ref(), &org(name)).is_none()),
            }
        }
    }
    let heads: Vec<_> = model.iter().flatten().map(|i| (i.org.clone(), i.head)).collect();
    assert_eq!(rig.store().heads().unwrap(), heads);
}
