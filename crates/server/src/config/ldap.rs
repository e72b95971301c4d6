//! The directory that takes passwords: the `[ldap]` table.

use super::error::ConfigError;
use super::fields::{Fields, Value};
use super::file::File;
use crate::auth::{DirectoryConfig, is_filter};

/// The table's name.
pub(super) const LDAP: &str = "ldap";

pub(super) fn read(file: &File<'_>, value: &Value<'_>) -> Result<DirectoryConfig, ConfigError> {
    let fields = Fields::of(file, value, LDAP)?;
    let form = "ldaps://host[:port], or ldap://host[:port] with starttls = true";
    let url = fields.text("url", form)?.ok_or_else(|| fields.lacking(format!("url = …: {form}")))?;
    let starttls = fields.boolean("starttls")?.unwrap_or(false);
    let encrypted = match url.split_once("://") {
        Some(("ldaps", _)) => !starttls,
        Some(("ldap", _)) => starttls,
        Some(_) | None => false,
    };
    let host = url.split_once("://").map_or("", |(_, host)| host);
    if !encrypted || host.is_empty() || host.contains(['/', '@', '?', '#', ' ', ',']) {
        return Err(fields.wrong("url", form));
    }
    let bind_dn = fields.text("bind_dn", "the name of the entry that may search")?;
    let bind_password_file = fields.path("bind_password_file")?;
    let service = match (bind_dn, bind_password_file) {
        (Some(dn), Some(file)) => Some((dn, file)),
        (None, None) => None,
        _ => {
            return Err(fields.lacking("both of bind_dn and bind_password_file, or none: the search is then anonymous"));
        }
    };
    let base = fields.text("base", "the entry below which users are")?;
    let base = base.ok_or_else(|| fields.lacking("base = …, the entry below which users are"))?;
    let user_attribute = fields.list("user_attribute", "the attribute that holds the user's name", |text| {
        let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        is_name.then(|| text.to_owned())
    })?;
    let user_attribute = match user_attribute.unwrap_or_else(|| vec!["uid".to_owned()]).as_slice() {
        [one] => one.clone(),
        _ => return Err(fields.wrong("user_attribute", "one attribute, which holds the user's name")),
    };
    let form = "a search filter with {user} in it, such as (&(objectClass=person)(uid={user}))";
    let filter = fields.text("filter", form)?.unwrap_or_else(|| format!("({user_attribute}={{user}})"));
    if !is_filter(&filter) {
        return Err(fields.wrong("filter", form));
    }
    let groups_attribute = fields.text("groups_attribute", "the attribute that holds the user's groups")?;
    let roles = fields.map("roles", "a table of the attribute's values, each with a role or a list of roles")?;
    if groups_attribute.is_none() != roles.is_empty() {
        return Err(fields.lacking("both of groups_attribute and roles, or none: a group names no role of itself"));
    }
    let ca_file = fields.path("ca_file")?;
    fields.end()?;
    Ok(DirectoryConfig { url, ca_file, service, base, filter, user_attribute, groups_attribute, roles })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, refused};

    const LEAST: &str = "[ldap]\nurl = \"ldaps://ldap.test\"\nbase = \"dc=test\"\n";

    #[test]
    fn a_directory_is_read() {
        let config = file(&format!("auth = \"ldap\"\n{LEAST}")).unwrap();
        config.check().unwrap();
        let least = config.directory.unwrap();
        assert_eq!((least.filter.as_str(), least.service, least.groups_attribute), ("(uid={user})", None, None));
        let text = "[ldap]\nurl = \"ldap://ldap.test:3389\"\nstarttls = true\nbase = \"dc=test\"\nca_file = \"/ca\"\n\
                    bind_dn = \"cn=service\"\nbind_password_file = \"/pw\"\nuser_attribute = \"sAMAccountName\"\n\
                    filter = \"(&(objectClass=user)(sAMAccountName={user}))\"\ngroups_attribute = \"memberOf\"\n\
                    [ldap.roles]\n\"cn=analysts,dc=test\" = \"analyst\"\n";
        let full = file(text).unwrap().directory.unwrap();
        assert_eq!((full.user_attribute.as_str(), full.roles.len()), ("sAMAccountName", 1));
        assert!(full.service.is_some() && full.ca_file.is_some());
        assert_eq!(
            full.to_string(),
            "ldap://ldap.test:3389; (&(objectClass=user)(sAMAccountName={user})) below dc=test; searched by cn=service; \
             roles by memberOf, 1 of its values"
        );
    }

    #[test]
    fn what_would_be_unsafe_is_an_error() {
        for url in ["ldap://h", "ldapi://h", "http://h", "ldaps://", "h", "ldaps://u@h", "ldaps://h/x", "ldaps://h,i"] {
            refused(&LEAST.replace("ldaps://ldap.test", url), &["\"url\" takes ldaps://host"]);
        }
        refused(&format!("{LEAST}starttls = true\n"), &["\"url\" takes"]);
        for filter in ["(uid=ann)", "uid={user", "((uid={user})", "{user}(", ""] {
            refused(&format!("{LEAST}filter = \"{filter}\"\n"), &["\"filter\" takes a search filter"]);
        }
        refused(&format!("{LEAST}bind_dn = \"cn=x\"\n"), &["both of bind_dn and bind_password_file"]);
        refused(&format!("{LEAST}bind_password = \"CANARY-7Q\"\n"), &["no setting \"ldap.bind_password\""]);
        refused(&format!("{LEAST}groups_attribute = \"memberOf\"\n"), &["both of groups_attribute and roles"]);
        refused(&format!("{LEAST}user_attribute = \"a=b\"\n"), &["\"user_attribute\" takes"]);
        refused("[ldap]\nurl = \"ldaps://h\"\n", &["base = …"]);
        let none = file("auth = \"ldap\"\n").unwrap().check().unwrap_err();
        assert_eq!(none.to_string(), "method \"ldap\" needs [ldap] in the configuration file");
    }
}
