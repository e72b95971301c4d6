//! All that can be read by SQL.

use dataglot_golden::wire::{Client, rows_of};
use dataglot_model::{Read, Show, ShowGrants, ShowKind, Statement};

use crate::common::{names, ok};
use crate::parsed;

/// Which listing it is. Without a wildcard: who adds one adds it to [`LISTINGS`].
fn number(show: &Show) -> usize {
    match show {
        Show::Objects { kind, within: _, on: _, like: _ } => match kind {
            ShowKind::Catalogs => 0,
            ShowKind::Secrets => 1,
            ShowKind::Roles => 2,
            ShowKind::Users => 3,
            ShowKind::Masks => 4,
            ShowKind::RowFilters => 5,
            ShowKind::Policies => 6,
            ShowKind::Views => 7,
        },
        Show::Grants(grants) => match grants {
            ShowGrants::All => 8,
            ShowGrants::On(_) => 9,
            ShowGrants::To(_) => 10,
            ShowGrants::Of(_) => 11,
            ShowGrants::For(_) => 12,
        },
        Show::CurrentRoles => 13,
        Show::RoleGrants => 14,
        Show::Create(_) => 15,
        Show::Dependencies { object: _, dependents: _ } => 16,
        Show::Changes { since: _, limit: _ } => 17,
        Show::TransactionStatus(_) => 18,
        Show::Orgs => 19,
        Show::SecretKeys => 20,
        Show::SecretProblems => 21,
    }
}

const NUMBERS: usize = 22;

const LISTINGS: &[&str] = &[
    "SHOW CATALOGS",
    "SHOW SECRETS",
    "SHOW ROLES",
    "SHOW USERS",
    "SHOW MASKS",
    "SHOW ROW FILTERS",
    "SHOW POLICIES",
    "SHOW VIEWS",
    "SHOW GRANTS",
    "SHOW GRANTS ON SECRET kept",
    "SHOW GRANTS TO kept",
    "SHOW GRANTS OF kept",
    "SHOW GRANTS FOR kept",
    "SHOW CURRENT ROLES",
    "SHOW ROLE GRANTS",
    "SHOW CREATE SECRET kept",
    "SHOW DEPENDENCIES ON SECRET kept",
    "SHOW CHANGES SINCE 0",
    "SHOW TRANSACTION STATUS '00000000000000000000000000000000'",
    "SHOW ORGS",
    "SHOW SECRET KEYS",
    "SHOW SECRET PROBLEMS",
];

const RELATIONS: &[&str] = &[
    "pg_namespace",
    "pg_database",
    "pg_type",
    "pg_roles",
    "pg_user",
    "pg_settings",
    "pg_class",
    "pg_views",
    "pg_tables",
    "pg_description",
    "information_schema.schemata",
    "information_schema.tables",
    "information_schema.views",
];

/// Reads everything.
pub fn everything(client: &mut Client) {
    let mut seen = [false; NUMBERS];
    for sql in LISTINGS {
        match parsed(sql) {
            Statement::Read(Read::Show(show)) => seen[number(&show)] = true,
            _ => panic!("{sql} is no listing"),
        }
        ok(client, sql);
    }
    assert!(seen.iter().all(|seen| *seen), "a SHOW is not in the list");
    for kind in ["SECRET", "ROLE", "CATALOG"] {
        for name in names(client, &format!("SHOW {kind}S")) {
            for what in ["SHOW CREATE", "DESCRIBE"] {
                ok(client, &format!("{what} {kind} {name}"));
            }
        }
    }
    ok(client, "SHOW ALL");
    for relation in RELATIONS {
        let rows = rows_of(&ok(client, &format!("SELECT * FROM {relation}")));
        assert!(rows.len() < 1_000_000);
    }
}
