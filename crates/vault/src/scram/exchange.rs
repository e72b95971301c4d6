//! The server's side of a SCRAM-SHA-256 exchange (RFC 5802, RFC 7677), with channel binding by the hash
//! of the server's certificate (RFC 5929, `tls-server-end-point`), as PostgreSQL speaks it: the user's
//! name is the connection's, the one in the exchange is not looked at, and there is no authorization
//! identity.
//!
//! A login that cannot succeed, since there is no such user or he has no password, takes the same steps
//! with a [`Verifier`] made up from his name, and fails at the end as a wrong password does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{KEY_BYTES, SALT_BYTES, Verifier, mac};
use crate::{Entropy, VaultError};

/// The mechanism without channel binding.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The mechanism with it.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Random bytes of the server's nonce.
const NONCE_BYTES: usize = 18;
/// Longest message that is looked at; a client's are much shorter.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// The only channel binding that TLS 1.2 and 1.3 both have and that PostgreSQL's clients speak.
const BINDING: &str = "p=tls-server-end-point,,";

/// Why an exchange ended. Neither variant holds anything that the client has sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// The message is not one of the protocol.
    #[error("malformed SCRAM message: {0}")]
    Malformed(&'static str),
    /// The proof is not that of the password.
    #[error("the proof does not match")]
    Denied,
    /// There is no randomness for a nonce.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

/// What the connection can be bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBinding<'a> {
    /// It is in clear, or its certificate has no hash that the standard names.
    None,
    /// The hash of the server's certificate.
    ServerEndPoint(&'a [u8]),
}

impl ChannelBinding<'_> {
    /// The mechanisms to offer, the best one first.
    pub const fn mechanisms(&self) -> &'static [&'static str] {
        match self {
            ChannelBinding::None => &[MECHANISM],
            ChannelBinding::ServerEndPoint(_) => &[MECHANISM_PLUS, MECHANISM],
        }
    }
}

/// Whose password it is.
pub enum Subject {
    /// A user with this verifier.
    Known(Verifier),
    /// Nobody who can log in: the exchange goes on to its end, and is denied there.
    Unknown(Verifier),
}

/// An exchange that waits for the client's last message.
pub struct Exchange {
    verifier: Verifier,
    doomed: bool,
    /// What `c=` has to say.
    binding: Vec<u8>,
    nonce: String,
    /// `client-first-message-bare,server-first-message`
    transcript: String,
}

impl std::fmt::Debug for Exchange {
    /// Nothing of it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exchange")
    }
}

impl Exchange {
    /// Takes the client's first message. Returns the exchange and the server's first message.
    ///
    /// # Errors
    /// [`ScramError::Malformed`], also for a mechanism that was not offered and for a client that believes
    /// that channel binding was not offered where it was; [`ScramError::Vault`] without randomness.
    pub fn start(
        mechanism: &str,
        client_first: &[u8],
        subject: Subject,
        binding: ChannelBinding<'_>,
        entropy: &dyn Entropy,
    ) -> Result<(Exchange, String), ScramError> {
        if !binding.mechanisms().contains(&mechanism) {
            return Err(ScramError::Malformed("the mechanism was not offered"));
        }
        let text = text(client_first)?;
        let (header, bare) = gs2_header(text)?;
        let bound = match (header, mechanism == MECHANISM_PLUS, binding) {
            (BINDING, true, ChannelBinding::ServerEndPoint(hash)) => [header.as_bytes(), hash].concat(),
            (BINDING, ..) | ("n,,", true, _) | ("y,,", true, _) => {
                return Err(ScramError::Malformed("the channel binding is not that of the mechanism"));
            }
            // The client could bind and was told that the server cannot: somebody is between the two.
            ("y,,", false, ChannelBinding::ServerEndPoint(_)) => {
                return Err(ScramError::Malformed("the client was not told that channel binding is offered"));
            }
            (_, false, _) => header.as_bytes().to_vec(),
            (_, true, _) => return Err(ScramError::Malformed("the channel binding is not supported")),
        };
        let client_nonce = client_nonce(bare)?;
        let mut random = [0u8; NONCE_BYTES];
        entropy.fill(&mut random).map_err(VaultError::from)?;
        let nonce = format!("{client_nonce}{}", STANDARD.encode(random));
        let (verifier, doomed) = match subject {
            Subject::Known(verifier) => (verifier, false),
            Subject::Unknown(verifier) => (verifier, true),
        };
        let server_first = format!("r={nonce},s={},i={}", STANDARD.encode(&verifier.salt), verifier.iterations);
        let transcript = format!("{bare},{server_first}");
        Ok((Exchange { verifier, doomed, binding: bound, nonce, transcript }, server_first))
    }

