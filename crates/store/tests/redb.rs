//! The redb backend: its file, its lock, and disks that fail.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::print_stdout, reason = "these are tests")]

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use dataglot_model::{Mutation, OrgName, Problem as _, Seq, SqlState, Timestamp, TransactionId};
use dataglot_store::conformance::hub::block_on;
use dataglot_store::conformance::image::{Image, Planner, Refusal, Request, submit};
use dataglot_store::conformance::sample::{name, role};
use dataglot_store::fault::{DiskFault, DiskOp, FaultDisk};
use dataglot_store::{
    FirstOrg, Hub, HubLimits, MetaStore, RedbOptions, StoreError, SubmitError, open_redb, open_redb_with,
};

fn options() -> RedbOptions {
    RedbOptions { store_id: Some([7; 16]), ..RedbOptions::default() }
}

fn existing() -> RedbOptions {
    RedbOptions { create: false, ..RedbOptions::default() }
}

fn default() -> OrgName {
    OrgName::default_org()
}

fn first_org() -> FirstOrg {
    let mutations = vec![Mutation::Put(role("admin"))];
    FirstOrg {
        name: default(),
        org_id: 1,
        id: TransactionId(1 << 100),
        at: Timestamp(1),
        actor: name("admin"),
        session: "1 (test)".into(),
        statement: dataglot_model::ChangedStatement { sql: "CREATE USER admin".into(), mutations },
    }
}

fn hub(store: Arc<dyn MetaStore>) -> Hub<Planner> {
    let hub = Hub::open(store, Planner, HubLimits::default()).unwrap();
    if hub.orgs().unwrap().is_empty() {
        block_on(hub.create_first_org(first_org())).unwrap();
    }
    hub
}

fn roles(store: Arc<dyn MetaStore>) -> Vec<String> {
    let hub = Hub::open(store, Planner, HubLimits::default()).unwrap();
    let state = hub.state(&default()).unwrap();
    state.map(|s| s.rows.keys().map(|key| format!("{key:?}")).collect()).unwrap_or_default()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// D-06: only the owner may open what we make.
#[test]
fn a_new_store_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b/meta.redb");
    let store = open_redb(&path, options()).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&dir.path().join("a")), 0o700);
    store.backup(&dir.path().join("copy.redb")).unwrap();
    assert_eq!(mode(&dir.path().join("copy.redb")), 0o600);
    let note = PathBuf::from(format!("{}.lock", path.display()));
    assert_eq!(mode(&note), 0o600);
    drop(store);
    let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["meta.redb"]);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let error = open_redb(&path, options()).err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "store \"{}\" has mode 0640: others than its owner may read or write it",
            path.canonicalize().unwrap().display()
        )
    );
    assert!(error.hint().unwrap().starts_with("Run chmod 600"));
}

/// One handle a file, under whatever name, for as long as anybody has it.
#[test]
fn every_open_of_one_file_shares_the_handle() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("meta.redb");
    let one = open_redb(&path, options()).unwrap();
    symlink(&path, dir.path().join("symbolic")).unwrap();
    fs::hard_link(&path, dir.path().join("hard")).unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    for other in ["meta.redb", "symbolic", "hard", "d/../meta.redb"] {
        let two = open_redb(&dir.path().join(other), options()).unwrap();
        assert!(Arc::ptr_eq(&one, &two), "{other}");
    }
    // Opened and closed on many threads at once, it is never locked by ourselves.
    drop(one);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20).for_each(|_| drop(open_redb(&path, options()).unwrap())));
        }
    });
}

