//! Whether a history is one that a strictly serializable store can have.
//!
//! Every committed transaction has its version, so the order is known and nothing has to be searched for:
//!
//! 1. the versions in the store are dense, and each belongs to one operation that may have been committed;
//! 2. replaying them in order on the model gives every recorded answer and every recorded statement;
//! 3. an operation that was completed before another was invoked has the lower version. `low` is the highest
//!    version that is known to have been reached, `reach` the highest that can have been: no version exists
//!    before the operation that made it was invoked;
//! 4. what was answered without a version of its own (reads, refusals, statements that changed nothing) fits
//!    the state of one version between the two. The lowest that fits is taken, and moves `low`: if any choice
//!    is consistent with all that comes later, that one is;
//! 5. in the end everybody shows the state of the last version.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::history::{Form, History, Kind, Op, Outcome, Status};
use crate::model::{Answer, EXISTS, IN_USE, MISSING, Model, RING};
use crate::statement::Show;

/// What a state decided.
const DECISIONS: [&str; 4] = [EXISTS, MISSING, IN_USE, RING];
/// What may be said while parts of the system are out of reach: too many wait, in doubt after an earlier
/// failure, connection lost, not to be reached.
pub const OUT_OF_REACH: [&str; 4] = ["53300", "58030", "08006", "57P03"];
/// Others were faster.
const CONFLICT: &str = "40001";
/// The version that a session waits for has not come.
const NOT_YET: &str = "55000";
/// What the first coordinator writes into an empty store.
const BOOTSTRAP: &str = "CREATE ROLE admin SUPERUSER LOGIN";
/// More of one kind explain nothing more.
const VIOLATIONS_MAX: usize = 5;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Versions with a gap, or out of order.
    Gap,
    /// One operation was committed twice.
    Duplicate,
    /// A transaction that nobody sent, or that was refused, rolled back or said not to be committed.
    Phantom,
    /// It was acknowledged, and is not there.
    Lost,
    /// It was done before another that had been completed when it began.
    Order,
    /// The statements of a transaction, or what they were answered, are not what the state before it gives.
    Replay,
    /// No state that there can have been gives this answer.
    Unexplained,
    /// An answer that nobody may ever get.
    Forbidden,
    /// A session was told a version that cannot be.
    Version,
    /// What the store says of an unknown outcome is not so.
    Status,
    /// At the end somebody shows another state.
    Final,
}

#[derive(Clone, Debug)]
pub struct Violation {
    pub what: What,
    pub text: String,
    /// The operation.
    pub op: Option<usize>,
    pub version: Option<u64>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.what, self.text)
    }
}

/// Everything that is wrong with a history, up to a limit.
pub fn check(history: &History) -> Vec<Violation> {
    let mut checker = Checker::new(history);
    checker.pair();
    checker.statuses();
    let replayed = checker.replay();
    checker.timeline(replayed);
    if replayed {
        checker.finals();
    }
    checker.violations
}

struct Checker<'h> {
    history: &'h History,
    /// By operation.
    versions: Vec<Option<u64>>,
    /// By version: who made it.
    makers: Vec<Option<usize>>,
    /// By version.
    models: Vec<Model>,
    violations: Vec<Violation>,
}

/// The versions whose state may have given an answer.
#[derive(Clone, Copy, Debug)]
struct Window {
    low: u64,
    reach: u64,
}

fn at(version: u64) -> usize {
    usize::try_from(version).unwrap()
}

