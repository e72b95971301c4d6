//! One client's session: who it is, what it has set, what it is in the middle of.

use std::sync::Arc;

use dataglot_model::def::{ObjectId, RoleDef};
use dataglot_model::{Actor, Name, Notice, ObjectRef, OrgName, Problem, Report, Seq, SqlState, Timestamp};
use dataglot_planner::{Image, current_actor, is_superuser};
use tokio::time::Instant;

use crate::announce::Announced;
use crate::audit::Budget;
use crate::cancel::CancelHandle;
use crate::compiler::OrgState;
use crate::credentials::{NewPassword, Proof, may_log_in, still_holds};
use crate::engine::{Connection, Engine};
use crate::error::SessionError;
use crate::limit::Limit;
use crate::login::{Login, find_org};
use crate::notify::Listener;
use crate::prepared::Prepared;
use crate::seal::PasswordKind;
use crate::settings::{self, Settings, VERSION_TOKEN, parse_options};
use crate::transaction::Transaction;

/// Startup parameters that are no settings.
const NO_SETTINGS: [&str; 4] = ["user", "database", "options", "replication"];

/// What ReadyForQuery says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// In no block.
    Idle,
    /// In a block.
    InBlock,
    /// In a block that has failed.
    Failed,
}

/// What a rollback takes back besides the store's content: settings, and who one is.
#[derive(Clone)]
pub(crate) struct Scoped {
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
}

/// Who a session is.
#[derive(Clone)]
pub(crate) struct Identity {
    /// For the session.
    pub(crate) session: Role,
    /// To the end of the transaction: SET LOCAL.
    pub(crate) local: Option<Role>,
}

/// An actor, and whether SET ROLE made it.
#[derive(Clone)]
pub(crate) struct Role {
    pub(crate) actor: Arc<Actor>,
    pub(crate) is_set: bool,
}

/// As what history names a session, and what that was made of that may change while the session lives.
struct Marked {
    settings: Settings,
    login: Option<Name>,
    mark: Arc<str>,
}

impl Identity {
    pub(crate) fn current(&self) -> &Role {
        self.local.as_ref().unwrap_or(&self.session)
    }
}

impl Scoped {
    /// SET LOCAL ends with the transaction.
    pub(crate) fn end_local(&mut self) {
        self.settings.end_local();
        self.identity.local = None;
    }
}

/// One client's session.
pub struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) org: OrgName,
    /// An org of the same name made later is another one.
    org_id: u64,
    /// Who logged in; a role of the same name made later is another one.
    pub(crate) login_id: ObjectId,
    /// Its name, when that was looked at last.
    login: Name,
    /// The password that it came in by.
    proof: Option<Proof>,
    /// The roles that it may become, if not all that its user may.
    pub(crate) limit: Option<Limit>,
    pid: i32,
    client: String,
    pub(crate) scoped: Scoped,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) prepared: Prepared,
    pub(crate) listener: Listener,
    pub(crate) cancel: CancelHandle,
    /// When the running statement times out.
    pub(crate) deadline: Option<Instant>,
    /// What the client was told last without asking.
    pub(crate) announced: Announced,
    /// The newest version of its org that it has made or looked at.
    pub(crate) seen: Seq,
    pub(crate) audit_budget: Budget,
    marked: Option<Marked>,
    welcome: Vec<Notice>,
    ended: Option<Report>,
    _connection: Connection,
}

impl Session {
    /// Starts the session of a client that the front door has let in.
    ///
    /// # Errors
    /// 28000 for a user or org that does not exist (with one text), who may not log in or whose time is
    /// over; 53300 at its connection limit; what is wrong with a startup parameter. All are FATAL.
    pub async fn start(engine: Arc<Engine>, login: Login) -> Result<Session, Report> {
        Session::try_start(engine, login).await.map_err(|e| e.fatal().into_report())
    }

