//! Resolving: catalogs as a coordinator needs them, and the values of the secrets that they refer to.
//!
//! For a process that embeds these crates and holds the key itself: values are opened in that process and
//! nowhere else, and no SQL statement gives one. In: a [`MetaStore`] and a [`KeyRing`]. Out: [`ResolvedCatalog`]s,
//! whose credentials are references ([`SecretRef`]), and a [`Sensitive`] for each explicit call of
//! [`Resolver::resolve`]. A secret that cannot be had fails alone: the catalogs and all other secrets are there.
//!
//! Calls read the store and block; not for threads of an async runtime.
//!
//! ```
//! use dataglot_model::{Name, OrgName, Sensitive};
//! use dataglot_session::resolve::{CatalogOption, Resolver};
//! # use std::sync::Arc;
//! # use dataglot_session::{Engine, EngineConfig, Login, OsEntropy, Response, Session, SystemClock};
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # let ring = dataglot_vault::KeyRing::parse(dataglot_vault::generate_key_text(&OsEntropy)?.open())?;
//! # let store = dataglot_store::open_memory()?;
//! # let config = EngineConfig::default();
//! # let engine = Engine::open(Arc::clone(&store), ring.clone(), config, Arc::new(SystemClock), Arc::new(OsEntropy))?;
//! # runtime.block_on(async {
//! #     engine.bootstrap(Name::new("admin").unwrap(), None).await.unwrap();
//! #     let (user, client) = ("admin".to_owned(), "doc".to_owned());
//! #     let login = Login { user, client, database: None, parameters: vec![], pid: 1, proof: None, roles: vec![] };
//! #     let mut session = Session::start(Arc::clone(&engine), login).await.unwrap();
//! #     let mut said: Vec<Response> = Vec::new();
//! #     session.simple("CREATE SECRET pw AS 'hunter2';
//! #         CREATE CATALOG pg USING postgres WITH (host = 'db', password = SECRET pw)", &mut said).await;
//! #     assert!(!said.iter().any(|r| matches!(r, Response::Error { .. })), "{said:?}");
//! # });
//! // With the same store and key ring that a server is started with:
//! let resolver = Resolver::new(store.as_ref(), ring);
//! for catalog in resolver.catalogs(&OrgName::default_org())? {
//!     assert_eq!(catalog.name.as_str(), "pg");
//!     for (key, option) in &catalog.options {
//!         if let CatalogOption::Secret(secret) = option {
//!             assert_eq!((key.as_str(), secret.version), ("password", 1));
//!             let value: Sensitive = resolver.resolve(secret)?;
//!             assert_eq!(value.open(), "hunter2");
//!         }
//!     }
//! }
//! # engine.shutdown();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod catalog;
mod error;
mod origin;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dataglot_model::def::SecretOrigin;
use dataglot_model::{HeadRecord, Mutation, Name, OrgName, Sensitive, Seq};
use dataglot_planner::{Image, Secret};
use dataglot_store::record::{Loaded, decode_image_row};
use dataglot_store::{ImageSink, MetaStore, Table};
use dataglot_vault::{self as vault, DataKeys, KeyRing, Place, SealedWith, VaultError};

pub use catalog::{CatalogOption, ResolvedCatalog};
pub use error::ResolveError;

use crate::clock::{Clock, SystemClock};
use crate::engine::CANARY_KEY;
use crate::seal::SECRET_KIND;

/// A secret that an option of a catalog refers to. Holds no value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretRef {
    /// In which org.
    pub org: OrgName,
    /// Its name.
    pub name: Name,
    /// The number of its value when the catalogs were read; 0: there was no such secret.
    pub version: u64,
    /// `AS FILE`: what needs it gets a file with the value in it.
    pub as_file: bool,
}

/// Reads catalogs from a store, and resolves the secrets that they refer to.
///
/// Each call answers of the newest committed state: the store is asked for the org's last transaction, and read
/// again where that is another one than before. What is kept meanwhile is what the store holds: ciphertexts.
pub struct Resolver<'a> {
    store: &'a dyn MetaStore,
    ring: KeyRing,
    clock: Arc<dyn Clock>,
    images: Mutex<BTreeMap<OrgName, Arc<Image>>>,
}

impl std::fmt::Debug for Resolver<'_> {
    /// Without what it has read.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("store", &self.store.facts().location).finish_non_exhaustive()
    }
}

impl<'a> Resolver<'a> {
    /// Of a store, with the key ring that its coordinators have. Without keys ([`KeyRing::none`]) it reads
    /// catalogs, and resolves what is not in the store. Reads nothing yet.
    pub fn new(store: &'a dyn MetaStore, ring: KeyRing) -> Self {
        Resolver { store, ring, clock: Arc::new(SystemClock), images: Mutex::default() }
    }

    /// With another clock than the system's: it decides until when a former value is resolved.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Whether the key ring is the store's. Who resolves many secrets asks this first: with another ring each would
    /// fail by itself.
    ///
    /// # Errors
    /// [`ResolveError::Key`]: it is not, or the store has a key and the ring none. The store cannot be read.
    pub fn check_key(&self) -> Result<(), ResolveError> {
        match self.store.meta_get(CANARY_KEY)? {
            Some(canary) => {
                vault::check_canary(&self.ring, self.store.facts().store_id, &canary).map_err(ResolveError::Key)
            }
            None => Ok(()),
        }
    }

    /// The catalogs of an org in the order of their names, disabled ones too. Secrets are references.
    ///
    /// # Errors
    /// The store cannot be read; there is no such org.
    pub fn catalogs(&self, org: &OrgName) -> Result<Vec<ResolvedCatalog>, ResolveError> {
        self.catalogs_at(org).map(|(_, catalogs)| catalogs)
    }

