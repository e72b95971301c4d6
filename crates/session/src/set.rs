//! SET, RESET, SHOW setting, SET ROLE, DISCARD, LISTEN, DEALLOCATE: what changes the session alone.

use std::borrow::Cow;
use std::sync::Arc;

use dataglot_model::{
    Actor, At, Name, ObjectRef, Problem, SessionCommand, SetScope, SqlState, Timestamp, TransactionModes,
};
use dataglot_planner::{Image, is_superuser, may_set_role};

use crate::error::SessionError;
use crate::fresh::Look;
use crate::notify::CHANNEL;
use crate::pipeline::{Outcome, Way};
use crate::select::Host;
use crate::session::{Identity, Role, Session, role_id};
use crate::settings::{self, VERSION_TOKEN, isolation_named, parse_bool, unrecognized};
use crate::show::undefined;
use crate::transaction::{Transaction, only_in_blocks};
use crate::value::{Rows, Type, Value, column, columns_of};

/// The columns of SHOW ALL.
pub(crate) const ALL_COLUMNS: &[(&str, Type)] =
    &[("name", Type::Text), ("setting", Type::Text), ("description", Type::Text)];

impl Session {
    /// Runs a statement that changes the session alone.
    pub(crate) async fn session_command(&mut self, command: SessionCommand, way: Way) -> Result<Outcome, SessionError> {
        match command {
            SessionCommand::Set { scope, name, value } => {
                let outcome = self.set_outcome(scope, way);
                self.set(scope, &name, value.as_deref()).await.map_err(|e| e.at(name.span))?;
                Ok(outcome)
            }
            SessionCommand::Reset(name) => {
                self.set(SetScope::Session, &name, None).await.map_err(|e| e.at(name.span))?;
                Ok(Outcome::tag("RESET"))
            }
            SessionCommand::ResetAll => {
                self.scoped.settings.reset_all();
                Ok(Outcome::tag("RESET"))
            }
            SessionCommand::Show(name) => {
                // Only this one says how new the image is.
                let tells_version = settings::find(&name).is_some_and(|s| s.name == VERSION_TOKEN);
                let image = if tells_version { self.image(Look::Read).await? } else { self.image_at_hand().await? };
                let value = self.setting(&image, &name).ok_or_else(|| unrecognized(&name).at(name.span))?;
                let rows = Rows { columns: show_columns(&name), rows: vec![vec![Value::Text(value)]] };
                let notices = if tells_version { self.staleness().into_iter().collect() } else { Vec::new() };
                Ok(Outcome { notices, ..Outcome::rows("SHOW", rows) })
            }
            SessionCommand::ShowAll => {
                let image = self.image_at_hand().await?;
                let rows = self.all_settings(&image).into_iter().map(|(n, v, d)| vec![n.into(), v.into(), d.into()]);
                Ok(Outcome::rows("SHOW", Rows { columns: columns_of(ALL_COLUMNS), rows: rows.collect() }))
            }
            SessionCommand::SetRole { scope, role } => {
                let outcome = self.set_outcome(scope, way);
                self.set_role(scope, role.as_ref()).await?;
                Ok(outcome)
            }
            SessionCommand::SetAuthorization { scope, role } => {
                let outcome = self.set_outcome(scope, way);
                self.set_authorization(scope, role.as_ref()).await?;
                Ok(outcome)
            }
            SessionCommand::DiscardAll => {
                if way == Way::Script || self.transaction.as_ref().is_some_and(|t| t.explicit) {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SessionError::new(SqlState::ActiveTransaction, message));
                }
                self.discard_all().await?;
                Ok(Outcome::tag("DISCARD ALL"))
            }
            SessionCommand::DiscardNothing(what) => Ok(Outcome::tag(format!("DISCARD {what}"))),
            SessionCommand::Listen(channel) => {
                self.want_listen(channel.as_str(), true);
                Ok(Outcome::tag("LISTEN"))
            }
            SessionCommand::Unlisten(channel) => {
                self.want_listen(channel.as_ref().map_or(CHANNEL, |c| c.as_str()), false);
                Ok(Outcome::tag("UNLISTEN"))
            }
            SessionCommand::Deallocate(Some(name)) => {
                self.prepared.deallocate(name.as_str()).map_err(|e| e.at(name.span))?;
                Ok(Outcome::tag("DEALLOCATE"))
            }
            SessionCommand::Deallocate(None) => {
                self.prepared.deallocate_all();
                Ok(Outcome::tag("DEALLOCATE ALL"))
            }
        }
    }

    /// `SET LOCAL` outside of a block does nothing, and says so.
    fn set_outcome(&self, scope: SetScope, way: Way) -> Outcome {
        let mut outcome = Outcome::tag("SET");
        let in_block = way == Way::Script || self.transaction.as_ref().is_some_and(|t| t.explicit);
        if scope == SetScope::Local && !in_block {
            outcome.notices.push(only_in_blocks("SET LOCAL"));
        }
        outcome
    }

    /// The image as the transaction sees it.
    async fn image(&mut self, look: Look) -> Result<Image, SessionError> {
        let newest = self.look(look).await?;
        Ok(match self.transaction.as_mut() {
            Some(transaction) => transaction.look_at(&newest).clone(),
            None => newest.0.clone(),
        })
    }

    /// The image that is at hand, however new: for what the org's state has no part in.
    async fn image_at_hand(&mut self) -> Result<Image, SessionError> {
        let newest = self.newest().await?;
        Ok(self.transaction.as_ref().and_then(Transaction::image).unwrap_or(&newest.0).clone())
    }

    /// The image by which it is decided who the session may be.
    async fn image_for(&mut self, role: Option<&At<Name>>) -> Result<Image, SessionError> {
        match role {
            Some(_) => self.image(Look::Decide).await,
            None => self.image_at_hand().await,
        }
    }

    /// Sets one setting; `None`: to what it was at the start.
    async fn set(&mut self, scope: SetScope, name: &str, value: Option<&str>) -> Result<(), SessionError> {
        let lower = name.to_ascii_lowercase();
        match (lower.as_str(), value) {
            ("transaction_isolation", Some(value)) => {
                let isolation = isolation_level(value).ok_or_else(|| bad_value(name))?;
                self.set_modes(TransactionModes { isolation: Some(isolation), ..TransactionModes::default() })
            }
            ("transaction_read_only", Some(value)) => {
                let read_only = Some(parse_bool(value).ok_or_else(|| bad_value(name))?);
                self.set_modes(TransactionModes { read_only, ..TransactionModes::default() })
            }
            ("transaction_deferrable", Some(value)) => {
                let deferrable = Some(parse_bool(value).ok_or_else(|| bad_value(name))?);
                self.set_modes(TransactionModes { deferrable, ..TransactionModes::default() })
            }
            ("transaction_isolation" | "transaction_read_only" | "transaction_deferrable", None) => Ok(()),
            ("role", value) => {
                let role = match value {
                    Some(value) if !value.eq_ignore_ascii_case("none") => Some(named(value)?),
                    Some(_) | None => None,
                };
                self.set_role(scope, role.as_ref()).await
            }
            ("session_authorization", value) => {
                let role = value.map(named).transpose()?;
                self.set_authorization(scope, role.as_ref()).await
            }
            ("org", Some(value)) if value == self.org.as_str() => Ok(()),
            ("org", None) => Ok(()),
            ("org", Some(_)) => Err(SessionError::unsupported("changing the org of a session")
                .with_hint("Connect to it: the org is the database of the connection.")),
            (_, value) => self.scoped.settings.set(scope, name, value),
        }
    }

    fn set_modes(&mut self, modes: TransactionModes) -> Result<(), SessionError> {
        self.transaction.as_mut().map_or(Ok(()), |t| t.set_modes(modes))
    }

    async fn set_role(&mut self, scope: SetScope, role: Option<&At<Name>>) -> Result<(), SessionError> {
        let image = self.image_for(role).await?;
        let Role { actor, .. } = self.scoped.identity.current();
        let (session_user, session_user_id) = (actor.session_user.clone(), actor.session_user_id);
        // What one may become depends on the session user alone.
        let own = Actor {
            session_user: session_user.clone(),
            session_user_id,
            current_user: session_user.clone(),
            current_user_id: session_user_id,
        };
        let actor = match role {
            None => own,
            Some(name) => {
                may_set_role(&image, &own, name).map_err(|e| {
                    let span = e.span().unwrap_or(name.span);
                    SessionError::of(&e).at(span)
                })?;
                let id = role_id(&image, name).ok_or_else(|| undefined(&ObjectRef::Role(name.value.clone())))?;
                if id != self.login_id && self.limit.as_ref().is_some_and(|limit| !limit.allows(id)) {
                    let message = format!("permission denied to set role \"{}\"", name.as_str());
                    let error = SessionError::new(SqlState::InsufficientPrivilege, message).at(name.span);
                    return Err(error.with_detail("This session is limited to the roles that it was let in with."));
                }
                Actor { current_user: name.value.clone(), current_user_id: id, ..own }
            }
        };
        self.scoped.identity.become_role(scope, Role { actor: Arc::new(actor), is_set: role.is_some() });
        Ok(())
    }

    /// Only for superusers, by the role that logged in.
    async fn set_authorization(&mut self, scope: SetScope, role: Option<&At<Name>>) -> Result<(), SessionError> {
        let image = self.image_for(role).await?;
        let login = image
            .role_by_id(self.login_id)
            .ok_or_else(|| SessionError::new(SqlState::InvalidAuthorization, "the role of this session was dropped"))?;
        let login = Actor {
            session_user: login.clone(),
            session_user_id: self.login_id,
            current_user: login,
            current_user_id: self.login_id,
        };
        let actor = match role {
            None => login,
            Some(name) => {
                let id = role_id(&image, name);
                if id != Some(self.login_id) && !is_superuser(&image, &login) {
                    let message = format!("permission denied to set session authorization \"{}\"", name.as_str());
                    return Err(SessionError::new(SqlState::InsufficientPrivilege, message).at(name.span));
                }
                let id = id.ok_or_else(|| undefined(&ObjectRef::Role(name.value.clone())).at(name.span))?;
                Actor {
                    session_user: name.value.clone(),
                    session_user_id: id,
                    current_user: name.value.clone(),
                    current_user_id: id,
                }
            }
        };
        self.scoped.identity.become_role(scope, Role { actor: Arc::new(actor), is_set: false });
        Ok(())
    }

    async fn discard_all(&mut self) -> Result<(), SessionError> {
        self.set_authorization(SetScope::Session, None).await?;
        self.scoped.settings.reset_all();
        self.prepared.close_portals();
        self.prepared.deallocate_all();
        self.listen(false).await;
        Ok(())
    }

    /// LISTEN and UNLISTEN take effect at COMMIT.
    fn want_listen(&mut self, channel: &str, on: bool) {
        if channel == CHANNEL
            && let Some(transaction) = &mut self.transaction
        {
            transaction.listen = Some(on);
        }
    }

    /// Every setting: name, value, description.
    fn all_settings(&self, image: &Image) -> Vec<(String, String, String)> {
        let known = settings::all()
            .iter()
            .map(|s| (s.name.to_owned(), self.setting(image, s.name).unwrap_or_default(), s.about.to_owned()));
        let custom = self.scoped.settings.custom().into_iter().map(|(n, v)| (n, v, String::new()));
        known.chain(custom).collect()
    }
}

