//! A sealed value opens where it was sealed for, and nowhere else.

use dataglot_model::Problem;
use proptest::prelude::*;

use super::*;
use crate::testing::{Broken, Seeded, ring};

const CANARY: &str = "CANARY-7Q";

fn org(name: &str) -> OrgName {
    OrgName::new(name).unwrap()
}

fn place<'a>(org: &'a OrgName, name: &'a str) -> Place<'a> {
    Place { store_id: [9; 16], org, kind: "secret", name, value_version: 1 }
}

fn sealed(value: &str) -> Envelope {
    seal(&ring(&[1]), &DataKeys::none(), &place(&org("acme"), "s"), &Sensitive::new(value.to_owned()), &Seeded::new(5))
        .unwrap()
}

/// No text of the error shows anything of the value.
#[track_caller]
fn check_silent(error: &VaultError) {
    let text = format!("{error} {error:?} {:?} {:?}", error.detail(), error.hint());
    assert!(!text.contains(CANARY), "{text}");
}

#[test]
fn what_was_sealed_opens() {
    let acme = org("acme");
    for length in [0, 1, 59, 60, 61, 1000, VALUE_BYTES_MAX] {
        let value = "x".repeat(length);
        let envelope = sealed(&value);
        let opened = open(&ring(&[1]), &DataKeys::none(), &place(&acme, "s"), &envelope.bytes).unwrap();
        assert!(opened.open() == value, "{length}");
        assert_eq!(envelope.hash, hash(&envelope.bytes));
    }
}

#[test]
fn a_value_over_the_limit_is_refused() {
    let value = Sensitive::new(CANARY.repeat(VALUE_BYTES_MAX / CANARY.len() + 1));
    let error = seal(&ring(&[1]), &DataKeys::none(), &place(&org("acme"), "s"), &value, &Seeded::new(5)).unwrap_err();
    assert_eq!(error.sqlstate().code(), "54000");
    check_silent(&error);
    let one_past = Sensitive::new("x".repeat(VALUE_BYTES_MAX + 1));
    assert!(seal(&ring(&[1]), &DataKeys::none(), &place(&org("acme"), "s"), &one_past, &Seeded::new(5)).is_err());
}

/// S-15: only a 64-byte bucket shows.
#[test]
fn the_length_shows_in_steps_of_64() {
    let length = |n| sealed(&"x".repeat(n)).bytes.len();
    assert_eq!(length(0), length(60));
    assert_eq!(length(60) + 64, length(61));
    assert_eq!(length(61), length(124));
}

#[test]
fn the_layout_is_as_documented() {
    let envelope = sealed(CANARY);
    assert_eq!(envelope.bytes.len(), HEADER_BYTES + COMMITMENT_BYTES + 64 + TAG_BYTES);
    assert_eq!(&envelope.bytes[..2], &[1, 1]);
    assert_eq!(envelope.bytes[2..10], ring(&[1]).primary_id().unwrap().0);
    assert_eq!(&envelope.bytes[10..14], &[0; 4]);
    let shown = String::from_utf8_lossy(&envelope.bytes).into_owned();
    assert!(!shown.contains(CANARY));
}

/// Pins the stored form: an envelope of the first version must open for ever.
#[test]
fn an_envelope_of_version_1_opens() {
    let text = include_str!("../../testdata/secret.v1.hex");
    let bytes: Vec<u8> = text
        .trim()
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect();
    let opened = open(&ring(&[1]), &DataKeys::none(), &place(&org("acme"), "s"), &bytes).unwrap();
    assert_eq!(opened.open(), CANARY);
    assert_eq!(&*sealed(CANARY).bytes, bytes.as_slice(), "sealing changed; version 1 may not");
}

/// S-04, exhaustive.
#[test]
fn every_flipped_bit_is_found() {
    let acme = org("acme");
    let envelope = sealed(CANARY);
    for at in 0..envelope.bytes.len() {
        for bit in 0..8 {
            let mut bytes = envelope.bytes.to_vec();
            bytes[at] ^= 1 << bit;
            let error = open(&ring(&[1]), &DataKeys::none(), &place(&acme, "s"), &bytes).unwrap_err();
            match at {
                0 | 1 => assert_eq!(error, VaultError::UnknownForm, "{at}.{bit}"),
                10..14 => assert!(matches!(error, VaultError::NoDataKey { .. }), "{at}.{bit}"),
                2..10 => assert!(matches!(error, VaultError::WrongKey { .. }), "{at}.{bit}"),
                _ => assert_eq!(error, VaultError::Damaged, "{at}.{bit}"),
            }
            check_silent(&error);
        }
    }
}

#[test]
fn every_cut_is_found() {
    let acme = org("acme");
    let envelope = sealed(CANARY);
    for end in 0..envelope.bytes.len() {
        assert!(open(&ring(&[1]), &DataKeys::none(), &place(&acme, "s"), &envelope.bytes[..end]).is_err(), "{end}");
    }
    let longer = [&envelope.bytes, &[0u8; 64][..]].concat();
    assert!(open(&ring(&[1]), &DataKeys::none(), &place(&acme, "s"), &longer).is_err());
}

