//! A client: one operation after the other, on one coordinator after the other, and a note of each.

use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dataglot_golden::wire::Fields;

use crate::checker::OUT_OF_REACH;
use crate::history::{Form, Kind, Moment, Op, Outcome, Status};
use crate::model::Model;
use crate::random::Random;
use crate::session::{ANSWER_MAX, LONG_ANSWER_MAX, Reply, Send, Session};
use crate::statement::{Show, Statement};
use crate::survey::status_at;

/// Of 100 operations, those before which a client goes to another coordinator of its own accord.
const MOVE_PERCENT: u64 = 5;
/// Of 100 operations, those before which a client asks again what became of one before.
const ASK_PERCENT: u64 = 2;
/// Of 100 operations, the reads.
const READ_PERCENT: u64 = 25;
/// The longest that it waits after a failure.
const PAUSE_MS_MAX: u64 = 50;
/// The answer to a login whose coordinator was stopped, or waited for its store, for as long as a login may take.
const LOGIN_TIMEOUT: &str = "57014";
/// How often a client looks for statements that are likely to do something.
const TRIES: usize = 8;

/// The one order of all moments.
pub struct Clock {
    start: Instant,
    ticks: AtomicU64,
}

impl Clock {
    pub fn start() -> Clock {
        Clock { start: Instant::now(), ticks: AtomicU64::new(0) }
    }

    pub fn now(&self) -> Moment {
        let tick = self.ticks.fetch_add(1, Ordering::SeqCst) + 1;
        Moment { tick, at: self.start.elapsed() }
    }
}

/// What all clients have in common.
pub struct World {
    pub clock: Clock,
    pub addresses: Vec<SocketAddr>,
    pub stop: AtomicBool,
    /// About what the state is, so that not everything is refused. Nothing is checked with it.
    pub guess: Mutex<Model>,
    /// What must not happen and is no operation's answer.
    pub troubles: Mutex<Vec<String>>,
    pub logins_refused: AtomicU64,
}

impl World {
    pub fn new(addresses: Vec<SocketAddr>) -> World {
        World {
            clock: Clock::start(),
            addresses,
            stop: AtomicBool::new(false),
            guess: Mutex::new(Model::bootstrapped()),
            troubles: Mutex::new(Vec::new()),
            logins_refused: AtomicU64::new(0),
        }
    }

    fn trouble(&self, what: String) {
        self.troubles.lock().unwrap().push(what);
    }
}

pub struct Worker<'w> {
    world: &'w World,
    client: usize,
    random: Random,
    session: Option<Session>,
    sessions: u64,
    /// The highest version that the client knows of.
    known: u64,
    ops: Vec<Op>,
}

/// An operation that is under way.
struct Begun {
    kind: Kind,
    id: String,
    invoked: Moment,
}

