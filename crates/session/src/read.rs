//! Statements that only read: SHOW, DESCRIBE, EXPLAIN, SELECT.

use std::sync::Arc;

use dataglot_model::{Explain, Read, SelectQuery, Sensitive, Show};

use crate::change::check_role_settings;
use crate::compiler::{StepRef, plan_step};
use crate::error::SessionError;
use crate::fresh::Look;
use crate::pipeline::Outcome;
use crate::session::Session;
use crate::set::SelectHost;
use crate::show::{self, ReadCx, change, secret_key, secret_problem};
use crate::value::Rows;
use crate::{seal, select};

/// Transactions read from the store at a time.
const CHANGES_PER_READ: usize = 500;

impl Session {
    /// SHOW, DESCRIBE, EXPLAIN.
    pub(crate) async fn read(&mut self, read: Read<Sensitive>) -> Result<Outcome, SessionError> {
        let newest = self.look(Look::Read).await?;
        let transaction = self.transaction.as_mut().ok_or_else(|| SessionError::bug("no transaction"))?;
        transaction.queried = true;
        let image = transaction.look_at(&newest).clone();
        let now = transaction.now;
        let actor = self.actor(&image)?;
        let engine = Arc::clone(&self.engine);
        let cx = ReadCx { image: &image, actor: &actor, now, ring: engine.ring() };
        let mut outcome = match read {
            Read::Show(show) => {
                let rows = match show::rows(cx, &show)? {
                    Some(rows) => rows,
                    None => self.beyond(cx, &show).await?,
                };
                Outcome::rows("SHOW", rows)
            }
            Read::Describe(describe) => Outcome::rows("DESCRIBE", show::describe::rows(cx, &describe)?),
            Read::Explain(Explain { format, command }) => {
                check_role_settings(&command)?;
                let sealed = self.sealed(&image, &actor, *command).await?;
                let step = StepRef { command: &sealed.command, password: sealed.password.as_ref() };
                let (plan, _) = plan_step(&image, &actor, now, &step).map_err(|r| r.error)?;
                let rows = show::explain::rows(format, &plan.mutations);
                Outcome { notices: plan.notices, rows: Some(rows), tag: "EXPLAIN".into() }
            }
        };
        outcome.notices.extend(self.staleness());
        Ok(outcome)
    }

    /// What the image does not know: history, and keys.
    async fn beyond(&self, cx: ReadCx<'_>, show: &Show) -> Result<Rows, SessionError> {
        let hub = self.engine.hub();
        match show {
            Show::Changes { since, limit } => {
                change::may_read(cx)?;
                let wanted = limit.map_or(change::CHANGES_MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
                let mut wanted = wanted.min(change::CHANGES_MAX);
                let mut after = *since;
                let mut rows = change::no_rows();
                while wanted > 0 {
                    self.check_interrupt()?;
                    let read = hub.changes(&self.org, after, wanted.min(CHANGES_PER_READ)).await;
                    let read = read.map_err(|e| SessionError::of(&e))?;
                    let Some(last) = read.last() else { break };
                    after = last.seq();
                    wanted = wanted.saturating_sub(read.len());
                    read.iter().for_each(|entry| change::push(&mut rows, entry));
                }
                Ok(rows)
            }
            Show::TransactionStatus(id) => {
                let seq = hub.transaction(&self.org, *id).await.map_err(|e| SessionError::of(&e))?;
                Ok(change::status(*id, seq))
            }
            Show::SecretKeys => {
                secret_key::may_read(cx)?;
                let canary = self.engine.canary().await?;
                let retired = self.engine.retired_keys().await?;
                Ok(secret_key::rows(&self.engine, cx.image, canary.as_deref(), &retired))
            }
            Show::SecretProblems => {
                secret_problem::may_read(cx)?;
                let mut recorded = seal::Recorded::default();
                while recorded.seq() < cx.image.seq() {
                    self.check_interrupt()?;
                    let read = hub.changes(&self.org, recorded.seq(), CHANGES_PER_READ).await;
                    let read = read.map_err(|e| SessionError::of(&e))?;
                    // What came after the image is not in it.
                    let of_image: Vec<_> = read.iter().filter(|entry| entry.seq() <= cx.image.seq()).collect();
                    if of_image.is_empty() {
                        break;
                    }
                    of_image.into_iter().for_each(|entry| recorded.note(entry));
                }
                secret_problem::rows(&self.engine, cx.image, recorded).await
            }
            Show::Objects { .. }
            | Show::Grants(_)
            | Show::CurrentRoles
            | Show::RoleGrants
            | Show::Create(_)
            | Show::Dependencies { .. }
            | Show::Orgs => Err(SessionError::bug("not a question for history")),
        }
    }

    pub(crate) async fn select(&mut self, query: &SelectQuery) -> Result<Outcome, SessionError> {
        let newest = self.look(Look::Read).await?;
        let transaction = self.transaction.as_mut().ok_or_else(|| SessionError::bug("no transaction"))?;
        transaction.queried = true;
        let image = transaction.look_at(&newest).clone();
        let actor = self.actor(&image)?;
        let mut host = SelectHost { session: self, image, actor };
        let rows = select::run(&mut host, query)?;
        let mut outcome = Outcome::rows(format!("SELECT {}", rows.rows.len()), rows);
        if query.from.is_some() {
            outcome.notices.extend(self.staleness());
        }
        Ok(outcome)
    }
}
