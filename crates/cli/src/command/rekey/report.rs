//! What is known of the keys of each org, as text and as JSON.

use serde_json::{Value, json};

use crate::output;

/// An org, what it needs of each key, and what is the matter with what is sealed in it.
pub(super) struct Org {
    pub(super) name: String,
    pub(super) keys: Vec<KeyRow>,
    /// What, and what is the matter with it.
    pub(super) problems: Vec<[String; 2]>,
}

/// A row of `SHOW SECRET KEYS`.
pub(super) struct KeyRow {
    pub(super) fingerprint: String,
    pub(super) primary: bool,
    pub(super) loaded: bool,
    pub(super) data_keys: u64,
    pub(super) values: u64,
    pub(super) verifiers: u64,
    pub(super) canary: bool,
    pub(super) retired: bool,
}

impl KeyRow {
    /// `None`: it has another form.
    pub(super) fn read(row: Vec<String>) -> Option<Self> {
        let [fingerprint, primary, loaded, data_keys, values, verifiers, canary, retired] = row.try_into().ok()?;
        let truth = |text: &str| match text {
            "t" => Some(true),
            "f" => Some(false),
            _ => None,
        };
        Some(KeyRow {
            primary: truth(&primary)?,
            loaded: truth(&loaded)?,
            data_keys: data_keys.parse().ok()?,
            values: values.parse().ok()?,
            verifiers: verifiers.parse().ok()?,
            canary: truth(&canary)?,
            retired: truth(&retired)?,
            fingerprint,
        })
    }

    /// Whether something in the org does not open without it.
    pub(super) const fn is_needed(&self) -> bool {
        self.data_keys + self.values + self.verifiers > 0
    }

    fn to_json(&self) -> Value {
        let KeyRow { fingerprint, primary, loaded, data_keys, values, verifiers, canary, retired } = self;
        json!({
            "fingerprint": fingerprint, "primary": primary, "loaded": loaded, "data_keys": data_keys,
            "values": values, "verifiers": verifiers, "canary": canary, "retired": retired,
        })
    }
}

impl Org {
    pub(super) fn to_json(&self) -> Value {
        let Org { name, keys, problems } = self;
        let problems: Vec<Value> =
            problems.iter().map(|[object, problem]| json!({"object": object, "problem": problem})).collect();
        let keys: Vec<Value> = keys.iter().map(KeyRow::to_json).collect();
        json!({"database": name, "keys": keys, "problems": problems})
    }
}

/// Prints what each org needs of each key.
pub(super) fn table(orgs: &[Org]) {
    let head =
        ["database", "key", "primary", "loaded", "data keys", "values", "passwords", "mark of the store", "retired"];
    let yes = |truth: bool| if truth { "yes" } else { "" }.to_owned();
    let row = |org: &Org, key: &KeyRow| {
        let KeyRow { fingerprint, primary, loaded, data_keys, values, verifiers, canary, retired } = key;
        vec![
            org.name.clone(),
            fingerprint.clone(),
            yes(*primary),
            yes(*loaded),
            data_keys.to_string(),
            values.to_string(),
            verifiers.to_string(),
            yes(*canary),
            yes(*retired),
        ]
    };
    let rows = orgs.iter().flat_map(|org| org.keys.iter().map(move |key| row(org, key)));
    output::table(&std::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect::<Vec<_>>());
}
