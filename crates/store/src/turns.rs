//! Turns: what only one may do at a time in each org.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dataglot_model::OrgName;
use tokio::sync::OwnedMutexGuard;

/// Whose turn it is, for each org.
#[derive(Default)]
pub(crate) struct Turns {
    orgs: Mutex<BTreeMap<OrgName, Arc<tokio::sync::Mutex<()>>>>,
}

impl Turns {
    /// Waits for a turn, after those who came before. It ends when it is dropped.
    pub(crate) async fn turn(&self, org: &OrgName) -> OwnedMutexGuard<()> {
        let of_org = {
            let mut orgs = self.orgs.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody has or waits for.
            orgs.retain(|_, of_org| Arc::strong_count(of_org) > 1);
            Arc::clone(orgs.entry(org.clone()).or_default())
        };
        of_org.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn one_after_the_other_in_each_org() {
        let turns = Turns::default();
        let [one, other] = ["one", "other"].map(|name| OrgName::new(name).unwrap());
        let cx = &mut Context::from_waker(Waker::noop());
        let mut first = pin!(turns.turn(&one));
        let mut second = pin!(turns.turn(&one));
        let mut elsewhere = pin!(turns.turn(&other));
        let std::task::Poll::Ready(turn) = first.as_mut().poll(cx) else { panic!("it is free") };
        assert!(second.as_mut().poll(cx).is_pending());
        assert!(elsewhere.as_mut().poll(cx).is_ready());
        drop(turn);
        let std::task::Poll::Ready(turn) = second.as_mut().poll(cx) else { panic!("it is free again") };
        drop(turn);
        assert!(pin!(turns.turn(&other)).as_mut().poll(cx).is_ready());
        assert_eq!(turns.orgs.lock().unwrap().len(), 1);
    }
}
