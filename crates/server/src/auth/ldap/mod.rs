//! A directory that takes passwords: it is searched for the user's entry, and asked whether the password is that
//! entry's.
//!
//! In: a user's name and password. Out: the roles that the user's groups stand for, or why it may not come in, for
//! the log. Whatever the directory answers that is not a plain yes is a no, and so is no answer.
//!
//! Time does not tell whether the directory has the user: a password that is not taken has been tried on an entry,
//! even if there is none, and every no is said at a full second.
//!
//! Deliberately absent: connections that are kept (a bind on one that somebody else was bound on proves nothing),
//! referrals, and connections in clear.

mod connection;
mod frame;
mod tunnel;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dataglot_model::Sensitive;
use ldap3::{DerefAliases, Scope, SearchEntry, SearchOptions, ldap_escape, parse_filter};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::denied::{Denied, deny};
use super::groups::{mapped, values_of};
use super::roots;
use crate::private_file;
use connection::Connection;
use tunnel::Address;

/// How long it may take in all.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A no is said so long after the question, or twice, three times... as long.
const DENIAL_STEP: Duration = Duration::from_secs(1);
/// How many logins ask the directory at once. Each has one connection at a time.
const LOGINS_MAX: usize = 16;
/// Longest file with a password.
const PASSWORD_KILOBYTES_MAX: u64 = 1;
/// The name that is asked about in the place of one that is not there. No entry has it.
const NOBODY: &str = "nobody.invalid";
/// What stands for the user in a filter.
const USER: &str = "{user}";

/// The directory, and how users are found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryConfig {
    /// `ldaps://…`, or `ldap://…`, on which TLS is then asked for.
    pub url: String,
    /// The CAs of the server there; `None`: the operating system's.
    pub ca_file: Option<PathBuf>,
    /// The entry that may search, and the file with its password; `None`: everybody may.
    pub service: Option<(String, PathBuf)>,
    /// The entry below which users are.
    pub base: String,
    /// The filter that finds one, with `{user}` in the place of its name.
    pub filter: String,
    /// The attribute that holds the user's name. The entry found has to have it exactly as the client has it:
    /// directories take names for the same that are two users here.
    pub user_attribute: String,
    /// The attribute that holds the user's groups; `None`: they are not looked at.
    pub groups_attribute: Option<String>,
    /// For which roles they stand.
    pub roles: BTreeMap<String, Vec<String>>,
}

/// A line for the operator: where it is, and how a user is found there.
impl fmt::Display for DirectoryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {} below {}", self.url, self.filter, self.base)?;
        if let Some((entry, _)) = &self.service {
            write!(f, "; searched by {entry}")?;
        }
        if let Some(attribute) = &self.groups_attribute {
            write!(f, "; roles by {attribute}")?;
            values_of(&self.roles, f)?;
        }
        Ok(())
    }
}

/// The directory can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("directory \"{url}\": {why}")]
pub struct DirectoryError {
    /// Which.
    pub url: String,
    /// Why not.
    pub why: String,
}

/// A user whose password the directory has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LdapUser {
    /// The roles that the user's groups stand for. Empty: groups are not looked at.
    pub(crate) groups: Vec<String>,
}

/// A directory.
pub(crate) struct Directory {
    inner: Arc<Inner>,
    /// Held while the directory is asked.
    asking: Arc<Semaphore>,
}

struct Inner {
    config: DirectoryConfig,
    service: Option<(String, Sensitive)>,
    address: Address,
}

/// What the directory says of a user, before it has been asked about the password.
struct Found {
    dn: String,
    /// The roles that its groups stand for; `None`: groups are looked at, and there is none.
    roles: Option<Vec<String>>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Directory").field(&self.inner.config.url).finish()
    }
}

/// Whether `template` is a filter once a name stands in it.
pub(crate) fn is_filter(template: &str) -> bool {
    template.contains(USER) && parse_filter(template.replace(USER, "x")).is_ok()
}

impl Directory {
    /// Reads the files that the configuration names. The directory is not asked yet.
    ///
    /// # Errors
    /// One of them is none, or others than its owner can use the password's.
    pub(crate) fn load(config: DirectoryConfig) -> Result<Directory, DirectoryError> {
        let wrong = |why: String| DirectoryError { url: config.url.clone(), why };
        let tls = roots::client_config(config.ca_file.as_deref()).map_err(wrong)?;
        let address = Address::new(&config.url, tls).map_err(wrong)?;
        let service = match &config.service {
            None => None,
            Some((dn, file)) => {
                let password = private_file::read_line(file, PASSWORD_KILOBYTES_MAX)
                    .map_err(|unread| wrong(format!("file \"{}\": {unread}", file.display())))?;
                if is_none(&password) {
                    return Err(wrong(format!("file \"{}\" holds no password", file.display())));
                }
                Some((dn.clone(), password))
            }
        };
        let inner = Arc::new(Inner { config, service, address });
        Ok(Directory { inner, asking: Arc::new(Semaphore::new(LOGINS_MAX)) })
    }

    /// Whether `password` is `user`'s.
    ///
    /// # Errors
    /// It is not, or the directory does not say so.
    pub(crate) async fn bind(&self, user: &str, password: &Sensitive) -> Result<LdapUser, Denied> {
        // A bind without a password is one as nobody, and succeeds (RFC 4513, 5.1.2).
        if is_none(password) {
            return deny("the password is empty");
        }
        if user.is_empty() {
            return deny("the user's name is empty");
        }
        let begin = Instant::now();
        let outcome = self.ask(user, password, begin + TIMEOUT).await;
        if outcome.is_err() {
            sleep_until(denial(begin, Instant::now())).await;
        }
        outcome
    }

