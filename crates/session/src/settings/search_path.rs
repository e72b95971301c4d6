//! `search_path`: the schema in which a name without one lives. An element is a schema of the default
//! catalog, or `catalog.schema`.

use dataglot_model::{DEFAULT_CATALOG, SchemaRef};

/// Elements that name no place of ours.
const SKIPPED: [&str; 3] = ["$user", "pg_catalog", "information_schema"];

/// The first schema that the path names. `None`: none, or a bad name.
pub(super) fn first(path: &str) -> Option<SchemaRef> {
    elements(path)?
        .into_iter()
        .find(|e| !matches!(e.as_slice(), [one] if SKIPPED.contains(&one.as_str())))
        .and_then(|e| schema(&e))
}

/// Whether every element names a schema.
pub(super) fn is_valid(path: &str) -> bool {
    elements(path).is_some_and(|all| all.iter().all(|e| schema(e).is_some()))
}

fn schema(element: &[String]) -> Option<SchemaRef> {
    match element {
        [one] => SchemaRef::from_parts([DEFAULT_CATALOG, one]).ok(),
        [catalog, schema] => SchemaRef::from_parts([catalog, schema]).ok(),
        _ => None,
    }
}

/// The elements, each as its parts. A quoted text with a dot in it (`"c.s"`, which is how a list of
/// strings arrives) is two parts. `None`: a quote is open, or an element is empty.
fn elements(path: &str) -> Option<Vec<Vec<String>>> {
    let mut elements = Vec::new();
    if path.trim().is_empty() {
        return Some(elements);
    }
    let mut parts = vec![String::new()];
    let mut chars = path.trim().chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => loop {
                match chars.next()? {
                    '"' if chars.peek() == Some(&'"') => {
                        chars.next();
                        parts.last_mut()?.push('"');
                    }
                    '"' => break,
                    '.' => parts.push(String::new()),
                    c => parts.last_mut()?.push(c),
                }
            },
            ',' => elements.push(std::mem::replace(&mut parts, vec![String::new()])),
            '.' => parts.push(String::new()),
            c if c.is_whitespace() => {}
            c => parts.last_mut()?.push(c),
        }
    }
    elements.push(parts);
    elements.iter().flatten().all(|p| !p.is_empty()).then_some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, want: Option<&str>) {
        assert_eq!(first(path).map(|s| s.to_string()).as_deref(), want);
    }

    #[test]
    fn paths() {
        check("public", Some("dataglot.public"));
        check("\"$user\", public", Some("dataglot.public"));
        check("pg.sales, public", Some("pg.sales"));
        check("\"pg.sales\"", Some("pg.sales"));
        check("\"A\"\"b\"", Some("dataglot.\"A\"\"b\""));
        check("", None);
        check("a.b.c", None);
        assert!(!is_valid("a,,b") && !is_valid("\"a") && !is_valid("a.b.c") && is_valid("") && is_valid("a, b.c"));
    }
}
