//! What a role needs in order to serve a store, and no more: it cannot change the schema, nor history.

use tokio_postgres::{Client, GenericClient};

use super::error::MigrationError;
use super::runner::{self, SCHEMA};

/// Table and privileges.
const NEEDED: [(&str, &[&str]); 15] = [
    ("migrations", &["SELECT"]),
    ("meta", &["SELECT", "INSERT", "UPDATE"]),
    ("heads", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    // Goes with its org, which is when a trigger lets it go.
    ("changes", &["SELECT", "INSERT", "DELETE"]),
    ("objects", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("entries", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("secrets", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("users", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("roles", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("role_members", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("policies", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("grants", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("derived_products", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("previous_secrets", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
    ("data_keys", &["SELECT", "INSERT", "UPDATE", "DELETE"]),
];

/// The needed privileges as two lists of one length: tables, privileges.
pub(super) fn needed() -> (Vec<&'static str>, Vec<&'static str>) {
    NEEDED.iter().flat_map(|(table, privileges)| privileges.iter().map(|p| (*table, *p))).unzip()
}

/// A condition on `t` and `privilege`: the role `$1`, or the current one, lacks it. Unknown where the
/// table is not there.
macro_rules! lacking {
    ($role:literal) => {
        concat!(
            "ARRAY(SELECT privilege || ' on ' || t FROM unnest($1::text[], $2::text[]) AS n (t, privilege) ",
            "WHERE NOT has_table_privilege(",
            $role,
            ", to_regclass(t), privilege))"
        )
    };
}

/// An expression, of the two lists: what the current role lacks.
pub(super) const LACKING: &str = lacking!("current_user");

/// Refuses a role that is not there.
pub(super) async fn find(client: &Client, role: &str) -> Result<(), MigrationError> {
    let failed = |error: &_| MigrationError::statement("look for the role that is going to serve", error);
    let found = client.query_opt("SELECT FROM pg_roles WHERE rolname = $1", &[&role]).await.map_err(|e| failed(&e))?;
    if found.is_some() {
        return Ok(());
    }
    let statement = format!("CREATE ROLE {} LOGIN PASSWORD '…';", runner::quote(role));
    Err(MigrationError::NoSuchRole { role: role.to_owned(), statement })
}

/// Grants `role` what it needs.
pub(super) async fn grant(client: &mut Client, role: &str) -> Result<(), MigrationError> {
    let doing = "grant privileges on the meta store";
    let failed = |error: &_| MigrationError::statement(doing, error);
    let quoted = runner::quote(role);
    let transaction = client.transaction().await.map_err(|e| failed(&e))?;
    transaction.batch_execute(runner::SETTINGS).await.map_err(|e| failed(&e))?;
    let mut sql = format!("GRANT USAGE ON SCHEMA {SCHEMA} TO {quoted};\n");
    for (table, privileges) in NEEDED {
        sql += &format!("GRANT {} ON {table} TO {quoted};\n", privileges.join(", "));
    }
    // The columns that are generated call them.
    sql += &format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {SCHEMA} TO {quoted};");
    if let Err(error) = transaction.batch_execute(&sql).await {
        if error.code() == Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE) {
            let missing = vec![format!("the right to grant on schema {SCHEMA}")];
            transaction.rollback().await.map_err(|e| failed(&e))?;
            return Err(not_granted(current_user(client).await?, missing, role));
        }
        return Err(failed(&error));
    }
    // One that may not grant gets no error, only a warning.
    let missing = lacking_of(&transaction, role).await?;
    if !missing.is_empty() {
        return Err(not_granted(role.to_owned(), missing, role));
    }
    transaction.commit().await.map_err(|e| failed(&e))
}

async fn lacking_of(client: &impl GenericClient, role: &str) -> Result<Vec<String>, MigrationError> {
    let failed = |error: &_| MigrationError::statement("read the privileges on the meta store", error);
    let (tables, privileges) = needed();
    let sql = concat!("SELECT ", lacking!("$3::name"));
    let row = client.query_one(sql, &[&tables, &privileges, &role]).await.map_err(|e| failed(&e))?;
    row.try_get(0).map_err(|e| failed(&e))
}

async fn current_user(client: &impl GenericClient) -> Result<String, MigrationError> {
    let failed = |error: &_| MigrationError::statement("read the name of the role", error);
    let row = client.query_one("SELECT current_user::text", &[]).await.map_err(|e| failed(&e))?;
    row.try_get(0).map_err(|e| failed(&e))
}

/// `role` lacks something; the command is for the one that serves.
pub(super) fn not_granted(role: String, missing: Vec<String>, serving: &str) -> MigrationError {
    MigrationError::NotGranted { role, missing, command: runner::command(serving) }
}
