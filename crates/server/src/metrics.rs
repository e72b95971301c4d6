//! What is counted of clients, and everything that is shown when metrics are asked for.
//!
//! Labels have few values, all from lists in this program: no name of a user, an org or an object, no
//! address, and no text of a client's is among them.

use std::sync::atomic::AtomicU64;

use dataglot_model::Problem as _;
use dataglot_session::{Clock as _, Engine, SystemClock, Vitals};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::door::Turned;
use crate::outbox::State;
use crate::refusal::Refusal;
use crate::tls::Failed;

/// A login: let in, or refused with this class of SQLSTATEs.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Login {
    outcome: &'static str,
    sqlstate_class: &'static str,
}

/// A connection that ended before anybody said who he is, or a handshake of TLS that did.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// What runs.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

/// Whose certificates.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Chain {
    chain: &'static str,
}

/// How something ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

const OK: &str = "ok";
const REFUSED: &str = "refused";
const ERROR: &str = "error";
const HEARD: &str = "heard";
const LIMITED: &str = "limited";
const EVICTED: &str = "evicted";
const STUFFED: &str = "stuffed";
const LOST: &str = "lost";
const PROTOCOL: &str = "protocol";
const TOO_MANY: &str = "too_many_connections";
const UNENCRYPTED: &str = "unencrypted";
const HANDSHAKE: &str = "tls_handshake";
const TIMEOUT: &str = "timeout";
const SHUTDOWN: &str = "shutdown";

/// What is counted of clients.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    logins: Family<Login, Counter>,
    turned_away: Family<Reason, Counter>,
    cancel_requests: Family<Outcome, Counter>,
    statements: Family<Outcome, Counter>,
    tls_handshake_failures: Family<Reason, Counter>,
    tls_reload_failures: Counter,
    /// Empty without TLS: a date that is none would raise the alarm.
    tls_certificate_expiry: Family<Chain, Gauge>,
}

impl Metrics {
    /// A client has been let in.
    pub(crate) fn let_in(&self) {
        self.logins.get_or_create(&Login { outcome: OK, sqlstate_class: "00" }).inc();
    }

    /// A client has not been let in.
    pub(crate) fn turned(&self, turned: &Turned) {
        match turned {
            // A CancelRequest is counted where it is heard.
            Turned::Away => {}
            // So is the eviction, where another one needs the place.
            Turned::Evicted => {}
            Turned::Stuffed => self.turned_away(STUFFED),
            Turned::Handshake(failed) => {
                self.turned_away(HANDSHAKE);
                self.tls_handshake_failures.get_or_create(&Reason { reason: failed.reason() }).inc();
            }
            Turned::Gone(_) => self.turned_away(LOST),
            Turned::Refused(refusal) => self.refused(refusal),
        }
    }

    /// Counts connections that had to go, without a word, for newer ones.
    pub(crate) fn evicted(&self) -> Counter {
        self.turned_away.get_or_create(&Reason { reason: EVICTED }).clone()
    }

    /// A CancelRequest came; `limited`: one too many from its address.
    pub(crate) fn cancel_request(&self, limited: bool) {
        let outcome = if limited { LIMITED } else { HEARD };
        self.cancel_requests.get_or_create(&Outcome { outcome }).inc();
    }

    /// Statements were answered.
    pub(crate) fn answered(&self, said: &State) {
        for (outcome, count) in [(OK, said.completed), (ERROR, said.errors)] {
            if count > 0 {
                self.statements.get_or_create(&Outcome { outcome }).inc_by(count.into());
            }
        }
    }

    /// Certificates are served from now on, the first of which expires then: seconds since 1970.
    pub(crate) fn certificates(&self, expiry: i64) {
        self.tls_certificate_expiry.get_or_create(&Chain { chain: "server" }).set(expiry);
        for reason in Failed::REASONS {
            drop(self.tls_handshake_failures.get_or_create(&Reason { reason }));
        }
    }

    /// Certificates that have changed can't be served.
    pub(crate) fn certificates_refused(&self) {
        self.tls_reload_failures.inc();
    }

    fn turned_away(&self, reason: &'static str) {
        self.turned_away.get_or_create(&Reason { reason }).inc();
    }