impl<'h> Checker<'h> {
    fn new(history: &'h History) -> Checker<'h> {
        let versions = vec![None; history.ops.len()];
        let makers = vec![None; history.records.len() + 1];
        Checker { history, versions, makers, models: Vec::new(), violations: Vec::new() }
    }

    fn violated(&mut self, what: What, op: Option<usize>, version: Option<u64>, text: String) {
        if self.violations.iter().filter(|v| v.what == what).count() < VIOLATIONS_MAX {
            self.violations.push(Violation { what, text, op, version });
        }
    }

    /// Finds the operation of each version.
    fn pair(&mut self) {
        let history = self.history;
        let by_id: HashMap<&str, usize> = history.ops.iter().enumerate().map(|(i, op)| (op.id.as_str(), i)).collect();
        assert_eq!(by_id.len(), history.ops.len(), "each operation has a mark of its own");
        for (index, record) in history.records.iter().enumerate() {
            let (version, due) = (Some(record.version), index as u64 + 1);
            if record.version != due {
                self.violated(What::Gap, None, version, format!("version {} where {due} is due", record.version));
                return;
            }
            if due == 1 {
                if record.statements != [BOOTSTRAP] || record.id.is_some() {
                    self.violated(What::Phantom, None, version, format!("the first transaction is {record:?}"));
                }
                continue;
            }
            let Some(&op) = record.id.as_deref().and_then(|id| by_id.get(id)) else {
                self.violated(What::Phantom, None, version, format!("version {due} is nobody's: {record:?}"));
                continue;
            };
            self.makers[at(due)] = Some(op);
            if let Some(earlier) = self.versions[op].replace(due) {
                let text = format!("{} was committed as version {earlier} and again as {due}", history.ops[op].id);
                self.violated(What::Duplicate, Some(op), version, text);
            }
            if let Some(why) = not_committed(&history.ops[op]) {
                let text = format!("{} {why}, and is version {due}", history.ops[op].id);
                self.violated(What::Phantom, Some(op), version, text);
            }
        }
    }

    /// Compares what the store says of unknown outcomes with its history.
    fn statuses(&mut self) {
        let history = self.history;
        for (index, op) in history.ops.iter().enumerate() {
            let Outcome::Unknown { transaction: Some(transaction), asked } = &op.outcome else { continue };
            let there = self.versions[index];
            let is_so = |said: &Status| match said {
                Status::Committed(version) => {
                    there == Some(*version)
                        && history.records.get(at(*version) - 1).is_some_and(|r| r.transaction == *transaction)
                }
                Status::NotCommitted => there.is_none(),
            };
            let said = history.statuses.get(transaction);
            let fits = said.is_some_and(is_so) && asked.iter().all(is_so);
            if !fits {
                let text = format!(
                    "transaction {transaction} of {} was said to be {asked:?} in the run and {said:?} in the end, and is \
                     version {there:?}",
                    op.id
                );
                self.violated(What::Status, Some(index), there, text);
            }
        }
    }

    /// Replays the history on the model. False: it broke off.
    fn replay(&mut self) -> bool {
        let history = self.history;
        if !self.violations.is_empty() {
            return false;
        }
        let mut model = Model::bootstrapped();
        self.models = vec![Model::default(), model.clone()];
        for record in history.records.iter().skip(1) {
            let version = Some(record.version);
            let Some(index) = self.makers[at(record.version)] else { return false };
            let op = &history.ops[index];
            let Kind::Change { statements, .. } = &op.kind else {
                self.violated(What::Phantom, Some(index), version, format!("the read {} made a version", op.id));
                return false;
            };
            let mut answers = Vec::new();
            let mut changes = Vec::new();
            for statement in statements {
                match model.apply(statement) {
                    Ok(effect) => {
                        answers.push(effect.answer);
                        if effect.changed {
                            changes.push(statement.to_string());
                        }
                    }
                    Err(sqlstate) => {
                        let text = format!(
                            "{} is version {}, and the state before it refuses \"{statement}\" with {sqlstate}",
                            op.id, record.version
                        );
                        self.violated(What::Replay, Some(index), version, text);
                        return false;
                    }
                }
            }
            if changes.is_empty() || changes != record.statements {
                let text = format!(
                    "version {} holds {:?}, and on the state before it {} changes {changes:?}",
                    record.version, record.statements, op.id
                );
                self.violated(What::Replay, Some(index), version, text);
                return false;
            }
            if let Outcome::Done { answers: told } = &op.outcome
                && *told != answers
            {
                let text = format!(
                    "{} is version {} and was answered {told:?}; the state before it gives {answers:?}",
                    op.id, record.version
                );
                self.violated(What::Replay, Some(index), version, text);
            }
            self.models.push(model.clone());
        }
        true
    }

    /// Goes through the run as time did.
    fn timeline(&mut self, replayed: bool) {
        let history = self.history;
        let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * history.ops.len());
        for (index, op) in history.ops.iter().enumerate() {
            events.push((op.invoked.tick, false, index));
            events.push((op.completed.tick, true, index));
        }
        events.sort_unstable();
        let mut lows = vec![1; history.ops.len()];
        let mut is_invoked = vec![false; history.ops.len()];
        let (mut low, mut reach) = (1, 1);
        let mut seen: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        for (_, is_end, index) in events {
            let op = &history.ops[index];
            if !is_end {
                lows[index] = low;
                is_invoked[index] = true;
                self.check_order(index, low);
                while self.makers.get(at(reach) + 1).is_some_and(|maker| maker.is_none_or(|m| is_invoked[m])) {
                    reach += 1;
                }
                continue;
            }
            let session = seen.entry((op.client, op.session)).or_insert(1);
            if let Some(told) = op.version {
                self.check_version(index, told, *session, reach);
                *session = (*session).max(told);
            }
            match (&op.outcome, self.versions[index]) {
                (Outcome::Done { .. }, Some(version)) => {
                    low = low.max(version);
                    *session = (*session).max(version);
                    continue;
                }
                (Outcome::Abandoned | Outcome::Unknown { .. }, _) | (Outcome::Refused { .. }, Some(_)) => continue,
                (Outcome::Done { .. } | Outcome::Refused { .. }, None) => {}
            }
            let is_local = matches!(op.kind, Kind::Read { strict: false, .. });
            let from = if is_local { (*session).max(op.min_version) } else { lows[index] };
            let window = Window { low: from, reach };
            if let Outcome::Refused { sqlstate, .. } = &op.outcome
                && !DECISIONS.contains(&sqlstate.as_str())
            {
                self.check_refusal(index, sqlstate, window);
                continue;
            }
            if !replayed {
                continue;
            }
            let fitting = (window.low..=window.reach).find(|version| explains(&self.models, *version, op));
            match fitting {
                Some(version) if is_local => *session = (*session).max(version),
                Some(version) => low = low.max(version),
                None => self.unexplained(index, window),
            }
        }
    }