    async fn try_start(engine: Arc<Engine>, login: Login) -> Result<Session, SessionError> {
        let Login { user, database, parameters, client, pid, mut proof, roles } = login;
        // Not even the text tells an unknown org from an unknown user.
        let unknown = || {
            SessionError::new(SqlState::InvalidAuthorization, format!("role \"{}\" does not exist", printable(&user)))
        };
        let (org, state) = find_org(&engine, database.as_deref(), &user).await?.ok_or_else(unknown)?;
        let name = Name::new(&user).map_err(|_| unknown())?;
        let image = &state.0;
        let role = image.role(&name).ok_or_else(unknown)?;
        let id = role.header.id;
        if !role.def.login {
            let message = format!("role \"{}\" is not permitted to log in", name.as_str());
            return Err(SessionError::new(SqlState::InvalidAuthorization, message));
        }
        if role.def.valid_until.is_some_and(|until| until <= engine.now()) {
            let message = format!("role \"{}\" has expired", name.as_str());
            return Err(SessionError::new(SqlState::InvalidAuthorization, message)
                .with_hint("A superuser can set another time with ALTER ROLE … VALID UNTIL."));
        }
        // Between the proof and now it may have become another one's.
        let holds = proof.as_mut().is_none_or(|proof| {
            (proof.org_id, proof.role) == (image.head().org_id, id) && still_holds(&engine, image, &name, proof)
        });
        if !holds {
            return Err(unknown());
        }
        let actor =
            Actor { session_user: name.clone(), session_user_id: id, current_user: name.clone(), current_user_id: id };
        let limit = Limit::new(image, &roles);
        if limit.as_ref().is_some_and(|limit| !limit.holds(image, &actor)) {
            let message = format!("role \"{}\" is no member of any role that it was vouched for", name.as_str());
            return Err(SessionError::new(SqlState::InvalidAuthorization, message));
        }
        let connection = engine.connect(&org, id, connection_limit(role.def)).ok_or_else(|| {
            SessionError::new(
                SqlState::TooManyConnections,
                format!("too many connections for role \"{}\"", name.as_str()),
            )
        })?;
        let mut welcome = engine.config().welcome.clone();
        let settings = initial_settings(&engine, role.def.settings.as_deref(), &parameters, &mut welcome)?;
        let role = Role { actor: Arc::new(actor), is_set: false };
        let org_id = image.head().org_id;
        let mut session = Session {
            engine,
            org,
            org_id,
            login_id: id,
            login: name,
            proof,
            limit,
            pid,
            client,
            scoped: Scoped { settings, identity: Identity { session: role, local: None } },
            transaction: None,
            prepared: Prepared::default(),
            listener: Listener::default(),
            cancel: CancelHandle::default(),
            deadline: None,
            announced: Announced::default(),
            seen: image.head().seq,
            audit_budget: Budget::default(),
            marked: None,
            welcome,
            ended: None,
            _connection: connection,
        };
        session.announce_first(image);
        Ok(session)
    }

    /// What a client is told at the start besides.
    pub fn welcome(&self) -> &[Notice] {
        &self.welcome
    }

    /// Whether it is in a block.
    pub fn status(&self) -> TransactionStatus {
        match &self.transaction {
            Some(t) if t.explicit && t.failed => TransactionStatus::Failed,
            Some(t) if t.explicit => TransactionStatus::InBlock,
            Some(_) | None => TransactionStatus::Idle,
        }
    }

    /// Asks the session, from elsewhere, to stop what it runs.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// The org that it is in.
    pub fn org(&self) -> &OrgName {
        &self.org
    }

    /// Why the session cannot go on, if it cannot: its user or org is gone. The client has been told.
    pub fn terminate_reason(&self) -> Option<&Report> {
        self.ended.as_ref()
    }

    /// How long the session may now idle before [`Session::idle_timeout_report`] is due. `None`: for ever.
    pub fn idle_timeout(&self) -> Option<std::time::Duration> {
        match self.status() {
            TransactionStatus::Idle => self.scoped.settings.timeout("idle_session_timeout"),
            TransactionStatus::InBlock | TransactionStatus::Failed => {
                self.scoped.settings.timeout("idle_in_transaction_session_timeout")
            }
        }
    }

    /// What a session is told that idled too long in a block.
    pub fn idle_timeout_report() -> Report {
        Report::error(SqlState::IdleInTransactionTimeout, "terminating connection due to idle-in-transaction timeout")
            .fatal()
    }