    /// Takes the client's last message. Returns the server's, which proves to the client that the server
    /// knows the password's verifier.
    ///
    /// # Errors
    /// [`ScramError::Malformed`], [`ScramError::Denied`].
    pub fn finish(self, client_final: &[u8]) -> Result<String, ScramError> {
        let text = text(client_final)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(ScramError::Malformed("it ends without a proof"))?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next().and_then(|a| a.strip_prefix("c="));
        let binding = binding.ok_or(ScramError::Malformed("it starts without the channel binding"))?;
        let nonce = attributes.next().and_then(|a| a.strip_prefix("r="));
        let nonce = nonce.ok_or(ScramError::Malformed("it has no nonce"))?;
        if nonce != self.nonce {
            return Err(ScramError::Malformed("its nonce is not the exchange's"));
        }
        if STANDARD.decode(binding).ok().as_ref() != Some(&self.binding) {
            return Err(ScramError::Malformed("its channel binding is not the connection's"));
        }
        let proof: [u8; KEY_BYTES] = STANDARD
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(ScramError::Malformed("its proof has a wrong length"))?;

        let message = format!("{},{without_proof}", self.transcript);
        let signature = mac(&self.verifier.stored_key, message.as_bytes());
        let mut client_key = proof;
        client_key.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
        let found: [u8; KEY_BYTES] = Sha256::digest(client_key).into();
        let server_final = format!("v={}", STANDARD.encode(mac(&self.verifier.server_key, message.as_bytes())));
        if bool::from(found.ct_eq(&self.verifier.stored_key)) & !self.doomed {
            Ok(server_final)
        } else {
            Err(ScramError::Denied)
        }
    }
}

/// A verifier for a name that has none: the same for the same name and `secret`, so that asking twice, or
/// another coordinator, tells nothing.
pub fn mock_verifier(secret: &[u8], name: &str, iterations: u32) -> Verifier {
    let salt = mac(secret, &[b"salt\0", name.as_bytes()].concat());
    let key = mac(secret, &[b"key\0", name.as_bytes()].concat());
    let salt = salt.get(..SALT_BYTES).unwrap_or(&salt).to_vec();
    Verifier { iterations, salt, stored_key: key, server_key: mac(&key, b"server") }
}

fn text(message: &[u8]) -> Result<&str, ScramError> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(ScramError::Malformed("it is too long"));
    }
    let text = std::str::from_utf8(message).map_err(|_| ScramError::Malformed("it is not UTF-8"))?;
    if text.contains('\0') {
        return Err(ScramError::Malformed("it holds a NUL"));
    }
    Ok(text)
}

/// The GS2 header and what follows it.
fn gs2_header(text: &str) -> Result<(&str, &str), ScramError> {
    let mut commas = text.match_indices(',').map(|(at, _)| at);
    let (Some(first), Some(second)) = (commas.next(), commas.next()) else {
        return Err(ScramError::Malformed("it has no GS2 header"));
    };
    if second != first + 1 {
        return Err(ScramError::Malformed("an authorization identity is not supported"));
    }
    match (text.get(..=second), text.get(second + 1..)) {
        (Some(header @ ("n,," | "y,," | BINDING)), Some(bare)) => Ok((header, bare)),
        (Some(_), _) | (None, _) => Err(ScramError::Malformed("its channel binding flag is unknown")),
    }
}

/// The nonce of `n=…,r=…`.
fn client_nonce(bare: &str) -> Result<&str, ScramError> {
    let mut attributes = bare.split(',');
    // The name is the connection's. `m=` in its place would be an extension that has to be understood.
    if !attributes.next().is_some_and(|a| a.starts_with("n=")) {
        return Err(ScramError::Malformed("it does not start with a name"));
    }
    let nonce = attributes.next().and_then(|a| a.strip_prefix("r=")).unwrap_or_default();
    let printable = nonce.bytes().all(|b| b.is_ascii_graphic());
    if nonce.is_empty() || !printable || attributes.next().is_some() {
        return Err(ScramError::Malformed("it has no nonce, or something after it"));
    }
    Ok(nonce)
}

#[cfg(test)]
mod tests;