/// D-08: each is refused in one line that says why, and keeps its bytes.
#[test]
fn what_is_no_store_of_ours_is_refused_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good.redb");
    let hub = hub(open_redb(&good, options()).unwrap());
    for id in 0..5 {
        submit(&hub, &default(), id, Request::Create(role(&format!("r{id}")))).wait().ok().unwrap();
    }
    drop(hub);
    let bytes = fs::read(&good).unwrap();

    let foreign = dir.path().join("foreign.redb");
    let database = redb::Database::create(&foreign).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(redb::TableDefinition::<&str, u64>::new("x")).unwrap().insert("a", 1).unwrap();
    write.commit().unwrap();
    drop(database);

    let newer = dir.path().join("newer.redb");
    fs::write(&newer, &bytes).unwrap();
    set_schema_version(&newer, "2");

    let mut cases = vec![
        ("empty", Vec::new(), "it is empty"),
        ("garbage", b"this is no store of anything".repeat(1000), "it is not a redb file, or it is cut short"),
        ("short garbage", b"x".to_vec(), "it is not a redb file, or it is cut short"),
        ("zeros", vec![0; 1 << 16], "it is not a redb file, or it is cut short"),
        ("foreign", fs::read(&foreign).unwrap(), "it is a redb file of something else"),
        ("newer", fs::read(&newer).unwrap(), "has format 2, and this version knows formats up to 1"),
    ];
    for length in [8, 100, 320, 4095, 4096, 5000, bytes.len() / 2, bytes.len() - 4096, bytes.len() - 1] {
        cases.push(("truncated", bytes[..length].to_vec(), ""));
    }
    for (what, content, why) in cases {
        let path = dir.path().join("it.redb");
        fs::write(&path, &content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let Err(error) = open_redb(&path, options()) else { panic!("{what} ({} bytes) was opened", content.len()) };
        let text = error.to_string();
        assert!(text.contains(why), "{what}: {text}");
        assert!(text.contains("it.redb") && !text.contains('\n'), "{what}: {text}");
        assert!(matches!(error.sqlstate(), SqlState::DataCorrupted | SqlState::FeatureNotSupported), "{what}");
        assert!(fs::read(&path).unwrap() == content, "{what} ({} bytes) was changed", content.len());
        assert!(!dir.path().join("it.redb.lock").exists());
    }
    let missing = open_redb(&dir.path().join("none.redb"), existing()).err().unwrap();
    assert!(missing.to_string().ends_with("none.redb\" does not exist"));
    assert!(open_redb(dir.path(), options()).is_err());
}

fn set_schema_version(path: &Path, version: &str) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    let database = redb::Database::open(path).unwrap();
    let write = database.begin_write().unwrap();
    let meta = redb::TableDefinition::<&[u8], &[u8]>::new("meta");
    write.open_table(meta).unwrap().insert(&b"schema_version"[..], version.as_bytes()).unwrap();
    write.commit().unwrap();
}

/// A page that went bad: the store opens or is refused, and nothing panics.
#[test]
fn flipped_bytes_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good.redb");
    let hub = hub(open_redb(&good, options()).unwrap());
    for id in 0..20 {
        submit(&hub, &default(), id, Request::Create(role(&format!("r{id}")))).wait().ok().unwrap();
    }
    drop(hub);
    let bytes = fs::read(&good).unwrap();
    let path = dir.path().join("it.redb");
    for at in (0..bytes.len()).step_by(bytes.len() / 97) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x40;
        fs::write(&path, &flipped).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        if let Ok(store) = open_redb(&path, existing()) {
            let _ = Hub::open(store, Planner, HubLimits::default()).map(|hub| hub.state(&default()));
        }
    }
}

/// The other process of the test below: holds the store `path` until its standard input ends.
fn hold(path: &Path) {
    match open_redb(path, options()) {
        Ok(_store) => {
            println!("open");
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        Err(error) => println!("{error}"),
    }
}

const HOLD: &str = "DATAGLOT_TEST_HOLD";

#[test]
#[ignore = "run by c111_a_second_process_is_refused as its second process"]
#[allow(clippy::disallowed_methods, reason = "the path comes from the test that starts it")]
fn second_process() {
    if let Some(path) = std::env::var_os(HOLD) {
        hold(Path::new(&path));
    }
}

fn start(path: &Path) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["second_process", "--exact", "--ignored", "--nocapture", "--quiet"])
        .env(HOLD, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let said = lines.by_ref().map(Result::unwrap).find(|l| l == "open" || l.starts_with("store "));
    (child, said.expect("the other process said nothing"))
}

