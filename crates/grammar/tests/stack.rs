//! No text, however it nests or goes on, can end the process: each is read on a thread with the stack
//! that threads have, here too in a debug build. A stack that overflows aborts this whole test.

#![allow(clippy::unwrap_used, reason = "a panic is a failed test")]

use dataglot_grammar::{Limits, Parameters, ParseCx, parse, split};
use dataglot_model::{Problem, SchemaRef};

/// What a thread of tokio or of the standard library has.
const STACK_BYTES: usize = 2 << 20;

/// The SQLSTATE of each statement, or `ok`, after it was walked, copied, printed and dropped.
fn run(sql: String) -> &'static str {
    let work = move || {
        let limits = Limits::default();
        let search_path = SchemaRef::default_schema();
        let cx = ParseCx { search_path: &search_path, parameters: Parameters::None, limits: &limits };
        let mut last = "nothing";
        let ranges = match split(&sql, &limits) {
            Ok(ranges) => ranges,
            Err(error) => return error.sqlstate().code(),
        };
        for range in ranges {
            last = match parse(&sql, range, &cx) {
                Ok(parsed) => {
                    dataglot_grammar::print_statement(&parsed.clone().statement);
                    "ok"
                }
                Err(error) => error.sqlstate().code(),
            };
        }
        last
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap().join().unwrap()
}

fn view(query: &str) -> String {
    format!("CREATE VIEW v AS {query}")
}

fn filter(condition: &str) -> String {
    format!("CREATE ROW FILTER f ON t USING ({condition})")
}

/// What sqlparser's loops make a left-deep tree of, and how many operators of ours one round has.
const CHAINS: &[(&str, usize)] = &[
    ("+ a", 1),
    ("|| a", 1),
    ("AND a", 1),
    ("OR a", 1),
    ("= a", 1),
    ("ILIKE a", 1),
    ("LIKE a", 1),
    ("SIMILAR TO a", 1),
    ("REGEXP a", 1),
    ("OVERLAPS a", 1),
    ("XOR a", 1),
    ("NOTNULL", 1),
    ("IS NULL", 1),
    ("IS DISTINCT FROM a", 1),
    ("IN (a)", 1),
    ("BETWEEN a AND a", 2),
    ("MEMBER OF (a)", 1),
    ("COLLATE c", 1),
    ("AT TIME ZONE 'x'", 1),
    ("::int", 1),
    ("[1]", 1),
    ("OPERATOR(pg_catalog.+) a", 1),
    ("= ANY (a)", 1),
    ("-> 'a'", 1),
];

#[test]
fn chains_of_every_kind_are_read_up_to_the_limit() {
    let max = Limits::default().chain_max;
    for (link, weight) in CHAINS {
        for (rounds, at_limit) in [(max / weight - 1, true), (max / weight + 1, false), (5_000, false)] {
            let answer = run(filter(&format!("a{}", format!(" {link}").repeat(rounds))));
            // Some are no operators of PostgreSQL's: those end in a syntax error before the limit.
            let allowed: &[&str] = if at_limit { &["ok", "42601"] } else { &["54001"] };
            assert!(allowed.contains(&answer), "{rounds} x {link}: {answer}");
        }
    }
}

#[test]
fn set_operations_and_joins_are_chains_too() {
    for (head, link) in [
        ("SELECT a, b", " UNION SELECT a, b"),
        ("SELECT a, b", " EXCEPT SELECT a, b"),
        ("SELECT a, b FROM t", " JOIN u ON true"),
    ] {
        for (rounds, want) in [(499, "ok"), (501, "54001"), (2_500, "54001")] {
            assert_eq!(run(view(&format!("{head}{}", link.repeat(rounds)))), want, "{rounds} x {link}");
        }
    }
    let right = |n: usize| format!("SELECT 1 FROM a{}{}", " JOIN b".repeat(n), " ON true".repeat(n));
    assert_eq!(run(view(&right(499))), "ok");
    assert_eq!(run(view(&right(2_500))), "54001");
}

/// A chain goes on outside the bracket that it began in.
#[test]
fn brackets_do_not_hide_a_chain() {
    let nested = |depth: usize, n: usize| {
        filter(&format!("{}1{}", "(".repeat(depth), format!("{})", "+1".repeat(n)).repeat(depth)))
    };
    assert_eq!(run(nested(37, 13)), "ok");
    assert_eq!(run(nested(37, 14)), "54001");
    assert_eq!(run(nested(37, 200)), "54001");
    assert_eq!(run(filter(&format!("1::int{}", "[]".repeat(490)))), "ok");
    assert_eq!(run(filter(&format!("1::int{}", "[]".repeat(5_000)))), "54001");
}

/// C023, and its kin.
#[test]
fn c023_hostile_nesting() {
    for (n, open, core, close) in [
        (5_000, "(", "", ""),
        (5_000, "(", "1", ")"),
        (600, "INTERVAL ", "'1'", ""),
        (5_000, "NOT ", "a", ""),
        (5_000, "- ", "1", ""),
        (5_000, "~ ", "1", ""),
        (5_000, "EXISTS ", "a", ""),
        (5_000, "ARRAY[", "1", "]"),
        (2_000, "CASE WHEN a THEN ", "a", " END"),
        (2_000, "CAST(", "a", " AS int)"),
        (2_000, "f(", "a", ")"),
        (2_000, "(SELECT ", "1", ")"),
    ] {
        let answer = run(filter(&format!("{}{core}{}", open.repeat(n), close.repeat(n))));
        assert_eq!(answer, "54001", "{n} x {open}");
    }
    assert_eq!(run("/*".repeat(20_000)), "42601");
    assert_eq!(run(format!("CREATE CATALOG c USING mock WITH (a = {}", "[".repeat(5_000))), "54001");
    assert_eq!(run(format!("{}1", "SELECT * FROM (".repeat(5_000))), "54001");
    assert_eq!(run(format!("{}SELECT 1", "WITH x AS (".repeat(5_000))), "54001");
    assert_eq!(run("EXPLAIN ".repeat(5_000)), "54001");
}

/// Texts of a megabyte whose reading took minutes when it was not linear.
#[test]
fn long_texts_are_read_in_one_pass() {
    assert_eq!(run(format!("COMMENT ON ROLE r IS {}", "''\n".repeat(300_000))), "ok");
    assert_eq!(run(format!("COMMENT ON ROLE r IS {}", "'a' -- it's\n".repeat(80_000))), "ok");
    let literal = "é".repeat(300_000);
    assert_eq!(run(view(&format!("SELECT '{literal}' AS x{} FROM a", ", a.b".repeat(4_000)))), "ok");
    assert_eq!(run(format!("SELECT $a$ {}", "$b$ ".repeat(250_000))), "42601");
    assert_eq!(run("\\".repeat(1_000_000)), "54001");
    assert_eq!(run("'".repeat(1_000_001)), "42601");
    assert_eq!(run("\"".repeat(1_000_001)), "42601");
    assert_eq!(run("(".repeat(1_000_000)), "54001");
    assert_eq!(run("a".repeat(1 << 20)), "42601");
    assert_eq!(run("a".repeat((1 << 20) + 1)), "54000");
}
