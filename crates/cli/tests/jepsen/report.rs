//! What a run is told to people in: counts, and the surroundings of what is wrong.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display, Write as _};

use crate::checker::Violation;
use crate::history::{History, Kind, Op, Outcome, Status};

/// Operations and versions on each side of one that is shown.
const NEIGHBOURS: usize = 6;

/// How many there are of each, on one line.
pub fn counted<K: Ord + Debug>(keys: impl Iterator<Item = K>) -> String {
    let mut counts: BTreeMap<K, u64> = BTreeMap::new();
    keys.for_each(|key| *counts.entry(key).or_default() += 1);
    list(&counts)
}

pub fn list<K: Ord + Debug>(counts: &BTreeMap<K, u64>) -> String {
    let parts: Vec<String> = counts.iter().map(|(key, count)| format!("{key:?} {count}").replace('"', "")).collect();
    parts.join(", ")
}

fn kind(op: &Op) -> String {
    match &op.kind {
        Kind::Change { form, .. } => format!("{form:?}"),
        Kind::Read { strict: true, .. } => "StrictRead".to_owned(),
        Kind::Read { strict: false, .. } => "SessionRead".to_owned(),
    }
}

/// Operations by kind and outcome, refusals by code, versions, and what was unknown.
pub fn summary(history: &History) -> String {
    let ops = &history.ops;
    let mut text = format!("operations {}, versions {}\n", ops.len(), history.records.len());
    let outcome = |op: &Op| match &op.outcome {
        Outcome::Done { .. } => "done".to_owned(),
        Outcome::Refused { sqlstate, .. } => format!("refused {sqlstate}"),
        Outcome::Abandoned => "abandoned".to_owned(),
        Outcome::Unknown { transaction: None, .. } => "unknown, no answer".to_owned(),
        Outcome::Unknown { transaction: Some(_), asked } if asked.is_empty() => "unknown 08007".to_owned(),
        Outcome::Unknown { transaction: Some(_), .. } => "unknown 08007 and asked".to_owned(),
    };
    let _ = writeln!(text, "by kind: {}", counted(ops.iter().map(kind)));
    let _ = writeln!(text, "by outcome: {}", counted(ops.iter().map(outcome)));
    let committed: std::collections::BTreeSet<&str> =
        history.records.iter().filter_map(|record| record.id.as_deref()).collect();
    let unknown = ops.iter().filter(|op| matches!(op.outcome, Outcome::Unknown { .. }));
    let settled = unknown.map(|op| if committed.contains(op.id.as_str()) { "committed" } else { "not committed" });
    let _ = writeln!(text, "unknown outcomes settled: {}", counted(settled));
    let asked = ops.iter().filter_map(|op| match &op.outcome {
        Outcome::Unknown { asked, .. } => Some(asked),
        Outcome::Done { .. } | Outcome::Refused { .. } | Outcome::Abandoned => None,
    });
    let answers = asked.flatten().map(|status| match status {
        Status::Committed(_) => "committed",
        Status::NotCommitted => "not committed",
    });
    let _ = write!(text, "answers of the run on unknown outcomes: {}", counted(answers));
    text
}

/// A violation with the operations and versions around it.
pub fn explain(history: &History, violation: &Violation) -> String {
    let mut text = format!("{violation}\n");
    if let Some(version) = violation.version.or_else(|| violation.op.and_then(|op| version_of(history, op))) {
        let place = history.records.partition_point(|record| record.version < version);
        let from = place.saturating_sub(NEIGHBOURS);
        show(
            &mut text,
            "versions around it",
            history.records.iter().skip(from).take(2 * NEIGHBOURS + 1).map(|record| {
                let who = record.id.as_deref().unwrap_or("nobody");
                format!("{} by {who}: {}", record.version, record.statements.join("; "))
            }),
        );
    }
    if let Some(index) = violation.op {
        let op = &history.ops[index];
        show(&mut text, "the operation", [op].into_iter());
        let mut near: Vec<&Op> = history.ops.iter().filter(|other| overlaps(op, other) && other.id != op.id).collect();
        near.sort_by_key(|other| other.invoked);
        near.truncate(4 * NEIGHBOURS);
        show(&mut text, "at the same time", near.into_iter());
        let mut before: Vec<&Op> = history.ops.iter().filter(|other| other.completed < op.invoked).collect();
        before.sort_by_key(|other| std::cmp::Reverse(other.completed));
        before.truncate(NEIGHBOURS);
        show(&mut text, "completed before it, last first", before.into_iter());
    }
    text
}

fn version_of(history: &History, op: usize) -> Option<u64> {
    let id = &history.ops[op].id;
    history.records.iter().find(|record| record.id.as_ref() == Some(id)).map(|record| record.version)
}

fn overlaps(one: &Op, other: &Op) -> bool {
    one.invoked < other.completed && other.invoked < one.completed
}

fn show<T: Display>(text: &mut String, title: &str, lines: impl Iterator<Item = T>) {
    let _ = writeln!(text, "  {title}:");
    lines.for_each(|line| {
        let _ = writeln!(text, "    {line}");
    });
}