    fn check_order(&mut self, index: usize, low: u64) {
        if let Some(version) = self.versions[index]
            && version <= low
        {
            let text = format!(
                "{} is version {version}, and was invoked when version {low} was known to be there",
                self.history.ops[index].id
            );
            self.violated(What::Order, Some(index), Some(version), text);
        }
    }

    fn check_version(&mut self, index: usize, told: u64, before: u64, reach: u64) {
        let op = &self.history.ops[index];
        let made = self.versions[index].filter(|_| matches!(op.outcome, Outcome::Done { .. }));
        let text = if told < before {
            format!("{} was told of version {told}, and its session of {before} before", op.id)
        } else if told > reach {
            format!("{} was told of version {told}, and no more than {reach} can have been there", op.id)
        } else if made.is_some_and(|version| version != told) {
            format!("{} is version {made:?}, and was told of {told}", op.id)
        } else {
            return;
        };
        self.violated(What::Version, Some(index), Some(told), text);
    }

    /// An error that no state decided.
    fn check_refusal(&mut self, index: usize, sqlstate: &str, window: Window) {
        let op = &self.history.ops[index];
        // Whose statements are answered before the end of the transaction decides on them.
        let can_conflict = match &op.kind {
            Kind::Change { form, .. } => *form != Form::Simple,
            Kind::Read { .. } => false,
        };
        let is_fine = match sqlstate {
            CONFLICT => can_conflict && window.reach > window.low,
            NOT_YET => op.min_version > 0,
            other => OUT_OF_REACH.contains(&other),
        };
        if !is_fine {
            let text = format!("{} was refused with {sqlstate}; versions there: {window:?}", op.id);
            self.violated(What::Forbidden, Some(index), None, text);
        }
    }

