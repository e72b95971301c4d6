//! Rows on their way to the tables, as arrays: many of one table in one statement. And the statements.

use std::borrow::Cow;

use tokio_postgres::types::{ToSql, Type};

use super::layout::{
    ChangeColumns, Columns, Fields, KEY_COLUMNS_MAX, KeyColumns, KeyTexts, change_columns, is_sealed, key_columns,
    key_texts, to_columns,
};
use super::wire::Content;
use crate::{StoreError, Table};

/// Keys, one array a column.
#[derive(Default)]
pub(super) struct KeyParameters<'a> {
    columns: [Vec<Cow<'a, str>>; KEY_COLUMNS_MAX],
}

/// Rows, one array a column.
#[derive(Default)]
pub(super) struct PutParameters<'a> {
    keys: KeyParameters<'a>,
    /// Of `changes` only, instead of `keys`.
    seq: Vec<i64>,
    step: Vec<i32>,
    transaction_id: Vec<Option<String>>,
    /// What people search for, where the table has columns for it: `at` or `id`.
    number: Vec<Option<i64>>,
    /// `actor` or `owner`.
    role: Vec<Option<String>>,
    format: Vec<i16>,
    checksum: Vec<i64>,
    body: Vec<Option<Content<'a>>>,
    /// Empty where no row has it: the server fills up with nulls.
    raw: Vec<Option<Content<'a>>>,
}

impl<'a> KeyParameters<'a> {
    pub(super) fn push(&mut self, KeyTexts(texts): KeyTexts<'a>) {
        self.columns.iter_mut().zip(texts).for_each(|(column, text)| column.push(text));
    }

    pub(super) fn len(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the parameters of a table whose key has these columns.
    pub(super) fn append<'p>(&'p self, columns: KeyColumns, out: &mut Vec<&'p (dyn ToSql + Sync)>) {
        out.extend(self.columns.iter().take(columns.parameters()).map(|column| column as &(dyn ToSql + Sync)));
    }
}

impl<'a> PutParameters<'a> {
    /// Adds a row.
    pub(super) fn push(
        &mut self,
        table: Table,
        columns: KeyColumns,
        key: &'a [u8],
        value: &'a [u8],
    ) -> Result<(), StoreError> {
        let (Columns { format, checksum, body, raw }, fields) = to_columns(table, value);
        let Fields { id, owner, at, by } = fields;
        if table == Table::Changes {
            let ChangeColumns { seq, step, transaction_id } = change_columns(key, value)?;
            self.seq.push(seq);
            self.step.push(step);
            self.transaction_id.push(transaction_id);
            self.number.push(at.get());
            self.role.push(by.get());
        } else {
            self.keys.push(key_texts(columns, key));
        }
        if table == Table::Objects {
            self.number.push(id.get());
            self.role.push(owner.get());
        }
        self.format.push(format);
        self.checksum.push(checksum);
        self.body.push(body.map(Content));
        self.raw.push(raw.map(Content));
        Ok(())
    }

    /// All rows were added.
    pub(super) fn finish(&mut self) {
        if self.body.iter().all(Option::is_some) {
            self.raw.clear();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.format.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.format.is_empty()
    }

    /// Appends the parameters, in the order of [`put_types`].
    pub(super) fn append<'p>(&'p self, table: Table, out: &mut Vec<&'p (dyn ToSql + Sync)>) {
        if table == Table::Changes {
            let own: [&(dyn ToSql + Sync); 3] = [&self.seq, &self.step, &self.transaction_id];
            out.extend(own);
        } else {
            self.keys.append(key_columns(table), out);
        }
        if searched(table).is_some() {
            let searched: [&(dyn ToSql + Sync); 2] = [&self.number, &self.role];
            out.extend(searched);
        }
        let frame: [&(dyn ToSql + Sync); 4] = [&self.format, &self.checksum, &self.body, &self.raw];
        out.extend(frame);
    }
}

