//! One query string, from its text to its answers.
//!
//! A string of several statements is one transaction. Nothing of it has run if one of its statements
//! has a syntax error: as long as only the overlay is touched, answers are held back until the whole
//! text has been read, so each statement is parsed once and its command dropped after it was planned.
//! Before the first statement that touches more (COMMIT, SET, LISTEN, …) the rest of the text is read
//! ahead.

use std::borrow::Cow;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use dataglot_grammar::{Parameters, ParseCx, Parsed, parse, print_statement, split};
use dataglot_model::{Notice, Sensitive, Severity, SqlState, Statement, TransactionCommand};

use crate::access::{decides_access, may_be_denied};
use crate::audit::Fate;
use crate::error::SessionError;
use crate::interrupt::guard;
use crate::read_ahead::{self, ReadAhead};
use crate::response::{Response, Sink};
use crate::session::Session;
use crate::transaction::{Transaction, dry_run};
use crate::value::{Rows, encode};

/// After so many statements of a script the thread is lent to other sessions.
const STATEMENTS_PER_TURN: usize = 64;

/// What a statement comes to.
pub(crate) struct Outcome {
    pub(crate) notices: Vec<Notice>,
    pub(crate) rows: Option<Rows>,
    pub(crate) tag: Cow<'static, str>,
}

impl Outcome {
    pub(crate) fn tag(tag: impl Into<Cow<'static, str>>) -> Self {
        Outcome { notices: Vec::new(), rows: None, tag: tag.into() }
    }

    pub(crate) fn rows(tag: impl Into<Cow<'static, str>>, rows: Rows) -> Self {
        Outcome { notices: Vec::new(), rows: Some(rows), tag: tag.into() }
    }
}

/// How a statement came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Alone in its query string.
    Alone,
    /// One of several of a query string.
    Script,
    /// By Execute.
    Extended,
}

impl Session {
    /// Runs a query string. Everything that the client gets before ReadyForQuery goes to `out`.
    pub async fn simple(&mut self, sql: &str, out: &mut dyn Sink) {
        if !self.settle(out).await {
            return;
        }
        self.cancel.arm();
        let done = guard(pin!(self.run_string(sql, out))).await;
        self.cancel.disarm();
        self.deadline = None;
        match done {
            Some(Ok(())) => {}
            Some(Err(error)) => self.failed(error, sql, out),
            None => self.broken(out),
        }
        self.announce(out).await;
    }

    /// A statement failed: so has its transaction.
    pub(crate) fn failed(&mut self, error: SessionError, sql: &str, out: &mut dyn Sink) {
        let code = error.code();
        match &mut self.transaction {
            Some(transaction) if transaction.explicit => {
                let id = transaction.id;
                let undone = transaction.fail();
                self.audit_all(&undone, id, Fate::RolledBack(Some(code)));
            }
            Some(_) => self.roll_back_with(Some(code)),
            None => {}
        }
        tracing::debug!(sqlstate = code.code(), pid = self.pid(), "statement failed");
        let report = error.into_report();
        let position = report.span.and_then(|span| span.char_position(sql));
        if report.severity == Severity::Fatal {
            self.roll_back_with(Some(code));
            self.end_with(report.clone());
        }
        out.send(Response::Error { report, position });
    }

    /// A statement panicked: the session cannot be trusted any more.
    pub(crate) fn broken(&mut self, out: &mut dyn Sink) {
        self.roll_back_with(Some(SqlState::InternalError));
        let report = SessionError::bug("a statement panicked").fatal().into_report();
        self.end_with(report.clone());
        out.send(Response::Error { report, position: None });
    }

    async fn run_string(&mut self, sql: &str, out: &mut dyn Sink) -> Result<(), SessionError> {
        let ranges = split(sql, &self.engine.config().limits).map_err(|e| SessionError::of(&e))?;
        match ranges.as_slice() {
            [] => {
                out.send(Response::EmptyQuery);
                self.end_implicit().await.map(|notices| self.say(notices, out))
            }
            [only] => self.run_alone(sql, only.clone(), out).await,
            several => Box::pin(self.run_script(sql, several, out)).await,
        }
    }

    /// The only statement of a string. Most are one, and most of these take the direct road: its future is kept
    /// small by boxes, for what a statement is and for where else it may go.
    async fn run_alone(&mut self, sql: &str, range: Range<usize>, out: &mut dyn Sink) -> Result<(), SessionError> {
        self.start_statement();
        let statement = {
            let Parsed { statement, notices, parameters: _ } = self.parse_one(sql, range, Parameters::None)?;
            self.say(notices, out);
            Box::new(statement)
        };
        let outcome = match *statement {
            // The direct road: no overlay, one plan, in the committer.
            Statement::Change(command) if self.transaction.is_none() && !self.scoped.settings.is_on("dry_run") => {
                self.change_directly(Box::new(command)).await?
            }
            statement @ (Statement::Change(_)
            | Statement::Org(_)
            | Statement::Read(_)
            | Statement::Transaction(_)
            | Statement::Session(_)
            | Statement::Select(_)
            | Statement::Rewrap) => Box::pin(self.run(statement, Way::Alone)).await?,
        };
        let Outcome { notices, rows, tag } = outcome;
        self.say(notices, out);
        send_rows(rows, out);
        let notices = self.end_implicit().await?;
        self.say(notices, out);
        out.send(Response::Complete(tag.into_owned()));
        Ok(())
    }

