//! Scripts of GRANT and REVOKE of privileges.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use dataglot_model::def::{GrantKey, GrantRecord};
use dataglot_model::{GrantTarget, Grantee, Mutation, ObjectRef, Privilege, PrivilegeSet, Row, TableRef};

use crate::tests::{World, check, name};

const BEFORE: &str = "
    CREATE ROLE r; CREATE ROLE s; CREATE ROLE owner; CREATE CATALOG pg USING mock AUTHORIZATION owner;
    GRANT USAGE ON CATALOG pg TO r; GRANT USAGE ON CATALOG pg TO s; CREATE VIEW v AS SELECT 1;
";

/// Every grant, one a line: privileges, `*` after those with grant option, target, grantee, grantor.
fn grants(world: &World) -> String {
    let mut lines = String::new();
    for (key, record) in world.image.grants() {
        let star = |has: bool| if has { "*" } else { "" };
        let mut words: Vec<String> = record
            .privileges
            .iter()
            .map(|p| format!("{}{}", p.keyword(), star(record.grantable.contains(p))))
            .collect();
        words.extend(record.columns.iter().map(|(column, option)| format!("({column}{})", star(*option))));
        let all = if record.as_all { " as ALL" } else { "" };
        let line = format!("{}{all} on {} to {} by {}\n", words.join(", "), key.target, key.grantee, key.grantor);
        lines.push_str(&line);
    }
    lines
}

#[track_caller]
fn check_grants(script: &str, want: &str) {
    let mut world = World::with(BEFORE);
    let answers = world.run(script);
    assert!(!answers.contains("ERROR") && !answers.contains("SYNTAX"), "{answers}");
    let got: String =
        grants(&world).lines().filter(|line| !line.starts_with("USAGE on CATALOG pg")).collect::<Vec<_>>().join("\n");
    let want = want.trim().lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert!(got == want, "\n--- got\n{got}\n--- want\n{want}\n--- answers\n{answers}");
}

#[test]
fn the_owner_is_the_grantor() {
    check_grants("GRANT SELECT ON pg.public.t TO r", "SELECT on TABLE pg.public.t to r by owner");
    check_grants("GRANT SELECT ON v TO r", "SELECT on VIEW dataglot.public.v to r by admin");
    check_grants("GRANT CREATE ROLE ON SYSTEM TO r", "CREATE ROLE on SYSTEM to r by admin");
    check_grants("GRANT USAGE ON SCHEMA pg.public TO PUBLIC", "USAGE on SCHEMA pg.public to PUBLIC by owner");
    check_grants("GRANT USAGE ON SCHEMA dataglot.public TO r", "USAGE on SCHEMA dataglot.public to r by admin");
    check_grants("GRANT USAGE ON ALL CATALOGS TO r", "USAGE on ALL CATALOGS to r by admin");
}

#[test]
fn all_is_expanded_and_remembered() {
    check_grants("GRANT ALL ON pg.public.t TO r", "SELECT, APPLY as ALL on TABLE pg.public.t to r by owner");
    check_grants("GRANT SELECT, APPLY ON pg.public.t TO r", "SELECT, APPLY on TABLE pg.public.t to r by owner");
    check_grants(
        "GRANT ALL ON pg.public.t TO r; REVOKE APPLY ON pg.public.t FROM r",
        "SELECT on TABLE pg.public.t to r by owner",
    );
    check_grants(
        "GRANT ALL ON pg.public.t TO r; GRANT SELECT (a) ON pg.public.t TO r; REVOKE ALL ON pg.public.t FROM r",
        "",
    );
}

#[test]
fn all_that_was_granted_before_a_privilege_came_to_be_stays_as_it_is() {
    let mut world = World::with(BEFORE);
    let target = GrantTarget::Object(ObjectRef::Table(TableRef::from_parts(["pg", "public", "t"]).unwrap()));
    let key = GrantKey { target, grantee: Grantee::Role(name("r")), grantor: name("owner") };
    let old =
        GrantRecord { privileges: PrivilegeSet::of(&[Privilege::Select]), as_all: true, ..GrantRecord::default() };
    world.image.apply(&Mutation::Put(Row::Grant(key, Arc::new(old))));
    assert_eq!(world.run("GRANT ALL ON pg.public.t TO r"), "GRANT (unchanged)\n");
}