impl Identity {
    fn become_role(&mut self, scope: SetScope, role: Role) {
        match scope {
            SetScope::Session => {
                self.local = None;
                self.session = role;
            }
            SetScope::Local => self.local = Some(role),
        }
    }
}

/// The column of `SHOW name`.
pub(crate) fn show_columns(name: &str) -> Arc<[crate::response::Column]> {
    let shown = settings::find(name).map_or_else(|| Cow::Owned(name.to_ascii_lowercase()), |s| Cow::Borrowed(s.name));
    Arc::new([column(&shown, Type::Text)])
}

fn isolation_level(text: &str) -> Option<dataglot_model::IsolationLevel> {
    use dataglot_model::IsolationLevel::{ReadCommitted, ReadUncommitted, RepeatableRead, Serializable};
    let name = isolation_named(&text.trim().to_ascii_lowercase())?;
    [ReadUncommitted, ReadCommitted, RepeatableRead, Serializable].into_iter().find(|i| i.as_str() == name)
}

fn bad_value(name: &str) -> SessionError {
    SessionError::new(SqlState::InvalidParameterValue, format!("invalid value for parameter \"{name}\""))
}

/// The role that the value of a setting names.
fn named(value: &str) -> Result<At<Name>, SessionError> {
    Name::new(value).map(At::nowhere).map_err(|e| SessionError::of(&e))
}

/// A session, as SELECT asks it.
pub(crate) struct SelectHost<'a> {
    pub(crate) session: &'a mut Session,
    pub(crate) image: Image,
    pub(crate) actor: Arc<Actor>,
}

impl Host for SelectHost<'_> {
    fn image(&self) -> &Image {
        &self.image
    }
    fn actor(&self) -> &Actor {
        &self.actor
    }
    fn pid(&self) -> i32 {
        self.session.pid()
    }
    fn now(&self) -> Timestamp {
        self.session.now()
    }
    fn setting(&self, name: &str) -> Option<String> {
        self.session.setting(&self.image, name)
    }
    fn settings(&self) -> Vec<(String, String, String)> {
        self.session.all_settings(&self.image)
    }
    fn set_config(&mut self, name: &str, value: &str, local: bool) -> Result<String, SessionError> {
        settings::check_name(name).map_err(|_| settings::unrecognized_text())?;
        let scope = if local { SetScope::Local } else { SetScope::Session };
        self.session.scoped.settings.set(scope, name, Some(value))?;
        Ok(self.setting(name).unwrap_or_default())
    }
    fn is_listening(&self) -> bool {
        self.session.is_listening()
    }
}
