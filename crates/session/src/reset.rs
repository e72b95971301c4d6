//! The reset of secrets after the master key was lost, on a store that nothing else has open.
//!
//! What no loaded key opens is marked as lost, one transaction an org, and after the last one the canary becomes one
//! of the primary key, so that servers start with it. Whoever is interrupted starts over: what is done is not lost any
//! more. Nothing else looks for what is lost, and no server does any of it by itself.

use std::sync::Arc;

use dataglot_model::def::ObjectId;
use dataglot_model::{Actor, Name, OrgName, Report, SqlState, TransactionId};
use dataglot_planner::{FIRST_SUPERUSER, Image, Lost, RESET_TAG};
use dataglot_store::{Hub, MetaStore, StoreError, Submission, SubmitError};
use dataglot_vault::{self as vault, DataKeys, KeyId, KeyRing, SealedWith, VaultError, canary_key, make_canary};

use crate::clock::Clock;
use crate::compiler::{OrgState, Planner, Request, ResetRequest};
use crate::engine::{CANARY_KEY, EngineConfig};
use crate::error::SessionError;
use crate::seal::{ciphertext, retired};

/// A store, and the keys that are left.
pub struct Reset {
    hub: Hub<Planner>,
    ring: KeyRing,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn vault::Entropy>,
}

impl Reset {
    /// On `store`, with the keys that are left: the first one takes over.
    ///
    /// # Errors
    /// There is no key, or the store cannot be read.
    pub fn open(
        store: Arc<dyn MetaStore>,
        ring: KeyRing,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn vault::Entropy>,
    ) -> Result<Reset, Report> {
        if ring.is_empty() {
            return Err(Report::from(&VaultError::NoKey));
        }
        let EngineConfig { limits, hub, .. } = EngineConfig::default();
        if let Some(primary) = ring.primary_id()
            && retired::is_retired(store.as_ref(), primary).map_err(|e| Report::from(&e))?
        {
            return Err(retired::refused(primary).into_report());
        }
        let planner = Planner { limits, store: Arc::clone(&store) };
        let hub = Hub::open(store, planner, hub).map_err(|e| Report::from(&e))?;
        Ok(Reset { hub, ring, clock, entropy })
    }

    /// What is lost, by org; those in which nothing is are left out.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn losses(&self) -> Result<Vec<(OrgName, Lost)>, Report> {
        let mut losses = Vec::new();
        for (org, state) in self.states().await? {
            let lost = lost(&state.0, &self.ring, self.hub.store_id());
            if !lost.is_empty() {
                losses.push((org, lost));
            }
        }
        Ok(losses)
    }

    /// The key that the store's canary is of, if that one is not loaded.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn missing_key(&self) -> Result<Option<KeyId>, Report> {
        let canary = self.store(|store| store.meta_get(CANARY_KEY)).await?;
        Ok(canary.and_then(|bytes| canary_key(&bytes).ok()).filter(|id| self.ring.ids().all(|loaded| loaded != *id)))
    }

    /// Marks as lost what is, and lets the primary key take over.
    ///
    /// # Errors
    /// The store cannot be written. What was done until then is done.
    pub async fn run(&self) -> Result<(), Report> {
        for (org, state) in self.states().await? {
            let (at, mut id) = (self.clock.now(), [0; 16]);
            self.entropy.fill(&mut id).map_err(|e| Report::from(&VaultError::from(e)))?;
            let request = ResetRequest { now: at, ring: self.ring.clone(), store_id: self.hub.store_id() };
            let submission = Submission {
                org,
                id: TransactionId::new(at, id),
                at,
                actor: actor(&state.0).map_err(SessionError::into_report)?.current_user,
                session: "reset-secrets".into(),
                request: Request::Reset(Box::new(request)),
            };
            self.hub.submit(submission).await.map(drop).map_err(|error| match error {
                SubmitError::Refused(refusal) => refusal.error.into_report(),
                SubmitError::Failed(error) => Report::from(&error),
                SubmitError::Unknown(_) => Report::error(
                    SqlState::TransactionResolutionUnknown,
                    "it is not known whether the transaction was committed",
                )
                .with_hint("Run the command again: what is done is not done twice."),
                SubmitError::Full | SubmitError::Stopped | SubmitError::Withdrawn => {
                    SessionError::bug("the committer takes nothing").into_report()
                }
            })?;
        }
        let canary = make_canary(&self.ring, self.hub.store_id(), self.entropy.as_ref());
        let canary = canary.map_err(|e| Report::from(&e))?;
        self.store(move |store| store.meta_put(CANARY_KEY, &canary)).await
    }

    /// Ends its work with the store. Blocks until then.
    pub fn close(self) {
        self.hub.shutdown();
    }

    /// What blocks, on a thread of its own.
    async fn store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn MetaStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Report> {
        let store = Arc::clone(self.hub.store());
        let done = tokio::task::spawn_blocking(move || work(store.as_ref())).await;
        done.map_err(|_| SessionError::bug("the store panicked").into_report())?.map_err(|e| Report::from(&e))
    }

    async fn states(&self) -> Result<Vec<(OrgName, Arc<OrgState>)>, Report> {
        let mut states = Vec::new();
        for (org, _) in self.store(|store| store.heads()).await? {
            if let Some(state) = self.hub.load(&org).await.map_err(|e| Report::from(&e))? {
                states.push((org, state));
            }
        }
        Ok(states)
    }
}

