//! What somebody else's word of a user stands for here: a map from values to users or roles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The roles that these groups stand for: those of the map, and never a group's own name (J10).
pub(super) fn mapped<'a>(
    groups: impl IntoIterator<Item = &'a str>,
    map: &BTreeMap<String, Vec<String>>,
) -> Vec<String> {
    let roles: BTreeSet<&String> = groups.into_iter().filter_map(|group| map.get(group)).flatten().collect();
    roles.into_iter().cloned().collect()
}

/// How many values stand for somebody, if not each for the one of that very name.
pub(super) fn values_of(mapped: &BTreeMap<String, Vec<String>>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if mapped.is_empty() { Ok(()) } else { write!(f, ", {} of its values", mapped.len()) }
}
