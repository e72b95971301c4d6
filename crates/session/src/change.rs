//! Statements that change the store: planned on the overlay of a block, or handed to the committer.

use std::sync::Arc;

use dataglot_grammar::{print, print_statement};
use dataglot_model::command::{AlterRole, AlterRoleAction};
use dataglot_model::{
    Actor, Command, Notice, OrgCommand, Sensitive, Seq, SqlState, Statement, Timestamp, TransactionId,
};
use dataglot_planner::Image;
use dataglot_store::{Submission, SubmitError};

use crate::audit::{Audited, Fate};
use crate::compiler::{Answer, Direct, OrgRequest, Refusal, Request, Step, StepRef, plan_step_into};
use crate::credentials::NewPassword;
use crate::error::SessionError;
use crate::fresh::Look;
use crate::pipeline::{Outcome, Way};
use crate::seal::{self, SealedCommand};
use crate::session::Session;
use crate::settings;

/// How often a statement whose credential was sealed against a value that is gone starts over.
const SEAL_ATTEMPTS_MAX: usize = 4;

/// The number of a transaction; `None`: it changed nothing.
pub(crate) type Committed = Option<Seq>;

/// Why a transaction was not committed.
pub(crate) enum SubmitFailure {
    /// Its credential has to be sealed again.
    Stale(SessionError),
    Other(SessionError),
}

impl Session {
    /// Plans a command on the transaction's overlay.
    pub(crate) async fn change(&mut self, command: Box<Command<Sensitive>>) -> Result<Outcome, SessionError> {
        let statement = self.audited(print(&command));
        let done = self.change_overlay(command, &statement).await;
        if let Err(error) = &done {
            let id = self.transaction.as_ref().and_then(|t| t.id);
            self.audit(&statement, id, Fate::of_error(error.code()));
        }
        done
    }

    async fn change_overlay(
        &mut self,
        command: Box<Command<Sensitive>>,
        statement: &Audited,
    ) -> Result<Outcome, SessionError> {
        check_role_settings(&command)?;
        let tag = command.tag();
        if self.transaction.as_ref().is_some_and(|t| t.read_only) {
            return Err(SessionError::read_only(tag));
        }
        let newest = self.look(Look::Write).await?;
        let transaction = self.transaction.as_mut().ok_or_else(|| SessionError::bug("no transaction"))?;
        transaction.queried = true;
        let now = transaction.now;
        let image = transaction.look_at(&newest).clone();
        let actor = self.actor(&image)?;
        let SealedCommand { command, has_credential, password, sets } = self.sealed(&image, &actor, *command).await?;
        let own_password = self.own_password(&image, sets);
        let step = StepRef { command: &command, password: password.as_ref() };
        // The transaction's image is changed in place, so nobody else may hold it. If the statement is
        // refused the image is lost, and nobody asks for it: the transaction has failed.
        drop(image);
        let transaction = self.transaction.as_mut().ok_or_else(|| SessionError::bug("no transaction"))?;
        let (plan, after) = plan_step_into(transaction.take_image()?, &actor, now, &step).map_err(|r| r.error)?;
        let notices = self.with_noop_notice(plan.notices.clone(), plan.mutations.is_empty());
        let transaction = self.transaction.as_mut().ok_or_else(|| SessionError::bug("no transaction"))?;
        if transaction.id.is_none() {
            transaction.id = Some(self.engine.transaction_id()?);
        }
        transaction.own_password = own_password.or(transaction.own_password);
        let sql = Arc::clone(&statement.sql);
        transaction.push(&actor, sql, (command, password), has_credential, plan, after)?;
        Ok(Outcome { notices, rows: None, tag: tag.into() })
    }

    /// Hands a command to the committer as it is: it alone is a transaction.
    pub(crate) async fn change_directly(&mut self, command: Box<Command<Sensitive>>) -> Result<Outcome, SessionError> {
        let statement = self.audited(print(&command));
        let mut id = self.engine.transaction_id()?;
        let done = self.change_alone(command, &statement, &mut id).await;
        self.audit_alone(&statement, id, &done);
        done.map(|(outcome, _)| outcome)
    }