#[test]
fn granting_again_adds_and_never_takes() {
    check_grants(
        "GRANT SELECT ON v TO r WITH GRANT OPTION; GRANT SELECT ON v TO r; GRANT APPLY ON v TO r",
        "SELECT*, APPLY on VIEW dataglot.public.v to r by admin",
    );
    check_grants(
        "GRANT SELECT (a, b) ON pg.public.t TO r; GRANT SELECT (b, c) ON pg.public.t TO r WITH GRANT OPTION",
        "(a), (b*), (c*) on TABLE pg.public.t to r by owner",
    );
    check(
        BEFORE,
        "GRANT SELECT ON v TO r, s; GRANT SELECT ON v TO s; GRANT SELECT ON v TO r, s, PUBLIC; GRANT ALL ON v TO r; GRANT ALL ON v TO r",
        "GRANT
         GRANT (unchanged)
         GRANT
         GRANT
         GRANT (unchanged)",
    );
}

#[test]
fn a_list_is_granted_whole_or_not_at_all() {
    let world = check(
        BEFORE,
        "GRANT SELECT ON v TO r, nobody; GRANT SELECT ON v, w TO r;",
        "ERROR 42704 @24: role \"nobody\" does not exist
         ERROR 42P01 @19: view \"dataglot.public.w\" does not exist",
    );
    assert!(!grants(&world).contains("SELECT"));
}

#[test]
fn what_is_not_there_cannot_be_granted_on() {
    check(
        BEFORE,
        "GRANT USAGE ON CATALOG x TO r; GRANT USAGE ON SCHEMA x.s TO r; GRANT SELECT ON x.s.t TO r;
         GRANT SELECT ON VIEW pg.public.t TO r; GRANT SELECT ON ALL TABLES IN SCHEMA x.s TO r;
         GRANT USAGE ON SECRET x TO r; GRANT APPLY ON MASK x TO r; GRANT APPLY ON ROW FILTER x TO r;
         GRANT USAGE ON CATALOG dataglot TO r; GRANT USAGE ON SCHEMA dataglot.anything TO r",
        "ERROR 42704 @23: catalog \"x\" does not exist
         ERROR 42704 @22: catalog \"x\" does not exist
         ERROR 42704 @16: catalog \"x\" does not exist
         ERROR 42P01 @21: view \"pg.public.t\" does not exist
         ERROR 42704 @37: catalog \"x\" does not exist
         ERROR 42704 @22: secret \"x\" does not exist
         ERROR 42704 @20: mask \"x\" does not exist
         ERROR 42704 @26: row filter \"x\" does not exist
         GRANT
         GRANT",
    );
    check(
        "CREATE ROLE r; CREATE CATALOG pg USING mock; CREATE ROW FILTER f ON pg.public.t USING (true)",
        "GRANT APPLY ON MASK f TO r; GRANT APPLY ON ROW FILTER f TO r",
        "ERROR 42809 @20: \"f\" is not a mask
         HINT Use GRANT APPLY ON ROW FILTER.
         GRANT",
    );
}

#[test]
fn columns_are_checked_where_they_are_known() {
    check(
        "CREATE ROLE r; CREATE VIEW w (a, b) AS SELECT 1, 2; CREATE VIEW v AS SELECT 1",
        "GRANT SELECT (a) ON w TO r; GRANT SELECT (c) ON w TO r; GRANT SELECT (c) ON v TO r; GRANT SELECT (c) ON v TO r",
        "GRANT
         ERROR 42703 @6: column \"dataglot.public.w.c\" does not exist
         NOTICE 00000: columns of VIEW dataglot.public.v are not known here and were not checked
         GRANT
         GRANT (unchanged)",
    );
}

