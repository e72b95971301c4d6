//! The simplest image and compiler that a hub can run on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dataglot_model::{
    ChangedStatement, HeadRecord, Mutation, Name, OrgName, Row, RowKey, Seq, Timestamp, TransactionId,
};

use crate::{Compiled, Compiler, Hub, OrgWrite, State, Submission, Ticket};

/// Rows by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub org: OrgName,
    pub head: HeadRecord,
    pub rows: BTreeMap<RowKey, Row>,
    pub unreadable: BTreeSet<Name>,
}

impl State for Image {
    fn new(org: OrgName, head: HeadRecord) -> Self {
        Image { org, head, rows: BTreeMap::new(), unreadable: BTreeSet::new() }
    }

    fn head(&self) -> HeadRecord {
        self.head
    }

    fn apply(&mut self, mutation: &Mutation) {
        match mutation {
            Mutation::Put(row) => {
                if let Row::Header(_, header) = row {
                    self.head.next_id.0 = self.head.next_id.0.max(header.id.0 + 1);
                }
                self.rows.insert(row.key(), row.clone());
            }
            Mutation::Delete(key) => drop(self.rows.remove(key)),
        }
    }

    fn advance(&mut self, seq: Seq, at: Timestamp) {
        (self.head.seq, self.head.at) = (seq, at);
    }

    fn set_head(&mut self, head: HeadRecord) {
        self.head = head;
    }

    fn mark_unreadable(&mut self, secret: &Name) {
        self.unreadable.insert(secret.clone());
    }
}

/// What a test asks of the hub.
#[derive(Debug)]
pub enum Request {
    /// These mutations, whatever is there.
    Write(Vec<Mutation>),
    /// A row that must not be there.
    Create(Row),
    /// A row that may be there.
    CreateIfNotExists(Row),
    CreateOrg(OrgName, u64),
    DropOrg(OrgName),
    Panic,
    /// Counts how often it is planned.
    Counted(Arc<AtomicUsize>, Box<Request>),
}

/// Plans a [`Request`].
pub struct Planner;

/// Why a request was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    Exists,
    DoesNotExist,
    Panicked,
}

fn statement(mutations: Vec<Mutation>) -> ChangedStatement {
    ChangedStatement { sql: format!("{} mutations", mutations.len()).into(), mutations }
}

impl Compiler for Planner {
    type State = Image;
    type Request = Request;
    type Answer = &'static str;
    type Refusal = Refusal;

    fn compile(
        &self,
        state: &Image,
        target: &dyn Fn(&OrgName) -> Option<Image>,
        request: &mut Request,
    ) -> Result<Compiled<Image, &'static str>, Refusal> {
        let mut org = None;
        let mutations = match request {
            Request::Write(mutations) => mutations.clone(),
            Request::Create(row) if state.rows.contains_key(&row.key()) => return Err(Refusal::Exists),
            Request::CreateIfNotExists(row) if state.rows.contains_key(&row.key()) => Vec::new(),
            Request::Create(row) | Request::CreateIfNotExists(row) => vec![Mutation::Put(row.clone())],
            Request::CreateOrg(name, org_id) => {
                if target(name).is_some() {
                    return Err(Refusal::Exists);
                }
                let first = statement(vec![Mutation::Put(super::sample::role("admin"))]);
                org = Some(OrgWrite::Create { name: name.clone(), org_id: *org_id, statement: first });
                vec![Mutation::Put(super::sample::org_header(name, *org_id))]
            }
            Request::DropOrg(name) => {
                if target(name).is_none() {
                    return Err(Refusal::DoesNotExist);
                }
                org = Some(OrgWrite::Drop { name: name.clone() });
                vec![Mutation::Delete(super::sample::org_header(name, 0).key())]
            }
            Request::Panic => panic!("asked to"),
            Request::Counted(count, request) => {
                let compiled = self.compile(state, target, request);
                count.fetch_add(1, Ordering::Release);
                return compiled;
            }
        };
        let mut state = state.clone();
        mutations.iter().for_each(|m| state.apply(m));
        let statements = if mutations.is_empty() { Vec::new() } else { vec![statement(mutations)] };
        Ok(Compiled { statements, state, answer: "done", org })
    }

    fn panicked(&self) -> Refusal {
        Refusal::Panicked
    }

    fn weight(&self, _: &Request) -> usize {
        100
    }
}

/// Submits `request` as transaction `id`.
pub fn submit(hub: &Hub<Planner>, org: &OrgName, id: u128, request: Request) -> Ticket<Planner> {
    hub.submit(Submission {
        org: org.clone(),
        id: TransactionId(id),
        at: Timestamp(1_000_000 + i64::try_from(id).unwrap()),
        actor: Name::new("admin").unwrap(),
        session: Arc::from("1 (test)"),
        request,
    })
}
