//! One connection to a directory, by the library's hand.
//!
//! The library is given one end of a pair of sockets; the other one is where [`tunnel`](super::tunnel) passes on what
//! it says, encrypted, and what comes back, judged. It sees no network.

use dataglot_model::Sensitive;
use ldap3::{Ldap, LdapConnAsync, LdapConnSettings, LdapResult, StdStream};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::super::denied::{Denied, deny};
use super::tunnel::{Address, carry};

/// What the library takes for an address when it is given a socket. It connects to nothing.
const GIVEN: &str = "ldapi:///";

/// A connection.
pub(super) struct Connection {
    pub(super) ldap: Ldap,
    /// Aborted when it is dropped.
    driver: JoinSet<()>,
}

impl Connection {
    /// Connects.
    pub(super) async fn open(address: &Address) -> Result<Connection, Denied> {
        let Some(far) = address.connect().await else {
            return deny("the directory can't be reached, or its TLS or certificate is not one to trust");
        };
        let pair = UnixStream::pair().and_then(|(near, given)| Ok((near, given.into_std()?)));
        let Ok((near, given)) = pair else { return deny("there is no socket for the directory") };
        let settings = LdapConnSettings::new().set_std_stream(StdStream::Unix(given));
        let Ok((connection, ldap)) = LdapConnAsync::with_settings(settings, GIVEN).await else {
            return deny("there is no connection for the directory");
        };
        let mut driver = JoinSet::new();
        driver.spawn(carry(far, near));
        driver.spawn(async move { drop(connection.drive().await) });
        Ok(Connection { ldap, driver })
    }

    /// Binds as `dn`. Only success is one: not a referral, and not a password that has to be changed first.
    pub(super) async fn bind(&mut self, dn: &str, password: &Sensitive, denied: &'static str) -> Result<(), Denied> {
        match self.ldap.simple_bind(dn, password.open()).await {
            Ok(LdapResult { rc: 0, .. }) => Ok(()),
            Ok(_) | Err(_) => deny(denied),
        }
    }

    /// Says goodbye. Nothing depends on it.
    pub(super) async fn end(self) {
        let Connection { mut ldap, mut driver } = self;
        drop(ldap.unbind().await);
        drop(ldap);
        while driver.join_next().await.is_some() {}
    }
}
