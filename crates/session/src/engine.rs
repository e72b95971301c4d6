//! What all sessions of a process share: the store's hub, the key ring, the clock, the limits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dataglot_grammar::Limits;
use dataglot_model::def::ObjectId;
use dataglot_model::{
    ChangedStatement, HeadRecord, Mutation, Name, Notice, OrgName, Problem, Report, Sensitive, Seq, SqlState,
    Timestamp, TransactionId,
};
use dataglot_planner::initial_superuser;
use dataglot_store::{ChangeEntry, FirstOrg, Hub, HubLimits, ImageSink, MetaStore, StoreError, Table};
use dataglot_vault::{self as vault, Entropy, KeyId, KeyRing, VaultError};
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::compiler::{OrgState, Planner};
use crate::credentials::{Mock, MockError, may_log_in};
use crate::error::SessionError;
use crate::identities::Identities;
use crate::login::Absent;
use crate::seal::{self, KeyCache};

/// Where the store keeps the canary that tells a wrong key.
pub(crate) const CANARY_KEY: &str = "key_canary";
/// The identity of the first org.
const FIRST_ORG_ID: u64 = 1;

/// What an engine is told at its start.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Bounds of statements and scripts.
    pub limits: Limits,
    /// Bounds of the queue in front of the store.
    pub hub: HubLimits,
    /// Iterations of a new password's verifier.
    pub scram_iterations: u32,
    /// How many passwords are hashed at once.
    pub hashing_max: usize,
    /// `statement_timeout` of a session that does not set it; `None`: off.
    pub statement_timeout: Option<Duration>,
    /// `idle_in_transaction_session_timeout` of a session that does not set it; `None`: off.
    pub idle_in_transaction_timeout: Option<Duration>,
    /// How long a statement waits for `min_version`.
    pub version_wait: Duration,
    /// Whether md5 verifiers that are brought along may be stored.
    pub accept_md5: bool,
    /// What every session is told at its start.
    pub welcome: Vec<Notice>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        EngineConfig {
            limits: Limits::default(),
            hub: HubLimits::default(),
            scram_iterations: 15_000,
            hashing_max: 2,
            statement_timeout: None,
            idle_in_transaction_timeout: None,
            version_wait: Duration::from_secs(5),
            accept_md5: false,
            welcome: Vec::new(),
        }
    }
}

/// Why an engine does not start. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The key is not the one that the store's secrets were sealed with, or there is none.
    #[error(transparent)]
    Key(#[from] VaultError),
    /// The key that would seal is one that another key has taken the place of.
    #[error("another secret key has taken the place of key {0}, and it cannot be the one that seals")]
    RetiredKey(KeyId),
    /// There is nothing to tell whether the key is the right one, and there are secrets.
    #[error("the store holds secrets, and no mark of the key that they were sealed with")]
    NoCanary,
}

impl Problem for OpenError {
    fn sqlstate(&self) -> SqlState {
        match self {
            OpenError::Store(error) => error.sqlstate(),
            OpenError::Key(error) => error.sqlstate(),
            OpenError::RetiredKey(_) => SqlState::ObjectNotInPrerequisiteState,
            OpenError::NoCanary => SqlState::DataCorrupted,
        }
    }
    fn detail(&self) -> Option<String> {
        match self {
            OpenError::Store(error) => error.detail(),
            OpenError::Key(error) => error.detail(),
            OpenError::RetiredKey(_) | OpenError::NoCanary => None,
        }
    }
    fn hint(&self) -> Option<String> {
        match self {
            OpenError::Store(error) => error.hint(),
            OpenError::Key(error) => error.hint(),
            OpenError::RetiredKey(_) => Some("Put the key in use in front of it, or a new one.".to_owned()),
            OpenError::NoCanary => Some("Restore the store from a backup.".to_owned()),
        }
    }
}

/// What all sessions of a process share.
pub struct Engine {
    hub: Hub<Planner>,
    /// Other coordinators write to the store too.
    shared: bool,
    ring: KeyRing,
    config: EngineConfig,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    identities: Identities,
    hashing: Arc<Semaphore>,
    connections: Mutex<BTreeMap<(OrgName, ObjectId), u32>>,
    absent: Absent,
    mock: Mock,
    data_keys: KeyCache,
}