/// C111, D-07: one line with the file and its holder; the file keeps its bytes; after kill -9 it opens.
#[test]
fn c111_a_second_process_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("meta.redb");
    drop(hub(open_redb(&path, options()).unwrap()));
    let path = path.canonicalize().unwrap();
    symlink(&path, dir.path().join("symbolic")).unwrap();

    let (mut holder, said) = start(&path);
    assert_eq!(said, "open");
    let before = fs::read(&path).unwrap();
    for name in ["meta.redb", "symbolic"] {
        let error = open_redb(&dir.path().join(name), options()).err().unwrap();
        let text = error.to_string();
        let expected = format!("store \"{}\" is in use by process {}", path.display(), holder.id());
        assert!(text.starts_with(&expected) && !text.contains('\n'), "{text}");
        assert!(matches!(error, StoreError::Locked { holder: Some(_), .. }));
    }
    assert!(fs::read(&path).unwrap() == before);

    holder.kill().unwrap();
    holder.wait().unwrap();
    // The note of the one that was killed is still there, and names nobody.
    let ours = open_redb(&path, options()).unwrap();
    let (mut late, said) = start(&path);
    assert!(said.contains(&format!("in use by process {}", std::process::id())), "{said}");
    late.wait().unwrap();
    assert_eq!(roles(ours).len(), 1);

    let (mut holder, said) = start(&path);
    assert_eq!(said, "open");
    holder.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(holder.wait().unwrap().success());
}

/// C117: rewriting the same rows makes the file grow with its history, not more.
#[test]
fn c117_growth_settles() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("meta.redb");
    let hub = hub(open_redb(&path, options()).unwrap());
    let mut sizes = Vec::new();
    for round in 0..6u128 {
        for i in 0..60 {
            let mutations = (0..20).map(|r| Mutation::Put(role(&format!("r{r}")))).collect();
            submit(&hub, &default(), 1000 * round + i, Request::Write(mutations)).wait().ok().unwrap();
        }
        sizes.push(fs::metadata(&path).unwrap().size());
    }
    let history: usize = {
        let mut bytes = 0;
        hub.store()
            .changes(&default(), Seq(0), usize::MAX, &mut |_, _, value| {
                bytes += value.len();
                true
            })
            .unwrap();
        bytes
    };
    let bound = 4 * u64::try_from(history).unwrap() + (4 << 20);
    assert!(sizes.iter().all(|s| *s <= bound), "{sizes:?}, {history} bytes of history");
}

/// Nothing is written by what changes nothing, and nothing by reading.
#[test]
fn what_changes_nothing_writes_no_byte() {
    let disk = FaultDisk::new();
    let hub = hub(open_redb_with(disk.factory(), options()).unwrap());
    let before = (disk.writes(), disk.bytes());
    for id in 0..10 {
        submit(&hub, &default(), id, Request::CreateIfNotExists(role("admin"))).wait().ok().unwrap();
        assert!(submit(&hub, &default(), id, Request::Create(role("admin"))).wait().is_err());
    }
    hub.state(&default()).unwrap();
    block_on(hub.changes(&default(), Seq(0), 10)).unwrap();
    assert_eq!(disk.writes(), before.0);
    assert!(disk.bytes() == before.1);
}

type Told = Result<(), SubmitError<Refusal>>;

/// What a script of transactions was told, and what is there afterwards.
struct Run {
    told: Vec<Told>,
    failed: Option<DiskOp>,
}

const SCRIPT: u128 = 6;

/// Runs a small script on `disk` while one operation fails, and checks all that must hold.
fn run(disk: &FaultDisk, fault: DiskFault) -> Run {
    let hub = hub(open_redb_with(disk.factory(), options()).unwrap());
    submit(&hub, &default(), 500, Request::Create(role("before"))).wait().ok().unwrap();
    disk.fail(fault);
    let told: Vec<_> = (0..SCRIPT)
        .map(|id| submit(&hub, &default(), id, Request::Create(role(&format!("r{id}")))).wait().map(drop))
        .collect();
    let failed = disk.heal();
    check(&disk.after_power_cut(), &told, fault);

    // It works again without a restart.
    submit(&hub, &default(), 501, Request::Create(role("after"))).wait().ok().unwrap();
    let state = hub.state(&default()).unwrap().unwrap();
    let cut = check(&disk.after_power_cut(), &told, fault);
    drop(hub);
    let stored = check(disk, &told, fault);
    // Nobody saw what is not stored.
    assert_eq!((&stored, &cut), (state.as_ref(), state.as_ref()), "{fault:?}");
    Run { told, failed }
}

