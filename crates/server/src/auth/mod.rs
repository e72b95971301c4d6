//! Who a client is: from what it claims to a [`Principal`].
//!
//! A principal is a proof. Only [`authenticate`] makes one, and a session is started from nothing
//! else, so no error of any layer can leave a connection usable that was not let in.

mod hba;

use dataglot_session::Login;

pub(crate) use hba::Origin;
pub use hba::{Address, Hba, Kind, Method, Names, Network, Rule};

use crate::refusal::Refusal;
use crate::startup::Startup;

/// How users are let in.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// By what proof, and from where.
    pub hba: Hba,
    /// Whether peers off loopback are trusted, too, where the method is trust. Unsafe.
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
        Login { user: self.user, database: Some(self.database), parameters, client, pid, proof: None }
    }
}

/// Lets the user of `startup` in, or not. Of the startup parameters only `user` and `database` are
/// looked at: no other one can change the outcome.
///
/// # Errors
/// The peer is not to be trusted.
pub(crate) fn authenticate(with: &Authentication, startup: &Startup, origin: &Origin) -> Result<Principal, Refusal> {
    match with.hba.find(origin, &startup.database, &startup.user).map(|rule| rule.method) {
        Some(Method::Trust) if origin.peer.to_canonical().is_loopback() || with.trust_remote => {
            Ok(Principal { user: startup.user.clone(), database: startup.database.clone() })
        }
        Some(_) | None => Err(Refusal::NotLocal),
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
        let with = Authentication { hba: Hba::one(Method::Trust), trust_remote };
        let origin = Origin { peer: peer.parse().unwrap(), local: None, tls: false };
        assert_eq!(authenticate(&with, &startup, &origin).is_ok(), expected);
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