#[test]
fn grant_options_are_for_roles_and_grantors_are_current_users() {
    check(
        BEFORE,
        "GRANT SELECT ON v TO r GRANTED BY r; GRANT SELECT ON v TO r GRANTED BY nobody;
         GRANT SELECT ON v TO r GRANTED BY CURRENT_USER; REVOKE SELECT ON v FROM r GRANTED BY s",
        "ERROR 0A000 @34: grantor must be current user
         ERROR 42704 @34: role \"nobody\" does not exist
         GRANT
         ERROR 0A000 @37: grantor must be current user",
    );
    let mut world = World::with(BEFORE);
    let answer = world.run("GRANT SELECT ON v TO PUBLIC WITH GRANT OPTION");
    assert!(answer.contains("0LP01"), "{answer}");
}

#[test]
fn a_pattern_says_that_it_is_one() {
    check(
        BEFORE,
        "GRANT SELECT ON ALL TABLES IN SCHEMA pg.public TO r, s; GRANT SELECT ON ALL TABLES IN SCHEMA pg.public TO r;
         GRANT USAGE ON ALL SECRETS TO r; GRANT USAGE ON ALL SCHEMAS IN CATALOG pg TO r",
        "NOTICE 00000: grant on ALL TABLES IN SCHEMA pg.public is kept as a pattern and holds for tables that appear later
         GRANT
         GRANT (unchanged)
         NOTICE 00000: grant on ALL SECRETS is kept as a pattern and holds for secrets that appear later
         GRANT
         NOTICE 00000: grant on ALL SCHEMAS IN CATALOG pg is kept as a pattern and holds for schemas that appear later
         GRANT",
    );
}

#[test]
fn future_grants_become_grants_on_a_new_view() {
    let world = check(
        "CREATE ROLE r; CREATE VIEW old AS SELECT 1",
        "GRANT SELECT ON FUTURE VIEWS IN SCHEMA dataglot.public TO r; CREATE VIEW new AS SELECT 1;
         CREATE OR REPLACE VIEW old AS SELECT 2; CREATE VIEW other.new AS SELECT 1",
        "NOTICE 00000: grant on FUTURE VIEWS IN SCHEMA dataglot.public is kept as a pattern and holds for views that appear later
         GRANT
         CREATE VIEW
         CREATE VIEW
         CREATE VIEW",
    );
    assert_eq!(
        grants(&world),
        "SELECT on VIEW dataglot.public.new to r by admin\nSELECT on FUTURE VIEWS IN SCHEMA dataglot.public to r by admin\n"
    );
}

#[test]
fn select_without_usage_says_so_once_a_grantee() {
    check(
        "CREATE ROLE a; CREATE ROLE b; CREATE ROLE team; GRANT team TO b; CREATE CATALOG pg USING mock; CREATE CATALOG ora USING mock;
         CREATE VIEW v AS SELECT 1",
        "GRANT SELECT ON pg.s.t, pg.s.u, ora.s.t TO a; GRANT USAGE ON CATALOG pg TO team; GRANT SELECT ON pg.s.t TO b, admin;
         GRANT APPLY ON pg.s.t TO a; GRANT SELECT ON v TO a; GRANT SELECT ON pg.s.t TO a; GRANT SELECT ON pg.s.t TO PUBLIC;
         GRANT USAGE ON CATALOG ora TO PUBLIC; GRANT SELECT (x) ON ora.s.u TO a; GRANT SELECT ON ALL TABLES IN CATALOG pg TO a",
        "NOTICE 00000: role \"a\" lacks USAGE on catalogs \"ora\", \"pg\"
         DETAIL SELECT on a table works only together with USAGE on its catalog.
         GRANT
         GRANT
         GRANT
         GRANT
         GRANT
         GRANT (unchanged)
         NOTICE 00000: PUBLIC lacks USAGE on catalog \"pg\"
         DETAIL SELECT on a table works only together with USAGE on its catalog.
         GRANT
         GRANT
         NOTICE 00000: columns of TABLE ora.s.u are not known here and were not checked
         GRANT
         NOTICE 00000: grant on ALL TABLES IN CATALOG pg is kept as a pattern and holds for tables that appear later
         NOTICE 00000: role \"a\" lacks USAGE on catalog \"pg\"
         DETAIL SELECT on a table works only together with USAGE on its catalog.
         GRANT",
    );
}

