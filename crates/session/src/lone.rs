//! An Execute that may turn out to be alone in its transaction.
//!
//! Whether more belongs to it is not known before the next message. If that is Sync, as drivers send it, the statement
//! is the whole transaction, and goes to the committer unplanned, as a simple query does: nobody has an answer that has
//! to stay true, so instead of 40001 it gets what there is to say on the newest state. At any other message it is run
//! first, in the transaction that goes on. Flush is one of them: the client wants to see the answer.

use std::pin::pin;

use dataglot_model::{Command, Notice, Sensitive, Statement};

use crate::error::SessionError;
use crate::interrupt::guard;
use crate::pipeline::{Outcome, Way};
use crate::response::{Response, Sink};
use crate::session::Session;

/// An Execute whose statement has been read, and nothing more.
pub(crate) struct Lone {
    portal: String,
    sql: Sensitive,
    notices: Vec<Notice>,
    command: Command<Sensitive>,
}

impl Session {
    /// Whether an Execute of a command may wait: nothing has run since the last Sync, and no block is open.
    pub(crate) fn may_wait(&self) -> bool {
        !self.prepared.has_run
            && self.transaction.as_ref().is_none_or(|t| !t.explicit)
            && !self.scoped.settings.is_on("dry_run")
    }

    /// Lets an Execute wait for the next message.
    pub(crate) fn put_off(&mut self, portal: &str, sql: Sensitive, notices: Vec<Notice>, command: Command<Sensitive>) {
        self.prepared.lone = Some(Box::new(Lone { portal: portal.to_owned(), sql, notices, command }));
    }

    /// Runs the Execute that waits, if one does, before another message than Sync. False: it failed, `out` has the
    /// error, and the message is not to be looked at. Every call for a message does it by itself; whoever has a
    /// message for which there is none, as Flush, calls this.
    pub async fn settle(&mut self, out: &mut dyn Sink) -> bool {
        match self.prepared.lone.take() {
            None => true,
            Some(lone) => Box::pin(self.run_waiting(lone, out)).await,
        }
    }

    async fn run_waiting(&mut self, lone: Box<Lone>, out: &mut dyn Sink) -> bool {
        let Lone { portal, sql, notices, command } = *lone;
        self.cancel.arm();
        let done = guard(pin!(self.run_in_transaction(&portal, notices, command, out))).await;
        self.cancel.disarm();
        self.deadline = None;
        let is_done = matches!(done, Some(Ok(())));
        self.finish(done, sql.open(), out, |_, (), _| {});
        is_done
    }

    async fn run_in_transaction(
        &mut self,
        portal: &str,
        notices: Vec<Notice>,
        command: Command<Sensitive>,
        out: &mut dyn Sink,
    ) -> Result<(), SessionError> {
        self.start_statement();
        self.prepared.has_run = true;
        self.say(notices, out);
        let Outcome { notices, rows: _, tag } = self.run(Statement::Change(command), Way::Extended).await?;
        self.say(notices, out);
        self.prepared.has_answered(portal, tag.clone());
        out.send(Response::Complete(tag.into_owned()));
        Ok(())
    }

    /// Sync: ends the transaction of the messages since the last one, unless it is a block.
    pub async fn sync(&mut self, out: &mut dyn Sink) {
        self.cancel.arm();
        self.prepared.has_run = false;
        let lone = self.prepared.lone.take();
        let sql = lone.as_ref().map(|lone| lone.sql.clone());
        let done = match lone {
            Some(lone) => guard(pin!(self.run_lone(lone, out))).await,
            None => guard(pin!(self.end_implicit())).await,
        };
        self.cancel.disarm();
        self.deadline = None;
        self.finish(done, sql.as_ref().map_or("", |sql| sql.open()), out, |session, notices, out| {
            session.say(notices, out);
        });
        self.announce(out).await;
    }

    /// The only statement of its transaction.
    async fn run_lone(&mut self, lone: Box<Lone>, out: &mut dyn Sink) -> Result<Vec<Notice>, SessionError> {
        let Lone { portal: _, sql: _, notices, command } = *lone;
        self.start_statement();
        self.say(notices, out);
        // Bind began it, and nothing was done in it.
        self.transaction = None;
        self.prepared.close_portals();
        let Outcome { notices, rows: _, tag } = self.change_directly(Box::new(command)).await?;
        self.say(notices, out);
        out.send(Response::Complete(tag.into_owned()));
        Ok(Vec::new())
    }
}
