//! Scripts of GRANT and REVOKE of membership.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;

use crate::tests::{World, check};

/// Every membership, one a line, with its options by grantor: `a`dmin, `i`nherit, `s`et.
fn memberships(world: &World) -> String {
    let mut lines = String::new();
    for (key, record) in world.image.memberships() {
        for (grantor, options) in &record.by {
            let flag = |has: bool, letter: &'static str| if has { letter } else { "-" };
            let flags = [flag(options.admin, "a"), flag(options.inherit, "i"), flag(options.set, "s")].concat();
            writeln!(lines, "{} in {} by {grantor} {flags}", key.member, key.role).unwrap();
        }
    }
    lines
}

const ROLES: &str = "CREATE ROLE r; CREATE ROLE u; CREATE ROLE w; CREATE ROLE lone NOINHERIT;";

#[test]
fn options_that_are_not_named_stay_or_take_their_defaults() {
    let world = check(
        ROLES,
        "GRANT r TO u; GRANT r TO lone; GRANT r TO w WITH ADMIN OPTION; GRANT r TO u WITH SET FALSE;
         GRANT r TO u WITH ADMIN TRUE, INHERIT FALSE; GRANT r TO u",
        "GRANT ROLE
         GRANT ROLE
         GRANT ROLE
         GRANT ROLE
         GRANT ROLE
         NOTICE 00000: role \"u\" has already been granted membership in role \"r\" by role \"admin\"
         GRANT ROLE (unchanged)",
    );
    assert_eq!(memberships(&world), "lone in r by admin --s\nu in r by admin a--\nw in r by admin ais\n");
}

#[test]
fn c049_no_ring_of_any_length() {
    let world = check(
        "CREATE ROLE r1; CREATE ROLE r2; CREATE ROLE r3",
        "GRANT r1 TO r2; GRANT r2 TO r3; GRANT r3 TO r1; GRANT r1 TO r1; GRANT r2 TO r1; GRANT r1 TO r3",
        "GRANT ROLE
         GRANT ROLE
         ERROR 0LP01 @12: role \"r3\" is a member of role \"r1\"
         DETAIL Each is a member of the next: \"r3\" -> \"r2\" -> \"r1\".
         ERROR 0LP01 @12: role \"r1\" is a member of role \"r1\"
         DETAIL A role cannot be a member of itself: \"r1\".
         ERROR 0LP01 @12: role \"r2\" is a member of role \"r1\"
         DETAIL Each is a member of the next: \"r2\" -> \"r1\".
         GRANT ROLE",
    );
    assert_eq!(memberships(&world).lines().count(), 3);
}

#[test]
fn a_ring_over_fifty_hops_and_within_one_statement() {
    let mut script = String::new();
    for i in 0..50 {
        write!(script, "CREATE ROLE r{i};").unwrap();
    }
    for i in 1..50 {
        write!(script, "GRANT r{} TO r{i};", i - 1).unwrap();
    }
    let mut world = World::with(&script);
    assert!(world.run("GRANT r49 TO r0").starts_with("ERROR 0LP01"));
    let mut world = World::with("CREATE ROLE a; CREATE ROLE b");
    assert!(world.run("GRANT a, b TO b, a").starts_with("ERROR 0LP01"));
    assert_eq!(memberships(&world), "");
}

#[test]
fn grantors_are_the_bootstrap_superuser_or_able_themselves() {
    let world = check(
        &format!("{ROLES} CREATE USER boss SUPERUSER; GRANT r TO u WITH ADMIN OPTION"),
        "GRANT r TO w GRANTED BY u; GRANT r TO w GRANTED BY lone; GRANT r TO w GRANTED BY boss; GRANT r TO w GRANTED BY nobody",
        "GRANT ROLE
         ERROR 42501 @24: permission denied to grant privileges as role \"lone\"
         DETAIL The grantor must have the ADMIN option on role \"r\".
         GRANT ROLE
         ERROR 42704 @24: role \"nobody\" does not exist",
    );
    assert_eq!(memberships(&world), "u in r by admin ais\nw in r by boss -is\nw in r by u -is\n");
}

#[test]
fn a_list_is_granted_whole_or_not_at_all() {
    let world = check(
        ROLES,
        "GRANT r, nobody TO u; GRANT r TO u, nobody; GRANT r, w TO u, lone",
        "ERROR 42704 @9: role \"nobody\" does not exist
         ERROR 42704 @14: role \"nobody\" does not exist
         GRANT ROLE",
    );
    assert_eq!(memberships(&world).lines().count(), 4);
}