    async fn change_alone(
        &mut self,
        command: Box<Command<Sensitive>>,
        statement: &Audited,
        id: &mut TransactionId,
    ) -> Result<(Outcome, Committed), SessionError> {
        check_role_settings(&command)?;
        if self.scoped.settings.is_on("default_transaction_read_only") {
            return Err(SessionError::read_only(command.tag()));
        }
        let now = self.now();
        let mut command = Some(command);
        for attempt in 1..=SEAL_ATTEMPTS_MAX {
            let newest = self.look(Look::Write).await?;
            let actor = self.actor(&newest.0)?;
            let again = command.take().ok_or_else(|| SessionError::bug("no command"))?;
            // What is sealed is sealed against the state.
            let keep = (again.carrier().is_some() && attempt < SEAL_ATTEMPTS_MAX).then(|| again.clone());
            let sealed = self.sealed(&newest.0, &actor, *again).await;
            let sealed = sealed.map(|sealed| self.direct(&newest.0, actor, now, &statement.sql, sealed));
            let (request, own_password) = match (sealed, keep.as_ref()) {
                (Ok(sealed), _) => sealed,
                // Refused on an image that may be older than the store: that is no decision.
                (Err(refused), Some(keep)) if attempt == 1 && self.engine.is_shared() => {
                    drop(newest);
                    Box::pin(self.interruptible(self.engine.refresh(&self.org))).await?;
                    command = Some(keep.clone());
                    tracing::debug!(sqlstate = refused.code().code(), pid = self.pid(), "decided again");
                    continue;
                }
                (Err(refused), _) => return Err(refused),
            };
            drop(newest);
            match (self.submit(id, request, now).await, keep) {
                (Err(SubmitFailure::Stale(_)), Some(keep)) => command = Some(keep),
                (Err(SubmitFailure::Stale(error) | SubmitFailure::Other(error)), _) => return Err(error),
                (Ok((answer, seq)), _) => {
                    self.keep_own_password(own_password).await;
                    return Ok((self.told(answer), seq));
                }
            }
        }
        Err(SessionError::bug("no attempt"))
    }

    /// What goes to the committer for a statement that is alone, and the password that it gives the session's own
    /// user.
    fn direct(
        &self,
        image: &Image,
        actor: Arc<Actor>,
        now: Timestamp,
        sql: &Arc<str>,
        sealed: SealedCommand,
    ) -> (Request, Option<NewPassword>) {
        let SealedCommand { command, has_credential: _, password, sets } = sealed;
        let step = Step { command, sql: Arc::clone(sql), password };
        (Request::Direct(Box::new(Direct { actor, now, step })), self.own_password(image, sets))
    }

    /// `command` without plaintext. Most carry none, and cost nothing here.
    ///
    /// # Errors
    /// As for [`seal::seal`]; the statement is to stop.
    pub(crate) async fn sealed(
        &self,
        image: &Image,
        actor: &Actor,
        command: Command<Sensitive>,
    ) -> Result<SealedCommand, SessionError> {
        let loose = match seal::loosen(image, actor, command) {
            Ok(sealed) => return Ok(sealed),
            Err(loose) => loose,
        };
        let work = seal::seal(&self.engine, image, actor, self.password_kind(), loose);
        Box::pin(self.interruptible(work)).await
    }

    /// As the audit stream names a statement of the session's.
    pub(crate) fn audited(&self, sql: String) -> Audited {
        Audited { actor: Arc::clone(&self.scoped.identity.current().actor), sql: sql.into() }
    }

    /// Leaves an event for a statement that was a transaction of its own, unless it changed nothing.
    fn audit_alone(
        &mut self,
        statement: &Audited,
        id: TransactionId,
        done: &Result<(Outcome, Committed), SessionError>,
    ) {
        match done {
            Ok((_, Some(seq))) => self.audit(statement, Some(id), Fate::Done(Some(*seq))),
            Ok((_, None)) => {}
            Err(error) => self.audit(statement, Some(id), Fate::of_error(error.code())),
        }
    }

    /// CREATE ORG, DROP ORG: never in a block.
    pub(crate) async fn org_command(
        &mut self,
        command: OrgCommand<Sensitive>,
        way: Way,
    ) -> Result<Outcome, SessionError> {
        let statement = Statement::Org(command);
        let audited = self.audited(print_statement(&statement));
        let Statement::Org(command) = statement else { return Err(SessionError::bug("no org command")) };
        let mut id = self.engine.transaction_id()?;
        let done = self.change_orgs(command, way, &audited, &mut id).await;
        self.audit_alone(&audited, id, &done);
        done.map(|(outcome, _)| outcome)
    }

    /// Refuses a statement that commits by itself where it is not alone, or may not write.
    pub(crate) fn require_alone(&self, tag: &str, way: Way) -> Result<(), SessionError> {
        let is_alone = match &self.transaction {
            Some(t) => !t.explicit && !t.queried && way == Way::Extended,
            None => way != Way::Script,
        };
        if !is_alone {
            let message = format!("{tag} cannot run inside a transaction block");
            return Err(SessionError::new(SqlState::ActiveTransaction, message));
        }
        if self.scoped.settings.is_on("default_transaction_read_only") {
            return Err(SessionError::read_only(tag));
        }
        if self.scoped.settings.is_on("dry_run") {
            return Err(SessionError::unsupported(format_args!("{tag} while dry_run is on")));
        }
        Ok(())
    }

