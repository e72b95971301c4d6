//! The checker itself: histories of a correct store pass, and each kind of fault is found.

use std::collections::BTreeSet;

use crate::checker::{What, check};
use crate::history::{Form, History, Kind, Moment, Outcome, Record, Status};
use crate::model::{Answer, Model};
use crate::random::Random;
use crate::simulated::{Store, change, create, drop_if_exists, read, shown};
use crate::statement::{Show, Statement};

#[track_caller]
fn finds(history: &History, what: What) {
    let found: BTreeSet<What> = check(history).iter().map(|violation| violation.what).collect();
    assert!(found.contains(&what), "{what:?} is not among {found:?}");
}

#[track_caller]
fn passes(history: &History) {
    let found = check(history);
    assert!(found.is_empty(), "{found:#?}");
}

/// Two that follow each other, and change what the other does not look at.
fn two() -> Store {
    let mut store = Store::new();
    store.run(0, create("r1"));
    store.run(1, create("r2"));
    store
}

/// Any number of clients at once, each operation executed somewhere between its two ends.
fn random_history(seed: u64) -> History {
    let mut random = Random::stream(seed, 0);
    let mut store = Store::new();
    // Operation, and the outcome once it is executed.
    let mut open: Vec<(usize, Option<Outcome>)> = Vec::new();
    for step in 0..300 {
        let idle: Vec<usize> =
            (0..5).filter(|c| !open.iter().any(|(op, _)| store.history.ops[*op].client == *c)).collect();
        if !idle.is_empty() && random.chance(40) {
            let client = random.pick(&idle);
            let kind = match random.below(5) {
                0 => Kind::Read { strict: true, shows: vec![Show::Roles, Show::Grants, Show::Version] },
                1 => Kind::Read { strict: false, shows: Show::STATE.to_vec() },
                _ => {
                    let forms = [Form::Simple, Form::Script, Form::Block, Form::RolledBack];
                    let form = random.pick(&forms);
                    let count = if form == Form::Simple { 1 } else { 1 + random.below(3) };
                    let statement = |n| Statement::random(&mut random, &format!("{step}-{n}"));
                    Kind::Change { form, statements: (0..count).map(statement).collect() }
                }
            };
            let index = store.invoke(client, kind);
            open.push((index, None));
        } else if !open.is_empty() {
            let place = usize::try_from(random.below(open.len() as u64)).unwrap();
            match &open[place].1 {
                None => {
                    let index = open[place].0;
                    let is_local = matches!(store.history.ops[index].kind, Kind::Read { strict: false, .. });
                    let outcome =
                        if is_local { stale_read(&mut store, &mut random, index) } else { store.execute(index) };
                    open[place].1 = Some(outcome);
                }
                Some(_) => {
                    let (index, outcome) = open.swap_remove(place);
                    let is_change = matches!(store.history.ops[index].kind, Kind::Change { .. });
                    match outcome {
                        Some(Outcome::Done { .. }) if is_change && random.chance(10) => lose(&mut store, index),
                        outcome => store.complete(index, outcome.unwrap()),
                    }
                }
            }
        }
    }
    while let Some((index, outcome)) = open.pop() {
        let outcome = outcome.unwrap_or_else(|| store.execute(index));
        store.complete(index, outcome);
    }
    store.finish()
}

/// A read that need not be new: of any version since what the session has seen.
fn stale_read(store: &mut Store, random: &mut Random, index: usize) -> Outcome {
    let op = &store.history.ops[index];
    let seen = store.seen.get(&op.client).copied().unwrap_or(1);
    let version = seen + random.below(store.version() - seen + 1);
    let Kind::Read { shows, .. } = &op.kind else { panic!("a read") };
    let answers = shows.iter().map(|show| shown(&store.models, version, *show)).collect();
    store.history.ops[index].version = Some(version);
    Outcome::Done { answers }
}

/// The client never sees the answer, and the store can be asked by the transaction's id.
fn lose(store: &mut Store, index: usize) {
    let is_rolled_back = matches!(store.history.ops[index].kind, Kind::Change { form: Form::RolledBack, .. });
    let made = store.history.ops[index].version.take();
    let (transaction, status) = match made {
        Some(version) => (format!("t{version}"), Status::Committed(version)),
        None => (format!("none{index}"), Status::NotCommitted),
    };
    store.history.statuses.insert(transaction.clone(), status);
    let outcome = if is_rolled_back {
        Outcome::Abandoned
    } else {
        Outcome::Unknown { transaction: Some(transaction), asked: Vec::new() }
    };
    store.complete(index, outcome);
}

#[test]
fn a_correct_history_passes() {
    for seed in 0..200 {
        let history = random_history(seed);
        let found = check(&history);
        assert!(found.is_empty(), "seed {seed}: {found:#?}");
    }
}

#[test]
fn a_lost_change() {
    let mut history = two().finish();
    history.records.pop();
    history.ops[1].version = None;
    finds(&history, What::Lost);
    // One in the middle, with all that follows moved up.
    let mut history = two().finish();
    history.records.remove(1);
    history.records[1].version = 2;
    history.ops[0].version = None;
    history.ops[1].version = Some(2);
    history.finals.clear();
    finds(&history, What::Lost);
}