    /// As [`Resolver::catalogs`], with the number of the transaction that they are the state of.
    ///
    /// # Errors
    /// As for [`Resolver::catalogs`].
    pub fn catalogs_at(&self, org: &OrgName) -> Result<(Seq, Vec<ResolvedCatalog>), ResolveError> {
        let image = self.image(org)?;
        let catalogs = image.catalogs().map(|(name, found)| ResolvedCatalog::of(&image, name, &found)).collect();
        Ok((image.seq(), catalogs))
    }

    /// The present value of a secret, whatever number `secret` was read with.
    ///
    /// # Errors
    /// [`ResolveError`] says why it cannot be had.
    pub fn resolve(&self, secret: &SecretRef) -> Result<Sensitive, ResolveError> {
        let image = self.image(&secret.org)?;
        let found = image.secret(&secret.name).ok_or_else(|| ResolveError::NoSecret { secret: secret.name.clone() })?;
        self.present(&image, secret, &found)
    }

    /// The value of that number: the present one, or the one before it while it is kept
    /// (`ALTER SECRET … GRACE`). For those who were given a reference before a rotation.
    ///
    /// # Errors
    /// As for [`Resolver::resolve`]; [`ResolveError::Gone`]: no value of that number is to be had any more.
    pub fn resolve_version(&self, secret: &SecretRef, version: u64) -> Result<Sensitive, ResolveError> {
        let image = self.image(&secret.org)?;
        let found = image.secret(&secret.name).ok_or_else(|| ResolveError::NoSecret { secret: secret.name.clone() })?;
        if found.meta.value_version == version {
            return self.present(&image, secret, &found);
        }
        match found.meta.previous_at(self.clock.now()) {
            Some(previous) if previous.value_version == version => {
                let envelope = found.previous.filter(|_| !image.is_previous_unreadable(&secret.name));
                self.value(&image, secret, version, &previous.origin, envelope.map(AsRef::as_ref))
            }
            Some(_) | None => Err(ResolveError::Gone { secret: secret.name.clone(), version }),
        }
    }

    fn present(&self, image: &Image, secret: &SecretRef, found: &Secret<'_>) -> Result<Sensitive, ResolveError> {
        let envelope = found.envelope.filter(|_| !image.is_unreadable(&secret.name));
        self.value(image, secret, found.meta.value_version, &found.meta.origin, envelope.map(AsRef::as_ref))
    }

    /// The value from where it is.
    fn value(
        &self,
        image: &Image,
        secret: &SecretRef,
        value_version: u64,
        origin: &SecretOrigin,
        envelope: Option<&[u8]>,
    ) -> Result<Sensitive, ResolveError> {
        let name = &secret.name;
        match origin {
            // No statement makes one there. What is in the store is not believed to be so.
            SecretOrigin::Env(_) | SecretOrigin::File(_) if !image.org().is_default() => {
                Err(ResolveError::NotOfPlatform { secret: name.clone() })
            }
            SecretOrigin::Env(variable) => origin::variable(name, variable),
            SecretOrigin::File(path) => origin::file(name, path),
            SecretOrigin::Sealed(_) => {
                let failed = |error| ResolveError::of_vault(name, error);
                let envelope = envelope.ok_or_else(|| failed(VaultError::Damaged))?;
                let store_id = self.store.facts().store_id;
                let at = Place { store_id, org: image.org(), kind: SECRET_KIND, name: name.as_str(), value_version };
                let keys = match vault::sealed_with(envelope).map_err(failed)? {
                    SealedWith::Master(_) => DataKeys::none(),
                    SealedWith::DataKey(no) => {
                        let (wrapped, _) = image.data_key(no).ok_or_else(|| failed(VaultError::NoDataKey { no }))?;
                        DataKeys::open(&self.ring, store_id, image.org(), [(no, wrapped.as_ref())]).map_err(failed)?
                    }
                };
                vault::open(&self.ring, &keys, &at, envelope).map_err(failed)
            }
        }
    }

    /// The newest state of an org.
    fn image(&self, org: &OrgName) -> Result<Arc<Image>, ResolveError> {
        let none = || ResolveError::NoOrg { org: org.clone() };
        let head = self.store.head(org)?.ok_or_else(none)?;
        let known = self.images.lock().unwrap_or_else(PoisonError::into_inner).get(org).cloned();
        if let Some(known) = known.filter(|image| is_at(image.head(), head)) {
            return Ok(known);
        }
        let mut reading = Reading { org, image: None };
        self.store.load(org, &mut reading)?;
        let image = Arc::new(reading.image.ok_or_else(none)?);
        self.images.lock().unwrap_or_else(PoisonError::into_inner).insert(org.clone(), Arc::clone(&image));
        Ok(image)
    }
}

/// Whether both are the same state. The next identity is the image's own affair.
fn is_at(a: HeadRecord, b: HeadRecord) -> bool {
    (a.org_id, a.seq, a.at) == (b.org_id, b.seq, b.at)
}

/// An image while it is read. What is damaged is left out: a secret without its ciphertext is unreadable.
struct Reading<'a> {
    org: &'a OrgName,
    image: Option<Image>,
}

impl ImageSink for Reading<'_> {
    fn begin(&mut self, head: HeadRecord) {
        self.image = Some(Image::new(self.org.clone(), head));
    }

    fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
        let Some(image) = &mut self.image else { return };
        match decode_image_row(table, key, value) {
            Loaded::Row(row) => image.apply(&Mutation::Put(row)),
            Loaded::Damaged(damage) => tracing::error!(org = self.org.as_str(), "damaged: {damage}"),
        }
    }
}
