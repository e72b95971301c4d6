//! What is counted and timed of a store and its committer.
//!
//! Every call is a few atomic additions, and none can fail. There is no label: their number does not
//! grow with what users do, and no name of an org or an object gets out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// What is counted and timed of one hub and its store. Made once, shared by all that report to it.
#[derive(Debug)]
pub struct Metrics {
    commit_seconds: Histogram,
    commit_group_transactions: Histogram,
    commit_conflicts: Counter,
    commit_unknown_outcomes: Counter,
    commit_failures: Counter,
    feed_apply_seconds: Histogram,
    feed_transactions: Counter,
    feed_listener_connected: Gauge,
    feed_listener_connects: Counter,
    feed_listener_losses: Counter,
    store_writer_connects: Counter,
    image_load_seconds: Histogram,
    made: Instant,
    /// Nanoseconds from `made` to the last word of the store about other writers.
    contact_nanos: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        // 0.25 ms to 8 s: one flush of a good disk, to a database that is as good as gone.
        let commit = || Histogram::new(exponential_buckets(0.000_25, 2.0, 16));
        Metrics {
            commit_seconds: commit(),
            commit_group_transactions: Histogram::new(exponential_buckets(1.0, 2.0, 9)),
            commit_conflicts: Counter::default(),
            commit_unknown_outcomes: Counter::default(),
            commit_failures: Counter::default(),
            feed_apply_seconds: commit(),
            feed_transactions: Counter::default(),
            feed_listener_connected: Gauge::default(),
            feed_listener_connects: Counter::default(),
            feed_listener_losses: Counter::default(),
            store_writer_connects: Counter::default(),
            image_load_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 9)),
            made: Instant::now(),
            contact_nanos: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// Puts everything into `registry`, which may have a prefix.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "commit",
            "Time of a durable commit of a group, as the committer sees it",
            Unit::Seconds,
            self.commit_seconds.clone(),
        );
        registry.register(
            "commit_group_transactions",
            "Transactions of a durable commit",
            self.commit_group_transactions.clone(),
        );
        registry.register(
            "commit_conflicts",
            "Groups that were planned again because another writer of the store was faster",
            self.commit_conflicts.clone(),
        );
        registry.register(
            "commit_unknown_outcomes",
            "Commits of which the store did not say whether they are durable; each is settled before the next one",
            self.commit_unknown_outcomes.clone(),
        );
        registry.register(
            "commit_failures",
            "Commits that failed with nothing written, conflicts not counted",
            self.commit_failures.clone(),
        );
        registry.register_with_unit(
            "feed_apply",
            "Time from the news of other writers' transactions to an image that has them",
            Unit::Seconds,
            self.feed_apply_seconds.clone(),
        );
        registry.register(
            "feed_transactions",
            "Transactions of other writers that were applied to an image",
            self.feed_transactions.clone(),
        );
        registry.register(
            "feed_listener_connected",
            "1 while a connection listens for the changes of other writers",
            self.feed_listener_connected.clone(),
        );
        registry.register(
            "feed_listener_connects",
            "Connections that were made to listen for the changes of other writers",
            self.feed_listener_connects.clone(),
        );
        registry.register(
            "feed_listener_losses",
            "Connections lost that listened for the changes of other writers",
            self.feed_listener_losses.clone(),
        );
        registry.register(
            "store_writer_connects",
            "Connections that were made to commit on",
            self.store_writer_connects.clone(),
        );
        registry.register_with_unit(
            "image_load",
            "Time to load an image from the store",
            Unit::Seconds,
            self.image_load_seconds.clone(),
        );
    }

    /// A group of so many transactions is durable, after that long.
    pub fn committed(&self, transactions: usize, took: Duration) {
        self.commit_seconds.observe(took.as_secs_f64());
        self.commit_group_transactions.observe(u32::try_from(transactions).unwrap_or(u32::MAX).into());
    }

    /// Another writer was faster: a group is planned again.
    pub fn conflict(&self) {
        self.commit_conflicts.inc();
    }

    /// The store did not say whether a commit is durable.
    pub fn unknown_outcome(&self) {
        self.commit_unknown_outcomes.inc();
    }

    /// A commit failed, nothing was written.
    pub fn commit_failed(&self) {
        self.commit_failures.inc();
    }

    /// So many transactions of other writers are in an image now, that long after they were known of.
    pub fn applied(&self, transactions: u64, took: Duration) {
        self.feed_transactions.inc_by(transactions);
        self.feed_apply_seconds.observe(took.as_secs_f64());
    }

    /// The store has told its state of other writers.
    pub fn feed_contact(&self) {
        let nanos = u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.contact_nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    /// How long ago that was; since the start, if it never was.
    pub fn contact_age(&self) -> Duration {
        let contact = Duration::from_nanos(self.contact_nanos.load(Ordering::Relaxed));
        self.made.elapsed().saturating_sub(contact)
    }

    /// A connection listens.
    pub fn listener_connected(&self) {
        self.feed_listener_connects.inc();
        self.feed_listener_connected.set(1);
    }

    /// It is lost.
    pub fn listener_lost(&self) {
        self.feed_listener_losses.inc();
        self.feed_listener_connected.set(0);
    }

    /// There is a connection to commit on.
    pub fn writer_connected(&self) {
        self.store_writer_connects.inc();
    }

    /// An image was loaded.
    pub fn image_loaded(&self, took: Duration) {
        self.image_load_seconds.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn what_is_reported_is_shown() {
        let metrics = Metrics::default();
        let mut registry = Registry::with_prefix("dataglot");
        metrics.register(&mut registry);
        metrics.committed(3, Duration::from_millis(2));
        metrics.conflict();
        metrics.unknown_outcome();
        metrics.commit_failed();
        metrics.applied(7, Duration::from_millis(1));
        metrics.listener_connected();
        metrics.listener_lost();
        metrics.listener_connected();
        metrics.writer_connected();
        metrics.image_loaded(Duration::from_secs(2));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "dataglot_commit_seconds_count 1",
            "dataglot_commit_group_transactions_sum 3.0",
            "dataglot_commit_conflicts_total 1",
            "dataglot_commit_unknown_outcomes_total 1",
            "dataglot_commit_failures_total 1",
            "dataglot_feed_transactions_total 7",
            "dataglot_feed_apply_seconds_count 1",
            "dataglot_feed_listener_connected 1",
            "dataglot_feed_listener_connects_total 2",
            "dataglot_feed_listener_losses_total 1",
            "dataglot_store_writer_connects_total 1",
            "dataglot_image_load_seconds_sum 2.0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn contact_makes_the_age_smaller() {
        let metrics = Metrics::default();
        while metrics.contact_age() < Duration::from_millis(2) {
            std::thread::yield_now();
        }
        metrics.feed_contact();
        assert!(metrics.contact_age() < metrics.made.elapsed());
    }
}
