//! Query strings: split, parsed, printed. What is printed parses to what was printed; no literal is in an error, and
//! a log's version of the text is made of all of it.
#![no_main]

use dataglot_grammar::{Limits, Parameters, ParseCx, parse, print_statement, split, without_literals};
use dataglot_model::SchemaRef;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let limits = Limits::default();
    let search_path = SchemaRef::default_schema();
    let _ = without_literals(text);
    let Ok(ranges) = split(text, &limits) else { return };
    for parameters in [Parameters::None, Parameters::Describe] {
        let cx = ParseCx { search_path: &search_path, parameters, limits: &limits };
        for range in &ranges {
            match parse(text, range.clone(), &cx) {
                Err(error) => drop(error.to_string()),
                Ok(parsed) if parsed.parameters == 0 => {
                    let printed = print_statement(&parsed.statement);
                    // A credential prints as a placeholder, and a password's is none that could be run.
                    let Ok(again) = parse(&printed, 0..printed.len(), &cx) else {
                        assert!(printed.contains("REDACTED"), "{printed}");
                        continue;
                    };
                    assert_eq!(print_statement(&again.statement), printed);
                }
                Ok(_) => {}
            }
        }
    }
});
