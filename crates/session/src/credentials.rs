//! What a user has to prove, before it is known whether there is such a user.
//!
//! In: the names that a client gives. Out: [`Credentials`], of the same form whoever it is: for a user who is not
//! there, may not log in, has no password or whose time is over they hold a verifier that is made up and matches
//! nothing, at the cost that is the commonest in its org. They are decided on what a shared store has now,
//! as logins are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use dataglot_model::command::{AlterRole, AlterRoleAction, CreateRole, PasswordChange};
use dataglot_model::def::{ObjectId, RoleDef};
use dataglot_model::{Actor, Command, Name, OrgName, Report, Sensitive, Seq};
use dataglot_planner::Image;
use dataglot_store::{MetaStore, StoreError};
use dataglot_vault::{Entropy, VaultError, argon2, scram};
use zeroize::Zeroizing;

use crate::engine::Engine;
use crate::login::find_org;
use crate::seal::{self, open_verifier};

/// Where the store keeps what made-up verifiers are made of. It is the same for all coordinators, for ever.
const MOCK_KEY: &str = "login_mock";
/// Bytes of it.
const MOCK_BYTES: usize = 32;
/// How many verifiers of an org are looked at for the commonest kind.
const SAMPLE_MAX: usize = 256;
/// How many orgs' commonest kinds are remembered.
const COMMONEST_MAX: usize = 1_000;

/// What a password is checked against.
pub enum PasswordVerifier {
    /// Of an exchange, or of the password itself.
    Scram(scram::Verifier),
    /// Of the password itself.
    Argon2id(Zeroizing<String>),
    /// Of a hash of the password.
    Md5(Zeroizing<String>),
}

impl PasswordVerifier {
    /// Reads a verifier as it is stored, opened. `None`: it is none that is known.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if let Some(verifier) = scram::Verifier::parse(text) {
            return Some(PasswordVerifier::Scram(verifier));
        }
        let text = Zeroizing::new(text.to_owned());
        if argon2::is_verifier(&text) {
            Some(PasswordVerifier::Argon2id(text))
        } else if dataglot_vault::md5::is_verifier(&text) {
            Some(PasswordVerifier::Md5(text))
        } else {
            None
        }
    }
}

impl std::fmt::Debug for PasswordVerifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PasswordVerifier::Scram(_) => "Scram(..)",
            PasswordVerifier::Argon2id(_) => "Argon2id(..)",
            PasswordVerifier::Md5(_) => "Md5(..)",
        })
    }
}

/// What a user has to prove.
#[derive(Debug)]
pub struct Credentials {
    /// What it is checked against. Of somebody who cannot log in by a password, it is made up.
    pub verifier: PasswordVerifier,
    /// Whether a right password lets the user in. Nothing that a client sees before its proof may depend on it.
    pub may_log_in: bool,
    /// Iterations of a made-up verifier.
    pub mock_iterations: u32,
    mock: scram::Verifier,
    proof: Option<Proof>,
}

impl Credentials {
    /// For SCRAM: the user's verifier, or one that is made up where the user's is of another kind.
    pub fn scram(&self) -> scram::Subject {
        match &self.verifier {
            PasswordVerifier::Scram(verifier) if self.may_log_in => scram::Subject::Known(verifier.clone()),
            PasswordVerifier::Scram(_) | PasswordVerifier::Argon2id(_) | PasswordVerifier::Md5(_) => {
                scram::Subject::Unknown(self.mock.clone())
            }
        }
    }

    /// Whether `password` lets the user in. Takes as long whoever it is: milliseconds to tenths of a second, and up
    /// to 64 MiB. Not for threads of an async runtime, and not for many at once.
    pub fn is_password(&self, password: &Sensitive) -> bool {
        let is_right = match &self.verifier {
            PasswordVerifier::Scram(verifier) => verifier.is_of(password),
            PasswordVerifier::Argon2id(text) => argon2::matches(password, text),
            // The password is not what it is made for.
            PasswordVerifier::Md5(_) => self.mock.is_of(password) & false,
        };
        is_right & self.may_log_in
    }

    /// What the session is to know of the proof, once it was given.
    pub fn into_proof(self) -> Option<Proof> {
        self.proof.filter(|_| self.may_log_in)
    }
}

/// Who was let in, and by which password: another role of the same name is not meant, and a session that came in
/// by a password ends with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Proof {
    pub(crate) org_id: u64,
    pub(crate) role: ObjectId,
    /// The verifier as it is stored. `None`: the session itself has taken the password away.
    pub(crate) stored: Option<Arc<str>>,
    /// Of the verifier, opened: it stays when it is sealed again.
    pub(crate) digest: [u8; 32],
}

