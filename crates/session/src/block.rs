//! BEGIN, COMMIT, ROLLBACK, savepoints: the edges of transactions, as PostgreSQL has them.

use dataglot_model::{Notice, SqlState, TransactionCommand, TransactionModes};

use crate::audit::Fate;
use crate::change::SubmitFailure;
use crate::compiler::Request;
use crate::error::SessionError;
use crate::pipeline::{Outcome, Way};
use crate::session::Session;
use crate::settings::{ISOLATION_DEFAULT, isolation_named};
use crate::transaction::{Transaction, already_in_progress, dry_run, no_transaction, only_in_blocks};

impl Session {
    /// A transaction that has looked at nothing yet.
    pub(crate) fn new_transaction(&self, explicit: bool) -> Transaction {
        let settings = &self.scoped.settings;
        let isolation = settings.get("default_transaction_isolation");
        let isolation = isolation.as_deref().and_then(isolation_named).unwrap_or(ISOLATION_DEFAULT);
        let read_only = settings.is_on("default_transaction_read_only");
        Transaction::new(explicit, self.engine.now(), isolation, read_only, self.scoped.clone())
    }

    /// Runs a statement that begins, ends or divides a transaction.
    pub(crate) async fn transaction_command(
        &mut self,
        command: TransactionCommand,
        way: Way,
    ) -> Result<Outcome, SessionError> {
        match command {
            TransactionCommand::Begin { start, modes } => self
                .begin(modes)
                .map(|notices| Outcome { notices, ..Outcome::tag(if start { "START TRANSACTION" } else { "BEGIN" }) }),
            TransactionCommand::Commit { chain } => Box::pin(self.commit_command(chain)).await,
            TransactionCommand::Rollback { chain } => self.rollback_command(chain),
            TransactionCommand::Savepoint(name) => {
                let scoped = self.scoped.clone();
                self.block("SAVEPOINT")?.savepoint(&name, scoped)?;
                Ok(Outcome::tag("SAVEPOINT"))
            }
            TransactionCommand::Release(name) => {
                self.block("RELEASE SAVEPOINT")?.release(&name).map_err(|e| e.at(name.span))?;
                Ok(Outcome::tag("RELEASE"))
            }
            TransactionCommand::RollbackTo(name) => {
                let block = self.block("ROLLBACK TO SAVEPOINT")?;
                let id = block.id;
                let (scoped, undone) = block.rollback_to(&name).map_err(|e| e.at(name.span))?;
                self.audit_all(&undone, id, Fate::RolledBack(None));
                self.scoped = scoped;
                Ok(Outcome::tag("ROLLBACK"))
            }
            TransactionCommand::SetTransaction(modes) => {
                let mut outcome = Outcome::tag("SET");
                match &mut self.transaction {
                    Some(transaction) => transaction.set_modes(modes)?,
                    None if way == Way::Script => {
                        self.begin_implicit(way);
                        self.transaction.as_mut().map_or(Ok(()), |t| t.set_modes(modes))?;
                    }
                    None => outcome.notices.push(only_in_blocks("SET TRANSACTION")),
                }
                Ok(outcome)
            }
            TransactionCommand::SetCharacteristics(modes) => {
                self.set_characteristics(modes, way)?;
                Ok(Outcome::tag("SET"))
            }
        }
    }

    fn begin(&mut self, modes: TransactionModes) -> Result<Vec<Notice>, SessionError> {
        match &mut self.transaction {
            Some(transaction) if transaction.explicit => Ok(vec![already_in_progress()]),
            // The statements before it in the same message become a part of the block.
            Some(transaction) => {
                transaction.set_modes(modes)?;
                transaction.explicit = true;
                transaction.spans = true;
                Ok(Vec::new())
            }
            None => {
                let mut transaction = self.new_transaction(true);
                transaction.set_modes(modes)?;
                self.transaction = Some(transaction);
                Ok(Vec::new())
            }
        }
    }

    async fn commit_command(&mut self, chain: bool) -> Result<Outcome, SessionError> {
        let Some(transaction) = &self.transaction else {
            return without_block("COMMIT", chain);
        };
        if !transaction.explicit {
            let outcome = without_block("COMMIT", chain)?;
            self.commit().await?;
            return Ok(outcome);
        }
        let now = self.engine.now();
        if transaction.failed {
            // The answer is the tag: no error, as in PostgreSQL.
            self.roll_back_chained(chain, now);
            return Ok(Outcome::tag("ROLLBACK"));
        }
        let next = transaction.chained(now, self.scoped.clone());
        let dry = self.scoped.settings.is_on("dry_run");
        self.commit().await?;
        if chain {
            let mut next = next;
            next.before = self.scoped.clone();
            self.transaction = Some(next);
        }
        Ok(if dry { Outcome { notices: vec![dry_run()], ..Outcome::tag("ROLLBACK") } } else { Outcome::tag("COMMIT") })
    }

