//! Tokens: what an issuer says of a user, signed by it, in the place of a password.
//!
//! In: a token, and the user and database that the client wants. Out: that the user may come in, or why not, for
//! the log. Each rule is one of `docs/authentication.md`; none can be turned off. The signature is looked at before
//! any claim but the issuer's name, which says whose keys it is looked at with: keys of one issuer verify nothing
//! of another's.
//!
//! Deliberately absent: tokens that are kept, looked up at the issuer, or encrypted; keys that a token brings along.

mod claims;
mod fetch;
mod json;
mod keys;
mod source;
#[cfg(test)]
mod tests;
mod token;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dataglot_model::Sensitive;
use dataglot_session::{Clock as _, SystemClock};
use tokio::time::Instant;

pub use keys::Algorithm;
pub(super) use token::TOKEN_BYTES_MAX;

use super::denied::{Denied, deny};
use super::groups::values_of;
use super::hba::Network;
use fetch::Address;
use source::{Place, Source};
use token::Token;

/// Whom we believe, and what of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerConfig {
    /// Its name, as it stands in `iss`.
    pub issuer: String,
    /// Who we are to it: one of these has to stand in `aud`. Never empty.
    pub audience: Vec<String>,
    /// Where its keys are.
    pub keys: KeyPlace,
    /// How it may sign. Never empty.
    pub algorithms: Vec<Algorithm>,
    /// What may stand in `typ`, in lower case; an empty text: nothing need stand there.
    pub types: Vec<String>,
    /// How far its clock may be off ours.
    pub leeway: Duration,
    /// How long a token may live.
    pub lifetime_max: Duration,
    /// The claim that stands for a user, as the path to it; empty: `sub`.
    pub user_claim: Vec<String>,
    /// For whom that claim's values stand; empty: for the user of that very name.
    pub users: BTreeMap<String, Vec<String>>,
    /// The claim with the user's groups, as the path to it; empty: groups are not looked at.
    pub roles_claim: Vec<String>,
    /// For which roles they stand.
    pub roles: BTreeMap<String, Vec<String>>,
    /// The databases (orgs) that it may let users into; empty: all.
    pub databases: Vec<String>,
}

/// A line for the operator: whose tokens are taken, and what for. Of an address nothing that follows a `?`.
impl fmt::Display for IssuerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}; keys of ", self.issuer, self.audience.join(", "))?;
        match &self.keys {
            KeyPlace::File(file) => write!(f, "{}", file.display())?,
            KeyPlace::Url { url, .. } => f.write_str(url.split('?').next().unwrap_or_default())?,
        }
        let algorithms = self.algorithms.iter().copied().map(Algorithm::as_str);
        write!(f, "; {}", algorithms.collect::<Vec<_>>().join(", "))?;
        let claim = if self.user_claim.is_empty() { "sub".to_owned() } else { self.user_claim.join(".") };
        write!(f, "; users by {claim}")?;
        values_of(&self.users, f)?;
        if !self.roles_claim.is_empty() {
            write!(f, "; roles by {}", self.roles_claim.join("."))?;
            values_of(&self.roles, f)?;
        }
        if !self.databases.is_empty() {
            write!(f, "; databases {}", self.databases.join(", "))?;
        }
        Ok(())
    }
}

/// Where an issuer's keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// In a file.
    File(PathBuf),
    /// At an address.
    Url {
        /// The address.
        url: String,
        /// The CAs of the server there; `None`: the operating system's.
        ca_file: Option<PathBuf>,
        /// Networks that are not public and may be asked.
        networks: Vec<Network>,
    },
}

/// An issuer's keys can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("keys of the issuer \"{issuer}\": {why}")]
pub struct IssuerError {
    /// Whose.
    pub issuer: String,
    /// Why not.
    pub why: String,
}

/// A user whom an issuer vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenUser {
    /// The roles that the token's groups stand for. Empty: the issuer's groups are not looked at.
    pub(crate) role_names: Vec<String>,
}

struct Issuer {
    config: IssuerConfig,
    keys: Arc<Source>,
}

/// All whom we believe.
pub(crate) struct Issuers(Vec<Issuer>);

impl std::fmt::Debug for Issuers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|issuer| &issuer.config.issuer)).finish()
    }
}

impl Issuers {
    /// Reads what files there are. Nobody is asked yet.
    ///
    /// # Errors
    /// A file or an address is none.
    pub(crate) fn load(configs: Vec<IssuerConfig>) -> Result<Issuers, IssuerError> {
        let issuer = |config: IssuerConfig| {
            let wrong = |why: String| IssuerError { issuer: config.issuer.clone(), why };
            let place = match &config.keys {
                KeyPlace::File(path) => Place::File(path.clone()),
                KeyPlace::Url { url, ca_file, networks } => {
                    Place::Url(Address::new(url, ca_file.as_deref(), networks.clone()).map_err(wrong)?)
                }
            };
            let keys = Source::new(config.issuer.clone(), place);
            keys.load().map_err(|why| wrong(why.to_owned()))?;
            Ok(Issuer { config, keys })
        };
        Ok(Issuers(configs.into_iter().map(issuer).collect::<Result<_, _>>()?))
    }

    /// Whether an issuer is for some databases only: then [`Issuers::verify`] has to be told the org's own name.
    pub(crate) fn names_databases(&self) -> bool {
        self.0.iter().any(|issuer| !issuer.config.databases.is_empty())
    }

    /// Whether `token` lets `user` into `database`.
    ///
    /// # Errors
    /// It does not.
    pub(crate) async fn verify(&self, token: &Sensitive, user: &str, database: &str) -> Result<TokenUser, Denied> {
        #[allow(clippy::cast_precision_loss, reason = "microseconds since 1970 are far below 2^53")]
        let now = SystemClock.now().0 as f64 / 1e6;
        self.verify_at(token, user, database, now, Instant::now()).await
    }

    /// The same at `now` in seconds since 1970; `instant` is when that is for keys that grow old.
    async fn verify_at(
        &self,
        token: &Sensitive,
        user: &str,
        database: &str,
        now: f64,
        instant: Instant,
    ) -> Result<TokenUser, Denied> {
        let token = Token::read(token)?;
        let is_its = |issuer: &&Issuer| token.issuer.as_ref() == Some(&issuer.config.issuer);
        let Some(Issuer { config, keys }) = self.0.iter().find(is_its) else {
            return deny("the token is of nobody whom we know");
        };
        if !config.databases.is_empty() && !config.databases.iter().any(|name| name == database) {
            return deny("the token's issuer lets nobody into this database");
        }
        if !config.algorithms.contains(&token.algorithm) {
            return deny("the token's algorithm is not one of its issuer's");
        }
        let typ = token.typ.as_deref().unwrap_or_default().to_ascii_lowercase();
        let typ = typ.strip_prefix("application/").unwrap_or(&typ);
        if !config.types.iter().any(|known| known == typ) {
            return deny("the token is of another type");
        }
        let key = keys.key(token.kid.as_deref(), instant).await?;
        match key.has_signed(token.algorithm, token.signed.as_bytes(), token.signature) {
            None => return deny("the token's algorithm is not one of its key's"),
            Some(false) => return deny("the token's signature is not its key's"),
            Some(true) => {}
        }
        claims::judge(&token.claims()?, config, user, now)
    }
}