#[test]
fn a_change_that_is_there_twice() {
    let mut store = Store::new();
    store.run(0, create("r1"));
    store.run(0, drop_if_exists("r1"));
    let mut history = store.finish();
    let again = Record { version: 4, ..history.records[1].clone() };
    history.records.push(again);
    finds(&history, What::Duplicate);
}

#[test]
fn a_gap() {
    let mut history = two().finish();
    history.records[2].version = 4;
    finds(&history, What::Gap);
}

#[test]
fn an_order_that_is_not_the_one_of_time() {
    let mut history = two().finish();
    history.records.swap(1, 2);
    history.records[1].version = 2;
    history.records[2].version = 3;
    history.ops[0].version = Some(3);
    history.ops[1].version = Some(2);
    finds(&history, What::Order);
    // At the same time either is right.
    history.ops[1].invoked = Moment { tick: history.ops[0].invoked.tick, ..history.ops[1].invoked };
    passes(&history);
}

#[test]
fn an_unknown_change_that_comes_before_what_was_done() {
    let mut history = two().finish();
    history.records.swap(1, 2);
    history.records[1].version = 2;
    history.records[2].version = 3;
    history.ops[0].version = Some(3);
    history.ops[1].version = None;
    history.ops[1].outcome = Outcome::Unknown { transaction: None, asked: Vec::new() };
    finds(&history, What::Order);
}

#[test]
fn a_change_that_nobody_made() {
    let mut history = two().finish();
    history.records[2].id = Some("c7-7".to_owned());
    finds(&history, What::Phantom);
    let refused = |sqlstate: &str| Outcome::Refused {
        sqlstate: sqlstate.to_owned(),
        message: String::new(),
        answers: Vec::new(),
    };
    for outcome in [refused("57P03"), refused("42710"), Outcome::Abandoned] {
        let mut history = two().finish();
        history.ops[1].outcome = outcome;
        finds(&history, What::Phantom);
    }
    let mut history = two().finish();
    history.ops[1].kind = match history.ops[1].kind.clone() {
        Kind::Change { statements, .. } => Kind::Change { form: Form::RolledBack, statements },
        read @ Kind::Read { .. } => read,
    };
    finds(&history, What::Phantom);
}

#[test]
fn a_change_that_is_there_by_half() {
    let both = ["r1", "r2"].map(|name| Statement::CreateRole { name, login: false, if_not_exists: false });
    let mut store = Store::new();
    store.run(0, change(Form::Script, &both));
    let mut history = store.finish();
    passes(&history);
    history.records[1].statements.pop();
    finds(&history, What::Replay);
}

#[test]
fn an_answer_that_the_state_before_does_not_give() {
    let mut store = two();
    store.run(0, change(Form::Simple, &[Statement::DropRole { name: "r1", if_exists: true }]));
    let mut history = store.finish();
    let Outcome::Done { answers } = &mut history.ops[2].outcome else { panic!("it was done") };
    answers[0].notices.push("role \"r1\" does not exist, skipping".to_owned());
    finds(&history, What::Replay);
}

#[test]
fn a_change_that_the_state_before_refuses() {
    let mut store = two();
    let index = store.run(0, create("r1"));
    let mut history = store.finish();
    passes(&history);
    history.ops[index].outcome =
        Outcome::Done { answers: vec![Answer { tag: "CREATE ROLE".to_owned(), ..Answer::default() }] };
    history.ops[index].version = Some(4);
    let statements = vec!["CREATE ROLE r1".to_owned()];
    let id = Some(history.ops[index].id.clone());
    history.records.push(Record { version: 4, id, transaction: "t4".to_owned(), statements });
    finds(&history, What::Replay);
}

#[test]
fn a_refusal_that_no_state_explains() {
    let mut store = two();
    let index = store.run(0, create("r3"));
    let mut history = store.finish();
    history.records.pop();
    history.finals.clear();
    history.ops[index].version = None;
    history.ops[index].outcome =
        Outcome::Refused { sqlstate: "42710".to_owned(), message: String::new(), answers: Vec::new() };
    finds(&history, What::Unexplained);
}

#[test]
fn a_change_of_nothing_on_an_old_state() {
    let mut store = Store::new();
    let index = store.run(0, drop_if_exists("r1"));
    store.run(1, create("r1"));
    let mut history = store.finish();
    passes(&history);
    // It skips what had been made before it began.
    history.ops[index].invoked.tick += 10;
    history.ops[index].completed.tick += 10;
    finds(&history, What::Lost);
}

#[test]
fn a_strict_read_of_an_old_state() {
    let mut store = two();
    let index = store.run(2, read(true));
    store.history.ops[index].outcome = Outcome::Done { answers: vec![shown(&store.models, 2, Show::Roles)] };
    store.history.ops[index].version = None;
    let mut history = store.finish();
    finds(&history, What::Unexplained);
    // A session that has seen nothing may read it.
    history.ops[index].kind = read(false);
    passes(&history);
    // Unless it waits for what is newer.
    history.ops[index].min_version = 3;
    finds(&history, What::Unexplained);
}