#[test]
fn a_revoke_that_finds_nothing_says_where_the_privilege_comes_from() {
    check(
        &format!(
            "{BEFORE} GRANT r TO s; GRANT SELECT ON ALL TABLES IN SCHEMA pg.public TO r; GRANT SELECT ON v TO PUBLIC;
             GRANT SELECT ON pg.x.t TO r; GRANT SELECT (a, b) ON pg.x.t TO s"
        ),
        "REVOKE SELECT ON pg.public.t FROM r; REVOKE SELECT ON pg.public.t FROM s; REVOKE ALL ON v FROM r;
         REVOKE APPLY ON pg.x.t FROM r; REVOKE SELECT (a) ON pg.x.t FROM r; REVOKE SELECT ON pg.x.t FROM s;
         REVOKE GRANT OPTION FOR SELECT ON pg.x.t FROM r; REVOKE SELECT ON v FROM r, PUBLIC",
        "WARNING 01000: role \"r\" has not been granted SELECT on TABLE pg.public.t
         DETAIL role \"r\" has SELECT on ALL TABLES IN SCHEMA pg.public, granted by role \"owner\"
         REVOKE (unchanged)
         WARNING 01000: role \"s\" has not been granted SELECT on TABLE pg.public.t
         DETAIL role \"r\" has SELECT on ALL TABLES IN SCHEMA pg.public, granted by role \"owner\"
         REVOKE (unchanged)
         WARNING 01000: role \"r\" has not been granted any privilege on VIEW dataglot.public.v
         DETAIL PUBLIC has SELECT on VIEW dataglot.public.v, granted by role \"admin\"
         REVOKE (unchanged)
         WARNING 01000: role \"r\" has not been granted APPLY on TABLE pg.x.t
         REVOKE (unchanged)
         WARNING 01000: role \"r\" has not been granted SELECT (a) on TABLE pg.x.t
         DETAIL role \"r\" has SELECT on TABLE pg.x.t, granted by role \"owner\"
         REVOKE (unchanged)
         REVOKE
         WARNING 01000: role \"r\" has not been granted the grant option for SELECT on TABLE pg.x.t
         DETAIL role \"r\" has SELECT on TABLE pg.x.t, granted by role \"owner\"
         REVOKE (unchanged)
         WARNING 01000: role \"r\" has not been granted SELECT on VIEW dataglot.public.v
         DETAIL PUBLIC has SELECT on VIEW dataglot.public.v, granted by role \"admin\"
         REVOKE",
    );
}

#[test]
fn revoke_takes_what_it_names() {
    check_grants(
        "GRANT SELECT, APPLY ON v TO r WITH GRANT OPTION; REVOKE GRANT OPTION FOR SELECT ON v FROM r",
        "SELECT, APPLY* on VIEW dataglot.public.v to r by admin",
    );
    check_grants(
        "GRANT SELECT (a, b), SELECT ON pg.x.t TO r WITH GRANT OPTION; REVOKE GRANT OPTION FOR SELECT (a) ON pg.x.t FROM r",
        "SELECT*, (a), (b*) on TABLE pg.x.t to r by owner",
    );
    check_grants(
        "GRANT SELECT (a, b), APPLY ON pg.x.t TO r; REVOKE SELECT ON pg.x.t FROM r",
        "APPLY on TABLE pg.x.t to r by owner",
    );
    check_grants(
        "GRANT SELECT ON v TO r, s, PUBLIC; REVOKE ALL PRIVILEGES ON v FROM r, PUBLIC",
        "SELECT on VIEW dataglot.public.v to s by admin",
    );
}

