//! Issuers of tokens: `[[jwt]]` tables.
//!
//! What makes a token safe has no default that does without: an issuer without an audience, or without a word on
//! whom its subjects stand for, is an error.

use std::collections::BTreeSet;
use std::time::Duration;

use super::error::ConfigError;
use super::fields::{Fields, Value};
use super::file::File;
use crate::auth::{Algorithm, IssuerConfig, KeyPlace, Network};

/// The tables' name.
pub(super) const JWT: &str = "jwt";
/// Most issuers.
const ISSUERS_MAX: usize = 100;
const LEEWAY_DEFAULT: Duration = Duration::from_secs(30);
/// How far clocks may be apart (J5).
const LEEWAY_MAX: Duration = Duration::from_secs(60);
/// How long a token may live (J5).
const LIFETIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);
const ALGORITHMS_DEFAULT: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
const TYPES_DEFAULT: [&str; 2] = ["jwt", "at+jwt"];

/// All of them.
pub(super) fn read(file: &File<'_>, value: &Value<'_>) -> Result<Vec<IssuerConfig>, ConfigError> {
    let Some(tables) = value.get_ref().as_array() else {
        // `[jwt]` in the place of `[[jwt]]`.
        return Err(Fields::of(file, value, JWT)?.lacking("a list: [[jwt]], once for each issuer"));
    };
    let mut names = BTreeSet::new();
    let mut issuers = Vec::new();
    for table in tables {
        let fields = Fields::of(file, table, JWT)?;
        if issuers.len() >= ISSUERS_MAX {
            return Err(fields.lacking(format!("at most {ISSUERS_MAX} issuers")));
        }
        let issuer = issuer(&fields)?;
        if !names.insert(issuer.issuer.clone()) {
            return Err(fields.wrong("issuer", "each issuer once"));
        }
        fields.end()?;
        issuers.push(issuer);
    }
    Ok(issuers)
}

