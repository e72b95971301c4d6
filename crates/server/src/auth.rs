//! Who a client is: from what it claims to a [`Principal`].
//!
//! A principal is a proof. Only [`authenticate`] makes one, and a session is started from nothing
//! else, so no error of any layer can leave a connection usable that was not let in.

use std::net::IpAddr;

use dataglot_session::Login;

use crate::config::Auth;
use crate::refusal::Refusal;
use crate::startup::Startup;

/// How users are let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// By what proof. Trust is for peers on loopback, unless `trust_remote` is set.
    pub method: Auth,
    /// Whether peers off loopback are trusted, too. Unsafe.
    pub trust_remote: bool,
}

/// A user that has been let in.
#[derive(Debug)]
pub(crate) struct Principal {
    user: String,
    database: String,
}

impl Principal {
    /// What its session starts from.
    pub(crate) fn login(self, parameters: Vec<(String, String)>, client: String, pid: i32) -> Login {
        Login { user: self.user, database: Some(self.database), parameters, client, pid }
    }
}

/// Lets the user of `startup` in, or not. Of the startup parameters only `user` and `database` are
/// looked at: no other one can change the outcome.
///
/// # Errors
/// The peer is not to be trusted.
pub(crate) fn authenticate(with: &Authentication, startup: &Startup, peer: IpAddr) -> Result<Principal, Refusal> {
    match with.method {
        Auth::Trust if peer.to_canonical().is_loopback() || with.trust_remote => {
            Ok(Principal { user: startup.user.clone(), database: startup.database.clone() })
        }
        Auth::Trust => Err(Refusal::NotLocal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(peer: &str, trust_remote: bool, expected: bool) {
        let startup = Startup {
            minor: 0,
            negotiate: None,
            user: "a".to_owned(),
            database: "a".to_owned(),
            parameters: Vec::new(),
        };
        let with = Authentication { method: Auth::Trust, trust_remote };
        assert_eq!(authenticate(&with, &startup, peer.parse().unwrap()).is_ok(), expected);
    }

    #[test]
    fn trust_is_for_loopback() {
        check("127.0.0.1", false, true);
        check("127.8.8.8", false, true);
        check("::1", false, true);
        check("::ffff:127.0.0.1", false, true);
        check("::ffff:10.0.0.1", false, false);
        check("10.0.0.1", false, false);
        check("10.0.0.1", true, true);
    }
}