#[test]
fn revoke_takes_the_current_grantors_own() {
    let world = check(
        &format!("{ROLES} GRANT r TO u WITH ADMIN OPTION; GRANT r TO w GRANTED BY u"),
        "REVOKE r FROM w; REVOKE r FROM lone; REVOKE r FROM w GRANTED BY u; REVOKE r FROM u; REVOKE r FROM u",
        "WARNING 01000: role \"w\" has not been granted membership in role \"r\" by role \"admin\"
         DETAIL It was granted by role \"u\".
         REVOKE ROLE (unchanged)
         WARNING 01000: role \"lone\" has not been granted membership in role \"r\" by role \"admin\"
         REVOKE ROLE (unchanged)
         REVOKE ROLE
         REVOKE ROLE
         WARNING 01000: role \"u\" has not been granted membership in role \"r\" by role \"admin\"
         REVOKE ROLE (unchanged)",
    );
    assert_eq!(memberships(&world), "");
}

#[test]
fn an_option_alone_can_be_revoked() {
    let world = check(
        &format!("{ROLES} GRANT r TO u WITH ADMIN OPTION"),
        "REVOKE ADMIN OPTION FOR r FROM u; REVOKE ADMIN OPTION FOR r FROM u; REVOKE INHERIT OPTION FOR r FROM u; REVOKE SET OPTION FOR r FROM u",
        "REVOKE ROLE
         WARNING 01000: role \"u\" has not been granted ADMIN option on role \"r\" by role \"admin\"
         REVOKE ROLE (unchanged)
         REVOKE ROLE
         REVOKE ROLE",
    );
    assert_eq!(memberships(&world), "u in r by admin ---\n");
}

#[test]
fn what_rests_on_an_admin_option_is_refused_or_goes_too() {
    let before = format!(
        "{ROLES} GRANT r TO u WITH ADMIN OPTION; GRANT r TO w WITH ADMIN OPTION GRANTED BY u; GRANT r TO lone GRANTED BY w;
         GRANT r TO u WITH ADMIN OPTION GRANTED BY w"
    );
    let refused = "ERROR 2BP01: dependent privileges exist
         DETAIL membership of role \"lone\" in role \"r\" granted by role \"w\"
         membership of role \"u\" in role \"r\" granted by role \"w\"
         membership of role \"w\" in role \"r\" granted by role \"u\"
         HINT Use CASCADE to revoke them too.\n";
    for statement in ["REVOKE r FROM u", "REVOKE ADMIN OPTION FOR r FROM u", "GRANT r TO u WITH ADMIN FALSE"] {
        check(&before, statement, refused);
    }
    let mut world = World::with(&before);
    let answer = world.run("REVOKE ADMIN OPTION FOR r FROM u CASCADE");
    assert!(answer.starts_with("NOTICE 00000: revoke cascades to 3 other grants\n"), "{answer}");
    assert_eq!(memberships(&world), "u in r by admin -is\n");
}

#[test]
fn create_role_joins_and_renames_and_drops_follow() {
    let mut world =
        World::with(&format!("{ROLES} CREATE ROLE n IN ROLE r ROLE u ADMIN w; GRANT n TO lone GRANTED BY w"));
    assert_eq!(
        memberships(&world),
        "lone in n by w --s\nu in n by admin -is\nw in n by admin ais\nn in r by admin -is\n"
    );
    assert_eq!(world.run("ALTER ROLE w RENAME TO x; ALTER ROLE n RENAME TO m"), "ALTER ROLE\nALTER ROLE\n");
    assert_eq!(
        memberships(&world),
        "lone in m by x --s\nu in m by admin -is\nx in m by admin ais\nm in r by admin -is\n"
    );
    assert!(world.run("DROP ROLE x").starts_with("ERROR 2BP01"));
    assert!(world.run("DROP ROLE x CASCADE").ends_with("DROP ROLE\n"));
    assert_eq!(memberships(&world), "u in m by admin -is\nm in r by admin -is\n");
    assert_eq!(world.run("DROP ROLE m"), "DROP ROLE\n");
    assert_eq!(memberships(&world), "");
}
