//! CREATE SECRET, ALTER SECRET.

use dataglot_model::command::{CreateSecret, OnExisting, SecretValue};
use dataglot_model::def::SecretOrigin;
use dataglot_model::{At, Command, Sealed, SecretHash};

use super::{World, check, name};

#[test]
fn a_new_value_is_a_new_number_and_the_same_value_is_nothing() {
    let world = check(
        "CREATE SECRET s AS 'one' COMMENT 'k'",
        "CREATE SECRET s AS 'x';
         CREATE SECRET IF NOT EXISTS s AS 'x';
         CREATE OR REPLACE SECRET s AS 'one';
         CREATE OR REPLACE SECRET s AS 'two';
         ALTER SECRET s AS 'two';
         ALTER SECRET s AS 'three';
         CREATE OR REPLACE SECRET s AS REDACTED;
         ALTER SECRET s AS ENV 'V';
         ALTER SECRET s AS ENV 'V';
         ALTER SECRET s AS FILE '/f';
         ALTER SECRET s AS 'four'",
        "ERROR 42710 @14: secret \"s\" already exists
         NOTICE 42710: secret \"s\" already exists, skipping
         CREATE SECRET (unchanged)
         CREATE SECRET (unchanged)
         CREATE SECRET
         ALTER SECRET (unchanged)
         ALTER SECRET
         CREATE SECRET (unchanged)
         ALTER SECRET
         ALTER SECRET (unchanged)
         ALTER SECRET
         ALTER SECRET",
    );
    let secret = world.image.secret(&name("s")).unwrap();
    assert_eq!(secret.meta.value_version, 6);
    assert_eq!(&**secret.envelope.unwrap(), b"s/6/four");
    assert_eq!(secret.header.comment.as_deref(), Some("k"));
    assert_eq!(secret.header.version, 6);
}

#[test]
fn c033_a_placeholder_is_refused_where_there_is_nothing_to_keep() {
    check(
        "",
        "CREATE SECRET s AS REDACTED",
        "ERROR 22023 @19: REDACTED stands for a value, and secret \"s\" has none
         HINT Give the value: AS '...', AS ENV '...' or AS FILE '...'.",
    );
}

#[test]
fn a_value_without_a_ciphertext_keeps_none() {
    let world = check("CREATE SECRET s AS 'x'", "ALTER SECRET s AS ENV 'V'", "ALTER SECRET");
    let secret = world.image.secret(&name("s")).unwrap();
    assert!(secret.envelope.is_none());
    assert_eq!(secret.meta.origin, SecretOrigin::Env("V".to_owned()));
}

#[test]
fn a_rename_moves_the_value_and_every_reference() {
    let world = check(
        "CREATE ROLE r; CREATE SECRET s AS 'x'; CREATE SECRET t AS 'y';
         CREATE CATALOG c USING mock WITH (password = SECRET s); GRANT USAGE ON SECRET s TO r",
        "ALTER SECRET s RENAME TO t; ALTER SECRET s RENAME TO u; ALTER SECRET s RENAME TO v;
         DROP SECRET u",
        "ERROR 42710 @25: secret \"t\" already exists
         ALTER SECRET
         ERROR 42704 @13: secret \"s\" does not exist
         ERROR 2BP01: cannot drop secret \"u\" because other objects depend on it
         DETAIL catalog \"c\" depends on secret \"u\"
         HINT Use DROP ... CASCADE to drop the dependent objects too.",
    );
    assert_eq!(&**world.image.secret(&name("u")).unwrap().envelope.unwrap(), b"u/1/x");
    assert_eq!(world.image.catalog(&name("c")).unwrap().header.version, 2);
}

fn create(value: Sealed, on_existing: OnExisting) -> Command<Sealed> {
    Command::CreateSecret(CreateSecret {
        name: At::nowhere(name("s")),
        on_existing,
        value: At::nowhere(SecretValue::Value(value)),
        comment: None,
    })
}

#[test]
fn a_value_sealed_against_another_state_is_stale() {
    let stale = "ERROR 40001: could not serialize access to secret \"s\" due to a concurrent update\n";
    let mut world = World::with("CREATE SECRET s AS 'x'");
    let present = world.image.sealed_hash(&name("s"));
    let other = Some(SecretHash([7; 32]));
    let sealed = |value_version, seen| Sealed::Envelope {
        bytes: b"new".as_slice().into(),
        hash: super::hash_of(b"new"),
        value_version,
        seen,
        by: None,
    };
    for value in [
        sealed(2, other),
        sealed(2, None),
        sealed(1, present),
        sealed(3, present),
        Sealed::Unchanged { seen: other },
        Sealed::Unchanged { seen: None },
    ] {
        assert_eq!(world.execute(&create(value, OnExisting::Replace), 0), stale);
    }
    assert_eq!(world.execute(&create(sealed(2, present), OnExisting::Replace), 0), "CREATE SECRET\n");
    let mut fresh = World::new();
    for value in [sealed(1, present), sealed(2, None), Sealed::Unchanged { seen: None }] {
        assert_eq!(fresh.execute(&create(value, OnExisting::Replace), 0), stale);
    }
}

#[test]
fn c039_a_damaged_value_is_listed_and_repaired() {
    let mut world = World::with("CREATE SECRET s AS 'x'");
    world.image.mark_unreadable(&name("s"), true);
    assert!(world.image.is_unreadable(&name("s")));
    assert_eq!(
        world.run("ALTER SECRET s RENAME TO t"),
        "ERROR XX001 @13: the value of secret \"s\" is damaged and cannot be sealed for another name\n\
         HINT Set it again with ALTER SECRET ... AS.\n"
    );
    assert_eq!(world.run("ALTER SECRET s AS 'again'"), "ALTER SECRET\n");
    assert!(!world.image.is_unreadable(&name("s")));
    world.image.apply(&dataglot_model::Mutation::Delete(dataglot_model::RowKey::Secret(name("s"))));
    assert!(world.image.is_unreadable(&name("s")), "a lost ciphertext");
    assert!(world.image.secret(&name("s")).is_some());
    assert_eq!(world.image.damaged().len(), 1);
}
