//! REWRAP SECRETS: after it, the primary master key is enough for the org.
//!
//! Data keys are wrapped under it; values and verifiers that no data key seals yet are sealed with one. Each batch
//! is a transaction of its own, and the next one looks for what is left: whoever is interrupted, or whose server is
//! killed, runs the statement again. Readers are not disturbed, since old and new forms open meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use dataglot_model::{Notice, Severity, SqlState};
use dataglot_planner::{REWRAP_TAG, authorize_rewrap};
use dataglot_vault::{KeyId, VaultError, canary_key};

use crate::audit::{Audited, Fate};
use crate::change::SubmitFailure;
use crate::compiler::{Request, RewrapRequest};
use crate::error::SessionError;
use crate::pipeline::{Outcome, Way};
use crate::seal::{self, Left, needs, next_batch};
use crate::session::Session;

/// Rows of one transaction.
const BATCH_ROWS_MAX: usize = 100;
/// How many transactions one after the other may come to nothing because others write at the same time.
const IDLE_ROUNDS_MAX: usize = 16;
/// How many things that could not be done are named.
const FAILED_LISTED_MAX: usize = 20;

/// What was done.
#[derive(Default)]
struct Tally {
    data_keys: usize,
    values: usize,
    verifiers: usize,
}

impl Tally {
    fn add(&mut self, item: &Left) {
        match item {
            Left::DataKey(_) => self.data_keys += 1,
            Left::Secret { .. } => self.values += 1,
            Left::Verifier(_) => self.verifiers += 1,
        }
    }
}

impl Session {
    /// REWRAP SECRETS: never in a block.
    pub(crate) async fn rewrap(&mut self, way: Way) -> Result<Outcome, SessionError> {
        let statement = self.audited(REWRAP_TAG.to_owned());
        let mut notices = Vec::new();
        match self.rewrap_all(way, &statement, &mut notices).await {
            Ok(()) => Ok(Outcome { notices, rows: None, tag: REWRAP_TAG.into() }),
            Err(error) => {
                self.audit(&statement, None, Fate::of_error(error.code()));
                Err(error)
            }
        }
    }

    async fn rewrap_all(
        &mut self,
        way: Way,
        statement: &Audited,
        notices: &mut Vec<Notice>,
    ) -> Result<(), SessionError> {
        self.require_alone(REWRAP_TAG, way)?;
        let engine = Arc::clone(&self.engine);
        let (mut failed, mut tally, mut idle) = (BTreeMap::new(), Tally::default(), 0);
        let primary = loop {
            self.check_interrupt()?;
            self.interruptible(engine.refresh(&self.org)).await?;
            let newest = self.newest().await?;
            let actor = self.actor(&newest.0)?;
            authorize_rewrap(&newest.0, &actor).map_err(|e| SessionError::of(&e))?;
            let primary = engine.ring().primary_id().ok_or_else(|| SessionError::of(&VaultError::NoKey))?;
            if engine.retired_keys().await?.contains(&primary) {
                return Err(seal::retired::refused(primary));
            }
            let (batch, items) = next_batch(&engine, &newest.0, primary, BATCH_ROWS_MAX, &mut failed);
            drop(newest);
            if items.is_empty() {
                break primary;
            }
            let (mut id, now, sql) = (engine.transaction_id()?, self.now(), Arc::clone(&statement.sql));
            let request = Request::Rewrap(Box::new(RewrapRequest { actor, now, batch, sql }));
            let stale = match self.submit(&mut id, request, now).await {
                Ok((_, Some(seq))) => {
                    self.audit(statement, Some(id), Fate::Done(Some(seq)));
                    items.iter().for_each(|item| tally.add(item));
                    idle = 0;
                    continue;
                }
                Ok((_, None)) => crate::compiler::moved("others have changed what was to be sealed"),
                Err(SubmitFailure::Stale(error)) => error,
                Err(SubmitFailure::Other(error)) => return Err(error),
            };
            idle += 1;
            if idle >= IDLE_ROUNDS_MAX {
                return Err(stale);
            }
        };
        notices.push(summary(&tally));
        notices.extend(trouble(&failed));
        notices.extend(self.canary_follows(primary).await?);
        Ok(())
    }

    /// Makes the canary one of the primary key, once nothing in any org needs the key that it is of; that one seals
    /// nothing any more. It is the whole store's, and other orgs are nobody's business but the platform's: so in its
    /// org only.
    async fn canary_follows(&self, primary: KeyId) -> Result<Option<Notice>, SessionError> {
        if !self.org.is_default() {
            return Ok(None);
        }
        let Some(canary) = self.engine.canary().await? else { return Ok(None) };
        let old = canary_key(&canary).map_err(|e| SessionError::of(&e))?;
        if old == primary {
            return Ok(None);
        }
        if let Some(notice) = self.needed(old).await? {
            return Ok(Some(notice));
        }
        // Other coordinators may still have it in front. From here on they write nothing that needs it; what was on
        // its way is there when it is looked for again.
        self.engine.retire_key(old).await?;
        if let Some(notice) = self.needed(old).await? {
            return Ok(Some(notice));
        }
        self.engine.renew_canary().await?;
        let notice = Notice::note(format!("key {old} is not needed any more"));
        Ok(Some(notice.with_detail("Backups made until now still need it: keep it as long as you keep them.")))
    }

    /// Whether some org needs a key, as a notice that says so.
    async fn needed(&self, key: KeyId) -> Result<Option<Notice>, SessionError> {
        for org in self.engine.orgs().await? {
            self.check_interrupt()?;
            let read = match self.engine.refresh(&org).await {
                Ok(()) => self.engine.image(&org).await,
                Err(error) => Err(error),
            };
            let state = match read {
                Ok(Some(state)) => state,
                Ok(None) => continue,
                // What was wrapped is durable: another org's trouble is none of the statement's.
                Err(error) => {
                    let notice = Notice::warning(format!("it is not known whether key {key} is still needed"));
                    return Ok(Some(notice.with_detail(format!("Database \"{org}\" cannot be read: {error}."))));
                }
            };
            if needs(&state.0).contains_key(&key) {
                let notice = Notice::note(format!("key {key} is still needed, and has to stay loaded"));
                return Ok(Some(notice.with_detail(if org == self.org {
                    "What this database needs of it is in SHOW SECRET KEYS."
                } else {
                    "Another database needs it. Run REWRAP SECRETS in each, and then here again."
                })));
            }
        }
        Ok(None)
    }
}

fn summary(tally: &Tally) -> Notice {
    let Tally { data_keys, values, verifiers } = tally;
    if data_keys + values + verifiers == 0 {
        return Notice::note("nothing is left to be wrapped or sealed anew");
    }
    Notice::note(format!("wrapped data keys: {data_keys}; sealed values: {values}, passwords: {verifiers}"))
}

/// What could not be done. Each is named: it takes nothing else down.
fn trouble(failed: &BTreeMap<Left, VaultError>) -> Option<Notice> {
    if failed.is_empty() {
        return None;
    }
    let mut lines: Vec<String> =
        failed.iter().take(FAILED_LISTED_MAX).map(|(item, error)| format!("{item}: {error}")).collect();
    if failed.len() > FAILED_LISTED_MAX {
        lines.push(format!("and {} more", failed.len() - FAILED_LISTED_MAX));
    }
    let message = format!("{} could not be opened, and stay as they are", failed.len());
    Some(Notice::new(Severity::Warning, SqlState::DataCorrupted, message).with_detail(lines.join("\n")))
}

#[cfg(test)]
mod tests;
