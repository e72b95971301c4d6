//! The extended protocol: prepared statements and portals, as PostgreSQL has them.
//!
//! Parse looks at the syntax alone; names and rights are judged by Execute. Everything up to Sync is
//! one transaction. The text of a prepared statement and the values of a portal may hold credentials,
//! so both are kept as such and wiped when they go.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;

use dataglot_grammar::{Parameters, Parsed, split};
use dataglot_model::{Notice, Read, Sensitive, SessionCommand, SqlState, Statement};

use crate::error::SessionError;
use crate::interrupt::guard;
use crate::lone::Lone;
use crate::parameter::decode;
use crate::pipeline::{Outcome, Way};
use crate::response::{Column, Response, Sink};
use crate::session::Session;
use crate::set::{ALL_COLUMNS, SelectHost, show_columns};
use crate::transaction::Transaction;
use crate::value::{Rows, Value, columns_of, encode, formats};
use crate::{select, show};

/// Most prepared statements of a session.
const STATEMENTS_MAX: usize = 1_000;
/// Most bytes that the texts of prepared statements take.
const STATEMENT_BYTES_MAX: usize = 64 << 20;
/// Most bytes that portals take: their values and the rows that wait in them.
const PORTAL_BYTES_MAX: usize = 16 << 20;
/// Most portals of a session.
const PORTALS_MAX: usize = 1_000;

/// The prepared statements and portals of a session.
#[derive(Default)]
pub(crate) struct Prepared {
    statements: BTreeMap<String, Arc<Entry>>,
    portals: BTreeMap<String, Portal>,
    /// A statement has run since the last Sync.
    pub(crate) has_run: bool,
    /// An Execute that waits for the next message.
    pub(crate) lone: Option<Box<Lone>>,
}

/// A prepared statement.
struct Entry {
    sql: Sensitive,
    /// Where the statement stands in the text. `None`: there is none.
    range: Option<std::ops::Range<usize>>,
    /// The types of its parameters.
    types: Vec<u32>,
}

struct Portal {
    entry: Arc<Entry>,
    values: Vec<Option<Sensitive>>,
    formats: Vec<i16>,
    bytes: usize,
    /// What is left of its answer, once it has run.
    answer: Option<Left>,
}

struct Left {
    columns: Arc<[Column]>,
    formats: Vec<i16>,
    rows: VecDeque<Vec<Value>>,
    has_rows: bool,
    tag: Cow<'static, str>,
}

impl Left {
    /// Of a statement that answers no rows.
    fn tag(tag: Cow<'static, str>) -> Self {
        Left { columns: columns_of(&[]), formats: Vec::new(), rows: VecDeque::new(), has_rows: false, tag }
    }
}

impl Prepared {
    /// Portals end with their transaction.
    pub(crate) fn close_portals(&mut self) {
        self.portals.clear();
    }

    /// A command has run that came by that portal.
    pub(crate) fn has_answered(&mut self, portal: &str, tag: Cow<'static, str>) {
        if let Some(portal) = self.portals.get_mut(portal) {
            portal.answer = Some(Left::tag(tag));
        }
    }

    pub(crate) fn deallocate(&mut self, name: &str) -> Result<(), SessionError> {
        self.statements.remove(name).map(drop).ok_or_else(|| no_statement(name))
    }

    pub(crate) fn deallocate_all(&mut self) {
        self.statements.clear();
    }

    fn statement(&self, name: &str) -> Result<Arc<Entry>, SessionError> {
        self.statements.get(name).cloned().ok_or_else(|| no_statement(name))
    }

    fn portal(&mut self, name: &str) -> Result<&mut Portal, SessionError> {
        self.portals
            .get_mut(name)
            .ok_or_else(|| SessionError::new(SqlState::InvalidCursorName, format!("portal \"{name}\" does not exist")))
    }

    /// Room for one more statement of so many bytes.
    fn check_statements(&self, bytes: usize) -> Result<(), SessionError> {
        let used: usize = self.statements.values().map(|s| s.sql.open().len()).sum();
        if self.statements.len() >= STATEMENTS_MAX || used + bytes > STATEMENT_BYTES_MAX {
            let detail = format!("A session may have at most {STATEMENTS_MAX}, of {STATEMENT_BYTES_MAX} bytes in all.");
            return Err(SessionError::new(SqlState::ConfigurationLimitExceeded, "too many prepared statements")
                .with_detail(detail)
                .with_hint("Use DEALLOCATE for those that are not needed any more."));
        }
        Ok(())
    }