    /// A string of several statements.
    async fn run_script(&mut self, sql: &str, ranges: &[Range<usize>], out: &mut dyn Sink) -> Result<(), SessionError> {
        let mut held = Held { back: Some(Vec::with_capacity(ranges.len())), out };
        let last = ranges.len() - 1;
        let mut ahead = None;
        if ranges.len() >= read_ahead::STATEMENTS_MIN {
            let (path, limits) = (self.scoped.settings.search_path().clone(), self.engine.config().limits.clone());
            ahead = ReadAhead::start(sql, ranges, path, limits);
        }
        for (number, range) in ranges.iter().enumerate() {
            if number % STATEMENTS_PER_TURN == STATEMENTS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            self.start_statement();
            let rest = ranges.get(number + 1..).unwrap_or_default();
            let done = self.run_one(sql, range.clone(), rest, number == last, &mut ahead, &mut held).await;
            if let Err(error) = done {
                // A syntax error further on comes first: then nothing of the string has run.
                if held.is_holding()
                    && !is_syntax(&error)
                    && let Some(syntax) = self.first_syntax_error(sql, rest).await
                {
                    held.drop_all();
                    return Err(syntax);
                }
                if held.is_holding() && is_syntax(&error) {
                    held.drop_all();
                }
                held.release();
                return Err(error);
            }
        }
        held.release();
        Ok(())
    }

    async fn run_one(
        &mut self,
        sql: &str,
        range: Range<usize>,
        rest: &[Range<usize>],
        is_last: bool,
        ahead: &mut Option<ReadAhead>,
        held: &mut Held<'_>,
    ) -> Result<(), SessionError> {
        self.check_interrupt()?;
        let parsed = match ahead {
            Some(reader) => reader.next().await,
            None => None,
        };
        let Parsed { statement, notices, parameters: _ } = match parsed {
            Some(parsed) => parsed.map_err(|e| SessionError::of(&e))?,
            None => {
                *ahead = None;
                self.parse_one(sql, range, Parameters::None)?
            }
        };
        // A SELECT may call set_config.
        if !touches_overlay_only(&statement) || matches!(statement, Statement::Select(_)) {
            *ahead = None;
        }
        if held.is_holding() && !touches_overlay_only(&statement) {
            if let Some(syntax) = self.first_syntax_error(sql, rest).await {
                return Err(syntax);
            }
            held.release();
        }
        self.say(notices, held);
        let Outcome { notices, rows, tag } = self.run(statement, Way::Script).await?;
        self.say(notices, held);
        send_rows(rows, held);
        if is_last {
            let notices = self.end_implicit().await?;
            self.say(notices, held);
        }
        held.complete(tag);
        Ok(())
    }

    /// The first syntax error in the statements that have not been read.
    async fn first_syntax_error(&self, sql: &str, rest: &[Range<usize>]) -> Option<SessionError> {
        for (number, range) in rest.iter().enumerate() {
            if number % STATEMENTS_PER_TURN == STATEMENTS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
            if let Err(error) = self.parse_one(sql, range.clone(), Parameters::None)
                && is_syntax(&error)
            {
                return Some(error);
            }
        }
        None
    }

    pub(crate) fn parse_one(
        &self,
        sql: &str,
        range: Range<usize>,
        parameters: Parameters<'_>,
    ) -> Result<Parsed, SessionError> {
        let search_path = self.scoped.settings.search_path();
        let cx = ParseCx { search_path, parameters, limits: &self.engine.config().limits };
        parse(sql, range, &cx).map_err(|e| SessionError::of(&e))
    }

    /// Runs a statement in the transaction that there is, or in an implicit one that it begins.
    pub(crate) async fn run(&mut self, statement: Statement<Sensitive>, way: Way) -> Result<Outcome, SessionError> {
        if self.transaction.as_ref().is_some_and(|t| t.failed) && !statement.allowed_when_failed() {
            return Err(SessionError::in_failed_transaction());
        }
        if decides_access(&statement) {
            self.check_lease()?;
        }
        if !looks_for_itself(&statement) {
            // Whose session it is may have lost the right to log in.
            self.newest().await?;
        }
        // A change is judged, and audited, when it is planned.
        let refusable = may_be_denied(&statement).then(|| self.audited(print_statement(&statement)));
        let done = self.run_allowed(statement, way).await;
        if let (Err(error), Some(refused)) = (&done, refusable)
            && error.code() == SqlState::InsufficientPrivilege
        {
            self.audit(&refused, None, Fate::Refused(error.code()));
        }
        done
    }

