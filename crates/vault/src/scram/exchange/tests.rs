//! The exchange against a client of its own, and every way in which a client can be wrong.

use dataglot_model::Sensitive;

use super::*;
use crate::scram::{ITERATIONS_MIN, prepare};
use crate::testing::{Broken, Seeded};

const HASH: &[u8] = &[7; 32];

fn password(text: &str) -> Sensitive {
    Sensitive::new(text.to_owned())
}

fn verifier(text: &str) -> Verifier {
    Verifier::derive(&password(text), &[1; 16], ITERATIONS_MIN)
}

/// The client's last message for `server_first`.
fn answer(text: &str, header: &[u8], bare: &str, server_first: &str) -> String {
    let nonce = server_first.split(',').next().unwrap();
    let without_proof = format!("c={},{nonce}", STANDARD.encode(header));
    let message = format!("{bare},{server_first},{without_proof}");
    let mut salted = [0u8; 32];
    pbkdf2::pbkdf2_hmac::<Sha256>(prepare(&password(text)).as_bytes(), &[1; 16], ITERATIONS_MIN, &mut salted);
    let client_key = mac(&salted, b"Client Key");
    let stored: [u8; 32] = Sha256::digest(client_key).into();
    let signature = mac(&stored, message.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(signature).map(|(a, b)| a ^ b).collect();
    format!("{without_proof},p={}", STANDARD.encode(proof))
}

fn start(mechanism: &str, first: &str, binding: ChannelBinding<'_>) -> Result<(Exchange, String), ScramError> {
    Exchange::start(mechanism, first.as_bytes(), Subject::Known(verifier("pencil")), binding, &Seeded::new(3))
}

const BARE: &str = "n=,r=abcdefghijklmnopqrst";

#[track_caller]
fn login(mechanism: &str, header: &str, binding: ChannelBinding<'_>, text: &str) -> Result<String, ScramError> {
    let (exchange, server_first) = start(mechanism, &format!("{header}{BARE}"), binding)?;
    let bound = match binding {
        ChannelBinding::ServerEndPoint(hash) if header == BINDING => [header.as_bytes(), hash].concat(),
        ChannelBinding::None | ChannelBinding::ServerEndPoint(_) => header.as_bytes().to_vec(),
    };
    exchange.finish(answer(text, &bound, BARE, &server_first).as_bytes())
}

#[test]
fn a02_the_password_gets_in_and_another_does_not() {
    let tls = ChannelBinding::ServerEndPoint(HASH);
    for (mechanism, header, binding) in [
        (MECHANISM, "n,,", ChannelBinding::None),
        (MECHANISM, "y,,", ChannelBinding::None),
        (MECHANISM, "n,,", tls),
        (MECHANISM_PLUS, BINDING, tls),
    ] {
        let done = login(mechanism, header, binding, "pencil").unwrap();
        assert!(done.starts_with("v=") && done.len() == 46, "{done}");
        assert_eq!(login(mechanism, header, binding, "Pencil"), Err(ScramError::Denied));
    }
}

#[test]
fn a02_the_server_proves_itself_as_rfc_7677_shows() {
    let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
    let exchange = Exchange {
        verifier: Verifier::derive(&password("pencil"), &salt, 4096),
        doomed: false,
        binding: b"n,,".to_vec(),
        nonce: "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned(),
        transcript: "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
            .to_owned(),
    };
    let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    assert_eq!(exchange.finish(last).unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

#[test]
fn a02_no_binding_is_taken_for_another() {
    let tls = ChannelBinding::ServerEndPoint(HASH);
    for (mechanism, header, binding) in [
        // Somebody told the client that the server cannot bind.
        (MECHANISM, "y,,", tls),
        (MECHANISM, BINDING, tls),
        (MECHANISM_PLUS, "n,,", tls),
        (MECHANISM_PLUS, "y,,", tls),
        (MECHANISM_PLUS, BINDING, ChannelBinding::None),
        (MECHANISM, BINDING, ChannelBinding::None),
        (MECHANISM_PLUS, "p=tls-unique,,", tls),
        ("SCRAM-SHA-1", "n,,", tls),
        ("", "n,,", ChannelBinding::None),
    ] {
        let refused = start(mechanism, &format!("{header}{BARE}"), binding).map(|(_, first)| first);
        assert!(matches!(refused, Err(ScramError::Malformed(_))), "{mechanism} {header}: {refused:?}");
    }
    // Bound to another certificate.
    let (exchange, server_first) = start(MECHANISM_PLUS, &format!("{BINDING}{BARE}"), tls).unwrap();
    let elsewhere = [BINDING.as_bytes(), &[8; 32]].concat();
    let last = answer("pencil", &elsewhere, BARE, &server_first);
    assert!(matches!(exchange.finish(last.as_bytes()), Err(ScramError::Malformed(_))));
}

#[test]
fn malformed_first_messages_are_refused() {
    for first in [
        "",
        ",",
        "n",
        "n,",
        "n,,",
        "n,,n=",
        "n,,n=,",
        "n,,n=,r=",
        "n,,n=,r=a,x=y",
        "n,,m=x,n=,r=a",
        "n,,r=a,n=",
        "n,a=b,n=,r=a",
        "x,,n=,r=a",
        "n,,n=,r=a b",
        "n,,n=,r=\u{fc}",
        "N,,n=,r=a",
        "p=,,n=,r=a",
        "n,,n=,r=a\0",
    ] {
        assert!(matches!(start(MECHANISM, first, ChannelBinding::None), Err(ScramError::Malformed(_))), "{first:?}");
    }
    let long = format!("n,,n=,r={}", "a".repeat(MESSAGE_BYTES_MAX));
    assert!(start(MECHANISM, &long, ChannelBinding::None).is_err());
    let raw = Exchange::start(
        MECHANISM,
        b"n,,n=\xff,r=a",
        Subject::Known(verifier("x")),
        ChannelBinding::None,
        &Seeded::new(3),
    );
    assert!(matches!(raw, Err(ScramError::Malformed(_))));
}

#[test]
fn malformed_last_messages_are_refused() {
    let good = {
        let (_, server_first) = start(MECHANISM, &format!("n,,{BARE}"), ChannelBinding::None).unwrap();
        answer("pencil", b"n,,", BARE, &server_first)
    };
    let finish = |last: &str| {
        let (exchange, _) = start(MECHANISM, &format!("n,,{BARE}"), ChannelBinding::None).unwrap();
        exchange.finish(last.as_bytes())
    };
    assert!(finish(&good).is_ok());
    let (without_proof, proof) = good.rsplit_once(",p=").unwrap();
    let shorter = STANDARD.encode(&STANDARD.decode(proof).unwrap()[..31]);
    for last in [
        String::new(),
        without_proof.to_owned(),
        format!("{without_proof},p="),
        format!("{without_proof},p={shorter}"),
        format!("{without_proof},p={proof}{proof}"),
        format!("{without_proof},p={}", proof.trim_end_matches('=')),
        good.replace("c=biws", "c=eSws"),
        good.replace("c=biws", "c="),
        good.replace("c=biws,", ""),
        good.replace(",r=a", ",r=b"),
        good.replace(",r=a", ",x=1,r=a"),
        format!("{good},x=1"),
    ] {
        assert!(matches!(finish(&last), Err(ScramError::Malformed(_))), "{last}");
    }
    // One more attribute before the proof is part of what is signed: the proof is of something else.
    assert_eq!(finish(&format!("{without_proof},x=1,p={proof}")), Err(ScramError::Denied));
}

#[test]
fn a01_nobody_gets_in_by_a_made_up_verifier() {
    // Even with the very password that it was made of.
    let (exchange, server_first) = Exchange::start(
        MECHANISM,
        format!("n,,{BARE}").as_bytes(),
        Subject::Unknown(verifier("pencil")),
        ChannelBinding::None,
        &Seeded::new(3),
    )
    .unwrap();
    let last = answer("pencil", b"n,,", BARE, &server_first);
    assert_eq!(exchange.finish(last.as_bytes()), Err(ScramError::Denied));

    let mock = |secret: &[u8], name| mock_verifier(secret, name, 4096);
    assert_eq!(mock(b"s", "ana"), mock(b"s", "ana"), "the same at every start and on every coordinator");
    assert_ne!(mock(b"s", "ana").salt, mock(b"s", "bob").salt);
    assert_ne!(mock(b"s", "ana").salt, mock(b"t", "ana").salt);
    assert_eq!(mock(b"s", "ana").salt.len(), SALT_BYTES);
}

#[test]
fn no_nonce_is_made_of_failed_randomness() {
    let first = format!("n,,{BARE}");
    let refused =
        Exchange::start(MECHANISM, first.as_bytes(), Subject::Known(verifier("x")), ChannelBinding::None, &Broken);
    assert!(matches!(refused, Err(ScramError::Vault(VaultError::Entropy(_)))));
}
