//! One connection to a directory. It is encrypted, and to a server that has shown its certificate, or there is none.

use std::sync::Arc;
use std::time::Duration;

use dataglot_model::Sensitive;
use ldap3::{Ldap, LdapConnAsync, LdapConnSettings, LdapResult};
use rustls::ClientConfig;
use tokio::task::JoinSet;

use super::super::denied::{Denied, deny};

/// How long any one step may take; all of them together have no more than that, either.
const STEP: Duration = Duration::from_secs(5);

/// A connection.
pub(super) struct Connection {
    pub(super) ldap: Ldap,
    /// Aborted when it is dropped.
    _driver: JoinSet<()>,
}

impl Connection {
    /// Connects. TLS comes with the connection or is asked for first; without it nothing else is said.
    pub(super) async fn open(url: &str, tls: Arc<ClientConfig>) -> Result<Connection, Denied> {
        let settings = LdapConnSettings::new()
            .set_conn_timeout(STEP)
            .set_config(tls)
            .set_no_tls_verify(false)
            .set_starttls(!url.starts_with("ldaps://"));
        let Ok((connection, ldap)) = LdapConnAsync::with_settings(settings, url).await else {
            return deny("the directory can't be reached, or its TLS or certificate is not one to trust");
        };
        let mut driver = JoinSet::new();
        driver.spawn(async move { drop(connection.drive().await) });
        Ok(Connection { ldap, _driver: driver })
    }

    /// Binds as `dn`. Only success is one: not a referral, and not a password that has to be changed first.
    pub(super) async fn bind(&mut self, dn: &str, password: &Sensitive, denied: &'static str) -> Result<(), Denied> {
        match self.ldap.simple_bind(dn, password.open()).await {
            Ok(LdapResult { rc: 0, .. }) => Ok(()),
            Ok(_) | Err(_) => deny(denied),
        }
    }

    /// Says goodbye. Nothing depends on it.
    pub(super) async fn end(mut self) {
        drop(self.ldap.unbind().await);
    }
}