fn issuer(fields: &Fields<'_, '_>) -> Result<IssuerConfig, ConfigError> {
    let name = fields.text("issuer", "the text that stands in the tokens' \"iss\"")?;
    let issuer = name.ok_or_else(|| fields.lacking("issuer = …, as it stands in the tokens' \"iss\""))?;
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let audience =
        fields.list("audience", "a text or a list of texts, one of which stands in the tokens' \"aud\"", filled)?;
    let audience = audience.ok_or_else(|| {
        fields.lacking("audience = …: without one, tokens that were made for others would be taken, too")
    })?;
    let file = fields.path("jwks_file")?;
    let form = "an address such as https://id.example/keys, without a user";
    let url = fields.text("jwks_url", form)?;
    if url.as_deref().is_some_and(|url| url.contains('@')) {
        return Err(fields.wrong("jwks_url", form));
    }
    let ca_file = fields.path("ca_file")?;
    let form = "a network or a list of networks, such as 10.0.0.0/8, all bits after its length zero";
    let networks = fields.list("networks", form, Network::parse)?;
    let keys = match (file, url) {
        (Some(_), None) if ca_file.is_some() || networks.is_some() => {
            return Err(fields.lacking("ca_file and networks with jwks_url only"));
        }
        (Some(path), None) => KeyPlace::File(path),
        (None, Some(url)) => KeyPlace::Url { url, ca_file, networks: networks.unwrap_or_default() },
        _ => return Err(fields.lacking("jwks_file = … or jwks_url = …, one of them")),
    };
    let known = Algorithm::ALL.map(Algorithm::as_str).join(", ");
    let algorithms = fields.list("algorithms", &format!("one or several of {known}"), Algorithm::named)?;
    let lower = |text: &str| text.is_ascii().then(|| text.to_ascii_lowercase());
    let types = fields.list("types", "a text or a list of texts, one of which stands in the tokens' \"typ\"", lower)?;
    let path = "the name of a claim, or a list of names that lead into one";
    let user_claim = fields.list("user_claim", path, filled)?;
    let users = fields.map("users", "a table of the claim's values, each with a user or a list of users")?;
    if user_claim.is_none() && users.is_empty() {
        return Err(fields.lacking(
            "users (a table from subjects to users) or user_claim (the claim that holds the user's name): a subject \
             stands for nobody of itself",
        ));
    }
    let roles_claim = fields.list("roles_claim", path, filled)?;
    let roles = fields.map("roles", "a table of the claim's values, each with a role or a list of roles")?;
    if roles_claim.is_none() != roles.is_empty() {
        return Err(fields.lacking("both of roles_claim and roles, or none: a group names no role of itself"));
    }
    Ok(IssuerConfig {
        issuer,
        audience,
        keys,
        algorithms: algorithms.unwrap_or_else(|| ALGORITHMS_DEFAULT.to_vec()),
        types: types.unwrap_or_else(|| TYPES_DEFAULT.map(str::to_owned).to_vec()),
        leeway: fields.duration("leeway", LEEWAY_MAX)?.unwrap_or(LEEWAY_DEFAULT),
        lifetime_max: fields.duration("lifetime_max", LIFETIME_MAX)?.unwrap_or(LIFETIME_MAX),
        user_claim: user_claim.unwrap_or_default(),
        users,
        roles_claim: roles_claim.unwrap_or_default(),
        roles,
        databases: fields.list("databases", "a database or a list of databases", filled)?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{file, refused};
    use super::*;

    const LEAST: &str = "[[jwt]]\nissuer = \"https://id.test\"\naudience = \"dataglot\"\njwks_file = \"/keys.json\"\n";

    #[test]
    fn an_issuer_is_read() {
        let text = format!(
            "auth = \"jwt\"\n{LEAST}users = {{ \"s-1\" = \"ann\", \"s-2\" = [\"bob\", \"etl\"] }}\n\
             [[jwt]]\nissuer = \"two\"\naudience = [\"a\", \"b\"]\njwks_url = \"https://id.test/keys\"\nca_file = \"/ca\"\n\
             networks = \"10.0.0.0/8\"\nalgorithms = \"PS256\"\ntypes = [\"JWT\", \"\"]\nleeway = \"1min\"\n\
             lifetime_max = \"1h\"\nuser_claim = [\"ext\", \"login\"]\nroles_claim = \"groups\"\ndatabases = \"sales\"\n\
             [jwt.roles]\n\"g-1\" = [\"analyst\", \"reader\"]\n"
        );
        let config = file(&text).unwrap();
        config.check().unwrap();
        let [one, two] = config.issuers.as_slice() else { panic!("{:?}", config.issuers) };
        assert_eq!((one.users.len(), one.leeway, one.lifetime_max), (2, LEEWAY_DEFAULT, LIFETIME_MAX));
        assert_eq!(
            (one.algorithms.as_slice(), one.types.as_slice()),
            (&ALGORITHMS_DEFAULT[..], &["jwt", "at+jwt"].map(str::to_owned)[..])
        );
        assert_eq!((two.algorithms.as_slice(), two.types.join("|").as_str()), (&[Algorithm::Ps256][..], "jwt|"));
        assert_eq!((two.leeway.as_secs(), two.lifetime_max.as_secs()), (60, 3_600));
        assert_eq!(
            (two.user_claim.join("/"), two.roles_claim.join("/")),
            ("ext/login".to_owned(), "groups".to_owned())
        );
        assert_eq!(
            one.to_string(),
            "https://id.test for dataglot; keys of /keys.json; RS256, ES256, EdDSA; users by sub, 2 of its values"
        );
        assert_eq!(
            two.to_string(),
            "two for a, b; keys of https://id.test/keys; PS256; users by ext.login; roles by groups, 1 of its values; \
             databases sales"
        );
        assert_eq!((two.roles["g-1"].len(), two.databases.len(), two.audience.len()), (2, 1, 2));
    }

    #[test]
    fn j3_an_issuer_without_an_audience_is_an_error() {
        let text = LEAST.replace("audience = \"dataglot\"\n", "users = { a = \"b\" }\n");
        refused(&text, &["takes audience = …"]);
        for none in ["\"\"", "[]", "[\"\"]", "7", "[7]"] {
            let wrong = LEAST.replace("\"dataglot\"", none);
            refused(&format!("{wrong}users = {{ a = \"b\" }}\n"), &["\"audience\" takes a text"]);
        }
    }

    #[test]
    fn what_would_be_unsafe_is_an_error() {
        let with = |more: &str| format!("{LEAST}users = {{ a = \"b\" }}\n{more}\n");
        refused(LEAST, &["a subject stands for nobody of itself"]);
        refused(&with("leeway = \"61s\""), &["\"leeway\" takes a length of time up to 1min"]);
        refused(&with("lifetime_max = \"24h1s\""), &["\"lifetime_max\" takes"]);
        for wrong in ["\"none\"", "\"HS256\"", "\"rs256\"", "[]", "[\"ES256\", \"HS512\"]"] {
            refused(&with(&format!("algorithms = {wrong}")), &["\"algorithms\" takes one or several of RS256"]);
        }
        refused(&with("roles_claim = \"groups\""), &["both of roles_claim and roles"]);
        refused(&with("roles = { a = \"b\" }"), &["both of roles_claim and roles"]);
        refused(&with("jwks_url = \"https://id.test\""), &["one of them"]);
        refused(&with("jwks_url = \"https://u:CANARY-7Q@id.test\""), &["without a user"]);
        refused(&with("ca_file = \"/CANARY-7Q\""), &["with jwks_url only"]);
        refused(&with("audiance = \"CANARY-7Q\""), &["no setting \"jwt.audiance\"", "Did you mean \"audience\"?"]);
        refused(&format!("{}{}", with(""), with("")), &["\"issuer\" takes each issuer once"]);
        refused("[jwt]\nissuer = \"x\"\n", &["[[jwt]], once for each issuer"]);
        refused("jwt = 1\n", &["\"jwt\" takes a table"]);
        let none = file("auth = \"jwt\"\n").unwrap().check().unwrap_err();
        assert_eq!(none.to_string(), "method \"jwt\" needs [[jwt]] in the configuration file");
    }
}