    async fn change_orgs(
        &mut self,
        command: OrgCommand<Sensitive>,
        way: Way,
        statement: &Audited,
        id: &mut TransactionId,
    ) -> Result<(Outcome, Committed), SessionError> {
        let tag = command.tag();
        self.require_alone(tag, way)?;
        let now = self.now();
        // Rare, and its password is judged here: so on what the store has.
        self.interruptible(self.engine.refresh(&self.org)).await?;
        let newest = self.newest().await?;
        let actor = self.actor(&newest.0)?;
        let engine = Arc::clone(&self.engine);
        let kind = self.password_kind();
        let command = self.interruptible(seal::seal_org(&engine, &newest.0, &actor, kind, command)).await?;
        drop(newest);
        let dropped = match &command {
            OrgCommand::Drop { name, .. } => Some(name.value.clone()),
            OrgCommand::Create { .. } => None,
        };
        let sql = Arc::clone(&statement.sql);
        let request = Request::Org(Box::new(OrgRequest { actor, now, command, sql }));
        match self.submit(id, request, now).await {
            Ok((answer, seq)) => {
                dropped.iter().for_each(|org| self.engine.data_keys().forget(org));
                Ok((self.told(answer), seq))
            }
            Err(SubmitFailure::Stale(error) | SubmitFailure::Other(error)) => Err(error),
        }
    }

    /// What the committer answered for a single statement.
    fn told(&self, answer: Answer) -> Outcome {
        match answer {
            Answer::Done { tag, notices, changed } => {
                Outcome { notices: self.with_noop_notice(notices, !changed), rows: None, tag: tag.into() }
            }
            Answer::AsPlanned => Outcome::tag("COMMIT"),
        }
    }

    fn with_noop_notice(&self, mut notices: Vec<Notice>, is_noop: bool) -> Vec<Notice> {
        if is_noop && self.scoped.settings.is_on("verbose_noop") {
            notices.push(Notice::note("nothing to change"));
        }
        notices
    }

    /// Puts a transaction in the queue and waits for what becomes of it. A cancel or a timeout takes it
    /// back if the committer has not got it yet; otherwise its outcome is waited for. `id` is what it is called
    /// in the end, or, if it is stale, what the next try is to be called.
    pub(crate) async fn submit(
        &mut self,
        id: &mut TransactionId,
        request: Request,
        at: Timestamp,
    ) -> Result<(Answer, Committed), SubmitFailure> {
        let actor = self.scoped.identity.current().actor.session_user.clone();
        let submission = Submission { org: self.org.clone(), id: *id, at, actor, session: self.mark(), request };
        let mut ticket = self.engine.hub().submit(submission);
        let done = tokio::select! {
            biased;
            done = &mut ticket => done,
            why = self.interrupted() => {
                if ticket.cancel() {
                    return Err(SubmitFailure::Other(why));
                }
                ticket.await
            }
        };
        match done {
            Ok(done) => {
                *id = done.id;
                let seq = done.seq.map(|s| s.0);
                tracing::debug!(org = self.org.as_str(), seq, pid = self.pid(), "committed");
                // Without a number it changed nothing: what it was decided on is published by now.
                match done.seq {
                    Some(seq) => self.see(seq),
                    None => self.see_newest().await,
                }
                Ok((done.answer, done.seq))
            }
            Err(SubmitError::Refused(Refusal { error, stale: true })) => {
                *id = self.engine.transaction_id().map_err(SubmitFailure::Other)?;
                Err(SubmitFailure::Stale(error))
            }
            Err(error) => Err(SubmitFailure::Other(match error {
                SubmitError::Refused(refusal) => refusal.error,
                SubmitError::Full => {
                    SessionError::new(SqlState::TooManyConnections, "too many transactions are waiting to be committed")
                        .with_hint("Try again.")
                }
                SubmitError::Stopped => {
                    SessionError::new(SqlState::AdminShutdown, "terminating connection due to administrator command")
                        .fatal()
                }
                SubmitError::Withdrawn => SessionError::canceled(),
                SubmitError::Failed(error) => SessionError::of(&error),
                SubmitError::Unknown(its) => {
                    *id = its;
                    SessionError::new(
                        SqlState::TransactionResolutionUnknown,
                        "it is not known whether the transaction was committed",
                    )
                    .with_detail(format!("Its id is {its}."))
                    .with_hint(format!("Ask later with SHOW TRANSACTION STATUS '{its}'."))
                }
            })),
        }
    }
}

/// `ALTER ROLE … SET`: the planner takes any text, so what a setting takes is checked here.
pub(crate) fn check_role_settings(command: &Command<Sensitive>) -> Result<(), SessionError> {
    let Command::AlterRole(AlterRole { action, .. }) = command else { return Ok(()) };
    match action {
        AlterRoleAction::Set { name, value } => settings::check(name, value).map(drop).map_err(|e| e.at(name.span)),
        AlterRoleAction::Reset(name) => settings::check_name(name).map_err(|e| e.at(name.span)),
        AlterRoleAction::Attributes { .. } | AlterRoleAction::Rename { .. } | AlterRoleAction::ResetAll => Ok(()),
    }
}