impl<'w> Worker<'w> {
    pub fn new(world: &'w World, client: usize, seed: u64) -> Worker<'w> {
        let random = Random::stream(seed, 100 + client as u64);
        Worker { world, client, random, session: None, sessions: 0, known: 0, ops: Vec::new() }
    }

    /// Until the world stops.
    pub fn run(mut self) -> Vec<Op> {
        while !self.world.stop.load(Ordering::SeqCst) {
            if self.random.chance(MOVE_PERCENT) {
                self.session = None;
            }
            if self.random.chance(ASK_PERCENT) {
                self.ask_again();
            }
            self.connect();
            if self.session.is_some() {
                let kind = self.choose();
                self.execute(kind);
                // Another coordinator may do better.
                if let Some(Outcome::Refused { sqlstate, .. }) = self.ops.last().map(|op| &op.outcome)
                    && OUT_OF_REACH.contains(&sqlstate.as_str())
                {
                    self.session = None;
                    self.pause();
                }
            }
        }
        self.ops
    }

    /// Executes operations in the order given, each until it is done, on one coordinator.
    pub fn insist(mut self, node: usize, kinds: Vec<Kind>, until: Instant) -> Vec<Op> {
        for kind in kinds {
            loop {
                assert!(Instant::now() < until, "node {} does not recover: {:?}", node + 1, self.ops.last());
                if self.session.is_none() {
                    self.connect_to(node);
                }
                if self.session.is_some() {
                    self.execute(kind.clone());
                    if matches!(self.ops.last().map(|op| &op.outcome), Some(Outcome::Done { .. })) {
                        break;
                    }
                    self.pause();
                }
            }
        }
        self.ops
    }

    fn connect(&mut self) {
        if self.session.is_none() {
            let node = usize::try_from(self.random.below(self.world.addresses.len() as u64)).unwrap();
            self.connect_to(node);
        }
    }

    fn connect_to(&mut self, node: usize) {
        self.sessions += 1;
        match Session::open(self.world.addresses[node], node, self.sessions, self.patience()) {
            Ok(Ok(mut session)) => {
                if self.known > 0 && self.random.chance(50) {
                    session.min_version = self.known;
                    session.set("min_version", &self.known.to_string());
                }
                self.session = Some(session);
            }
            Ok(Err(fields)) => {
                self.world.logins_refused.fetch_add(1, Ordering::Relaxed);
                if fields.sqlstate != LOGIN_TIMEOUT && !OUT_OF_REACH.contains(&fields.sqlstate.as_str()) {
                    self.world.trouble(format!("login to node {} is refused: {fields:?}", node + 1));
                }
            }
            // It is down, or hangs.
            Err(_) => {}
        }
        if self.session.is_none() {
            self.pause();
        }
    }

    /// Before the next try of something that failed: a client that spins takes the time that others need.
    fn pause(&mut self) {
        std::thread::sleep(Duration::from_millis(5 + self.random.below(PAUSE_MS_MAX)));
    }

    /// Some wait until a coordinator has given up itself, which takes it longer than its own store may take.
    fn patience(&self) -> Duration {
        if self.client.is_multiple_of(2) { ANSWER_MAX } else { LONG_ANSWER_MAX }
    }

    fn choose(&mut self) -> Kind {
        if self.random.chance(READ_PERCENT) {
            let strict = self.random.chance(60);
            let mut shows = match self.random.below(3) {
                0 => Show::STATE.to_vec(),
                _ => vec![self.random.pick(&Show::STATE)],
            };
            if self.random.chance(50) {
                shows.push(Show::Version);
            }
            return Kind::Read { strict, shows };
        }
        let form = match self.random.below(20) {
            0..9 => Form::Simple,
            9..11 => Form::Extended,
            11..14 => Form::Script,
            14..16 => Form::BlockAtOnce,
            16..19 => Form::Block,
            _ => Form::RolledBack,
        };
        let count = match form {
            Form::Simple | Form::Extended => 1,
            Form::Script | Form::BlockAtOnce | Form::Block | Form::RolledBack => 2 + self.random.below(3),
        };
        Kind::Change { form, statements: self.statements(count) }
    }

    /// Statements that are likely to do something, or now and then just any.
    fn statements(&mut self, count: u64) -> Vec<Statement> {
        let guess = self.world.guess.lock().unwrap().clone();
        let mut statements = Vec::new();
        let mut after = guess;
        for n in 0..count {
            let mark = format!("{}.{n}", self.next_id());
            let mut statement = Statement::random(&mut self.random, &mark);
            for _ in 0..TRIES {
                let mut model = after.clone();
                if model.apply(&statement).is_ok_and(|effect| effect.changed) || self.random.chance(5) {
                    after = model;
                    break;
                }
                statement = Statement::random(&mut self.random, &mark);
            }
            statements.push(statement);
        }
        statements
    }

    fn next_id(&self) -> String {
        format!("c{}-{}", self.client, self.ops.len() + 1)
    }

    /// Executes an operation and notes it.
    fn execute(&mut self, kind: Kind) {
        let Some(mut session) = self.session.take() else { return };
        let begun = Begun { kind, id: self.next_id(), invoked: self.world.clock.now() };
        let unknown = Outcome::Unknown { transaction: None, asked: Vec::new() };
        let op = match &begun.kind {
            Kind::Read { strict, shows } => {
                if *strict != session.strict {
                    session.strict = *strict;
                    session.set("read_freshness", if *strict { "strict" } else { "session" });
                }
                let reply = session.ask(Send::Simple(joined(shows)), shows);
                self.concluded(session, &begun, reply, None, Outcome::Abandoned)
            }
            Kind::Change { form, statements } => {
                session.set("apply_id", &begun.id);
                let sql = joined(statements);
                match form {
                    Form::Simple | Form::Script => {
                        let reply = session.ask(Send::Simple(sql), &[]);
                        self.concluded(session, &begun, reply, None, unknown)
                    }
                    Form::Extended => {
                        let reply = session.ask(Send::Extended(sql), &[]);
                        self.concluded(session, &begun, reply, None, unknown)
                    }
                    Form::BlockAtOnce => {
                        let reply = session.ask(Send::Simple(format!("BEGIN; {sql}; COMMIT")), &[]);
                        self.concluded(session, &begun, reply, Some("COMMIT"), unknown)
                    }
                    Form::Block => self.in_steps(session, &begun, statements, "COMMIT", unknown),
                    Form::RolledBack => self.in_steps(session, &begun, statements, "ROLLBACK", Outcome::Abandoned),
                }
            }
        };
        self.known = self.known.max(op.version.unwrap_or(0));
        if let (Kind::Change { form, statements }, Outcome::Done { .. }) = (&op.kind, &op.outcome)
            && *form != Form::RolledBack
        {
            let mut guess = self.world.guess.lock().unwrap();
            for statement in statements {
                let _ = guess.apply(statement);
            }
        }
        self.ops.push(op);
    }

    /// A block, statement by statement.
    fn in_steps(
        &mut self,
        mut session: Session,
        begun: &Begun,
        statements: &[Statement],
        end: &str,
        lost: Outcome,
    ) -> Op {
        let mut so_far = Reply::default();
        let steps = std::iter::once("BEGIN".to_owned()).chain(statements.iter().map(ToString::to_string));
        for step in steps {
            // Before the end nothing can have been committed.
            let reply = session.ask(Send::Simple(step), &[]).map(|reply| so_far.followed_by(reply));
            match reply {
                Ok(reply) if reply.error.is_none() => so_far = reply,
                refused_or_lost => {
                    return self.concluded(session, begun, refused_or_lost, Some(end), Outcome::Abandoned);
                }
            }
        }
        let reply = session.ask(Send::Simple(end.to_owned()), &[]).map(|reply| so_far.followed_by(reply));
        self.concluded(session, begun, reply, Some(end), lost)
    }

    /// The whole answer to an operation has come, or will not come. `end` is how the block ends, if it is one.
    fn concluded(
        &mut self,
        session: Session,
        begun: &Begun,
        reply: io::Result<Reply>,
        end: Option<&str>,
        lost: Outcome,
    ) -> Op {
        let Reply { mut answers, error, version } = match reply {
            Ok(reply) => reply,
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    self.world.trouble(format!("{} got what is no message: {error}", begun.id));
                }
                return self.op(begun, &session, lost, None);
            }
        };
        if let Some(end) = end
            && !answers.is_empty()
        {
            let first = answers.remove(0);
            let last = if error.is_none() { answers.pop() } else { None };
            if first.tag != "BEGIN" || last.as_ref().is_some_and(|last| last.tag != end) {
                self.world.trouble(format!("{} began with {first:?} and ended with {last:?}", begun.id));
            }
        }
        let outcome = match &error {
            None => Outcome::Done { answers },
            Some(fields) if fields.sqlstate == "08007" => self.in_doubt(session.node, fields),
            Some(Fields { sqlstate, message, .. }) => {
                Outcome::Refused { sqlstate: sqlstate.clone(), message: message.clone(), answers }
            }
        };
        let op = self.op(begun, &session, outcome, version);
        self.keep(session, error.as_ref(), end.is_some());
        op
    }

    /// It is not known here, and perhaps elsewhere.
    fn in_doubt(&mut self, node: usize, fields: &Fields) -> Outcome {
        let transaction = transaction_id(fields);
        let nodes = self.world.addresses.len();
        let other = (node + 1 + usize::try_from(self.random.below(nodes as u64 - 1)).unwrap()) % nodes;
        let asked = transaction.as_ref().and_then(|id| status_at(self.world.addresses[other], id).ok());
        Outcome::Unknown { transaction, asked: asked.into_iter().collect() }
    }

    /// Asks any coordinator once more what became of an earlier operation, if there is one of unknown outcome.
    fn ask_again(&mut self) {
        let mut doubts: Vec<(&str, &mut Vec<Status>)> = Vec::new();
        for op in &mut self.ops {
            if let Outcome::Unknown { transaction: Some(id), asked } = &mut op.outcome {
                doubts.push((id, asked));
            }
        }
        if doubts.is_empty() {
            return;
        }
        // As a rule the last one: the others are old.
        let back = usize::try_from(self.random.below(4)).unwrap().min(doubts.len() - 1);
        let node = usize::try_from(self.random.below(self.world.addresses.len() as u64)).unwrap();
        let place = doubts.len() - 1 - back;
        let (id, asked) = &mut doubts[place];
        asked.extend(status_at(self.world.addresses[node], id));
    }

    fn op(&self, begun: &Begun, session: &Session, outcome: Outcome, version: Option<u64>) -> Op {
        Op {
            client: self.client,
            session: session.number,
            node: session.node,
            id: begun.id.clone(),
            min_version: session.min_version,
            kind: begun.kind.clone(),
            invoked: begun.invoked,
            completed: self.world.clock.now(),
            outcome,
            version,
        }
    }

    /// Goes on with the session, out of a block that failed; unless it was ended.
    fn keep(&mut self, mut session: Session, error: Option<&Fields>, in_block: bool) {
        let is_over = match error {
            None => false,
            Some(fields) if fields.severity == "FATAL" => true,
            Some(_) => in_block && session.ask(Send::Simple("ROLLBACK".to_owned()), &[]).is_err(),
        };
        if !is_over {
            self.session = Some(session);
        }
    }
}

fn joined<T: ToString>(statements: &[T]) -> String {
    statements.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// `Its id is 0123….`
fn transaction_id(fields: &Fields) -> Option<String> {
    let detail = fields.detail.as_deref()?;
    detail.split(|c: char| !c.is_ascii_hexdigit()).find(|word| word.len() == 32).map(str::to_owned)
}