impl std::fmt::Debug for Reset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(RESET_TAG).field("ring", &self.ring).finish_non_exhaustive()
    }
}

/// What no key of `ring` opens. What is of a newer version, or too damaged to tell, is none of it.
pub(crate) fn lost(image: &Image, ring: &KeyRing, store_id: [u8; 16]) -> Lost {
    let is_loaded = |id: KeyId| ring.ids().any(|loaded| loaded == id);
    let never_opens = |no: u32, wrapped: &[u8]| {
        // Nobody has the key; or the bytes are no data key's of this place, whatever the key.
        let opened = DataKeys::open(ring, store_id, image.org(), [(no, wrapped)]);
        matches!(opened, Err(VaultError::WrongKey { .. } | VaultError::Damaged))
    };
    let data_keys: Vec<u32> =
        image.data_keys().filter(|(no, wrapped, _)| never_opens(*no, wrapped)).map(|(no, ..)| no).collect();
    let is_lost = |envelope: &[u8]| match vault::sealed_with(envelope) {
        Ok(SealedWith::Master(id)) => !is_loaded(id),
        Ok(SealedWith::DataKey(no)) => image.data_key(no).is_none() || data_keys.contains(&no),
        Err(_) => false,
    };
    let named = |is: &dyn Fn(&dataglot_planner::Secret<'_>) -> bool| -> Vec<Name> {
        image.secrets().filter(|(_, secret)| is(secret)).map(|(name, _)| name.clone()).collect()
    };
    let secrets = named(&|secret| secret.envelope.is_some_and(|bytes| is_lost(bytes)));
    let former = named(&|secret| secret.previous.is_some_and(|bytes| is_lost(bytes)));
    let stored = image.roles().filter(|(_, role)| {
        role.def.verifier.as_deref().and_then(ciphertext).is_some_and(|envelope| is_lost(&envelope))
    });
    let passwords = stored.map(|(name, _)| name.clone()).collect();
    Lost { data_keys, secrets, former, passwords }
}

/// Who history says it was: the superuser that is there longest stands for whoever runs the system.
pub(crate) fn actor(image: &Image) -> Result<Actor, SessionError> {
    let name = match image.bootstrap_superuser() {
        Some(name) => name.clone(),
        None => Name::new(FIRST_SUPERUSER).map_err(|_| SessionError::bug("the first superuser's name"))?,
    };
    let id = image.role(&name).map_or(ObjectId(0), |role| role.header.id);
    Ok(Actor { session_user: name.clone(), session_user_id: id, current_user: name, current_user_id: id })
}
