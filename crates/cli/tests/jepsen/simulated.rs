//! A store without faults and what its clients see of it, for the checker's own tests.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Final, Form, History, Kind, Moment, Op, Outcome, Record};
use crate::model::{Answer, Model};
use crate::statement::{Show, Statement};

/// A store without faults, and what its clients see.
pub struct Store {
    pub models: Vec<Model>,
    tick: u64,
    pub history: History,
    /// What each client's session has seen.
    pub seen: BTreeMap<usize, u64>,
}

impl Store {
    pub fn new() -> Store {
        let statements = vec!["CREATE ROLE admin SUPERUSER LOGIN".to_owned()];
        let first = Record { version: 1, id: None, transaction: "t1".to_owned(), statements };
        let history = History { records: vec![first], ..History::default() };
        Store { models: vec![Model::default(), Model::bootstrapped()], tick: 0, history, seen: BTreeMap::new() }
    }

    fn now(&mut self) -> Moment {
        self.tick += 1;
        Moment { tick: self.tick, at: Duration::from_millis(self.tick) }
    }

    pub fn version(&self) -> u64 {
        self.models.len() as u64 - 1
    }

    /// An operation begins; what becomes of it is not known.
    pub fn invoke(&mut self, client: usize, kind: Kind) -> usize {
        let index = self.history.ops.len();
        let invoked = self.now();
        self.history.ops.push(Op {
            client,
            session: 1,
            node: client % 3,
            id: format!("c{client}-{index}"),
            min_version: 0,
            kind,
            invoked,
            completed: invoked,
            outcome: Outcome::Unknown { transaction: None, asked: Vec::new() },
            version: None,
        });
        index
    }

    /// It takes effect, all at once.
    pub fn execute(&mut self, index: usize) -> Outcome {
        let mut model = self.models.last().unwrap().clone();
        let (form, statements) = match &self.history.ops[index].kind {
            Kind::Read { shows, .. } => {
                let answers = shows.iter().map(|show| shown(&self.models, self.version(), *show)).collect();
                self.history.ops[index].version = Some(self.version());
                return Outcome::Done { answers };
            }
            Kind::Change { form, statements } => (*form, statements.clone()),
        };
        let mut answers = Vec::new();
        let mut changes = Vec::new();
        for statement in &statements {
            match model.apply(statement) {
                Ok(effect) => {
                    answers.push(effect.answer);
                    if effect.changed {
                        changes.push(statement.to_string());
                    }
                }
                Err(sqlstate) => {
                    return Outcome::Refused { sqlstate: sqlstate.to_owned(), message: String::new(), answers };
                }
            }
        }
        if !changes.is_empty() && form != Form::RolledBack {
            self.models.push(model);
            let version = self.version();
            let op = &mut self.history.ops[index];
            op.version = Some(version);
            let record =
                Record { version, id: Some(op.id.clone()), transaction: format!("t{version}"), statements: changes };
            self.history.records.push(record);
        }
        Outcome::Done { answers }
    }

    pub fn complete(&mut self, index: usize, outcome: Outcome) {
        let completed = self.now();
        let op = &mut self.history.ops[index];
        (op.completed, op.outcome) = (completed, outcome);
        let seen = self.seen.entry(op.client).or_insert(1);
        *seen = (*seen).max(op.version.unwrap_or(1));
    }

    pub fn run(&mut self, client: usize, kind: Kind) -> usize {
        let index = self.invoke(client, kind);
        let outcome = self.execute(index);
        self.complete(index, outcome);
        index
    }

    pub fn finish(mut self) -> History {
        let version = self.version();
        let shows = Show::STATE.iter().map(|show| (*show, self.models[at(version)].show(*show))).collect();
        self.history.finals.push(Final { who: "node 1".to_owned(), version, shows });
        self.history
    }
}

pub fn at(version: u64) -> usize {
    usize::try_from(version).unwrap()
}

pub fn shown(models: &[Model], version: u64, show: Show) -> Answer {
    let rows = if show == Show::Version { format!("{version}\n") } else { models[at(version)].show(show) };
    Answer { tag: "SHOW".to_owned(), notices: Vec::new(), rows: Some(rows) }
}

pub fn change(form: Form, statements: &[Statement]) -> Kind {
    Kind::Change { form, statements: statements.to_vec() }
}

pub fn create(name: &'static str) -> Kind {
    change(Form::Simple, &[Statement::CreateRole { name, login: false, if_not_exists: false }])
}

pub fn drop_if_exists(name: &'static str) -> Kind {
    change(Form::Simple, &[Statement::DropRole { name, if_exists: true }])
}

pub fn read(strict: bool) -> Kind {
    Kind::Read { strict, shows: vec![Show::Roles] }
}
