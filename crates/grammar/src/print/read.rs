//! SHOW, DESCRIBE, EXPLAIN.

use dataglot_model::{Describe, DescribeName, Explain, ExplainFormat, Read, Show, ShowGrants, ShowKind, ShowScope};

use super::drop::print_object;
use super::sql::{Sql, quote_name};

pub(super) fn print_read<V>(sql: &mut Sql, read: &Read<V>) {
    match read {
        Read::Show(show) => print_show(sql, show),
        Read::Describe(describe) => print_describe(sql, describe),
        Read::Explain(Explain { format, command }) => {
            sql.word("EXPLAIN");
            match format {
                ExplainFormat::Text => {}
                ExplainFormat::Json => {
                    sql.word("(FORMAT JSON)");
                }
            }
            super::print_command(sql, command);
        }
    }
}

fn print_show(sql: &mut Sql, show: &Show) {
    sql.word("SHOW");
    match show {
        Show::Objects { kind, within, on, like } => {
            sql.word(show_kind(*kind));
            match within {
                None => {}
                Some(ShowScope::Catalog(catalog)) => {
                    sql.word("IN CATALOG").word(catalog);
                }
                Some(ShowScope::Schema(schema)) => {
                    sql.word("IN SCHEMA").word(schema);
                }
            }
            if let Some(table) = on {
                sql.word("ON").word(table);
            }
            if let Some((pattern, escape)) = like {
                sql.word("LIKE").string(pattern);
                match escape {
                    Some('\\') => {}
                    Some(escape) => {
                        sql.word("ESCAPE").string(&escape.to_string());
                    }
                    None => {
                        sql.word("ESCAPE ''");
                    }
                }
            }
        }
        Show::Grants(grants) => print_show_grants(sql, grants),
        Show::CurrentRoles => {
            sql.word("CURRENT ROLES");
        }
        Show::RoleGrants => {
            sql.word("ROLE GRANTS");
        }
        Show::Create(object) => {
            sql.word("CREATE");
            print_object(sql, &object.value);
        }
        Show::Dependencies { object, dependents } => {
            sql.word("DEPENDENCIES").word(if *dependents { "ON" } else { "OF" });
            print_object(sql, &object.value);
        }
        Show::Changes { since, limit } => {
            sql.word("CHANGES SINCE").word(since);
            if let Some(limit) = limit {
                sql.word("LIMIT").word(limit);
            }
        }
        Show::TransactionStatus(id) => {
            sql.word("TRANSACTION STATUS").string(&id.to_string());
        }
        Show::Orgs => {
            sql.word("ORGS");
        }
        Show::SecretKeys => {
            sql.word("SECRET KEYS");
        }
        Show::SecretProblems => {
            sql.word("SECRET PROBLEMS");
        }
    }
}

const fn show_kind(kind: ShowKind) -> &'static str {
    match kind {
        ShowKind::Catalogs => "CATALOGS",
        ShowKind::Secrets => "SECRETS",
        ShowKind::Roles => "ROLES",
        ShowKind::Users => "USERS",
        ShowKind::Masks => "MASKS",
        ShowKind::RowFilters => "ROW FILTERS",
        ShowKind::Policies => "POLICIES",
        ShowKind::Views => "VIEWS",
    }
}

fn print_show_grants(sql: &mut Sql, grants: &ShowGrants) {
    sql.word("GRANTS");
    match grants {
        ShowGrants::All => sql,
        ShowGrants::On(target) => sql.word("ON").word(&target.value),
        ShowGrants::To(grantee) => sql.word("TO").grantee(&grantee.value),
        ShowGrants::Of(role) => sql.word("OF").word(quote_name(&role.value)),
        ShowGrants::For(grantee) => sql.word("FOR").grantee(&grantee.value),
    };
}

fn print_describe(sql: &mut Sql, describe: &Describe) {
    let Describe { kind, object } = describe;
    sql.word("DESCRIBE");
    if let Some(kind) = kind {
        sql.word(kind.keyword());
    }
    match &object.value {
        DescribeName::Object(object) => sql.word(object.sql_name()),
        DescribeName::Any { name: Some(name), table: _ } => sql.word(name),
        DescribeName::Any { name: None, table } => sql.word(table),
    };
}
