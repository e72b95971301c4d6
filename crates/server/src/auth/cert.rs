//! Login by a client's certificate: a name in it has to be the user's, or to stand for it.

use super::Rule;
use crate::refusal::Refusal;
use crate::tls::{ClientCertificate, Security};

/// Whether the certificate lets `user` in. Its chain has been verified by TLS.
///
/// # Errors
/// There is none, or it is another one's.
pub(super) fn check(security: &Security, rule: &Rule, user: &str) -> Result<(), Refusal> {
    match &security.client_certificate {
        Some(certificate) if names(certificate, rule, user) => Ok(()),
        Some(_) => {
            tracing::info!("no name in the client's certificate is the user's");
            Err(Refusal::Certificate { user: user.to_owned() })
        }
        None => {
            tracing::info!("the client has no certificate");
            Err(Refusal::Certificate { user: user.to_owned() })
        }
    }
}

/// Whether a name in the certificate is `user`, or stands for it. A map replaces all names.
fn names(certificate: &ClientCertificate, rule: &Rule, user: &str) -> bool {
    let mut names = certificate.common_name.iter().chain(&certificate.sans);
    names.any(|name| match rule.map.is_empty() {
        true => name == user,
        false => rule.map.get(name).is_some_and(|users| users.iter().any(|u| u == user)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Method;
    use super::*;

    #[track_caller]
    fn check_of(common_name: Option<&str>, sans: &[&str], map: &[(&str, &[&str])], user: &str, expected: bool) {
        let certificate = ClientCertificate {
            common_name: common_name.map(str::to_owned),
            sans: sans.iter().map(|s| (*s).to_owned()).collect(),
        };
        let security = Security { tls: true, end_point_hash: None, client_certificate: Some(certificate) };
        let users = |users: &[&str]| users.iter().map(|u| (*u).to_owned()).collect();
        let map = map.iter().map(|(name, of)| ((*name).to_owned(), users(of))).collect();
        let rule = Rule { map, ..Rule::for_all(Method::Cert) };
        assert_eq!(check(&security, &rule, user).is_ok(), expected);
    }

    #[test]
    fn a_certificate_names_its_user() {
        check_of(Some("ann"), &[], &[], "ann", true);
        check_of(Some("ann"), &[], &[], "Ann", false);
        check_of(Some("ann"), &[], &[], "bob", false);
        check_of(None, &["x.example", "ann"], &[], "ann", true);
        check_of(None, &[], &[], "", false);
        check_of(Some("ann.example"), &[], &[("ann.example", &["ann", "etl"])], "etl", true);
        check_of(Some("ann.example"), &[], &[("ann.example", &["ann"])], "bob", false);
        // With a map, names stand for nobody of themselves.
        check_of(Some("bob"), &[], &[("ann.example", &["ann"])], "bob", false);
        assert!(check(&Security::default(), &Rule::for_all(Method::Cert), "ann").is_err());
    }
}