    /// The value of a setting, those among them that say how things are. `None`: there is none such.
    pub(crate) fn setting(&self, image: &Image, name: &str) -> Option<String> {
        let on = |truth: bool| Some(if truth { "on" } else { "off" }.to_owned());
        let transaction = self.transaction.as_ref();
        let role = self.scoped.identity.current();
        match name.to_ascii_lowercase().as_str() {
            "is_superuser" => on(is_superuser(image, &role.actor)),
            "session_authorization" => Some(role.actor.session_user.as_str().to_owned()),
            "role" => Some(if role.is_set { role.actor.current_user.as_str().to_owned() } else { "none".to_owned() }),
            "org" => Some(self.org.as_str().to_owned()),
            VERSION_TOKEN => Some(image.head().seq.to_string()),
            "transaction_isolation" => match transaction {
                Some(t) => Some(t.isolation.to_owned()),
                None => self.setting(image, "default_transaction_isolation"),
            },
            "transaction_read_only" => match transaction {
                Some(t) => on(t.read_only),
                None => self.setting(image, "default_transaction_read_only"),
            },
            "transaction_deferrable" => on(transaction.is_some_and(|t| t.deferrable)),
            _ => self.scoped.settings.get(name).map(std::borrow::Cow::into_owned),
        }
    }

    /// The newest image of the session's org, if session and org are still what they were.
    ///
    /// # Errors
    /// FATAL: the org or the user is gone.
    pub(crate) async fn newest(&mut self) -> Result<Arc<OrgState>, SessionError> {
        let state = self.engine.image(&self.org).await?;
        let Some(state) = state.filter(|s| s.0.head().org_id == self.org_id) else {
            return Err(self.end(SessionError::new(
                SqlState::AdminShutdown,
                "terminating connection because its org was dropped",
            )));
        };
        match self.no_longer(&state.0) {
            Some((code, why)) => {
                Err(self.end(SessionError::new(code, format!("terminating connection because its role {why}"))))
            }
            None => Ok(state),
        }
    }

    /// Why the user could not log in now as the session did; `None`: it could.
    fn no_longer(&mut self, image: &Image) -> Option<(SqlState, &'static str)> {
        let Some(name) = image.role_by_id(self.login_id) else {
            return Some((SqlState::InvalidAuthorization, "was dropped"));
        };
        let role = image.role(&name)?;
        self.login.clone_from(&name);
        if !role.def.login {
            return Some((SqlState::InvalidAuthorization, "is no longer permitted to log in"));
        }
        if !may_log_in(&self.engine, role.def) {
            return Some((SqlState::InvalidAuthorization, "has expired"));
        }
        let engine = Arc::clone(&self.engine);
        if self.proof.as_mut().is_some_and(|proof| !still_holds(&engine, image, &name, proof)) {
            return Some((SqlState::InvalidAuthorization, "has another password now"));
        }
        if let Some(limit) = &self.limit {
            let (session_user, id) = (name.clone(), self.login_id);
            let user = Actor { session_user, session_user_id: id, current_user: name, current_user_id: id };
            if !limit.holds(image, &user) {
                return Some((
                    SqlState::InvalidAuthorization,
                    "is no longer a member of any role that it was vouched for",
                ));
            }
        }
        let is_over = self.engine.is_over(&self.org, self.login_id, connection_limit(role.def));
        is_over.then_some((SqlState::TooManyConnections, "has too many connections"))
    }

    /// What a new password becomes.
    pub(crate) fn password_kind(&self) -> PasswordKind {
        PasswordKind::of_setting(self.scoped.settings.get("password_encryption").as_deref())
    }

    /// What of `sets`, a password that a statement sets, is the session's own user's. Who changes its own stays.
    pub(crate) fn own_password(&self, image: &Image, sets: Option<(Name, NewPassword)>) -> Option<NewPassword> {
        let (role, password) = sets?;
        (self.proof.is_some() && image.role_by_id(self.login_id) == Some(role)).then_some(password)
    }

    /// A transaction of the session's is durable that gave its own user that password. If the role has it still,
    /// the session is one that came in by it. What somebody else has set since, the session has not proved.
    pub(crate) async fn keep_own_password(&mut self, password: Option<NewPassword>) {
        if let Some(password) = password
            && let Some(proof) = &mut self.proof
            && let Ok(Some(state)) = self.engine.image(&self.org).await
            && let Some(name) = state.0.role_by_id(self.login_id)
        {
            proof.renew(&self.engine, &state.0, &name, password);
        }
    }

    /// Nothing more is done in this session.
    fn end(&mut self, error: SessionError) -> SessionError {
        let error = error.fatal();
        self.ended = Some(error.clone().into_report());
        error
    }

    pub(crate) fn end_with(&mut self, report: Report) {
        self.ended = Some(report);
    }

