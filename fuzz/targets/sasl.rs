//! A login by SCRAM. Input: a byte that says in which situation, the client's first message, a line end, and its
//! last one, in which `%N` stands for the nonce of the exchange and `%P` for the proof of who knows the password.
//! Nobody else is ever let in, and who does not exist never is.
#![no_main]

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dataglot_model::Sensitive;
use dataglot_vault::scram::{self, ChannelBinding, Exchange, MECHANISM, MECHANISM_PLUS, Subject, Verifier};
use dataglot_vault::{Entropy, EntropyError};
use hmac::{Hmac, KeyInit, Mac};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};

/// All 7: a nonce that repeats, so that an input does.
struct Sevens;

impl Entropy for Sevens {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        bytes.fill(7);
        Ok(())
    }
}

/// The verifier of `pencil`, and the key that only who knows the password has.
static KNOWN: LazyLock<(Verifier, [u8; 32])> = LazyLock::new(|| {
    let text = scram::verifier(&Sensitive::new("pencil".to_owned()), 4096, &Sevens).unwrap();
    let verifier = Verifier::parse(&text).unwrap();
    // PBKDF2 of one block.
    let mut block = mac(b"pencil", &[&verifier.salt[..], &1u32.to_be_bytes()].concat());
    let mut salted = block;
    for _ in 1..verifier.iterations {
        block = mac(b"pencil", &block);
        salted.iter_mut().zip(block).for_each(|(byte, other)| *byte ^= other);
    }
    let client_key = mac(&salted, b"Client Key");
    assert_eq!(<[u8; 32]>::from(Sha256::digest(client_key)), verifier.stored_key);
    (verifier, client_key)
});

fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(message).finalize().into_bytes().into()
}

fuzz_target!(|input: &[u8]| {
    // A stored verifier is read from text, too.
    if let Ok(text) = std::str::from_utf8(input)
        && let Some(verifier) = Verifier::parse(text)
    {
        assert!(verifier.salt.len() >= 16 && (4096..=1_000_000).contains(&verifier.iterations));
    }
    let Some((situation, messages)) = input.split_first() else { return };
    let end = messages.iter().position(|b| *b == b'\n').unwrap_or(messages.len());
    let (first, last) = messages.split_at(end);
    let last = last.get(1..).unwrap_or_default();
    let (verifier, client_key) = &*KNOWN;
    let is_known = situation & 1 == 0;
    let subject = || match is_known {
        true => Subject::Known(verifier.clone()),
        false => Subject::Unknown(verifier.clone()),
    };
    let binding =
        if situation & 2 == 0 { ChannelBinding::None } else { ChannelBinding::ServerEndPoint(b"certificate") };
    let mechanism = if situation & 4 == 0 { MECHANISM } else { MECHANISM_PLUS };
    let Ok((exchange, server_first)) = Exchange::start(mechanism, first, subject(), binding, &Sevens) else { return };
    let nonce = server_first.strip_prefix("r=").unwrap().split(',').next().unwrap();
    let Ok(last) = std::str::from_utf8(last) else { return drop(exchange.finish(last)) };
    let last = last.replace("%N", nonce);
    let without_proof = last.rsplit_once(",p=").map_or("", |(without, _)| without);
    let bare = std::str::from_utf8(first).unwrap().splitn(3, ',').nth(2).unwrap();
    let signature = mac(&verifier.stored_key, format!("{bare},{server_first},{without_proof}").as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(byte, mask)| byte ^ mask).collect();
    let proof = STANDARD.encode(proof);
    let knows = last.ends_with(",p=%P");
    let last = last.replace("%P", &proof);
    if exchange.finish(last.as_bytes()).is_ok() {
        assert!(is_known && (knows || last.ends_with(&proof)));
        assert!(without_proof.contains(nonce));
    }
});