/// S-02.
#[test]
fn an_envelope_cannot_be_moved() {
    let (acme, other) = (org("acme"), org("other"));
    let here = place(&acme, "s");
    let envelope = sealed(CANARY);
    for elsewhere in [
        Place { store_id: [8; 16], ..here },
        Place { org: &other, ..here },
        Place { kind: "verifier", ..here },
        Place { name: "t", ..here },
        Place { name: "ss", ..here },
        Place { value_version: 2, ..here },
    ] {
        let error = open(&ring(&[1]), &DataKeys::none(), &elsewhere, &envelope.bytes).unwrap_err();
        assert_eq!(error, VaultError::Damaged, "{elsewhere:?}");
        check_silent(&error);
    }
}

#[test]
fn parts_of_a_place_cannot_run_into_one_another() {
    let (acme, nul) = (org("acme"), org("acm"));
    let a = Scope::place(&Place { name: "bc", ..place(&acme, "s") });
    let b = Scope::place(&Place { name: "ebc", ..place(&nul, "s") });
    assert_ne!(a.associated_data(b""), b.associated_data(b""));
}

#[test]
fn a_wrong_key_and_damage_are_told_apart() {
    let acme = org("acme");
    let here = place(&acme, "s");
    let envelope = sealed(CANARY);
    let wanted = ring(&[1]).primary_id().unwrap();
    let other = ring(&[2]);
    let error = open(&other, &DataKeys::none(), &here, &envelope.bytes).unwrap_err();
    assert_eq!(error, VaultError::WrongKey { wanted, have: other.ids().collect() });
    let text = error.to_string();
    assert!(text.contains(&wanted.to_string()) && text.contains(&other.primary_id().unwrap().to_string()), "{text}");
    assert_eq!(error.sqlstate().code(), "58000");

    let none = open(&KeyRing::none(), &DataKeys::none(), &here, &envelope.bytes).unwrap_err();
    assert_eq!(none, VaultError::WrongKey { wanted, have: Vec::new() });
    assert_eq!(VaultError::Damaged.sqlstate().code(), "XX001");
}

#[test]
fn an_older_key_opens_and_does_not_seal() {
    let acme = org("acme");
    let here = place(&acme, "s");
    let envelope = sealed(CANARY);
    let both = ring(&[2, 1]);
    assert_eq!(open(&both, &DataKeys::none(), &here, &envelope.bytes).unwrap().open(), CANARY);
    let fresh = seal(&both, &DataKeys::none(), &here, &Sensitive::new("v".to_owned()), &Seeded::new(6)).unwrap();
    assert!(open(&ring(&[2]), &DataKeys::none(), &here, &fresh.bytes).is_ok());
    assert!(open(&ring(&[1]), &DataKeys::none(), &here, &fresh.bytes).is_err());
}

/// S-05: a failing source of randomness ends the statement; equal values differ in ciphertext.
#[test]
fn nonces_come_from_the_source_alone() {
    let acme = org("acme");
    let here = place(&acme, "s");
    let value = Sensitive::new(CANARY.to_owned());
    assert!(matches!(seal(&ring(&[1]), &DataKeys::none(), &here, &value, &Broken), Err(VaultError::Entropy(_))));
    let entropy = Seeded::new(3);
    let first = seal(&ring(&[1]), &DataKeys::none(), &here, &value, &entropy).unwrap();
    let second = seal(&ring(&[1]), &DataKeys::none(), &here, &value, &entropy).unwrap();
    assert_ne!(first.bytes, second.bytes);
    assert_eq!(seal(&KeyRing::none(), &DataKeys::none(), &here, &value, &entropy).unwrap_err(), VaultError::NoKey);
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let acme = org("acme");
        prop_assert!(open(&ring(&[1]), &DataKeys::none(), &place(&acme, "s"), &bytes).is_err());
    }

    #[test]
    fn any_body_behind_a_good_header_is_an_error(body in proptest::collection::vec(any::<u8>(), 0..400)) {
        let acme = org("acme");
        let mut bytes = sealed(CANARY).bytes[..HEADER_BYTES].to_vec();
        bytes.extend(body);
        prop_assert_eq!(open(&ring(&[1]), &DataKeys::none(), &place(&acme, "s"), &bytes).unwrap_err(), VaultError::Damaged);
    }

    #[test]
    fn any_text_survives(value in ".{0,200}", name in "[a-z]{1,20}", version in 1u64..) {
        let acme = org("acme");
        let here = Place { value_version: version, ..place(&acme, &name) };
        let envelope = seal(&ring(&[1]), &DataKeys::none(), &here, &Sensitive::new(value.clone()), &Seeded::new(version)).unwrap();
        let opened = open(&ring(&[1]), &DataKeys::none(), &here, &envelope.bytes).unwrap();
        prop_assert_eq!(opened.open(), value);
    }
}