/// The types of the parameters of keys.
pub(super) fn key_types(table: Table) -> impl Iterator<Item = Type> {
    std::iter::repeat_n(Type::TEXT_ARRAY, key_columns(table).parameters())
}

/// The columns for what people search for in the content of the table's records: a number, a role.
fn searched(table: Table) -> Option<[&'static str; 2]> {
    match table {
        Table::Objects => Some(["id", "owner"]),
        Table::Changes => Some(["at", "actor"]),
        Table::Entries
        | Table::Secrets
        | Table::Users
        | Table::Roles
        | Table::RoleMembers
        | Table::Policies
        | Table::Grants
        | Table::DerivedProducts
        | Table::DataKeys
        | Table::PreviousSecrets
        | Table::Meta => None,
    }
}

/// The types of the parameters of [`put_sql`].
pub(super) fn put_types(table: Table) -> Vec<Type> {
    let keys: Vec<_> = if table == Table::Changes {
        vec![Type::INT8_ARRAY, Type::INT4_ARRAY, Type::TEXT_ARRAY]
    } else {
        key_types(table).collect()
    };
    let searched = searched(table).map(|_| [Type::INT8_ARRAY, Type::TEXT_ARRAY]).into_iter().flatten();
    let body = if is_sealed(table) { Type::BYTEA_ARRAY } else { Type::JSON_ARRAY };
    keys.into_iter().chain(searched).chain([Type::INT2_ARRAY, Type::INT8_ARRAY, body, Type::BYTEA_ARRAY]).collect()
}

/// Where the org of the rows comes from: a table expression `head` with a column `org`.
#[derive(Clone, Copy)]
pub(super) enum Head {
    /// `$1`.
    Parameter,
    /// A query of that name in the same statement.
    Query,
}

impl Head {
    fn sql(self) -> &'static str {
        match self {
            Head::Parameter => "(SELECT $1::text AS org) AS head",
            Head::Query => "head",
        }
    }
}

/// `$3, $4`: as many parameters from `first` on.
fn parameters(first: usize, count: usize) -> String {
    (first..first + count).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ")
}

/// A column of a key out of its parameter in `of`.
fn key_expressions(columns: KeyColumns, of: &str) -> Vec<(&'static str, String)> {
    match columns {
        KeyColumns::List => vec![("key", format!("string_to_array({of}.key, chr(1))"))],
        KeyColumns::Each(names) => names.iter().map(|name| (*name, format!("{of}.{name}"))).collect(),
    }
}

/// The row of `table` with the key `k` of the org `$1`, as a subquery of what looks up many. In the order of the primary
/// key: so the server finds it by that index, key by key, also while it believes that the table holds next to
/// nothing. A join is planned then to read all rows of the org for each key, and stays so in a prepared statement.
fn row_by_key(table: Table, columns: &str) -> String {
    let keys = key_columns(table);
    let equal: Vec<_> =
        key_expressions(keys, "k").into_iter().map(|(name, value)| format!("o.{name} = {value}")).collect();
    format!(
        "LATERAL (SELECT {columns} FROM {table} o WHERE o.org = $1 AND {} ORDER BY o.org, {} LIMIT 1) AS t",
        equal.join(" AND "),
        keys.names().iter().map(|name| format!("o.{name}")).collect::<Vec<_>>().join(", ")
    )
}

/// Deletes rows of the org `$1` by their keys, which are the parameters from `first` on.
pub(super) fn delete_sql(table: Table, head: Head, first: usize) -> String {
    let columns = key_columns(table);
    format!(
        "DELETE FROM {table} t USING {} WHERE t.ctid = ANY (ARRAY(\
         SELECT t.ctid FROM unnest({}) AS k ({}), {}))",
        head.sql(),
        parameters(first, columns.parameters()),
        columns.names().join(", "),
        row_by_key(table, "o.ctid")
    )
}

/// What is done with rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// They are not there: it fails if one is. That spares the server a search for each.
    New,
    /// They go over what is there.
    Over,
}

