//! Data keys that come with values, and rows that are written anew under other keys.

use std::sync::Arc;

use dataglot_model::command::{AlterRole, AlterRoleAction, CreateSecret, OnExisting, OnMissing};
use dataglot_model::command::{RoleSelector, RoleSpec, SecretValue};
use dataglot_model::def::SEALED_VERIFIER;
use dataglot_model::{At, Command, Row, RowKey, Sealed, SealedBy, SecretHash};

use super::{World, hash_of, name};
use crate::{Plan, PlanCx, PlanError, RewrapBatch, Rewrapped, plan_rewrap};

const STALE: &str = "ERROR 40001: could not serialize access to secret \"s\" due to a concurrent update\n";

fn key(text: &[u8]) -> SealedBy {
    SealedBy { no: 1, hash: hash_of(text), made: Some(text.into()) }
}

fn there(key: &SealedBy) -> SealedBy {
    SealedBy { made: None, ..key.clone() }
}

fn create(secret: &str, by: SealedBy) -> Command<Sealed> {
    let bytes: Arc<[u8]> = Arc::from(format!("{secret}/1/x").into_bytes());
    let hash = hash_of(&bytes);
    Command::CreateSecret(CreateSecret {
        name: At::nowhere(name(secret)),
        on_existing: OnExisting::Error,
        value: At::nowhere(SecretValue::Value(Sealed::Envelope {
            bytes,
            hash,
            value_version: 1,
            seen: None,
            by: Some(by),
        })),
        comment: None,
    })
}

fn rewrap(world: &mut World, batch: &RewrapBatch) -> Result<usize, PlanError> {
    let (Plan { mutations, .. }, _) = plan_rewrap(&world.image, &PlanCx { now: world.now }, &world.actor, batch)?;
    mutations.iter().for_each(|m| world.image.apply(m));
    Ok(mutations.len())
}

#[test]
fn the_first_value_brings_a_data_key_and_whoever_comes_late_is_stale() {
    let (one, other) = (key(b"one"), key(b"other"));
    let mut world = World::new();
    // Sealed with a key that is not there.
    assert_eq!(world.execute(&create("s", there(&one)), 0), STALE);
    assert_eq!(world.execute(&create("r", one.clone()), 0), "CREATE SECRET\n");
    assert_eq!(world.image.data_key(1).map(|(_, hash)| hash), Some(one.hash));
    // Both made the first key: one of them is first.
    assert_eq!(world.execute(&create("s", other.clone()), 0), STALE);
    assert_eq!(world.execute(&create("s", there(&other)), 0), STALE);
    assert_eq!(world.execute(&create("s", there(&one)), 0), "CREATE SECRET\n");
    // Two values of one statement bring the same one.
    assert_eq!(world.execute(&create("t", one), 0), "CREATE SECRET\n");
    assert_eq!(world.image.data_keys().count(), 1);
}

#[test]
fn a_sealed_verifier_goes_to_another_name_only_if_it_was_sealed_for_it() {
    let mut world = World::with("CREATE USER u");
    let rename = |resealed| {
        Command::AlterRole(AlterRole {
            role: RoleSelector::One(At::nowhere(RoleSpec::Name(name("u")))),
            on_missing: OnMissing::Error,
            expected: None,
            action: AlterRoleAction::Rename { to: At::nowhere(name("v")), resealed },
        })
    };
    let sealed = |text: &str| Arc::<str>::from(format!("{SEALED_VERIFIER}{text}"));
    let mut def = world.image.role(&name("u")).unwrap().def.as_ref().clone();
    def.verifier = Some(sealed("for u"));
    world.image.apply(&dataglot_model::Mutation::Put(Row::Role(name("u"), Arc::new(def))));
    let answer = world.execute(&rename(None), 0);
    assert!(answer.starts_with("ERROR 40001"), "{answer}");
    let resealed = Sealed::Verifier { text: sealed("for v"), by: Some(key(b"one")) };
    assert_eq!(world.execute(&rename(Some(resealed)), 0), "ALTER ROLE\n");
    assert_eq!(world.image.role(&name("v")).unwrap().def.verifier, Some(sealed("for v")));
    assert!(world.image.has(&RowKey::DataKey(1)));
}