    fn check_portals(&self, bytes: usize) -> Result<(), SessionError> {
        let used: usize = self.portals.values().map(|p| p.bytes).sum();
        if self.portals.len() >= PORTALS_MAX || used + bytes > PORTAL_BYTES_MAX {
            let detail = format!("A session may have at most {PORTALS_MAX}, of {PORTAL_BYTES_MAX} bytes in all.");
            return Err(SessionError::new(SqlState::ConfigurationLimitExceeded, "too many portals").with_detail(detail));
        }
        Ok(())
    }
}

fn no_statement(name: &str) -> SessionError {
    let message = if name.is_empty() {
        "unnamed prepared statement does not exist".to_owned()
    } else {
        format!("prepared statement \"{name}\" does not exist")
    };
    SessionError::new(SqlState::InvalidStatementName, message)
}

impl Session {
    /// Parse: remembers a statement under a name; under the empty one until the next of it.
    /// `types`: the OIDs of the parameters, 0 or left out for what we say.
    pub async fn parse(&mut self, name: &str, sql: &str, types: &[u32], out: &mut dyn Sink) {
        if !self.settle(out).await {
            return;
        }
        let done = guard(pin!(async { self.prepare(name, sql, types) })).await;
        self.finish(done, sql, out, |session, notices, out| {
            session.say(notices, out);
            out.send(Response::ParseComplete);
        });
    }

