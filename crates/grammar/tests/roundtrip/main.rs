//! The law of the printer: what it prints parses to what was printed, and prints the same again.
//!
//! Commands are made at random, every variant and every clause, with names and texts that are hard to
//! quote. Credentials are left out: they print as a placeholder.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod commands;
mod names;
mod statements;

use dataglot_grammar::{Limits, Parameters, ParseCx, Parsed, parse, print, print_statement, split};
use dataglot_model::{Command, SchemaRef, Sensitive, Statement};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

/// As the one statement of a query string, on the default search path.
fn read(sql: &str) -> Parsed {
    let (search_path, limits) = (SchemaRef::default_schema(), Limits::default());
    let cx = ParseCx { search_path: &search_path, parameters: Parameters::None, limits: &limits };
    let ranges = split(sql, &limits).unwrap_or_else(|e| panic!("{sql}\n{e}"));
    let [range] = ranges.as_slice() else { panic!("{sql}\nis {} statements", ranges.len()) };
    parse(sql, range.clone(), &cx).unwrap_or_else(|e| panic!("{sql}\n{e}"))
}

fn check_command(command: Command<Sensitive>) {
    let sql = print(&command);
    let Statement::Change(again) = read(&format!("{sql} ;")).statement else { panic!("{sql}\nis no command") };
    assert_eq!(again, command, "{sql}");
    assert_eq!(print(&again), sql);
}

fn check_statement(statement: Statement<Sensitive>) {
    let sql = print_statement(&statement);
    let again = read(&format!("/* x */{sql}")).statement;
    assert_eq!(again, statement, "{sql}");
    assert_eq!(print_statement(&again), sql);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn catalog(command in commands::catalog()) { check_command(command) }

    #[test]
    fn secret(command in commands::secret()) { check_command(command) }

    #[test]
    fn role(command in commands::role()) { check_command(command) }

    #[test]
    fn mask(command in commands::mask()) { check_command(command) }

    #[test]
    fn row_filter(command in commands::row_filter()) { check_command(command) }

    #[test]
    fn view(command in commands::view()) { check_command(command) }

    #[test]
    fn drop(command in commands::drop()) { check_command(command) }

    #[test]
    fn grant(command in commands::grant()) { check_command(command) }

    #[test]
    fn org(statement in statements::org()) { check_statement(statement) }

    #[test]
    fn show(statement in statements::read()) { check_statement(statement) }

    #[test]
    fn transaction(statement in statements::transaction()) { check_statement(statement) }

    #[test]
    fn session(statement in statements::session()) { check_statement(statement) }

    #[test]
    fn select(statement in statements::select()) { check_statement(statement) }
}

/// A new command is a compile error here until a strategy makes it.
const fn variant(command: &Command<Sensitive>) -> usize {
    match command {
        Command::CreateCatalog(_) => 0,
        Command::AlterCatalog(_) => 1,
        Command::CreateSecret(_) => 2,
        Command::AlterSecret(_) => 3,
        Command::CreateRole(_) => 4,
        Command::AlterRole(_) => 5,
        Command::CreateMask(_) => 6,
        Command::AlterMask(_) => 7,
        Command::CreateRowFilter(_) => 8,
        Command::AlterRowFilter(_) => 9,
        Command::CreateView(_) => 10,
        Command::AlterView(_) => 11,
        Command::Drop(_) => 12,
        Command::GrantPrivileges(_) => 13,
        Command::RevokePrivileges(_) => 14,
        Command::GrantMembership(_) => 15,
        Command::RevokeMembership(_) => 16,
        Command::Comment(_) => 17,
        Command::ReassignOwned(_) => 18,
        Command::DropOwned(_) => 19,
    }
}

#[test]
fn every_command_is_made() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = commands::any_command();
    let mut made = std::collections::BTreeSet::new();
    for _ in 0..400 {
        made.insert(variant(&strategy.new_tree(&mut runner).unwrap().current()));
    }
    assert_eq!(made.into_iter().collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
}