/// Each transaction is there or not, as it was told.
fn check(disk: &FaultDisk, told: &[Told], fault: DiskFault) -> Image {
    let hub = Hub::open(open_redb_with(disk.factory(), options()).unwrap(), Planner, HubLimits::default()).unwrap();
    let stored = hub.state(&default()).unwrap().unwrap();
    for (id, outcome) in (0..SCRIPT).zip(told) {
        let row = stored.rows.contains_key(&role(&format!("r{id}")).key());
        let found = block_on(hub.transaction(&default(), TransactionId(id))).unwrap().is_some();
        assert_eq!(row, found, "half a transaction after {fault:?}");
        match outcome {
            Ok(()) => assert!(row, "acknowledged and lost: {fault:?}"),
            Err(SubmitError::Failed(_)) => assert!(!row, "failed and there: {fault:?}"),
            Err(SubmitError::Unknown(_)) => {}
            Err(error) => panic!("{error:?} after {fault:?}"),
        }
    }
    stored.as_ref().clone()
}

/// D-03: every write, sync and length change of the script fails once, in each way that it can.
#[test]
fn every_write_and_sync_fails_once() {
    let count = {
        let disk = FaultDisk::new();
        let never = DiskFault { at: u64::MAX, reads: false, kind: ErrorKind::Other, happens: false, stays: false };
        let hub = hub(open_redb_with(disk.factory(), options()).unwrap());
        submit(&hub, &default(), 500, Request::Create(role("before"))).wait().ok().unwrap();
        disk.fail(never);
        (0..SCRIPT).for_each(|id| drop(submit(&hub, &default(), id, Request::Create(role(&format!("r{id}")))).wait()));
        disk.writes()
    };
    assert!(count >= 3 * u64::try_from(SCRIPT).unwrap(), "{count} operations");
    let (mut acknowledged, mut failed) = (0, 0);
    for happens in [false, true] {
        for at in 0..count {
            let disk = FaultDisk::new();
            let fault = DiskFault { at, reads: false, kind: ErrorKind::Other, happens, stays: false };
            let run = run(&disk, fault);
            assert!(run.failed.is_some(), "operation {at} of {count} did not come");
            acknowledged += run.told.iter().filter(|t| t.is_ok()).count();
            failed += run.told.iter().filter(|t| t.is_err()).count();
        }
    }
    assert!(acknowledged > 0 && failed > 0, "{acknowledged} acknowledged, {failed} failed");
}

/// C113, D-04: no room is 53100, and afterwards it works without a restart.
#[test]
fn c113_a_full_disk_is_told_and_forgotten() {
    let mut full = 0;
    for at in 0..25 {
        let disk = FaultDisk::new();
        let fault = DiskFault { at, reads: false, kind: ErrorKind::StorageFull, happens: false, stays: true };
        let run = run(&disk, fault);
        assert!(run.told.iter().any(Result::is_err), "a full disk takes nothing");
        full += run
            .told
            .iter()
            .filter(|t| matches!(t, Err(SubmitError::Failed(e)) if e.sqlstate() == SqlState::DiskFull))
            .count();
    }
    assert!(full >= 25, "{full}");
}

/// D-05: a read that fails is an error, never an empty answer; the next one works.
#[test]
fn a_read_that_fails_is_no_empty_answer() {
    let disk = FaultDisk::new();
    let small = || RedbOptions { cache_bytes: 0, ..options() };
    {
        let hub = hub(open_redb_with(disk.factory(), small()).unwrap());
        let mutations = (0..300).map(|i| Mutation::Put(role(&format!("r{i}")))).collect();
        submit(&hub, &default(), 1, Request::Write(mutations)).wait().ok().unwrap();
    }
    let mut errors = 0;
    for at in 0..12 {
        let store = open_redb_with(disk.factory(), small()).unwrap();
        disk.fail(DiskFault { at, reads: true, kind: ErrorKind::Other, happens: false, stays: false });
        let hub = Hub::open(Arc::clone(&store), Planner, HubLimits::default());
        let rows = hub.and_then(|hub| hub.state(&default())).map(|state| state.map(|s| s.rows.len()));
        match rows {
            Ok(rows) => assert_eq!(rows, Some(301), "read {at}"),
            Err(_) => errors += 1,
        }
        disk.heal();
        assert_eq!(roles(store).len(), 301, "after read {at}");
    }
    assert!(errors > 0);
}