/// A world in which `r` holds the grant option on the view and the pattern, and has granted on.
fn chained() -> World {
    let mut world = World::with(&format!(
        "{BEFORE} CREATE ROLE t; GRANT SELECT, APPLY ON v TO r WITH GRANT OPTION;
         GRANT SELECT ON ALL TABLES IN SCHEMA pg.public TO r WITH GRANT OPTION"
    ));
    let view = GrantTarget::Object(ObjectRef::View(TableRef::from_parts(["dataglot", "public", "v"]).unwrap()));
    let table = GrantTarget::Object(ObjectRef::Table(TableRef::from_parts(["pg", "public", "t"]).unwrap()));
    let select = PrivilegeSet::of(&[Privilege::Select]);
    let mut grant = |target: &GrantTarget, grantee: &str, grantor: &str, grantable| {
        let key = GrantKey { target: target.clone(), grantee: Grantee::Role(name(grantee)), grantor: name(grantor) };
        let record = GrantRecord { privileges: select, grantable, ..GrantRecord::default() };
        world.image.apply(&Mutation::Put(Row::Grant(key, Arc::new(record))));
    };
    grant(&view, "s", "r", select);
    grant(&view, "t", "s", PrivilegeSet::EMPTY);
    // A ring: s gives the option back.
    grant(&view, "r", "s", select);
    grant(&table, "s", "r", PrivilegeSet::EMPTY);
    world
}

#[test]
fn what_rests_on_a_grant_option_is_refused_or_goes_too() {
    let mut world = chained();
    let before = grants(&world);
    assert_eq!(
        world.run("REVOKE SELECT ON v FROM r"),
        "ERROR 2BP01: dependent privileges exist
DETAIL SELECT on VIEW dataglot.public.v granted to role \"r\" by role \"s\"
       SELECT on VIEW dataglot.public.v granted to role \"s\" by role \"r\"
       SELECT on VIEW dataglot.public.v granted to role \"t\" by role \"s\"
HINT Use CASCADE to revoke them too.\n"
    );
    assert_eq!(grants(&world), before);
    assert_eq!(world.run("REVOKE GRANT OPTION FOR APPLY ON v FROM r"), "REVOKE\n");
    let answer = world.run("REVOKE GRANT OPTION FOR SELECT ON v FROM r CASCADE");
    assert!(answer.starts_with("NOTICE 00000: revoke cascades to 3 other grants\n"), "{answer}");
    assert_eq!(
        world.run("REVOKE ALL ON ALL TABLES IN SCHEMA pg.public FROM r CASCADE"),
        "NOTICE 00000: revoke cascades to SELECT on TABLE pg.public.t granted to role \"s\" by role \"r\"\nREVOKE\n"
    );
    assert_eq!(
        grants(&world),
        "USAGE on CATALOG pg to r by owner\nUSAGE on CATALOG pg to s by owner\nSELECT, APPLY on VIEW dataglot.public.v to r by admin\n"
    );
}

#[test]
fn another_way_to_the_option_keeps_what_rests_on_it() {
    let mut world = chained();
    world.run("GRANT SELECT ON ALL VIEWS IN SCHEMA dataglot.public TO r WITH GRANT OPTION");
    assert_eq!(world.run("REVOKE SELECT ON v FROM r"), "REVOKE\n");
    let answer = world.run("REVOKE SELECT ON ALL VIEWS IN SCHEMA dataglot.public FROM r");
    assert!(answer.starts_with("ERROR 2BP01: dependent privileges exist\n"), "{answer}");
}

#[test]
fn a_superuser_takes_what_a_grantor_without_rights_left() {
    let mut world = World::with(BEFORE);
    let key = GrantKey { target: GrantTarget::System, grantee: Grantee::Role(name("s")), grantor: name("r") };
    let audit = GrantRecord { privileges: PrivilegeSet::of(&[Privilege::Audit]), ..GrantRecord::default() };
    world.image.apply(&Mutation::Put(Row::Grant(key, Arc::new(audit))));
    assert_eq!(world.run("REVOKE AUDIT ON SYSTEM FROM s"), "REVOKE\n");
}