    fn refused(&self, refusal: &Refusal) {
        match refusal {
            Refusal::PacketLength
            | Refusal::PacketLayout
            | Refusal::Protocol
            | Refusal::RequestedTwice
            | Refusal::NotUtf8
            | Refusal::DuplicateParameter
            | Refusal::NoUser
            | Refusal::NotACredential
            | Refusal::CredentialLength
            | Refusal::Sasl
            | Refusal::Replication => self.turned_away(PROTOCOL),
            Refusal::Full | Refusal::AddressFull | Refusal::Reserved => self.turned_away(TOO_MANY),
            Refusal::Unencrypted => self.turned_away(UNENCRYPTED),
            Refusal::TimedOut => self.turned_away(TIMEOUT),
            Refusal::ShuttingDown => self.turned_away(SHUTDOWN),
            Refusal::NotLocal
            | Refusal::NoRule
            | Refusal::Denied { .. }
            | Refusal::Certificate { .. }
            | Refusal::Login
            | Refusal::RoleFull
            | Refusal::Parameter(_)
            | Refusal::OutOfReach
            | Refusal::Unavailable => {
                let sqlstate_class = refusal.sqlstate().code().get(..2).unwrap_or_default();
                self.logins.get_or_create(&Login { outcome: REFUSED, sqlstate_class }).inc();
            }
        }
    }

    /// Makes the series of all values that are known, so that their first event is a step from 0.
    fn begin(&self) {
        for (outcome, sqlstate_class) in [(OK, "00"), (REFUSED, "28"), (REFUSED, "53"), (REFUSED, "57")] {
            drop(self.logins.get_or_create(&Login { outcome, sqlstate_class }));
        }
        for reason in [EVICTED, STUFFED, HANDSHAKE, LOST, PROTOCOL, TOO_MANY, UNENCRYPTED, TIMEOUT, SHUTDOWN] {
            drop(self.turned_away.get_or_create(&Reason { reason }));
        }
        for outcome in [HEARD, LIMITED] {
            drop(self.cancel_requests.get_or_create(&Outcome { outcome }));
        }
        for outcome in [OK, ERROR] {
            drop(self.statements.get_or_create(&Outcome { outcome }));
        }
    }
}

/// What is read when metrics are asked for.
#[derive(Debug, Default)]
struct Gauges {
    ready: Gauge,
    store_up: Gauge,
    store_diverged: Gauge,
    feed_contact_age: Gauge<f64, AtomicU64>,
    images: Gauge,
    image_rows: Gauge,
    connections: Gauge,
    connections_max: Gauge,
    connections_waiting: Gauge,
    resident_memory: Gauge,
}

/// What of it the caller knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Whether clients would be served.
    pub(crate) ready: bool,
    /// Whether the store can be reached.
    pub(crate) store_up: bool,
    /// What the engine tells.
    pub(crate) vitals: Vitals,
    /// Connections that have a seat.
    pub(crate) connections: usize,
    /// Connections that have not logged in yet.
    pub(crate) connections_waiting: usize,
}

/// Everything there is to show.
#[derive(Debug)]
pub(crate) struct Exposition {
    registry: Registry,
    gauges: Gauges,
}

impl Exposition {
    /// Of a server that starts now.
    pub(crate) fn new(metrics: &Metrics, engine: &Engine, connections_max: usize) -> Self {
        let mut registry = Registry::default();
        let gauges = Gauges::default();
        gauges.connections_max.set(number(connections_max));
        metrics.begin();
        gauges.register(&mut registry);
        let ours = registry.sub_registry_with_prefix("dataglot");
        engine.store_metrics().register(ours);
        ours.register("logins", "Clients that said who they are, by what came of it", metrics.logins.clone());
        ours.register(
            "connections_turned_away",
            "Connections that ended before their login was decided",
            metrics.turned_away.clone(),
        );
        ours.register("cancel_requests", "CancelRequests", metrics.cancel_requests.clone());
        ours.register(
            "tls_handshake_failures",
            "Connections that ended in the handshake of TLS, by what went wrong",
            metrics.tls_handshake_failures.clone(),
        );
        ours.register(
            "tls_reload_failures",
            "Times that changed certificates could not be taken, and the former ones stayed",
            metrics.tls_reload_failures.clone(),
        );
        ours.register_with_unit(
            "tls_certificate_expiry",
            "When the first of the certificates that are served expires, since 1970",
            Unit::Seconds,
            metrics.tls_certificate_expiry.clone(),
        );
        ours.register("statements", "Statements that were answered", metrics.statements.clone());
        Exposition { registry, gauges }
    }