impl Proof {
    /// The session has set `password`. It is what the session has proved, if the role has it and no other.
    pub(crate) fn renew(&mut self, engine: &Engine, image: &Image, name: &Name, password: NewPassword) {
        let Some(stored) = image.role(name).map(|role| role.def.verifier.clone()) else { return };
        match (stored, password) {
            (Some(stored), NewPassword::Verifier(digest)) => {
                let opened = open_verifier(engine, image, name);
                if matches!(opened, Ok(Some(opened)) if dataglot_vault::hash(opened.as_bytes()).0 == digest) {
                    (self.stored, self.digest) = (Some(stored), digest);
                }
            }
            (None, NewPassword::None) => self.stored = None,
            (Some(_), NewPassword::None) | (None, NewPassword::Verifier(_)) => {}
        }
    }
}

/// A password that a statement sets, as it can be known again however it is sealed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewPassword {
    /// The digest of its verifier.
    Verifier([u8; 32]),
    /// It is taken away.
    None,
}

impl std::fmt::Debug for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proof").field("org_id", &self.org_id).field("role", &self.role).finish_non_exhaustive()
    }
}

/// The kind of verifier that most users of an org have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Common {
    Scram(u32),
    Argon2id,
}

/// What stands for users without a password.
#[derive(Clone)]
struct Commonest {
    kind: Common,
    /// One of the users whose verifier is of that kind. It is opened in the place of the one that is not there: that
    /// takes time, which would tell who is.
    example: Option<Name>,
}

/// What made-up verifiers are made of.
pub(crate) struct Mock {
    secret: Zeroizing<Vec<u8>>,
    commonest: Mutex<BTreeMap<OrgName, (u64, Seq, Commonest)>>,
}

impl Mock {
    /// Reads it from the store, in which it is made the first time.
    ///
    /// # Errors
    /// The store cannot be asked; there is no randomness.
    pub(crate) fn load(store: &dyn MetaStore, entropy: &dyn Entropy) -> Result<Mock, MockError> {
        let secret = match store.meta_get(MOCK_KEY)? {
            Some(secret) => secret,
            None => {
                let mut fresh = vec![0; MOCK_BYTES];
                entropy.fill(&mut fresh).map_err(VaultError::from)?;
                store.meta_init(MOCK_KEY, &fresh)?
            }
        };
        Ok(Mock { secret: Zeroizing::new(secret), commonest: Mutex::default() })
    }
}

/// Why there is none.
pub(crate) enum MockError {
    Store(StoreError),
    Vault(VaultError),
}

impl From<StoreError> for MockError {
    fn from(error: StoreError) -> Self {
        MockError::Store(error)
    }
}

impl From<VaultError> for MockError {
    fn from(error: VaultError) -> Self {
        MockError::Vault(error)
    }
}

impl Engine {
    /// What `user` has to prove to be let into `database`.
    ///
    /// # Errors
    /// The state of the org cannot be known. Never that somebody does not exist.
    pub async fn credentials(&self, user: &str, database: Option<&str>) -> Result<Credentials, Report> {
        let found = find_org(self, database, user).await.map_err(|e| e.fatal().into_report())?;
        let name = Name::new(user).ok();
        let (Commonest { kind: common, example }, org_name) = match &found {
            Some((org, state)) => (self.commonest(org, &state.0), org.as_str()),
            None => (self.no_example(), ""),
        };
        let mock_iterations = match common {
            Common::Scram(iterations) => iterations,
            Common::Argon2id => self.config().scram_iterations,
        };
        let mock_name = format!("{org_name}\0{user}");
        let secret = &self.mock().secret;
        let mock = scram::mock_verifier(secret, &mock_name, mock_iterations);
        let has_password = |name: &Name| {
            found.as_ref().is_some_and(|(_, state)| state.0.role(name).is_some_and(|role| role.def.verifier.is_some()))
        };
        let is_there = name.as_ref().is_some_and(has_password);
        // Whose verifier is opened: the user's, or another one's, for the time that it takes.
        let opened = if is_there { name } else { example };
        let role = found.as_ref().and_then(|(_, state)| Some((state, state.0.role(opened.as_ref()?)?)));
        let known = role.and_then(|(state, role)| {
            let stored = role.def.verifier.clone()?;
            let verifier = match open_verifier(self, &state.0, opened.as_ref()?) {
                Ok(opened) => opened?,
                Err(error) => {
                    tracing::error!(%error, "a password's verifier cannot be opened");
                    return None;
                }
            };
            let digest = dataglot_vault::hash(verifier.as_bytes()).0;
            let proof = Proof { org_id: state.0.head().org_id, role: role.header.id, stored: Some(stored), digest };
            Some((PasswordVerifier::read(&verifier)?, may_log_in(self, role.def), proof))
        });
        Ok(match known.filter(|_| is_there) {
            Some((verifier, may_log_in, proof)) => {
                Credentials { verifier, may_log_in, mock_iterations, mock, proof: Some(proof) }
            }
            None => {
                let verifier = match common {
                    Common::Scram(_) => PasswordVerifier::Scram(mock.clone()),
                    Common::Argon2id => {
                        PasswordVerifier::Argon2id(Zeroizing::new(argon2::mock_verifier(secret, &mock_name)))
                    }
                };
                Credentials { verifier, may_log_in: false, mock_iterations, mock, proof: None }
            }
        })
    }