impl Engine {
    /// Opens the engine on a store: checks the key first, and leaves a mark of it in a store that has
    /// none. Blocks; not for threads of an async runtime.
    ///
    /// # Errors
    /// [`OpenError`] says why not. The store is as it was.
    pub fn open(
        store: Arc<dyn MetaStore>,
        ring: KeyRing,
        config: EngineConfig,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Arc<Engine>, OpenError> {
        check_key(store.as_ref(), &ring, entropy.as_ref())?;
        if let Some(primary) = ring.primary_id()
            && seal::retired::is_retired(store.as_ref(), primary)?
        {
            return Err(OpenError::RetiredKey(primary));
        }
        let shared = store.facts().shared;
        let mock = Mock::load(store.as_ref(), entropy.as_ref()).map_err(|error| match error {
            MockError::Store(error) => OpenError::Store(error),
            MockError::Vault(error) => OpenError::Key(error),
        })?;
        let planner = Planner { limits: config.limits.clone(), store: Arc::clone(&store) };
        let hub = Hub::open(store, planner, config.hub.clone())?;
        let hashing = Arc::new(Semaphore::new(config.hashing_max.max(1)));
        Ok(Arc::new(Engine {
            hub,
            shared,
            ring,
            config,
            clock,
            entropy,
            identities: Identities::default(),
            hashing,
            connections: Mutex::default(),
            absent: Absent::default(),
            mock,
            data_keys: KeyCache::default(),
        }))
    }

    /// The transactions of an org after `after`, in order, at most `limit`: what `SHOW CHANGES` lists, for
    /// a coordinator that embeds the engine.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn changes(&self, org: &OrgName, after: Seq, limit: usize) -> Result<Vec<ChangeEntry>, StoreError> {
        self.hub.changes(org, after, limit).await
    }

    /// Whether the store is new: there is no org in it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn is_new(&self) -> Result<bool, StoreError> {
        Ok(self.hub.orgs()?.is_empty())
    }

    /// Makes the org `default` and its first superuser, in a new store.
    ///
    /// # Errors
    /// The store is not new, the password is empty, or it cannot be written.
    pub async fn bootstrap(self: &Arc<Self>, admin: Name, password: Option<Sensitive>) -> Result<(), Report> {
        let (verifier, key) = match password {
            None => (None, None),
            Some(text) => match seal::verifier(self, &admin, text).await.map_err(SessionError::into_report)? {
                Some((verifier, key)) => (Some(verifier), key),
                None => {
                    return Err(Report::error(SqlState::InvalidParameterValue, "the superuser's password is empty"));
                }
            },
        };
        let at = self.now();
        let mut mutations = initial_superuser(&admin, verifier, at);
        mutations.extend(key.map(Mutation::Put));
        let sql = format!("CREATE ROLE {admin} SUPERUSER LOGIN");
        let first = FirstOrg {
            name: OrgName::default_org(),
            org_id: FIRST_ORG_ID,
            id: self.transaction_id().map_err(SessionError::into_report)?,
            at,
            actor: admin.clone(),
            session: "bootstrap".into(),
            statement: ChangedStatement { sql: sql.into(), mutations },
        };
        self.hub.create_first_org(first).await.map(drop).map_err(|e| Report::from(&e))
    }

    /// The first superuser of an org who may log in now, by name: for what is done to a store without a login.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn superuser(&self, org: &OrgName) -> Result<Option<Name>, Report> {
        let state = self.image(org).await.map_err(SessionError::into_report)?;
        Ok(state.and_then(|state| {
            let mut roles = state.0.roles();
            let found = roles.find(|(_, role)| role.def.superuser && may_log_in(self, role.def));
            found.map(|(name, _)| name.clone())
        }))
    }

    /// Takes no more transactions and finishes those that wait. Blocks until then.
    pub fn shutdown(&self) {
        self.hub.shutdown();
    }

    /// What it was told at its start.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The store itself, for what is no transaction: facts, health, backup.
    pub fn store(&self) -> &Arc<dyn MetaStore> {
        self.hub.store()
    }

    /// Whether there is a key.
    pub fn has_key(&self) -> bool {
        !self.ring.is_empty()
    }

    pub(crate) fn hub(&self) -> &Hub<Planner> {
        &self.hub
    }

    /// Whether other coordinators write to the store too.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    pub(crate) fn store_id(&self) -> [u8; 16] {
        self.hub.store_id()
    }

    pub(crate) fn ring(&self) -> &KeyRing {
        &self.ring
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        self.entropy.as_ref()
    }

    pub(crate) fn hashing(&self) -> Arc<Semaphore> {
        Arc::clone(&self.hashing)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A new identity for a transaction.
    pub(crate) fn transaction_id(&self) -> Result<TransactionId, SessionError> {
        let random = self.identities.next(self.entropy()).map_err(|_| SessionError::bug("no random numbers"))?;
        Ok(TransactionId::new(self.now(), random))
    }

    /// The newest image of an org.
    pub(crate) async fn image(&self, org: &OrgName) -> Result<Option<Arc<OrgState>>, SessionError> {
        self.hub.load(org).await.map_err(|e| SessionError::of(&e))
    }

    /// Brings the image of an org up to a shared store.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub(crate) async fn refresh(&self, org: &OrgName) -> Result<(), SessionError> {
        self.hub.refresh(org).await.map_err(|e| SessionError::of(&e))
    }

    /// The orgs that were not there when a login asked for them.
    pub(crate) fn absent(&self) -> &Absent {
        &self.absent
    }

    /// The canary that tells a wrong key, if the store has one.
    pub(crate) async fn canary(&self) -> Result<Option<Vec<u8>>, SessionError> {
        let store = Arc::clone(self.store());
        let read = tokio::task::spawn_blocking(move || store.meta_get(CANARY_KEY)).await;
        let read = read.map_err(|_| SessionError::bug("reading the canary panicked"))?;
        read.map_err(|e| SessionError::of(&e))
    }

    /// The keys that seal nothing any more.
    pub(crate) async fn retired_keys(&self) -> Result<Vec<KeyId>, SessionError> {
        let store = Arc::clone(self.store());
        let read = tokio::task::spawn_blocking(move || seal::retired::retired(store.as_ref())).await;
        let read = read.map_err(|_| SessionError::bug("reading what keys are retired panicked"))?;
        read.map_err(|e| SessionError::of(&e))
    }

    /// Has `key` seal nothing any more.
    pub(crate) async fn retire_key(&self, key: KeyId) -> Result<(), SessionError> {
        let store = Arc::clone(self.store());
        let written = tokio::task::spawn_blocking(move || seal::retired::retire(store.as_ref(), key)).await;
        let written = written.map_err(|_| SessionError::bug("retiring a key panicked"))?;
        written.map_err(|e| SessionError::of(&e))
    }

    /// Makes the canary one of the primary key.
    pub(crate) async fn renew_canary(&self) -> Result<(), SessionError> {
        let canary =
            vault::make_canary(&self.ring, self.store_id(), self.entropy()).map_err(|e| SessionError::of(&e))?;
        let store = Arc::clone(self.store());
        let written = tokio::task::spawn_blocking(move || store.meta_put(CANARY_KEY, &canary)).await;
        let written = written.map_err(|_| SessionError::bug("writing the canary panicked"))?;
        written.map_err(|e| SessionError::of(&e))
    }

    /// The orgs of the store, as it has them now.
    pub(crate) async fn orgs(&self) -> Result<Vec<OrgName>, SessionError> {
        let hub = self.hub.clone();
        let orgs = tokio::task::spawn_blocking(move || hub.orgs()).await;
        let orgs = orgs.map_err(|_| SessionError::bug("listing the orgs panicked"))?;
        orgs.map_err(|e| SessionError::of(&e))
    }

    /// Data keys that were unwrapped.
    pub(crate) fn data_keys(&self) -> &KeyCache {
        &self.data_keys
    }

    /// What the answers to unknown users are made of.
    pub(crate) fn mock(&self) -> &Mock {
        &self.mock
    }

    /// Whether that role has more connections than `limit`.
    pub(crate) fn is_over(&self, org: &OrgName, role: ObjectId, limit: i32) -> bool {
        let Ok(limit) = u32::try_from(limit) else { return false };
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.get(&(org.clone(), role)).is_some_and(|count| *count > limit)
    }

    /// One more connection of that role; `None`: it has `limit` already.
    pub(crate) fn connect(self: &Arc<Self>, org: &OrgName, role: ObjectId, limit: i32) -> Option<Connection> {
        let key = (org.clone(), role);
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let count = connections.entry(key.clone()).or_default();
        if u32::try_from(limit).is_ok_and(|limit| *count >= limit) {
            if *count == 0 {
                connections.remove(&key);
            }
            return None;
        }
        *count += 1;
        drop(connections);
        Some(Connection { engine: Arc::clone(self), key })
    }
}

