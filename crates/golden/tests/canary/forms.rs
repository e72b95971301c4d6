//! The grammar, walked for what takes a credential.
//!
//! [`Command::credential`] takes everything that holds one apart in full, without a wildcard: a new statement, clause or
//! field does not compile until it is said there whether a credential stands in it. If one does, it is a [`Form`], and a
//! form needs templates, which are parsed to see that the credential stands where it is said to.

use dataglot_model::command::{Carrier, Credential};
use dataglot_model::connector::{Connector, OptionType};
use dataglot_model::{Command, Explain, OrgCommand, Read, Sensitive, Statement};

/// A place in the grammar where a credential stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    CreateSecret,
    AlterSecret,
    CreateRole,
    AlterRole,
    CreateOrg,
}

impl Form {
    pub const ALL: [Form; 5] =
        [Form::CreateSecret, Form::AlterSecret, Form::CreateRole, Form::AlterRole, Form::CreateOrg];

    /// Every clause around the credential that the grammar has. `{v}` stands for it, `{n}` for a number that no
    /// other statement has.
    pub const fn templates(self) -> &'static [&'static str] {
        match self {
            Form::CreateSecret => &[
                "CREATE SECRET s{n} AS {v}",
                "CREATE SECRET s{n} AS {v} COMMENT 'why'",
                "CREATE OR REPLACE SECRET kept AS {v}",
                "CREATE SECRET IF NOT EXISTS s{n} AS {v}",
                "CREATE SECRET IF NOT EXISTS kept AS {v}",
            ],
            Form::AlterSecret => &[
                "ALTER SECRET kept AS {v}",
                "ALTER SECRET kept AS {v} GRACE '1 hour'",
                "ALTER SECRET IF EXISTS nobodys AS {v}",
            ],
            Form::CreateRole => &[
                "CREATE USER u{n} PASSWORD {v}",
                "CREATE ROLE u{n} WITH LOGIN ENCRYPTED PASSWORD {v} VALID UNTIL '2040-01-01'",
                "CREATE GROUP u{n} PASSWORD {v} CONNECTION LIMIT 3 COMMENT 'why'",
                "CREATE OR ALTER USER kept PASSWORD {v}",
                "CREATE USER IF NOT EXISTS kept PASSWORD {v}",
            ],
            Form::AlterRole => &[
                "ALTER USER kept PASSWORD {v}",
                "ALTER ROLE kept WITH ENCRYPTED PASSWORD {v} NOCREATEROLE",
                "ALTER ROLE CURRENT_USER PASSWORD {v}",
                "ALTER USER SESSION_USER WITH PASSWORD {v}",
                "ALTER USER IF EXISTS nobody PASSWORD {v}",
            ],
            Form::CreateOrg => {
                &["CREATE ORG o{n} ADMIN boss PASSWORD {v}", "CREATE ORG IF NOT EXISTS default ADMIN boss PASSWORD {v}"]
            }
        }
    }
}

/// Where in `statement` credentials stand.
pub fn credentials(statement: &Statement<Sensitive>) -> Vec<(Form, &Sensitive)> {
    match statement {
        Statement::Change(command) => of_command(command),
        Statement::Org(OrgCommand::Create { name: _, on_existing: _, admin: _, password }) => {
            password.iter().filter_map(|change| change.value.password()).map(|v| (Form::CreateOrg, v)).collect()
        }
        Statement::Org(OrgCommand::Drop { name: _, on_missing: _, behavior: _ }) => Vec::new(),
        Statement::Read(Read::Explain(Explain { format: _, command })) => of_command(command),
        Statement::Read(Read::Show(_) | Read::Describe(_))
        | Statement::Transaction(_)
        | Statement::Session(_)
        | Statement::Select(_)
        | Statement::Rewrap => Vec::new(),
    }
}

fn of_command(command: &Command<Sensitive>) -> Vec<(Form, &Sensitive)> {
    let form = match command.carrier() {
        Some(Carrier::CreateSecret(_)) => Form::CreateSecret,
        Some(Carrier::AlterSecret(_)) => Form::AlterSecret,
        Some(Carrier::CreateRole(_)) => Form::CreateRole,
        Some(Carrier::AlterRole(_)) => Form::AlterRole,
        // A literal that would be a credential is refused as an option's value: see `refused`.
        None => return Vec::new(),
    };
    command
        .credential()
        .map(|credential| match credential {
            Credential::Secret(value) | Credential::Password(value) => (form, value),
        })
        .into_iter()
        .collect()
}