    /// Who acts now, by the names that the ids have in `image`.
    ///
    /// # Errors
    /// 28000: the role of SET ROLE or SET SESSION AUTHORIZATION is gone.
    pub(crate) fn actor(&mut self, image: &Image) -> Result<Arc<Actor>, SessionError> {
        let role = match &mut self.scoped.identity.local {
            Some(role) => role,
            None => &mut self.scoped.identity.session,
        };
        let actor = current_actor(image, &role.actor).map_err(|e| SessionError::of(&e))?;
        if actor != *role.actor {
            role.actor = Arc::new(actor);
        }
        Ok(Arc::clone(&role.actor))
    }

    /// When the present transaction started; now, outside of one.
    pub(crate) fn now(&self) -> Timestamp {
        self.transaction.as_ref().map_or_else(|| self.engine.now(), |t| t.now)
    }

    /// As what history names the session.
    pub(crate) fn mark(&mut self) -> Arc<str> {
        if let Some(Marked { settings, login, mark }) = &self.marked
            && settings.is_same(&self.scoped.settings)
            && login.as_ref() == self.assumed_by()
        {
            return Arc::clone(mark);
        }
        let mark = self.new_mark();
        let (settings, login) = (self.scoped.settings.clone(), self.assumed_by().cloned());
        self.marked = Some(Marked { settings, login, mark: Arc::clone(&mark) });
        mark
    }

    fn new_mark(&self) -> Arc<str> {
        let application = self.scoped.settings.get("application_name").unwrap_or_default();
        let apply_id = self.scoped.settings.get("apply_id").unwrap_or_default();
        let mut mark = format!("pid {}", self.pid);
        let login = self.assumed_by().map(Name::as_str).unwrap_or_default();
        for (what, value) in
            [("login", login), ("from", self.client.as_str()), ("application", &application), ("apply", &apply_id)]
        {
            if !value.is_empty() {
                mark.push_str(&format!(", {what} {value}"));
            }
        }
        mark.into()
    }

    /// Who logged in, if the session is another one's by SET SESSION AUTHORIZATION.
    pub(crate) fn assumed_by(&self) -> Option<&Name> {
        let actor = &self.scoped.identity.current().actor;
        (actor.session_user_id != self.login_id).then_some(&self.login)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// The client's address.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }
}

impl Drop for Session {
    /// What is not committed when the client goes is rolled back.
    fn drop(&mut self) {
        self.roll_back();
        self.audit_left_out();
    }
}

/// How many sessions the role may have; negative: any number. A superuser may, as in PostgreSQL: a limit must not
/// keep out the only one who could lift it.
fn connection_limit(role: &RoleDef) -> i32 {
    if role.superuser { -1 } else { role.connection_limit }
}

/// A user's name as an error may print it: it has passed no check yet.
fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(63).collect()
}

/// What settings a session starts with: the engine's, the role's, the client's.
fn initial_settings(
    engine: &Engine,
    role: Option<&std::collections::BTreeMap<String, String>>,
    parameters: &[(String, String)],
    notices: &mut Vec<Notice>,
) -> Result<Settings, SessionError> {
    let mut settings = Settings::default();
    let config = engine.config();
    for (name, timeout) in [
        ("statement_timeout", config.statement_timeout),
        ("idle_in_transaction_session_timeout", config.idle_in_transaction_timeout),
    ] {
        if let Some(timeout) = timeout {
            settings.set_initial(name, &timeout.as_millis().to_string())?;
        }
    }
    for (name, value) in role.into_iter().flatten() {
        if let Err(error) = settings.set_initial(name, value) {
            notices.push(Notice::new(dataglot_model::Severity::Warning, error.sqlstate(), error.to_string()));
        }
    }
    for (name, value) in parameters {
        match name.as_str() {
            "replication" if settings::parse_bool(value) != Some(false) => {
                return Err(SessionError::unsupported("replication"));
            }
            "options" => {
                for (name, value) in parse_options(value)? {
                    settings.set_initial(&name, &value)?;
                }
            }
            name if name.starts_with("_pq_.") => {}
            name if NO_SETTINGS.contains(&name) => {}
            name => settings.set_initial(name, value)?,
        }
    }
    Ok(settings)
}

/// Whether an object of `role`'s name is the role of that id.
pub(crate) fn role_id(image: &Image, name: &Name) -> Option<ObjectId> {
    image.header(&ObjectRef::Role(name.clone())).map(|h| h.id)
}