    async fn ask(&self, user: &str, password: &Sensitive, deadline: Instant) -> Result<LdapUser, Denied> {
        let Ok(Ok(permit)) = timeout_at(deadline, Arc::clone(&self.asking).acquire_owned()).await else {
            return deny("too many logins ask the directory");
        };
        let (inner, user, password) = (Arc::clone(&self.inner), user.to_owned(), password.clone());
        // On a task of its own: a malformed answer, which may panic in the library, ends that and nothing else.
        let mut task = tokio::task::JoinSet::new();
        task.spawn(async move {
            let _permit = permit;
            inner.bind(&user, &password).await
        });
        match timeout_at(deadline, task.join_next()).await {
            Ok(Some(Ok(outcome))) => outcome,
            Ok(Some(Err(_)) | None) => deny("the directory's answer is none of LDAP"),
            Err(_) => deny("the directory did not answer in time"),
        }
    }
}

/// When a question that was asked at `begin` and is answered by now gets its no.
fn denial(begin: Instant, now: Instant) -> Instant {
    let steps = now.saturating_duration_since(begin).as_millis() / DENIAL_STEP.as_millis() + 1;
    let after = DENIAL_STEP.saturating_mul(u32::try_from(steps).unwrap_or(u32::MAX));
    // Who waited for the directory to the end has waited long enough.
    begin + after.min(TIMEOUT)
}

impl Inner {
    async fn bind(&self, user: &str, password: &Sensitive) -> Result<LdapUser, Denied> {
        let found = self.find(user).await?;
        // A fresh connection: nobody is bound on it, and nothing that was said before can be mistaken for the answer.
        let mut connection = Connection::open(&self.address).await?;
        let Found { dn, roles } = match found {
            Ok(found) => found,
            // As much is done for a user who is not there. Whatever comes of it, it is a no.
            Err(denied) => {
                let nobody = format!("{}={NOBODY},{}", self.config.user_attribute, self.config.base);
                if connection.bind(&nobody, password, denied.reason).await.is_ok() {
                    tracing::warn!("the directory takes a password for a name that is not there");
                }
                return Err(denied);
            }
        };
        connection.bind(&dn, password, "the password is not the user's in the directory").await?;
        connection.end().await;
        match roles {
            Some(groups) => Ok(LdapUser { groups }),
            None => deny("the user has no group that stands for a role"),
        }
    }

    /// The user's entry; the inner error: there is not one of that very name.
    async fn find(&self, user: &str) -> Result<Result<Found, Denied>, Denied> {
        const NOT_ONE: &str = "the directory does not find one entry of the user";
        let config = &self.config;
        let mut connection = Connection::open(&self.address).await?;
        if let Some((dn, password)) = &self.service {
            connection.bind(dn, password, "the directory does not take the server's own password").await?;
        }
        // More than one is none: two are enough to know.
        let options = SearchOptions::new().deref(DerefAliases::Never).sizelimit(2).timelimit(5);
        let filter = config.filter.replace(USER, &ldap_escape(user));
        let mut attributes = vec![config.user_attribute.as_str()];
        attributes.extend(config.groups_attribute.as_deref());
        let found = connection.ldap.with_search_options(options);
        let found = found.search(&config.base, Scope::Subtree, &filter, attributes).await;
        connection.end().await;
        // Too many, a referral, a base that is not there: all of them are errors here.
        let Ok((entries, _)) = found.and_then(ldap3::SearchResult::success) else { return Ok(deny(NOT_ONE)) };
        let Ok([entry]) = <[_; 1]>::try_from(entries) else { return Ok(deny(NOT_ONE)) };
        let entry = SearchEntry::construct(entry);
        if entry.dn.is_empty() {
            return Ok(deny("the entry of the user has no name"));
        }
        if !values(&entry, &config.user_attribute).any(|name| name == user) {
            return Ok(deny("the entry that the directory finds is not of that very name"));
        }
        let roles = match &config.groups_attribute {
            None => Some(Vec::new()),
            Some(attribute) => {
                let roles = mapped(values(&entry, attribute).map(String::as_str), &config.roles);
                Some(roles).filter(|roles| !roles.is_empty())
            }
        };
        Ok(Ok(Found { dn: entry.dn, roles }))
    }
}

/// The values of an attribute, whose name the directory may write otherwise.
fn values<'a>(entry: &'a SearchEntry, attribute: &str) -> impl Iterator<Item = &'a String> {
    entry.attrs.iter().filter(|(name, _)| name.eq_ignore_ascii_case(attribute)).flat_map(|(_, values)| values)
}

/// Whether a bind with this would be one as nobody, here or in a directory that ends texts at NUL.
fn is_none(password: &Sensitive) -> bool {
    password.open().is_empty() || password.open().starts_with('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_01_a_no_is_said_at_a_full_second() {
        let begin = Instant::now();
        for (after, said) in [(0, 1000), (3, 1000), (999, 1000), (1000, 2000), (4100, 5000), (5000, 5000), (5003, 5000)]
        {
            let found = denial(begin, begin + Duration::from_millis(after));
            assert_eq!(found, begin + Duration::from_millis(said), "{after}");
        }
    }
}
