//! What is counted and timed of a store and its committer.
//!
//! Every call is a few atomic additions, and none can fail. There is no label: their number does not
//! grow with what users do, and no name of an org or an object gets out.

use std::time::Duration;

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
    feed_behind: Gauge,
    feed_listener_connected: Gauge,
    feed_listener_connects: Counter,
    feed_listener_losses: Counter,
    image_load_seconds: Histogram,
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
            feed_behind: Gauge::default(),
            feed_listener_connected: Gauge::default(),
            feed_listener_connects: Counter::default(),
            feed_listener_losses: Counter::default(),
            image_load_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 9)),
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
            "Time to bring an image up to what other writers have committed",
            Unit::Seconds,
            self.feed_apply_seconds.clone(),
        );
        registry.register(
            "feed_transactions",
            "Transactions of other writers that were applied to an image",
            self.feed_transactions.clone(),
        );
        registry.register(
            "feed_behind_transactions",
            "Transactions that the store was last seen to have and that the images here lack",
            self.feed_behind.clone(),
        );
        registry.register(
            "feed_listener_connected",
            "1 while a shared store tells of other writers; 0 too where the store is not shared",
            self.feed_listener_connected.clone(),
        );
        registry.register(
            "feed_listener_connects",
            "Times that a shared store began to tell of other writers, the first one included",
            self.feed_listener_connects.clone(),
        );
        registry.register(
            "feed_listener_losses",
            "Times that a shared store could not be reached any more for news of other writers",
            self.feed_listener_losses.clone(),
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

    /// So many transactions of other writers are in an image now; that took so long.
    pub fn applied(&self, transactions: u64, took: Duration) {
        self.feed_transactions.inc_by(transactions);
        self.feed_apply_seconds.observe(took.as_secs_f64());
    }

    /// The store has so many transactions that the images lack.
    pub fn behind(&self, transactions: u64) {
        self.feed_behind.set(i64::try_from(transactions).unwrap_or(i64::MAX));
    }

    /// A shared store tells of other writers.
    pub fn listener_connected(&self) {
        self.feed_listener_connects.inc();
        self.feed_listener_connected.set(1);
    }

    /// It does so no more.
    pub fn listener_lost(&self) {
        self.feed_listener_losses.inc();
        self.feed_listener_connected.set(0);
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
        metrics.behind(5);
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
            "dataglot_feed_behind_transactions 5",
            "dataglot_image_load_seconds_sum 2.0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in {text}");
        }
    }
}