/// Writes rows, which are the parameters from `first` on.
pub(super) fn put_sql(table: Table, put: Put, head: Head, first: usize) -> String {
    let columns = key_columns(table);
    let keys = columns.names();
    let mut rest = Vec::new();
    if table == Table::Changes {
        rest.push("transaction_id");
    }
    rest.extend(searched(table).into_iter().flatten());
    rest.extend(["format", "checksum", "body", "raw"]);
    let key_values: Vec<_> = key_expressions(columns, "r").into_iter().map(|(_, value)| value).collect();
    let rest_values: Vec<_> = rest.iter().map(|name| format!("r.{name}")).collect();
    let (keys, rest_names) = (keys.join(", "), rest.join(", "));
    let mut sql = format!(
        "INSERT INTO {table} (org, {keys}, {rest_names}) SELECT head.org, {}, {} \
         FROM {}, unnest({}) AS r ({keys}, {rest_names})",
        key_values.join(", "),
        rest_values.join(", "),
        head.sql(),
        parameters(first, put_types(table).len())
    );
    // History is append-only: what is there is never overwritten.
    if put == Put::Over && table != Table::Changes {
        let set: Vec<_> = rest.iter().map(|name| format!("{name} = excluded.{name}")).collect();
        sql.push_str(&format!(" ON CONFLICT (org, {keys}) DO UPDATE SET {}", set.join(", ")));
    }
    sql
}

/// Rows by their keys, each with the place of its key, from 1; nulls: there is none.
pub(super) fn select_sql(table: Table) -> String {
    let columns = key_columns(table);
    format!(
        "SELECT k.place, t.format, t.checksum, t.body, t.raw \
         FROM unnest({}) WITH ORDINALITY AS k ({}, place) LEFT JOIN {} ON true",
        parameters(2, columns.parameters()),
        columns.names().join(", "),
        row_by_key(table, "o.format, o.checksum, o.body, o.raw")
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dataglot_pgtest::Cluster;

    use super::super::connection::{Connection, Session, Settings, ensure_schema};
    use super::super::dsn::Dsn;
    use super::*;

    /// How the server means to do `sql`, whose parameters are a text and arrays of texts.
    async fn plan(session: &Session, sql: &str, arrays: usize) -> String {
        let (types, nulls) = (", text[]".repeat(arrays), ", NULL".repeat(arrays));
        let text = format!("PREPARE looked (text{types}) AS {sql}");
        session.client.batch_execute(&text).await.unwrap();
        let rows = session.client.query(&format!("EXPLAIN EXECUTE looked (NULL{nulls})"), &[]).await.unwrap();
        session.client.batch_execute("DEALLOCATE looked").await.unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn rows_are_found_one_by_one_whatever_the_server_knows_of_the_table() {
        let database = Cluster::shared().database();
        let settings =
            Settings { dsn: Dsn::parse(&database.dsn()).unwrap(), statement_timeout: Duration::from_secs(10) };
        ensure_schema(&settings.dsn, None).unwrap();
        let mut connection = Connection::open(&settings, "test").unwrap();
        let found = connection.run(async |session| {
            for known in ["", "VACUUM ANALYZE"] {
                session.client.batch_execute(known).await?;
                for table in Table::IMAGE {
                    let columns = key_columns(table);
                    for sql in [select_sql(table), delete_sql(table, Head::Parameter, 2)] {
                        let plan = plan(session, &sql, columns.parameters()).await;
                        let by_key = plan.lines().filter(|line| {
                            line.contains("Index Cond: ((org = $1)")
                                && columns.names().iter().all(|name| line.contains(&format!("({name} = ")))
                        });
                        assert_eq!(by_key.count(), 1, "{known} {sql}\n{plan}");
                        assert!(!plan.contains("Filter"), "{known} {sql}\n{plan}");
                    }
                }
            }
            Ok(())
        });
        found.unwrap();
    }
}