    fn prepare(&mut self, name: &str, sql: &str, types: &[u32]) -> Result<Vec<Notice>, SessionError> {
        if name.is_empty() {
            self.prepared.statements.remove(name);
        } else if self.prepared.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SessionError::new(SqlState::DuplicatePreparedStatement, message));
        }
        self.prepared.check_statements(sql.len())?;
        let ranges = split(sql, &self.engine.config().limits).map_err(|e| SessionError::of(&e))?;
        let (range, types, notices) = match ranges.as_slice() {
            [] => (None, types.to_vec(), Vec::new()),
            [range] => {
                let Parsed { statement, parameters, notices: _ } =
                    self.parse_one(sql, range.clone(), Parameters::Describe)?;
                if self.transaction.as_ref().is_some_and(|t| t.failed) && !statement.allowed_when_failed() {
                    return Err(SessionError::in_failed_transaction());
                }
                let count = usize::from(parameters).max(types.len());
                let types = (0..count).map(|i| types.get(i).copied().filter(|t| *t != 0).unwrap_or(25)).collect();
                (Some(range.clone()), types, Vec::new())
            }
            [..] => {
                let message = "cannot insert multiple commands into a prepared statement";
                return Err(SessionError::new(SqlState::SyntaxError, message));
            }
        };
        let entry = Entry { sql: Sensitive::new(sql.to_owned()), range, types };
        self.prepared.statements.insert(name.to_owned(), Arc::new(entry));
        Ok(notices)
    }

    /// Bind: makes a portal of a statement and values.
    pub async fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        parameter_formats: &[i16],
        values: Vec<Option<Vec<u8>>>,
        result_formats: &[i16],
        out: &mut dyn Sink,
    ) {
        if !self.settle(out).await {
            return;
        }
        let work = async { self.make_portal(portal, statement, parameter_formats, values, result_formats) };
        let done = guard(pin!(work)).await;
        self.finish(done, "", out, |_, (), out| out.send(Response::BindComplete));
    }

    fn make_portal(
        &mut self,
        portal: &str,
        statement: &str,
        parameter_formats: &[i16],
        values: Vec<Option<Vec<u8>>>,
        result_formats: &[i16],
    ) -> Result<(), SessionError> {
        // Whatever becomes of it, a plaintext is wiped when it goes.
        let bytes = values.iter().flatten().map(Vec::len).sum::<usize>() + 256;
        let entry = self.prepared.statement(statement)?;
        if values.len() != entry.types.len() {
            return Err(SessionError::new(
                SqlState::ProtocolViolation,
                format!(
                    "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {}",
                    values.len(),
                    entry.types.len()
                ),
            ));
        }
        if parameter_formats.len() > 1 && parameter_formats.len() != values.len() {
            return Err(SessionError::new(
                SqlState::ProtocolViolation,
                format!(
                    "bind message has {} parameter formats but {} parameters",
                    parameter_formats.len(),
                    values.len()
                ),
            ));
        }
        if let Some(bad) = parameter_formats.iter().chain(result_formats).find(|f| !matches!(f, 0 | 1)) {
            return Err(SessionError::new(SqlState::InvalidParameterValue, format!("unsupported format code: {bad}")));
        }
        if portal.is_empty() {
            self.prepared.portals.remove(portal);
        } else if self.prepared.portals.contains_key(portal) {
            return Err(SessionError::new(SqlState::DuplicateCursor, format!("cursor \"{portal}\" already exists")));
        }
        self.prepared.check_portals(bytes)?;
        let format_of = |i: usize| match parameter_formats {
            [] => 0,
            [one] => *one,
            many => many.get(i).copied().unwrap_or(0),
        };
        let values = values
            .into_iter()
            .zip(&entry.types)
            .enumerate()
            .map(|(i, (value, of))| value.map(|bytes| decode(bytes, *of, format_of(i), i + 1)).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let portal_entry = Portal { entry, values, formats: result_formats.to_vec(), bytes, answer: None };
        self.begin_implicit(Way::Extended);
        self.prepared.portals.insert(portal.to_owned(), portal_entry);
        Ok(())
    }

    /// Describe of a statement: its parameters, and its columns.
    pub async fn describe_statement(&mut self, name: &str, out: &mut dyn Sink) {
        if !self.settle(out).await {
            return;
        }
        let done = guard(pin!(self.columns_of_statement(name))).await;
        self.finish(done, "", out, |_, (types, columns), out| {
            out.send(Response::ParameterDescription(types));
            out.send(match columns {
                Some(columns) => {
                    let formats = vec![0; columns.len()];
                    Response::RowDescription(columns, formats)
                }
                None => Response::NoData,
            });
        });
    }

    async fn columns_of_statement(&mut self, name: &str) -> Result<(Vec<u32>, Option<Arc<[Column]>>), SessionError> {
        let entry = self.prepared.statement(name)?;
        let columns = self.columns(&entry, Parameters::Describe).await?;
        Ok((entry.types.clone(), columns))
    }

    /// Describe of a portal: its columns.
    pub async fn describe_portal(&mut self, name: &str, out: &mut dyn Sink) {
        if !self.settle(out).await {
            return;
        }
        let done = guard(pin!(self.columns_of_portal(name))).await;
        self.finish(done, "", out, |_, described, out| {
            out.send(match described {
                Some((columns, formats)) => Response::RowDescription(columns, formats),
                None => Response::NoData,
            });
        });
    }

    async fn columns_of_portal(&mut self, name: &str) -> Result<Option<(Arc<[Column]>, Vec<i16>)>, SessionError> {
        let portal = self.prepared.portal(name)?;
        let (entry, codes) = (Arc::clone(&portal.entry), portal.formats.clone());
        let columns = self.columns(&entry, Parameters::Describe).await?;
        columns.map(|columns| Ok((Arc::clone(&columns), formats(&codes, columns.len())?))).transpose()
    }

    /// The columns that a statement will answer. `None`: no rows.
    async fn columns(
        &mut self,
        entry: &Entry,
        parameters: Parameters<'_>,
    ) -> Result<Option<Arc<[Column]>>, SessionError> {
        let Some(range) = entry.range.clone() else { return Ok(None) };
        let parsed = self.parse_one(entry.sql.open(), range, parameters)?;
        if self.transaction.as_ref().is_some_and(|t| t.failed) && !parsed.statement.allowed_when_failed() {
            return Err(SessionError::in_failed_transaction());
        }
        Ok(match parsed.statement {
            Statement::Read(Read::Show(show)) => Some(show::columns(&show)),
            Statement::Read(Read::Describe(_)) => Some(show::describe::columns()),
            Statement::Read(Read::Explain(explain)) => Some(show::explain::columns(explain.format)),
            Statement::Session(SessionCommand::Show(name)) => Some(show_columns(&name)),
            Statement::Session(SessionCommand::ShowAll) => Some(columns_of(ALL_COLUMNS)),
            Statement::Select(query) => {
                let newest = self.newest().await?;
                let image = self.transaction.as_ref().and_then(Transaction::image).unwrap_or(&newest.0).clone();
                let actor = self.actor(&image)?;
                Some(select::describe(&SelectHost { session: self, image, actor }, &query)?)
            }
            Statement::Change(_)
            | Statement::Org(_)
            | Statement::Transaction(_)
            | Statement::Session(_)
            | Statement::Rewrap => None,
        })
    }

    /// Execute: runs a portal, or goes on with it. `rows_max`: stop after so many rows; 0: never.
    pub async fn execute(&mut self, name: &str, rows_max: i32, out: &mut dyn Sink) {
        if !self.settle(out).await {
            return;
        }
        self.cancel.arm();
        let sql = self.prepared.portals.get(name).map(|p| p.entry.sql.clone());
        let done = guard(pin!(self.run_portal(name, rows_max, out))).await;
        self.cancel.disarm();
        self.deadline = None;
        self.finish(done, sql.as_ref().map_or("", |s| s.open()), out, |_, (), _| {});
    }

    async fn run_portal(&mut self, name: &str, rows_max: i32, out: &mut dyn Sink) -> Result<(), SessionError> {
        self.start_statement();
        let portal = self.prepared.portal(name)?;
        if portal.answer.as_ref().is_some_and(|left| !left.has_rows) {
            let message = format!("portal \"{name}\" cannot be run");
            return Err(SessionError::new(SqlState::ObjectNotInPrerequisiteState, message));
        }
        if portal.answer.is_none() {
            let entry = Arc::clone(&portal.entry);
            let codes = portal.formats.clone();
            let Some(range) = entry.range.clone() else {
                out.send(Response::EmptyQuery);
                return Ok(());
            };
            let values = std::mem::take(&mut portal.values);
            let parsed = self.parse_one(entry.sql.open(), range, Parameters::Bound(&values))?;
            drop(values);
            let statement = match parsed.statement {
                Statement::Change(command) if self.may_wait() => {
                    self.put_off(name, entry.sql.clone(), parsed.notices, command);
                    return Ok(());
                }
                statement @ (Statement::Change(_)
                | Statement::Org(_)
                | Statement::Read(_)
                | Statement::Transaction(_)
                | Statement::Session(_)
                | Statement::Select(_)
                | Statement::Rewrap) => statement,
            };
            self.prepared.has_run = true;
            self.say(parsed.notices, out);
            let Outcome { notices, rows, tag } = Box::pin(self.run(statement, Way::Extended)).await?;
            self.say(notices, out);
            let left = match rows {
                Some(Rows { columns, rows }) => {
                    let formats = formats(&codes, columns.len())?;
                    Left { columns, formats, rows: rows.into(), has_rows: true, tag }
                }
                None => Left::tag(tag),
            };
            // COMMIT and its kin have closed the portal that they came by.
            let Ok(portal) = self.prepared.portal(name) else {
                out.send(Response::Complete(left.tag.into_owned()));
                return Ok(());
            };
            portal.answer = Some(left);
        }
        let Some(left) = self.prepared.portal(name)?.answer.as_mut() else {
            return Err(SessionError::bug("a portal without an answer"));
        };
        let most = usize::try_from(rows_max).ok().filter(|n| *n > 0).unwrap_or(usize::MAX);
        let mut sent = 0;
        while sent < most {
            let Some(row) = left.rows.pop_front() else { break };
            out.send(Response::Row(encode(&row, &left.columns, &left.formats)));
            sent += 1;
        }
        if left.has_rows && sent == most {
            out.send(Response::PortalSuspended);
        } else {
            let tag = if left.tag.starts_with("SELECT ") { format!("SELECT {sent}") } else { left.tag.to_string() };
            out.send(Response::Complete(tag));
        }
        Ok(())
    }

    /// Close of a statement; one that is not there is closed already.
    pub async fn close_statement(&mut self, name: &str, out: &mut dyn Sink) {
        if !self.settle(out).await {
            return;
        }
        self.prepared.statements.remove(name);
        out.send(Response::CloseComplete);
    }

    /// Close of a portal; one that is not there is closed already.
    pub async fn close_portal(&mut self, name: &str, out: &mut dyn Sink) {
        if !self.settle(out).await {
            return;
        }
        self.prepared.portals.remove(name);
        out.send(Response::CloseComplete);
    }

    /// Sends the answer of one message, or what went wrong with it.
    pub(crate) fn finish<T>(
        &mut self,
        done: Option<Result<T, SessionError>>,
        sql: &str,
        out: &mut dyn Sink,
        answer: impl FnOnce(&Session, T, &mut dyn Sink),
    ) {
        match done {
            Some(Ok(value)) => answer(self, value, out),
            Some(Err(error)) => self.failed(error, sql, out),
            None => self.broken(out),
        }
    }
}