    /// The org that `database` means for `user`.
    ///
    /// # Errors
    /// The state of the store cannot be known.
    pub async fn org_of(&self, user: &str, database: &str) -> Result<Option<OrgName>, Report> {
        let found = find_org(self, Some(database), user).await.map_err(|e| e.fatal().into_report())?;
        Ok(found.map(|(org, _)| org))
    }

    /// The kind of verifier that most users have: looked for again whenever the org has changed, for everybody.
    fn commonest(&self, org: &OrgName, image: &Image) -> Commonest {
        let head = image.head();
        let remembered = self.mock().commonest.lock().unwrap_or_else(PoisonError::into_inner).get(org).cloned();
        if let Some((org_id, seq, common)) = remembered
            && (org_id, seq) == (head.org_id, head.seq)
        {
            return common;
        }
        let mut counts: BTreeMap<Common, (usize, &Name)> = BTreeMap::new();
        let users = image.roles().filter(|(_, role)| role.def.login && role.def.verifier.is_some());
        for (name, _) in users.take(SAMPLE_MAX) {
            let opened = open_verifier(self, image, name).ok().flatten();
            let kind = match opened.and_then(|text| PasswordVerifier::read(&text)) {
                Some(PasswordVerifier::Scram(verifier)) => Common::Scram(verifier.iterations),
                Some(PasswordVerifier::Argon2id(_)) => Common::Argon2id,
                Some(PasswordVerifier::Md5(_)) | None => continue,
            };
            counts.entry(kind).or_insert((0, name)).0 += 1;
        }
        let common = counts.into_iter().max_by_key(|(_, (count, _))| *count);
        let common = common.map(|(kind, (_, name))| Commonest { kind, example: Some(name.clone()) });
        let common = common.unwrap_or_else(|| self.no_example());
        let mut commonest = self.mock().commonest.lock().unwrap_or_else(PoisonError::into_inner);
        if commonest.len() >= COMMONEST_MAX {
            commonest.clear();
        }
        commonest.insert(org.clone(), (head.org_id, head.seq, common.clone()));
        common
    }

    fn no_example(&self) -> Commonest {
        Commonest { kind: Common::Scram(self.config().scram_iterations), example: None }
    }
}

/// Whether the user may log in at all.
pub(crate) fn may_log_in(engine: &Engine, role: &RoleDef) -> bool {
    role.login && role.valid_until.is_none_or(|until| until > engine.now())
}

/// Whether the password that `proof` was given for is still the role's.
pub(crate) fn still_holds(engine: &Engine, image: &Image, name: &Name, proof: &mut Proof) -> bool {
    let stored = image.role(name).and_then(|role| role.def.verifier.clone());
    if stored == proof.stored {
        return true;
    }
    if stored.is_none() {
        return false;
    }
    match open_verifier(engine, image, name) {
        Ok(Some(opened)) if dataglot_vault::hash(opened.as_bytes()).0 == proof.digest => {
            proof.stored = stored;
            true
        }
        Ok(_) => false,
        // What cannot be opened says nothing of the password.
        Err(_) => true,
    }
}

/// The role whose password `command` sets, and what to.
pub(crate) fn password_of<'a, V>(command: &'a Command<V>, actor: &Actor) -> Option<(Name, &'a PasswordChange<V>)> {
    if let Command::CreateRole(CreateRole { name, attributes, .. }) = command {
        return attributes.password.as_ref().map(|password| (name.value.clone(), &password.value));
    }
    if let Command::AlterRole(AlterRole { role, action: AlterRoleAction::Attributes { attributes, .. }, .. }) = command
    {
        let password = attributes.password.as_ref()?;
        return Some((seal::selected(role, actor)?, &password.value));
    }
    None
}
