//! What every store has to do: one suite for all backends.
//!
//! A case is a function of a [`Rig`]. A backend calls [`conformance_tests!`](crate::conformance_tests)
//! once for each way in which its stores are set up, and gets a `#[test]` a case. What a store cannot do
//! is a fact ([`crate::StoreFacts`]) that the case asserts, not a reason to skip it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "it is test code that lives in the library so that every backend can run it"
)]

pub mod ahead;
pub mod history;
pub mod hub;
pub mod image;
pub mod sample;
pub mod shared;
pub mod store;

use std::path::Path;
use std::sync::Arc;

use dataglot_model::OrgName;

use crate::MetaStore;

/// One store, set up for one case.
pub trait Rig: Send + Sync {
    /// A handle on the store; each call gives another one on the same store.
    fn store(&self) -> Arc<dyn MetaStore>;
    /// Closes the store and opens it again. The case must not hold a handle any more. A store that is
    /// not durable is empty then.
    fn reopen(&self) -> Arc<dyn MetaStore>;
    /// A directory for files of the case.
    fn dir(&self) -> &Path;
    /// For cases that roll dice.
    fn seed(&self) -> u64;
    /// Overwrites a row of history in the store itself, as a bad disk would; false: any commit can do that.
    fn overwrite_history(&self, _org: &OrgName, _key: &[u8], _value: &[u8]) -> bool {
        false
    }
}

/// Dice that fall the same way for the same seed (xorshift).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed | 1)
    }

    /// A number below `bound`.
    pub fn roll(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound.max(1)).unwrap()).unwrap()
    }
}

/// A `#[test]` for each case of the suite, on rigs that `$make` makes.
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::conformance_tests!(@cases $make, store:
            a_new_store_is_empty
            a_commit_is_there_for_every_handle
            a_group_is_one_step
            a_stale_group_is_refused_whole
            rows_that_fail_leave_nothing
            orgs_do_not_leak_into_each_other
            an_org_can_be_dropped_and_made_anew_at_once
            changes_come_in_order_and_up_to_the_limit
            a_transaction_is_found_by_its_id
            a_large_transaction_is_many_small_rows
            a_delta_that_is_not_wanted_ends_there
            damage_takes_nothing_else_down
            damaged_history_takes_nothing_else_down
            reopening_keeps_everything
            a_backup_is_the_store
            a_backup_that_fails_leaves_the_last_one
            single_values_are_kept
            replay_gives_the_state
            random_batches_do_what_a_model_says
        );
        $crate::conformance_tests!(@cases $make, hub:
            a_transaction_is_answered_when_it_is_durable
            a_transaction_that_changes_nothing_writes_nothing
            c055_racing_creates_make_one
            a_refusal_that_depends_on_a_failed_group_is_thought_over
            c113_what_does_not_fit_takes_no_other_with_it
            nothing_is_tried_apart_after_an_unknown_outcome
            an_unknown_outcome_is_found_out
            nothing_is_committed_before_an_unknown_outcome_is_known
            a_ticket_can_be_withdrawn_in_time
            the_queue_is_bounded
            a_panic_refuses_one_request
            orgs_are_made_and_dropped_with_a_statement
            two_hubs_on_one_store_agree
            stopping_finishes_the_queue
            the_feed_has_no_gap
            c041_many_writers_lose_nothing
        );
        $crate::conformance_tests!(@cases $make, ahead:
            what_was_planned_ahead_is_committed_next
            what_was_planned_on_a_group_that_failed_is_thought_over
            what_was_planned_on_an_unknown_group_is_not_committed_before_that_is_known
            what_was_planned_on_a_state_that_others_went_on_from_is_planned_again
            an_org_that_is_being_made_can_be_written_to
            an_org_that_is_being_dropped_is_there_until_it_is_gone
            who_asks_is_answered_however_much_is_written
        );
        $crate::conformance_tests!(@cases $make, shared:
            c105_a_refusal_is_decided_on_the_store
            c105_a_refusal_comes_however_much_others_write
            c105_an_org_of_another_writer_is_known_at_once
            h01_what_another_writer_does_is_seen
            a_version_from_elsewhere_is_waited_for
            m7_without_contact_writes_fail_at_once_and_reads_go_on
            a_committer_that_panics_leaves_nobody_waiting
            h01_an_image_never_goes_backwards
            h01_however_much_others_write_it_is_seen
            m7_an_org_that_cannot_catch_up_expires_alone
        );
        $crate::conformance_tests!(@cases $make, history:
            h06_a_history_that_goes_backwards_stops_all_writes
            h06_a_history_that_has_grown_as_long_again_is_noticed
            h06_a_history_that_has_grown_longer_is_noticed
            h06_a_history_that_has_grown_much_longer_is_noticed
            h06_a_history_that_has_grown_much_larger_is_noticed
            h06_an_empty_store_is_no_drop
            h06_a_history_that_is_back_is_gone_on_from
            h06_an_org_that_a_lagging_replica_lacks_was_not_dropped
            an_org_that_was_dropped_is_gone_for_who_has_only_that
            h06_an_org_that_diverged_stops_no_other
            h06_another_store_is_not_taken_for_this_one
        );
    };
    (@cases $make:expr, $module:ident: $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                let rig = $make;
                $crate::conformance::$module::$case(&rig);
            }
        )*
    };
}