/// Statements in which somebody puts a credential where none may stand. All of them are refused.
pub fn refused() -> Vec<String> {
    let mut all: Vec<String> = [
        "CREATE SECRET s{n} TYPE http (bearer_token = {v}, headers = 'A: b')",
        "CREATE SECRET s{n} (TYPE s3, KEY_ID {v})",
        "CREATE SECRET s{n} WITH (backend = 'vault', token = {v})",
        "CREATE SECRET s{n} VALUE {v}",
        "CREATE SECRET s{n} AS {v} || 'x'",
        "ALTER SECRET kept SET VERSION {v}",
        "ALTER SECRET kept AS 'x' GRACE {v}",
        "ALTER SECRET kept IF VERSION {v} AS {v}",
        "CREATE USER u{n} UNENCRYPTED PASSWORD {v}",
        "CREATE USER u{n} PASSWORD SECRET {v}",
        "CREATE USER u{n} IDENTIFIED BY {v}",
        "CREATE USER u{n} PASSWORD {v} PASSWORD {v}",
        "CREATE USER u{n} PASSWORD {v} VALID UNTIL {v}",
        "CREATE USER u{n} PASSWORD 'x' CONNECTION LIMIT {v}",
        "ALTER USER ALL PASSWORD {v}",
        "ALTER USER kept SET password = {v}",
        "ALTER USER kept SET statement_timeout = {v}",
        "SET statement_timeout = {v}",
        "SET password = {v}",
        "ALTER SYSTEM SET statement_timeout = {v}",
        "SHOW TRANSACTION STATUS {v}",
        "SHOW CATALOGS LIKE 'x' ESCAPE {v}",
        "SHOW SECRETS WHERE name = {v}",
        "CREATE MASK m{n} ON c.s.t (a) WITH (type = {v})",
        "CREATE SERVER x FOREIGN DATA WRAPPER y OPTIONS (password {v})",
        "CREATE USER MAPPING FOR kept SERVER x OPTIONS (password {v})",
        "CREATE SUBSCRIPTION x CONNECTION {v} PUBLICATION y",
        "PREPARE p AS CREATE USER u{n} PASSWORD {v}",
        "EXECUTE p({v})",
        "DO {v}",
        "COPY t FROM {v}",
        "INSERT INTO t VALUES ({v})",
        "SELECT no_such_function({v})",
        "SELECT {v}::integer",
        "SELECT * FROM pg_settings WHERE no_such_column = {v}",
        "NOTIFY dataglot_changes, {v}",
        "CREATE CATALOG c{n} USING mock WITH (pasword = {v})",
        "CREATE CATALOG c{n} USING mock WITH (port = {v})",
        "CREATE CATALOG c{n} USING mock WITH (tables = JSON {v})",
        "CREATE CATALOG c{n} WITH (kind = 'mock', password = {v})",
        "CREATE CATALOG c{n} WITH (kind = {v})",
        "CREATE CATALOG c{n} USING mock VALIDATE {v}",
        "ALTER CATALOG kept SET (password = {v})",
        "ALTER CATALOG kept WITH (password = {v})",
        "ALTER CATALOG kept OPTIONS (ADD password {v})",
        "ALTER CATALOG kept OPTIONS (SET token {v})",
    ]
    .map(str::to_owned)
    .to_vec();
    for connector in Connector::ALL {
        for option in connector.options() {
            let values: &[&str] = match option.kind {
                OptionType::Credential => &["{v}"],
                OptionType::Dsn => &["'host=h password={w}'", "'scheme://user:{w}@h/db'", "'h;Pwd={w};x=y'"],
                OptionType::Integer(..) | OptionType::Decimal | OptionType::Boolean | OptionType::OneOf(_) => &["{v}"],
                OptionType::Text | OptionType::Json => &[],
            };
            for value in values {
                all.push(format!(
                    "CREATE CATALOG c{{n}} USING {connector} WITH ({} = {value}) VALIDATE OFF",
                    option.key
                ));
            }
        }
    }
    all
}