    fn unexplained(&mut self, index: usize, window: Window) {
        let op = &self.history.ops[index];
        let is_change = matches!((&op.kind, &op.outcome), (Kind::Change { form, .. }, Outcome::Done { .. }) if *form != Form::RolledBack);
        let what = if is_change { What::Lost } else { What::Unexplained };
        let Window { low, reach } = window;
        let other = (1..self.models.len() as u64).rev().find(|version| explains(&self.models, *version, op));
        let text = match what {
            What::Lost => {
                format!("{} was acknowledged, has no version, and changed something in each of {low} to {reach}", op.id)
            }
            _ => format!(
                "no version of {low} to {reach} gives what {} was answered; the last that does: {other:?}",
                op.id
            ),
        };
        self.violated(what, Some(index), Some(low), text);
    }

    fn finals(&mut self) {
        let last = self.models.len() as u64 - 1;
        for shown in &self.history.finals {
            let mut wrong = Vec::new();
            if shown.version != last {
                wrong.push(format!("version {} instead of {last}", shown.version));
            }
            for (show, rows) in &shown.shows {
                let due = self.models[at(last)].show(*show);
                if *rows != due {
                    wrong.push(format!("{show}:\n{rows}instead of\n{due}"));
                }
            }
            if !wrong.is_empty() {
                let text = format!("{} shows {}", shown.who, wrong.join("; "));
                self.violations.push(Violation { what: What::Final, text, op: None, version: Some(last) });
            }
        }
    }
}

/// Why an operation must not be in the history.
fn not_committed(op: &Op) -> Option<&'static str> {
    match (&op.kind, &op.outcome) {
        (Kind::Read { .. }, _) => Some("is a read"),
        (Kind::Change { form: Form::RolledBack, .. }, _) => Some("was rolled back"),
        (_, Outcome::Refused { .. }) => Some("was refused"),
        (_, Outcome::Abandoned) => Some("was never sent in full"),
        (_, Outcome::Done { .. } | Outcome::Unknown { .. }) => None,
    }
}

/// Whether the state of `version` gives what `op`, which has no version of its own, was answered.
fn explains(models: &[Model], version: u64, op: &Op) -> bool {
    let Some(model) = models.get(at(version)) else { return false };
    match (&op.kind, &op.outcome) {
        (Kind::Read { shows, .. }, Outcome::Done { answers }) => {
            shows.len() == answers.len()
                && shows.iter().zip(answers).all(|(show, answer)| {
                    let due = match show {
                        Show::Version => format!("{version}\n"),
                        _ => model.show(*show),
                    };
                    answer.rows.as_deref() == Some(&due)
                })
        }
        (Kind::Change { form, statements }, Outcome::Done { answers }) => {
            let mut model = model.clone();
            statements.len() == answers.len()
                && statements.iter().zip(answers).all(|(statement, told)| match model.apply(statement) {
                    Ok(effect) => effect.answer == *told && (*form == Form::RolledBack || !effect.changed),
                    Err(_) => false,
                })
        }
        (Kind::Change { statements, .. }, Outcome::Refused { sqlstate, answers, .. }) => {
            let mut model = model.clone();
            let told: &[Answer] = answers;
            let Some(refused) = statements.get(told.len()) else { return false };
            let before = statements
                .iter()
                .zip(told)
                .all(|(statement, told)| model.apply(statement).is_ok_and(|effect| effect.answer == *told));
            before && model.apply(refused).is_err_and(|code| code == sqlstate)
        }
        (Kind::Read { .. }, _) | (Kind::Change { .. }, Outcome::Abandoned | Outcome::Unknown { .. }) => false,
    }
}
