//! Who may do what.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dataglot_model::def::{MembershipKey, MembershipOptions, MembershipRecord};
use dataglot_model::{ColumnRef, GrantTarget, Grantee, Mutation, ObjectRef, Privilege, Row, TableRef};

use super::{Along, effective_grants, has_privilege, roles_of_transitive, usable_roles};
use crate::tests::{World, name};

fn table(text: &str) -> GrantTarget {
    let parts: Vec<&str> = text.split('.').collect();
    GrantTarget::Object(match parts.as_slice() {
        [a, b, c] => ObjectRef::Table(TableRef::from_parts([a, b, c]).unwrap()),
        [a, b, c, d] => ObjectRef::Column(ColumnRef::from_parts([a, b, c, d]).unwrap()),
        _ => panic!("{text}"),
    })
}

/// Which of the roles may SELECT from it.
fn readers(world: &World, text: &str) -> String {
    let may = |role: &&str| has_privilege(&world.image, &name(role), &table(text), Privilege::Select);
    ["admin", "owner", "r", "u", "noinherit"].into_iter().filter(may).collect::<Vec<_>>().join(" ")
}

const ROLES: &str = "
    CREATE ROLE r; CREATE ROLE owner; CREATE USER u; CREATE USER noinherit NOINHERIT; CREATE ROLE mid; GRANT r TO mid;
    GRANT mid TO u; GRANT mid TO noinherit; CREATE CATALOG pg USING mock AUTHORIZATION owner; CREATE VIEW v AS SELECT 1;
";

#[test]
fn access_comes_by_grant_pattern_membership_public_and_ownership() {
    let cases = [
        ("", "pg.s.t", "admin owner"),
        ("GRANT SELECT ON pg.s.t TO r", "pg.s.t", "admin owner r u"),
        ("GRANT SELECT ON pg.s.t TO r", "pg.s.other", "admin owner"),
        ("GRANT SELECT ON pg.s.t TO r", "pg.s.T", "admin owner"),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA pg.s TO r", "pg.s.t", "admin owner r u"),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA pg.s TO r", "pg.s2.t", "admin owner"),
        ("GRANT SELECT ON ALL TABLES IN CATALOG pg TO u", "pg.s.t", "admin owner u"),
        ("GRANT SELECT ON FUTURE TABLES IN CATALOG pg TO u", "pg.s.t", "admin owner"),
        ("GRANT SELECT ON pg.s.t TO PUBLIC", "pg.s.t", "admin owner r u noinherit"),
        ("GRANT SELECT (a) ON pg.s.t TO u", "pg.s.t", "admin owner"),
        ("GRANT SELECT (a) ON pg.s.t TO u", "pg.s.t.a", "admin owner u"),
        ("GRANT SELECT (a) ON pg.s.t TO u", "pg.s.t.b", "admin owner"),
        ("GRANT SELECT ON pg.s.t TO u", "pg.s.t.b", "admin owner u"),
        ("GRANT SELECT ON v TO r", "dataglot.public.v", "admin r u"),
        ("GRANT SELECT ON ALL VIEWS IN SCHEMA dataglot.public TO u", "dataglot.public.v", "admin u"),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA dataglot.public TO u", "dataglot.public.v", "admin u"),
        ("ALTER VIEW v OWNER TO r", "dataglot.public.v", "admin r u"),
        ("GRANT APPLY ON v TO r", "dataglot.public.v", "admin"),
    ];
    for (script, target, want) in cases {
        let world = World::with(&format!("{ROLES} {script}"));
        assert_eq!(readers(&world, target), want, "{script}: {target}");
    }
}

#[test]
fn effective_grants_say_where_they_come_from() {
    let world = World::with(&format!(
        "{ROLES} CREATE SECRET s AS 'x'; ALTER SECRET s OWNER TO mid; GRANT ALL ON v TO r; GRANT SELECT ON pg.s.t TO PUBLIC;
         GRANT SELECT (a) ON pg.s.t TO u WITH GRANT OPTION; GRANT USAGE ON CATALOG pg TO noinherit"
    ));
    let lines = |grantee: &Grantee| -> Vec<String> {
        let line = |g: super::EffectiveGrant| {
            let words: Vec<&str> = g.privileges.iter().map(Privilege::keyword).collect();
            let columns: Vec<String> = g.columns.iter().map(|(c, option)| format!("({c} {option})")).collect();
            let all = if g.as_all { " ALL" } else { "" };
            let implied = if g.implied { " implied" } else { "" };
            format!("{}{} on {} via {}{all}{implied}", words.join(","), columns.concat(), g.target, g.via)
        };
        effective_grants(&world.image, grantee).into_iter().map(line).collect()
    };
    assert_eq!(
        lines(&Grantee::Role(name("u"))),
        [
            "USAGE on SECRET s via mid ALL implied",
            "SELECT on TABLE pg.s.t via PUBLIC",
            "(a true) on TABLE pg.s.t via u",
            "SELECT,APPLY on VIEW dataglot.public.v via r ALL",
        ]
    );
    assert_eq!(
        lines(&Grantee::Role(name("noinherit"))),
        ["USAGE on CATALOG pg via noinherit", "SELECT on TABLE pg.s.t via PUBLIC"]
    );
    assert_eq!(lines(&Grantee::Public), ["SELECT on TABLE pg.s.t via PUBLIC"]);
}

#[test]
fn roles_are_walked_over_memberships_that_inherit() {
    let mut world = World::with(ROLES);
    let names = |roles: Vec<dataglot_model::Name>| roles.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let all = |world: &World, role: &str, along| {
        names(roles_of_transitive(&world.image, &name(role), along).into_iter().collect())
    };
    assert_eq!(names(usable_roles(&world.image, &name("u"))), "u mid r");
    assert_eq!(names(usable_roles(&world.image, &name("noinherit"))), "noinherit");
    assert_eq!(all(&world, "noinherit", Along::Any), "mid r");
    assert_eq!(all(&world, "u", Along::Inherit), "mid r");
    // Damage: a ring ends the walk.
    let key = MembershipKey { role: name("u"), member: name("r") };
    let options = MembershipOptions { admin: false, inherit: true, set: true };
    let record = MembershipRecord { by: [(name("admin"), options)].into(), extra: None };
    world.image.apply(&Mutation::Put(Row::Membership(key, Arc::new(record))));
    assert_eq!(names(usable_roles(&world.image, &name("u"))), "u mid r");
}