    async fn run_allowed(&mut self, statement: Statement<Sensitive>, way: Way) -> Result<Outcome, SessionError> {
        match statement {
            Statement::Transaction(command) => self.transaction_command(command, way).await,
            Statement::Org(command) => Box::pin(self.org_command(command, way)).await,
            Statement::Rewrap => Box::pin(self.rewrap(way)).await,
            Statement::Change(command) => {
                self.begin_implicit(way);
                self.change(Box::new(command)).await
            }
            Statement::Read(read) => {
                self.begin_implicit(way);
                self.read(read).await
            }
            Statement::Select(query) => {
                self.begin_implicit(way);
                self.select(&query).await
            }
            Statement::Session(command) => {
                self.begin_implicit(way);
                self.session_command(command, way).await
            }
        }
    }

    /// Sends notices that the client wants to see.
    pub(crate) fn say(&self, notices: Vec<Notice>, out: &mut dyn Sink) {
        for notice in notices {
            if self.scoped.settings.shows(notice.severity) {
                out.send(Response::Notice(notice));
            }
        }
    }

    /// Begins a transaction that ends with the message, unless there is one.
    pub(crate) fn begin_implicit(&mut self, way: Way) {
        let mut transaction = self.transaction.take().unwrap_or_else(|| self.new_transaction(false));
        transaction.spans |= way == Way::Script;
        self.transaction = Some(transaction);
    }

    /// Commits the transaction of the message, if it is not a block.
    pub(crate) async fn end_implicit(&mut self) -> Result<Vec<Notice>, SessionError> {
        if self.transaction.as_ref().is_none_or(|t| t.explicit) {
            return Ok(Vec::new());
        }
        let dry = self.scoped.settings.is_on("dry_run");
        let changes = self.transaction.as_ref().is_some_and(Transaction::changes);
        Box::pin(self.commit()).await?;
        Ok(if dry && changes { vec![dry_run()] } else { Vec::new() })
    }
}

/// Answers that may still turn out never to have been given.
struct Held<'a> {
    back: Option<Vec<HeldAnswer>>,
    out: &'a mut dyn Sink,
}

/// One of them. A script has a hundred thousand tags and hardly anything else: they have to be small.
enum HeldAnswer {
    Tag(Cow<'static, str>),
    Other(Box<Response>),
}

impl Held<'_> {
    fn is_holding(&self) -> bool {
        self.back.is_some()
    }

    fn complete(&mut self, tag: Cow<'static, str>) {
        match &mut self.back {
            Some(back) => back.push(HeldAnswer::Tag(tag)),
            None => self.out.send(Response::Complete(tag.into_owned())),
        }
    }

    fn drop_all(&mut self) {
        self.back = None;
    }

    /// What was held back is sent, and nothing is held back any more.
    fn release(&mut self) {
        for answer in self.back.take().into_iter().flatten() {
            self.out.send(match answer {
                HeldAnswer::Tag(tag) => Response::Complete(tag.into_owned()),
                HeldAnswer::Other(response) => *response,
            });
        }
    }
}

impl Sink for Held<'_> {
    fn send(&mut self, response: Response) {
        match &mut self.back {
            Some(back) => back.push(HeldAnswer::Other(Box::new(response))),
            None => self.out.send(response),
        }
    }
}

fn send_rows(rows: Option<Rows>, out: &mut dyn Sink) {
    let Some(Rows { columns, rows }) = rows else { return };
    out.send(Response::RowDescription(Arc::clone(&columns), vec![0; columns.len()]));
    for row in rows {
        out.send(Response::Row(encode(&row, &columns, &[])));
    }
}

/// Whether an error says that the text is no statement: then nothing of its string runs. What a text
/// asks for and cannot have is found when its turn comes, as in PostgreSQL.
fn is_syntax(error: &SessionError) -> bool {
    matches!(
        error.code(),
        SqlState::SyntaxError
            | SqlState::ProgramLimitExceeded
            | SqlState::StatementTooComplex
            | SqlState::CharacterNotInRepertoire
    )
}

/// Whether a statement looks at the image when it runs, which tells a session that is over. The others are to
/// tell it too, all but those that only undo.
fn looks_for_itself(statement: &Statement<Sensitive>) -> bool {
    match statement {
        Statement::Change(_)
        | Statement::Read(_)
        | Statement::Select(_)
        | Statement::Org(_)
        | Statement::Rewrap
        | Statement::Transaction(TransactionCommand::Rollback { .. } | TransactionCommand::RollbackTo(_)) => true,
        Statement::Transaction(
            TransactionCommand::Begin { .. }
            | TransactionCommand::Commit { .. }
            | TransactionCommand::Savepoint(_)
            | TransactionCommand::Release(_)
            | TransactionCommand::SetTransaction(_)
            | TransactionCommand::SetCharacteristics(_),
        )
        | Statement::Session(_) => false,
    }
}

/// Whether a statement does nothing that dropping the transaction would not undo.
fn touches_overlay_only(statement: &Statement<Sensitive>) -> bool {
    match statement {
        Statement::Change(_) | Statement::Read(_) | Statement::Select(_) => true,
        Statement::Org(_) | Statement::Transaction(_) | Statement::Session(_) | Statement::Rewrap => false,
    }
}
