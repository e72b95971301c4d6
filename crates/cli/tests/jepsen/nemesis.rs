//! What breaks things: one fault after another, several at a time, each of them healed after a while.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use dataglot_pgtest::{Cluster, Database};
use rustix::process::Signal;

use crate::coordinator::Coordinator;
use crate::proxy::{Mode, Proxy};
use crate::random::Random;

/// How often it is looked whether something is due.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The longest that a line is quiet: longer than a coordinator waits for its store.
const QUIET_MS_MAX: u64 = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A coordinator's connections to PostgreSQL are reset, and new ones too for a while.
    Cut,
    /// They go quiet.
    Hold,
    /// What PostgreSQL answers does not arrive.
    HoldAnswers,
    /// PostgreSQL ends a coordinator's sessions that listen or read.
    EndListener,
    /// PostgreSQL ends the session that commits.
    EndWriter,
    /// PostgreSQL is stopped at once and recovers from its log.
    RestartPostgres,
    /// PostgreSQL is paused.
    PausePostgres,
    /// A coordinator is killed.
    Kill,
    /// A coordinator is paused.
    Pause,
}

const FAULTS: [Fault; 9] = [
    Fault::Cut,
    Fault::Hold,
    Fault::HoldAnswers,
    Fault::EndListener,
    Fault::EndWriter,
    Fault::RestartPostgres,
    Fault::PausePostgres,
    Fault::Kill,
    Fault::Pause,
];

pub struct Nemesis<'n> {
    pub cluster: &'n Cluster,
    pub database: &'n Database,
    pub proxies: &'n [Proxy],
    pub coordinators: &'n [Coordinator],
    random: Random,
    /// What there is to heal, and when. Nodes by their numbers; PostgreSQL has none.
    open: Vec<(Instant, Fault, usize)>,
    counts: BTreeMap<Fault, u64>,
    /// For people: when it did what.
    pub diary: Vec<String>,
    start: Instant,
}

impl<'n> Nemesis<'n> {
    pub fn new(
        cluster: &'n Cluster,
        database: &'n Database,
        proxies: &'n [Proxy],
        coordinators: &'n [Coordinator],
        seed: u64,
    ) -> Nemesis<'n> {
        Nemesis {
            cluster,
            database,
            proxies,
            coordinators,
            random: Random::stream(seed, 1),
            open: Vec::new(),
            counts: BTreeMap::new(),
            diary: Vec::new(),
            start: Instant::now(),
        }
    }

    /// Until `end`, and then everything is whole again.
    pub fn run(mut self, end: Instant) -> (BTreeMap<Fault, u64>, Vec<String>) {
        let mut next = Instant::now() + self.between(1_000, 4_000);
        while Instant::now() < end {
            // PostgreSQL may take a while to come back, and everybody needs some time with it.
            let now = Instant::now();
            self.heal(now);
            next += now.elapsed();
            if Instant::now() >= next {
                self.break_something();
                next = Instant::now() + self.between(1_000, 4_000);
            }
            thread::sleep(LOOK_EVERY);
        }
        let last = self.open.iter().map(|(due, ..)| *due).max();
        self.heal(last.unwrap_or(end));
        (self.counts, self.diary)
    }

    fn between(&mut self, from_ms: u64, to_ms: u64) -> Duration {
        Duration::from_millis(from_ms + self.random.below(to_ms - from_ms + 1))
    }

    fn note(&mut self, what: String) {
        self.diary.push(format!("{:.3} s {what}", self.start.elapsed().as_secs_f64()));
    }

    fn postgres_is_there(&self) -> bool {
        !self.open.iter().any(|(_, fault, _)| matches!(fault, Fault::RestartPostgres | Fault::PausePostgres))
    }

    /// Something that can be broken now.
    fn break_something(&mut self) {
        let node = usize::try_from(self.random.below(self.coordinators.len() as u64)).unwrap();
        let fault = self.random.pick(&FAULTS);
        let is_free = match fault {
            Fault::Cut | Fault::Hold | Fault::HoldAnswers => self.proxies[node].mode() == Mode::Pass,
            Fault::EndListener | Fault::EndWriter | Fault::RestartPostgres | Fault::PausePostgres => {
                self.postgres_is_there()
            }
            Fault::Kill | Fault::Pause => !self.open.iter().any(|(_, f, n)| (*f, *n) == (Fault::Pause, node)),
        };
        if !is_free {
            return;
        }
        *self.counts.entry(fault).or_default() += 1;
        let lasting = match fault {
            Fault::Cut => self.line(node, Mode::Cut, 3_000),
            Fault::Hold => self.line(node, Mode::Hold, QUIET_MS_MAX),
            Fault::HoldAnswers => self.line(node, Mode::HoldAnswers, QUIET_MS_MAX),
            Fault::EndListener => self.end_sessions(node, "NOT IN"),
            Fault::EndWriter => self.end_sessions(node, "IN"),
            Fault::RestartPostgres => {
                self.cluster.stop_immediate();
                Some(self.between(0, 4_000))
            }
            Fault::PausePostgres => {
                self.cluster.pause();
                Some(self.between(1_000, 5_000))
            }
            Fault::Kill => {
                self.coordinators[node].kill();
                None
            }
            Fault::Pause => {
                self.coordinators[node].signal(Signal::STOP);
                Some(self.between(1_000, 10_000))
            }
        };
        self.note(format!("{fault:?} node {}, for {lasting:?}", node + 1));
        if let Some(lasting) = lasting {
            self.open.push((Instant::now() + lasting, fault, node));
        }
    }

    fn line(&mut self, node: usize, mode: Mode, ms_max: u64) -> Option<Duration> {
        self.proxies[node].set(mode);
        Some(self.between(1, ms_max))
    }

    /// Those that hold the lock of who commits, or those that do not.
    fn end_sessions(&mut self, node: usize, which: &str) -> Option<Duration> {
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE application_name = 'dataglot {}' AND pid {which} \
             (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted AND pid IS NOT NULL)",
            self.coordinators[node].name
        );
        if let Err(error) = self.database.try_execute(&sql) {
            self.note(format!("sessions were not ended: {error}"));
        }
        None
    }

    /// Heals what is due at `now`.
    fn heal(&mut self, now: Instant) {
        let (due, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.open).into_iter().partition(|(at, ..)| *at <= now);
        self.open = open;
        for (_, fault, node) in due {
            match fault {
                Fault::Cut | Fault::Hold | Fault::HoldAnswers => self.proxies[node].set(Mode::Pass),
                Fault::RestartPostgres => self.cluster.start_again(),
                Fault::PausePostgres => self.cluster.resume(),
                Fault::Pause => self.coordinators[node].signal(Signal::CONT),
                Fault::EndListener | Fault::EndWriter | Fault::Kill => {}
            }
            self.note(format!("{fault:?} node {} is over", node + 1));
        }
    }
}