    /// The text, in the OpenMetrics form.
    pub(crate) fn text(&self, reading: Reading) -> String {
        let Reading { ready, store_up, vitals, connections, connections_waiting } = reading;
        let Vitals { images, rows, contact_age, diverged } = vitals;
        let gauges = &self.gauges;
        gauges.ready.set(ready.into());
        gauges.store_up.set(store_up.into());
        gauges.store_diverged.set(diverged.into());
        gauges.feed_contact_age.set(contact_age.as_secs_f64());
        gauges.images.set(number(images));
        gauges.image_rows.set(number(rows));
        gauges.connections.set(number(connections));
        gauges.connections_waiting.set(number(connections_waiting));
        if let Some(bytes) = resident_memory() {
            gauges.resident_memory.set(bytes);
        }
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            tracing::error!("metrics cannot be shown");
            text.clear();
        }
        text
    }
}

impl Gauges {
    fn register(&self, registry: &mut Registry) {
        let started = Gauge::<f64, AtomicU64>::default();
        started.set(seconds_now());
        registry.register_with_unit(
            "process_start_time",
            "When the server started, since 1970",
            Unit::Seconds,
            started,
        );
        registry.register_with_unit(
            "process_resident_memory",
            "Memory of the process that is in RAM, images included",
            Unit::Bytes,
            self.resident_memory.clone(),
        );
        let ours = registry.sub_registry_with_prefix("dataglot");
        // A gauge, not an info: readers of the older text form know no info.
        let build = Family::<Build, Gauge>::default();
        build.get_or_create(&Build { version: env!("CARGO_PKG_VERSION") }).set(1);
        ours.register("build_info", "The version that runs", build);
        ours.register("ready", "1 if clients would be served, as /readyz says", self.ready.clone());
        ours.register("store_up", "1 if the store can be reached", self.store_up.clone());
        ours.register(
            "store_diverged",
            "1 if the store's history is not the one that was seen before: nothing is written any more",
            self.store_diverged.clone(),
        );
        ours.register_with_unit(
            "feed_contact_age",
            "How long ago the images were last known to be as new as a shared store",
            Unit::Seconds,
            self.feed_contact_age.clone(),
        );
        ours.register("images", "Orgs whose images are loaded", self.images.clone());
        ours.register("image_rows", "Rows of all loaded images", self.image_rows.clone());
        ours.register("connections", "Connections that have a seat", self.connections.clone());
        ours.register("connections_max", "Seats for connections", self.connections_max.clone());
        ours.register(
            "connections_waiting",
            "Connections that have not logged in yet, and have no seat",
            self.connections_waiting.clone(),
        );
    }
}

/// Now, in seconds since 1970.
#[allow(clippy::cast_precision_loss, reason = "a f64 holds microseconds of this age exactly")]
fn seconds_now() -> f64 {
    SystemClock.now().0 as f64 / 1e6
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Bytes of the process that are in RAM; `None` where the system does not tell.
fn resident_memory() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use dataglot_model::{Report, SqlState};

    use super::*;

    #[test]
    fn the_process_has_memory() {
        assert!(resident_memory().unwrap() > 1 << 20);
    }

    #[test]
    fn l_05_refusals_are_counted_by_class_and_never_by_text() {
        let metrics = Metrics::default();
        let parameter = Report::error(SqlState::UndefinedParameter, "unrecognized parameter \"CANARY-7Q\"");
        let refusals =
            [Refusal::Login, Refusal::Login, Refusal::RoleFull, Refusal::OutOfReach, Refusal::Parameter(parameter)];
        for refusal in refusals {
            metrics.turned(&Turned::Refused(refusal));
        }
        metrics.turned(&Turned::Refused(Refusal::TimedOut));
        metrics.turned(&Turned::Stuffed);
        let mut registry = Registry::default();
        registry.register("logins", "", metrics.logins.clone());
        registry.register("turned_away", "", metrics.turned_away.clone());
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"logins_total{outcome="refused",sqlstate_class="28"} 2"#,
            r#"logins_total{outcome="refused",sqlstate_class="53"} 1"#,
            r#"logins_total{outcome="refused",sqlstate_class="42"} 1"#,
            r#"logins_total{outcome="refused",sqlstate_class="57"} 1"#,
            r#"turned_away_total{reason="timeout"} 1"#,
            r#"turned_away_total{reason="stuffed"} 1"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in {text}");
        }
        assert!(!text.contains("CANARY-7Q"), "{text}");
    }
}