    fn rollback_command(&mut self, chain: bool) -> Result<Outcome, SessionError> {
        match &self.transaction {
            Some(transaction) if transaction.explicit => {
                let now = self.engine.now();
                self.roll_back_chained(chain, now);
                Ok(Outcome::tag("ROLLBACK"))
            }
            Some(_) | None => {
                let outcome = without_block("ROLLBACK", chain)?;
                self.roll_back();
                Ok(outcome)
            }
        }
    }

    fn roll_back_chained(&mut self, chain: bool, now: dataglot_model::Timestamp) {
        let next = self.transaction.as_ref().map(|t| t.chained(now, t.before.clone()));
        self.roll_back();
        if chain {
            self.transaction = next;
        }
    }

    /// Ends the transaction: all that it did goes, settings included.
    pub(crate) fn roll_back(&mut self) {
        self.roll_back_with(None);
    }

    /// The same, for a reason.
    pub(crate) fn roll_back_with(&mut self, why: Option<SqlState>) {
        if let Some(transaction) = self.transaction.take() {
            self.audit_all(&transaction.audited(0), transaction.id, Fate::RolledBack(why));
            self.scoped = transaction.before;
            self.scoped.end_local();
            self.prepared.close_portals();
        }
    }

    /// Ends the transaction: all that it did is durable, or (with `dry_run`) goes.
    ///
    /// # Errors
    /// It was rolled back instead, or is to be: that of [`Session::newest`].
    pub(crate) async fn commit(&mut self) -> Result<(), SessionError> {
        if self.transaction.as_ref().is_some_and(|t| t.changes() || t.listen == Some(true)) {
            // Who may not log in any more commits nothing, however long ago its statements were answered.
            self.newest().await?;
        }
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        self.prepared.close_portals();
        let before = transaction.before.clone();
        let (listen, own_password) = (transaction.listen, transaction.own_password);
        let now = transaction.now;
        let (id, statements) = (transaction.id, transaction.audited(0));
        if self.scoped.settings.is_on("dry_run") {
            self.audit_all(&statements, id, Fate::RolledBack(None));
        } else if let Some(planned) = transaction.into_planned() {
            let mut id = id.ok_or_else(|| SessionError::bug("a transaction without an id"))?;
            match self.submit(&mut id, Request::Planned(Box::new(planned)), now).await {
                Ok((_, seq)) => {
                    self.keep_own_password(own_password).await;
                    self.audit_all(&statements, Some(id), Fate::Done(seq));
                }
                Err(SubmitFailure::Stale(error) | SubmitFailure::Other(error)) => {
                    self.audit_all(&statements, Some(id), Fate::of_commit_error(error.code()));
                    self.scoped = before;
                    self.scoped.end_local();
                    return Err(error.nowhere());
                }
            }
        }
        self.scoped.end_local();
        if let Some(on) = listen {
            self.listen(on).await;
        }
        Ok(())
    }

    /// The block that there is.
    ///
    /// # Errors
    /// 25P01: there is none.
    fn block(&mut self, tag: &str) -> Result<&mut Transaction, SessionError> {
        self.transaction.as_mut().filter(|t| t.explicit).ok_or_else(|| SessionError::needs_block(tag))
    }

    fn set_characteristics(&mut self, modes: TransactionModes, way: Way) -> Result<(), SessionError> {
        let TransactionModes { isolation, read_only, deferrable } = modes;
        self.begin_implicit(way);
        let on = |truth: bool| if truth { "on" } else { "off" };
        let settings = [
            ("default_transaction_isolation", isolation.map(|i| i.as_str())),
            ("default_transaction_read_only", read_only.map(on)),
            ("default_transaction_deferrable", deferrable.map(on)),
        ];
        for (name, value) in settings {
            if let Some(value) = value {
                self.scoped.settings.set(dataglot_model::SetScope::Session, name, Some(value))?;
            }
        }
        Ok(())
    }
}

/// COMMIT or ROLLBACK outside of a block: a warning, and with AND CHAIN an error.
fn without_block(tag: &'static str, chain: bool) -> Result<Outcome, SessionError> {
    if chain {
        let message = format!("{tag} AND CHAIN can only be used in transaction blocks");
        return Err(SessionError::new(SqlState::NoActiveTransaction, message));
    }
    Ok(Outcome { notices: vec![no_transaction()], ..Outcome::tag(tag) })
}