#[test]
fn a_strict_read_that_goes_back_behind_another() {
    let mut store = Store::new();
    let change = store.invoke(0, create("r1"));
    let outcome = store.execute(change);
    store.run(1, read(true));
    let index = store.run(2, read(true));
    store.complete(change, outcome);
    let old = vec![shown(&store.models, 1, Show::Roles)];
    store.history.ops[index].version = None;
    let mut history = store.finish();
    passes(&history);
    history.ops[index].outcome = Outcome::Done { answers: old };
    finds(&history, What::Unexplained);
}

#[test]
fn a_session_that_goes_back() {
    let mut store = two();
    store.run(2, read(false));
    let index = store.run(2, read(false));
    store.history.ops[index].outcome = Outcome::Done { answers: vec![shown(&store.models, 2, Show::Roles)] };
    store.history.ops[index].version = None;
    let mut history = store.finish();
    finds(&history, What::Unexplained);
    // A new session starts anew.
    history.ops[index].session = 2;
    passes(&history);
}

#[test]
fn a_read_of_two_states() {
    let mut store = Store::new();
    store.run(0, change(Form::Simple, &[Statement::CreateCatalog { name: "c1", if_not_exists: false }]));
    let open = store.invoke(1, Kind::Read { strict: true, shows: vec![Show::Catalogs, Show::Roles] });
    store.run(0, create("r1"));
    store.run(0, change(Form::Simple, &[Statement::DropCatalog { name: "c1", if_exists: false }]));
    store.run(0, create("r2"));
    let answers = vec![shown(&store.models, 2, Show::Catalogs), shown(&store.models, 5, Show::Roles)];
    store.complete(open, Outcome::Done { answers });
    finds(&store.finish(), What::Unexplained);
}

#[test]
fn a_version_that_cannot_be() {
    for told in [2, 9] {
        let mut history = two().finish();
        history.ops[1].version = Some(told);
        finds(&history, What::Version);
    }
    let mut store = two();
    let index = store.run(1, read(false));
    store.history.ops[index].version = Some(2);
    finds(&store.finish(), What::Version);
}

#[test]
fn answers_that_nobody_may_get() {
    let refused = |sqlstate: &str, form: Form| {
        let mut store = Store::new();
        let statement = Statement::CreateRole { name: "r1", login: false, if_not_exists: false };
        let index = store.invoke(0, change(form, &[statement]));
        store.run(1, create("r2"));
        let answers = Vec::new();
        store.complete(index, Outcome::Refused { sqlstate: sqlstate.to_owned(), message: String::new(), answers });
        store.finish()
    };
    for sqlstate in ["XX000", "23505", "40P01", "XX001", "42501", "40001", "55000"] {
        finds(&refused(sqlstate, Form::Simple), What::Forbidden);
    }
    for sqlstate in ["57P03", "08006"] {
        passes(&refused(sqlstate, Form::Simple));
    }
    passes(&refused("40001", Form::Block));
    // A conflict with nobody.
    let mut history = refused("40001", Form::Block);
    history.ops[0].invoked.tick += 10;
    history.ops[0].completed.tick += 10;
    finds(&history, What::Forbidden);
}

#[test]
fn a_status_that_is_not_so() {
    for status in [Status::NotCommitted, Status::Committed(2)] {
        let mut history = two().finish();
        history.ops[1].version = None;
        history.ops[1].outcome = Outcome::Unknown { transaction: Some("t3".to_owned()), asked: Vec::new() };
        history.statuses.insert("t3".to_owned(), Status::Committed(3));
        passes(&history);
        history.statuses.insert("t3".to_owned(), status);
        finds(&history, What::Status);
        history.statuses.clear();
        finds(&history, What::Status);
        // What is true in the end was said otherwise at first.
        history.statuses.insert("t3".to_owned(), Status::Committed(3));
        history.ops[1].outcome = Outcome::Unknown { transaction: Some("t3".to_owned()), asked: vec![status] };
        finds(&history, What::Status);
    }
}

#[test]
fn a_status_that_was_taken_back() {
    // It arrived after somebody had said that it was not there: in the end all say that it is.
    let mut history = two().finish();
    history.ops[1].version = None;
    history.statuses.insert("t3".to_owned(), Status::Committed(3));
    let said = |asked: &[Status]| Outcome::Unknown { transaction: Some("t3".to_owned()), asked: asked.to_vec() };
    history.ops[1].outcome = said(&[Status::Committed(3), Status::Committed(3)]);
    passes(&history);
    for asked in [&[Status::NotCommitted, Status::Committed(3)], &[Status::Committed(3), Status::NotCommitted]] {
        history.ops[1].outcome = said(asked);
        finds(&history, What::Status);
    }
}

#[test]
fn a_coordinator_that_ends_up_elsewhere() {
    let mut history = two().finish();
    history.finals[0].version = 2;
    finds(&history, What::Final);
    let mut history = two().finish();
    history.finals[0].shows.insert(Show::Roles, Model::bootstrapped().show(Show::Roles));
    finds(&history, What::Final);
}
