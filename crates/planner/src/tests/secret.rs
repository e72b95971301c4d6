//! CREATE SECRET, ALTER SECRET.

use dataglot_model::command::{AlterSecret, CreateSecret, OnExisting, OnMissing, SecretAction, SecretValue};
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

/// What is kept of the value before the present one: its number, how long after the test's time, the ciphertext.
fn former(world: &World, secret: &str) -> Option<(u64, i64, Option<String>)> {
    let secret = world.image.secret(&name(secret)).unwrap();
    let text = secret.previous.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
    let previous = secret.meta.previous.as_deref();
    assert_eq!(previous.is_none(), text.is_none() && previous.is_none());
    previous.map(|p| (p.value_version, (p.until.0 - secret.meta.set_at.0) / 1_000_000, text))
}

#[test]
fn a_former_value_stays_for_as_long_as_grace_says() {
    let mut world = World::with("CREATE SECRET s AS 'one'");
    world.run("ALTER SECRET s AS 'two' GRACE '1 day 2 hours'");
    assert_eq!(former(&world, "s"), Some((1, 93_600, Some("s/1/one".to_owned()))));
    assert_eq!(&**world.image.secret(&name("s")).unwrap().envelope.unwrap(), b"s/2/two");
    // The same again is no change.
    assert_eq!(world.run("ALTER SECRET s AS 'two' GRACE '1 hour'"), "ALTER SECRET (unchanged)\n");
    // One former value is kept: the next one takes its place.
    world.run("ALTER SECRET s AS 'three' GRACE '90 minutes'");
    assert_eq!(former(&world, "s"), Some((2, 5400, Some("s/2/two".to_owned()))));
    // A change of anything else leaves it.
    world.run("CREATE ROLE r; ALTER SECRET s OWNER TO r; CREATE OR REPLACE SECRET s AS 'three' COMMENT 'c'");
    assert!(former(&world, "s").is_some());
    // Without GRACE there is none, also where the value stays.
    assert_eq!(world.run("ALTER SECRET s AS 'three'"), "ALTER SECRET\n");
    assert_eq!(former(&world, "s"), None);
    assert_eq!(world.run("ALTER SECRET s AS 'three'"), "ALTER SECRET (unchanged)\n");
    for ends in ["ALTER SECRET s AS 'z'", "CREATE OR REPLACE SECRET s AS 'z'", "ALTER SECRET s AS REDACTED"] {
        world.run("ALTER SECRET s AS 'x'; ALTER SECRET s AS 'y' GRACE '1 hour'");
        assert!(former(&world, "s").is_some());
        world.run(ends);
        assert_eq!(former(&world, "s"), None, "{ends}");
    }
}

#[test]
fn a_former_value_need_not_be_in_the_store() {
    let mut world = World::with("CREATE SECRET s AS ENV 'V'");
    world.run("ALTER SECRET s AS 'two' GRACE '1 hour'");
    assert_eq!(former(&world, "s"), Some((1, 3600, None)));
    world.run("ALTER SECRET s AS FILE '/f' GRACE '1 hour'");
    assert_eq!(former(&world, "s"), Some((2, 3600, Some("s/2/two".to_owned()))));
    world.run("ALTER SECRET s RENAME TO t");
    assert_eq!(former(&world, "t"), Some((2, 3600, Some("t/2/two".to_owned()))));
    world.run("ALTER SECRET t AS ENV 'W' GRACE '1 hour'");
    assert_eq!(former(&world, "t"), Some((3, 3600, None)));
    assert_eq!(world.image.damaged(), []);
}

#[test]
fn a_rename_takes_the_former_value_along_and_a_drop_both() {
    let mut world = World::with("CREATE SECRET s AS 'one'; ALTER SECRET s AS 'two' GRACE '1 hour'");
    world.run("ALTER SECRET s RENAME TO t");
    assert_eq!(former(&world, "t"), Some((1, 3600, Some("t/1/one".to_owned()))));
    assert_eq!(&**world.image.secret(&name("t")).unwrap().envelope.unwrap(), b"t/2/two");
    assert_eq!(world.image.damaged(), []);
    world.run("DROP SECRET t; CREATE SECRET t AS 'new'");
    assert_eq!(former(&world, "t"), None);
    assert_eq!(world.image.damaged(), []);
}

#[test]
fn what_has_expired_goes_with_the_next_statement() {
    for statement in
        ["ALTER SECRET s AS 'two' GRACE '1 hour'", "ALTER SECRET s OWNER TO admin", "ALTER SECRET s RENAME TO t"]
    {
        let mut world = World::with("CREATE SECRET s AS 'one'; ALTER SECRET s AS 'two' GRACE '1 second'");
        world.now.0 += 999_999;
        let meta = |world: &World| {
            let secret = ["s", "t"].into_iter().find_map(|n| world.image.secret(&name(n))).unwrap();
            (secret.meta.previous_at(world.now).is_some(), secret.previous.is_some())
        };
        assert_eq!(meta(&world), (true, true));
        world.now.0 += 1;
        assert_eq!(meta(&world), (false, true));
        world.run(statement);
        assert_eq!(meta(&world), (false, false), "{statement}");
    }
}

#[test]
fn c039_a_damaged_former_value_takes_nothing_along() {
    let lost = dataglot_model::Mutation::Delete(dataglot_model::RowKey::PreviousSecret(name("s")));
    let mut world = World::with("CREATE SECRET s AS 'one'; ALTER SECRET s AS 'two' GRACE '1 hour'");
    world.image.apply(&lost);
    assert!(world.image.is_previous_unreadable(&name("s")) && !world.image.is_unreadable(&name("s")));
    assert_eq!(
        world.run("ALTER SECRET s RENAME TO t"),
        "NOTICE 00000: the former value of secret \"s\" is damaged and is not kept\nALTER SECRET\n"
    );
    assert_eq!(former(&world, "t"), None);
    world.image.mark_unreadable(&name("t"), true);
    assert_eq!(
        world.run("ALTER SECRET t AS 'three' GRACE '1 hour'"),
        "NOTICE 00000: the former value of secret \"t\" is damaged and is not kept\nALTER SECRET\n"
    );
    assert_eq!(former(&world, "t"), None);
    assert_eq!(world.image.damaged(), []);
}

#[test]
fn a_former_value_sealed_against_another_state_is_stale() {
    let stale = "ERROR 40001: could not serialize access to secret \"s\" due to a concurrent update\n";
    let mut world = World::with("CREATE SECRET s AS 'one'; ALTER SECRET s AS 'two' GRACE '1 hour'");
    let (present, previous) = (world.image.sealed_hash(&name("s")), world.image.previous_hash(&name("s")));
    let sealed = |value_version, seen| {
        let hash = super::hash_of(b"new");
        Some(Sealed::Envelope { bytes: b"new".as_slice().into(), hash, value_version, seen, by: None })
    };
    let rename = |resealed_previous| {
        Command::AlterSecret(AlterSecret {
            name: At::nowhere(name("s")),
            on_missing: OnMissing::Error,
            expected: None,
            action: SecretAction::Rename {
                to: At::nowhere(name("t")),
                resealed: sealed(2, present),
                resealed_previous,
            },
        })
    };
    for former in [None, sealed(1, present), sealed(1, None), sealed(2, previous)] {
        assert_eq!(world.execute(&rename(former), 0), stale);
    }
    assert_eq!(world.execute(&rename(sealed(1, previous)), 0), "ALTER SECRET\n");
}