#[test]
fn dropping_a_role_takes_what_rests_on_its_grants() {
    let mut world = chained();
    let answer = world.run("DROP ROLE r CASCADE");
    assert!(answer.ends_with("DROP ROLE\n"), "{answer}");
    assert_eq!(grants(&world), "USAGE on CATALOG pg to s by owner\n");
}

#[test]
fn grants_follow_renames() {
    let mut world = World::with(&format!(
        "{BEFORE} GRANT SELECT ON pg.public.t TO r; GRANT USAGE ON SCHEMA pg.public TO PUBLIC; GRANT SELECT ON v TO r;
         GRANT SELECT ON ALL TABLES IN CATALOG pg TO s; GRANT USAGE ON CATALOG pg TO owner"
    ));
    let answer = world.run(
        "ALTER CATALOG pg RENAME TO pg2; ALTER ROLE owner RENAME TO boss; ALTER VIEW v RENAME TO w; ALTER ROLE r RENAME TO q",
    );
    assert!(!answer.contains("ERROR"), "{answer}");
    assert_eq!(
        grants(&world),
        "USAGE on CATALOG pg2 to boss by boss
USAGE on CATALOG pg2 to q by boss
USAGE on CATALOG pg2 to s by boss
USAGE on SCHEMA pg2.public to PUBLIC by boss
SELECT on TABLE pg2.public.t to q by boss
SELECT on VIEW dataglot.public.w to q by admin
SELECT on ALL TABLES IN CATALOG pg2 to s by boss
"
    );
}

#[test]
fn c057_a_new_catalog_of_an_old_name_has_no_grants() {
    let world = World::with(
        "CREATE ROLE r1; CREATE USER u1; CREATE CATALOG c1 USING mock; GRANT USAGE ON CATALOG c1 TO r1;
         ALTER CATALOG c1 RENAME TO c2; CREATE CATALOG c1 USING mock; GRANT r1 TO u1",
    );
    let found = crate::effective_grants(&world.image, &Grantee::Role(name("u1")));
    let targets: Vec<String> = found.iter().map(|grant| grant.target.to_string()).collect();
    assert_eq!(targets, ["CATALOG c2"]);
}

#[test]
fn c011_public_is_no_role() {
    let mut world = World::with("CREATE CATALOG c1 USING mock");
    assert_eq!(world.run("GRANT USAGE ON CATALOG c1 TO PUBLIC"), "GRANT\n");
    assert_eq!(
        world.run("GRANT USAGE ON CATALOG c1 TO \"PUBLIC\""),
        "ERROR 42704 @29: role \"PUBLIC\" does not exist\n"
    );
    assert!(world.run("CREATE ROLE public").contains("42939"));
    assert_eq!(grants(&world), "USAGE on CATALOG c1 to PUBLIC by admin\n");
}

#[test]
fn as_many_grants_as_one_statement_may_speak_of() {
    let world = World::with("CREATE ROLE r");
    let roles = |count| vec![dataglot_model::At::nowhere(dataglot_model::command::GranteeSpec::Public); count];
    let command = |count| {
        dataglot_model::Command::GrantPrivileges(dataglot_model::command::GrantPrivileges {
            privileges: dataglot_model::command::Privileges::All,
            targets: vec![dataglot_model::At::nowhere(GrantTarget::System)],
            grantees: roles(count),
            grant_option: false,
            granted_by: None,
        })
    };
    let plan = |count| {
        let command = command(count);
        let authorized = crate::authorize(&world.image, &world.actor, &command).unwrap();
        crate::plan(&world.image, &crate::PlanCx { now: crate::tests::NOW }, authorized)
    };
    assert!(plan(super::GRANTS_MAX).is_ok());
    let error = plan(super::GRANTS_MAX + 1).unwrap_err();
    assert_eq!(dataglot_model::Problem::sqlstate(&error).code(), "54000");
}
