//! The list of rules by which clients are let in: `[[hba]]` tables, in the order in which they stand.

use toml::Spanned;

use super::error::ConfigError;
use super::fields::{Fields, Value, text, texts, wrong};
use super::file::File;
use super::source::Raw;
use super::value;
use crate::auth::{Address, Hba, Kind, Method, Names, Rule};

/// The tables' name.
pub(super) const HBA: &str = "hba";
/// What a table may have.
pub(super) const KEYS: [&str; 6] = ["type", "address", "database", "user", "method", "map"];
/// Most rules.
const RULES_MAX: usize = 1_000;

/// The rules, and where the first one stands.
pub(super) fn read(file: &File<'_>, value: &Value<'_>) -> Result<(Hba, Raw), ConfigError> {
    let form = || format!("1 to {RULES_MAX} tables: [[hba]], once for each rule");
    let tables = value.get_ref().as_array().filter(|tables| (1..=RULES_MAX).contains(&tables.len()));
    let tables = tables.ok_or_else(|| wrong(file, value, HBA, form()))?;
    let rules = tables.iter().map(|table| rule(file, table));
    let hba = Hba::new(rules.collect::<Result<_, _>>()?);
    let first = tables.first().map_or(value.span(), Spanned::span);
    Ok((hba, file.raw(String::new(), first)))
}

fn rule(file: &File<'_>, table: &Value<'_>) -> Result<Rule, ConfigError> {
    let fields = Fields::of(file, table, HBA)?;
    let kind = fields.get("type", "host, hostssl or hostnossl", |value| Kind::named(&text(value)?))?;
    let form =
        "all, loopback, samehost, or a network such as 10.0.0.0/8 or 2001:db8::/32, all bits after its length zero";
    let address = fields.get("address", form, |value| Address::parse(&text(value)?))?;
    let databases = fields.get("database", NAMES, names)?;
    let users = fields.get("user", NAMES, names)?;
    let method = fields.get("method", &value::methods(), |value| Method::named(&text(value)?))?;
    let map = fields.map("map", "a table of a certificate's names, each with a user or a list of users")?;
    fields.end()?;
    let (Some(address), Some(method)) = (address, method) else {
        return Err(fields.lacking("at least address = … and method = …"));
    };
    if !map.is_empty() && method != Method::Cert {
        return Err(fields.wrong("map", "effect with method = \"cert\" only"));
    }
    let all = Rule::for_all(method);
    Ok(Rule {
        kind: kind.unwrap_or(all.kind),
        address,
        databases: databases.unwrap_or(all.databases),
        users: users.unwrap_or(all.users),
        method,
        map,
    })
}

const NAMES: &str = "\"all\", a name, or a list of names that is not empty";

/// `all` stands alone: in a list it would be a name, and mean less than it seems to.
fn names(value: &Value<'_>) -> Option<Names> {
    match text(value).as_deref() {
        Some("all") => Some(Names::All),
        Some(_) | None => {
            let names = texts(value)?;
            names.iter().all(|name| !name.is_empty() && name != "all").then_some(Names::Of(names))
        }
    }
}
