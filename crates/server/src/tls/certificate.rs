//! What rustls keeps to itself of a certificate: how it is signed, until when it holds, whose it is.

use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use x509_cert::Certificate;
use x509_cert::der::asn1::{Any, Ia5StringRef, ObjectIdentifier, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Decode as _, Tag, Tagged as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

const RSA_MD5: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.4");
const RSA_SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.5");
const RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const RSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12");
const RSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13");
const ECDSA_SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.1");
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const ECDSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4");

/// The names in a certificate whose chain has been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientCertificate {
    /// Its common name; `None` if there is none, more than one, or one with control characters in it.
    pub(crate) common_name: Option<String>,
    /// Its alternative names: DNS names, addresses of e-mail, and URIs.
    pub(crate) sans: Vec<String>,
}

impl ClientCertificate {
    /// The names of a certificate that rustls has verified. One that cannot be read has none: a name is
    /// what lets somebody in.
    pub(super) fn of_verified(der: &CertificateDer<'_>) -> Self {
        let Ok(certificate) = Certificate::from_der(der) else {
            return ClientCertificate { common_name: None, sans: Vec::new() };
        };
        ClientCertificate { common_name: common_name(&certificate), sans: sans(&certificate) }
    }
}

/// What `tls-server-end-point` takes (RFC 5929): the certificate's hash by the function that it is signed with,
/// and SHA-256 in place of those that are broken. `None`: none is defined, as for Ed25519, or clients do not
/// agree on it, as for RSA-PSS.
pub(super) fn end_point_hash(der: &CertificateDer<'_>) -> Option<Vec<u8>> {
    match Certificate::from_der(der).ok()?.signature_algorithm.oid {
        RSA_MD5 | RSA_SHA1 | RSA_SHA256 | ECDSA_SHA1 | ECDSA_SHA256 => Some(Sha256::digest(der).to_vec()),
        RSA_SHA384 | ECDSA_SHA384 => Some(Sha384::digest(der).to_vec()),
        RSA_SHA512 | ECDSA_SHA512 => Some(Sha512::digest(der).to_vec()),
        _ => None,
    }
}

/// When it expires, in seconds since 1970.
pub(super) fn expiry(der: &CertificateDer<'_>) -> Option<i64> {
    let validity = Certificate::from_der(der).ok()?.tbs_certificate.validity;
    i64::try_from(validity.not_after.to_unix_duration().as_secs()).ok()
}

fn common_name(certificate: &Certificate) -> Option<String> {
    let parts = certificate.tbs_certificate.subject.0.iter().flat_map(|part| part.0.iter());
    let mut names = parts.filter(|part| part.oid == COMMON_NAME);
    let name = names.next()?;
    // Of two, each reader might take another one.
    if names.next().is_some() {
        return None;
    }
    readable(text(&name.value)?)
}

fn sans(certificate: &Certificate) -> Vec<String> {
    let Ok(Some((_, SubjectAltName(names)))) = certificate.tbs_certificate.get::<SubjectAltName>() else {
        return Vec::new();
    };
    let text = |name: &GeneralName| match name {
        GeneralName::DnsName(name) | GeneralName::Rfc822Name(name) | GeneralName::UniformResourceIdentifier(name) => {
            readable(name.as_str().to_owned())
        }
        GeneralName::OtherName(_)
        | GeneralName::DirectoryName(_)
        | GeneralName::EdiPartyName(_)
        | GeneralName::IpAddress(_)
        | GeneralName::RegisteredId(_) => None,
    };
    names.iter().filter_map(text).collect()
}

fn text(value: &Any) -> Option<String> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the types of ASN.1: of texts, those that names are written in")]
    match value.tag() {
        Tag::Utf8String => value.decode_as::<Utf8StringRef<'_>>().ok().map(|text| text.as_str().to_owned()),
        Tag::PrintableString => value.decode_as::<PrintableStringRef<'_>>().ok().map(|text| text.as_str().to_owned()),
        Tag::Ia5String => value.decode_as::<Ia5StringRef<'_>>().ok().map(|text| text.as_str().to_owned()),
        Tag::TeletexString => value.decode_as::<TeletexStringRef<'_>>().ok().map(|text| text.as_str().to_owned()),
        _ => None,
    }
}

/// A name that is the same to everybody who reads it: a NUL ends it for some.
fn readable(name: String) -> Option<String> {
    (!name.is_empty() && !name.chars().any(char::is_control)).then_some(name)
}