#[test]
fn rewrapping_changes_bytes_and_no_version() {
    let mut world =
        World::with("CREATE SECRET s AS 'old'; ALTER SECRET s AS 'x' GRACE '1 day'; CREATE USER u PASSWORD 'p'");
    let before = world.image.secret(&name("s")).unwrap();
    let (version, value_version) = (before.header.version, before.meta.value_version);
    let (seen, former) = (world.image.sealed_hash(&name("s")).unwrap(), world.image.previous_hash(&name("s")).unwrap());
    let verifier = world.image.role(&name("u")).unwrap().def.verifier.clone().unwrap();
    let anew = |is_previous, seen, text: &[u8]| Rewrapped::Secret {
        name: name("s"),
        is_previous,
        seen,
        envelope: text.into(),
        hash: hash_of(text),
    };
    let batch = RewrapBatch {
        by: Some(key(b"one")),
        rows: vec![
            anew(false, seen, b"s/2/x"),
            anew(false, seen, b"s/2/x sealed anew"),
            anew(true, former, b"s/1/old sealed anew"),
            Rewrapped::Verifier { role: name("u"), seen: verifier.clone(), text: "anew".into() },
        ],
    };
    assert_eq!(rewrap(&mut world, &batch).unwrap(), 5);
    let after = world.image.secret(&name("s")).unwrap();
    assert_eq!((after.header.version, after.meta.value_version), (version, value_version));
    assert_eq!(
        (&**after.envelope.unwrap(), &**after.previous.unwrap()),
        (&b"s/2/x sealed anew"[..], &b"s/1/old sealed anew"[..])
    );
    assert_eq!(world.image.role(&name("u")).unwrap().def.verifier.as_deref(), Some("anew"));
    assert_eq!(world.image.damaged(), []);
    world.image.check();
    // What has changed since is left alone.
    let late = RewrapBatch {
        by: Some(there(&key(b"one"))),
        rows: vec![
            anew(false, SecretHash([1; 32]), b"late"),
            anew(true, SecretHash([1; 32]), b"late"),
            Rewrapped::Verifier { role: name("u"), seen: verifier, text: "late".into() },
            Rewrapped::Verifier { role: name("nobody"), seen: "".into(), text: "late".into() },
            Rewrapped::DataKey {
                no: 1,
                seen: SecretHash([1; 32]),
                wrapped: b"late"[..].into(),
                hash: hash_of(b"late"),
            },
            Rewrapped::DataKey {
                no: 9,
                seen: SecretHash([1; 32]),
                wrapped: b"late"[..].into(),
                hash: hash_of(b"late"),
            },
        ],
    };
    assert_eq!(rewrap(&mut world, &late).unwrap(), 0);
    let wrapped = Rewrapped::DataKey {
        no: 1,
        seen: hash_of(b"one"),
        wrapped: b"one anew"[..].into(),
        hash: hash_of(b"one anew"),
    };
    let batch = RewrapBatch { by: Some(there(&key(b"one"))), rows: vec![wrapped] };
    assert_eq!(rewrap(&mut world, &batch).unwrap(), 1);
    // The key is wrapped anew: what was sealed against the old form starts over.
    assert!(matches!(rewrap(&mut world, &batch), Err(PlanError::Stale { .. })));
}

#[test]
fn only_superusers_rewrap() {
    let mut world = World::with("CREATE USER u; CREATE USER boss SUPERUSER");
    world.run("ALTER ROLE admin NOSUPERUSER");
    let refused = rewrap(&mut world, &RewrapBatch::default()).unwrap_err();
    assert_eq!(refused.to_string(), "permission denied to rewrap secrets");
}