/// A connection that is counted for as long as this lives.
pub(crate) struct Connection {
    engine: Arc<Engine>,
    key: (OrgName, ObjectId),
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut connections = self.engine.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = connections.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&self.key);
            }
        }
    }
}

/// Refuses a key that is not the store's, and marks a store that has no mark with the key.
fn check_key(store: &dyn MetaStore, ring: &KeyRing, entropy: &dyn Entropy) -> Result<(), OpenError> {
    let store_id = store.facts().store_id;
    match store.meta_get(CANARY_KEY)? {
        // With no key at all this refuses too, and names the key that is wanted.
        Some(canary) => Ok(vault::check_canary(ring, store_id, &canary)?),
        None if ring.is_empty() => Ok(()),
        None if holds_secrets(store)? => Err(OpenError::NoCanary),
        None => {
            // Of two that start with different keys at the same moment, one is refused.
            let canary = store.meta_init(CANARY_KEY, &vault::make_canary(ring, store_id, entropy)?)?;
            Ok(vault::check_canary(ring, store_id, &canary)?)
        }
    }
}

/// Whether any org has a value or a data key in the store.
fn holds_secrets(store: &dyn MetaStore) -> Result<bool, StoreError> {
    struct Seen(bool);
    impl ImageSink for Seen {
        fn begin(&mut self, _head: HeadRecord) {}
        fn row(&mut self, table: Table, _key: &[u8], _value: &[u8]) {
            self.0 |= matches!(table, Table::Secrets | Table::PreviousSecrets | Table::DataKeys);
        }
    }
    let mut seen = Seen(false);
    for (org, _) in store.heads()? {
        store.load(&org, &mut seen)?;
    }
    Ok(seen.0)
}
