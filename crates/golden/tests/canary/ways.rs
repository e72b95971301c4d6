//! The ways in which a client sends a statement with a credential in it.

use std::net::SocketAddr;

use dataglot_golden::wire::{
    Client, Message, bind_message, describe_message, error_of, execute_message, frame, parse_message, query_message,
    sync_message,
};

use crate::common;
use crate::forms::Form;
use crate::search::Canary;

/// How a string is written.
pub type Spelling = fn(&str) -> String;

/// Every form of a string that there is.
pub const SPELLINGS: [Spelling; 4] = [plain, escaped, unicode, dollars];

pub fn plain(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn escaped(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn unicode(text: &str) -> String {
    format!("U&'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn dollars(text: &str) -> String {
    format!("$t${text}$t$")
}

/// A template with its number, the literal `value`, and the bare `word`.
pub fn filled(template: &str, number: usize, value: &str, word: &str) -> String {
    template.replace("{n}", &number.to_string()).replace("{v}", value).replace("{w}", word)
}

/// A way to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it should be.
    Query,
    /// And again: it is there already.
    Twice,
    /// In a block that ends in COMMIT.
    Committed,
    /// In one that ends in ROLLBACK.
    RolledBack,
    /// C025: in one that has failed.
    Failed,
    /// Before and after other statements, of which one fails.
    Multi,
    /// What it would do.
    Explained,
    /// The value in a Bind, of a statement without a name.
    Bound,
    /// Of one with a name, executed twice.
    Prepared,
    /// A value too many, of a format that there is none.
    BoundBadly,
    /// A Bind whose value is no text.
    BoundBytes,
    /// With something after it that is no clause.
    Trailing,
    /// With a word before it that is none.
    Leading,
    /// A string without an end after it; or the value itself has none.
    Unterminated,
    /// A word, a name in quotes, a number where the string should stand.
    Unquoted,
    /// In comments and names around it.
    Comments,
    /// Longer than any value may be.
    TooLong,
    /// Broken UTF-8 and NUL behind it.
    NotText,
    /// By a user who may do nothing but set his own password.
    Forbidden,
    /// In a statement that is prepared by SQL.
    PreparedBySql,
}

impl Way {
    pub const ALL: [Way; 20] = [
        Way::Query,
        Way::Twice,
        Way::Committed,
        Way::RolledBack,
        Way::Failed,
        Way::Multi,
        Way::Explained,
        Way::Bound,
        Way::Prepared,
        Way::BoundBadly,
        Way::BoundBytes,
        Way::Trailing,
        Way::Leading,
        Way::Unterminated,
        Way::Unquoted,
        Way::Comments,
        Way::TooLong,
        Way::NotText,
        Way::Forbidden,
        Way::PreparedBySql,
    ];

    /// The spellings that make a difference.
    pub fn spellings(self) -> &'static [Spelling] {
        match self {
            Way::Query | Way::Failed | Way::Trailing | Way::Explained => &SPELLINGS,
            Way::Twice
            | Way::Committed
            | Way::RolledBack
            | Way::Multi
            | Way::Leading
            | Way::Unterminated
            | Way::Comments
            | Way::TooLong
            | Way::NotText
            | Way::Forbidden
            | Way::PreparedBySql => &[plain],
            // No string is written.
            Way::Bound | Way::Prepared | Way::BoundBadly | Way::BoundBytes | Way::Unquoted => &[plain],
        }
    }

    /// Sends it, and sees that it ends as it should.
    #[allow(clippy::too_many_arguments, reason = "a way is tried with everything that a case is made of")]
    pub fn go(
        self,
        client: &mut Client,
        address: SocketAddr,
        form: Form,
        template: &str,
        spelling: Spelling,
        number: usize,
        canary: &Canary,
    ) {
        let text = canary.text.as_str();
        let sql = filled(template, number, &spelling(text), canary.word());
        let parameter = filled(template, number, "$1", canary.word());
        let fails = |client: &mut Client, sql: &str| {
            let messages = client.query(sql).unwrap();
            assert!(error_of(&messages).is_some(), "{self:?} of {template} went well");
        };
        match self {
            Way::Query => drop(common::ok(client, &sql)),
            Way::Twice => {
                drop(common::ok(client, &sql));
                drop(client.query(&sql).unwrap());
            }
            // An org is made outside of blocks.
            Way::Committed | Way::RolledBack if form == Form::CreateOrg => {
                fails(client, &format!("BEGIN; {sql}"));
                drop(common::ok(client, "ROLLBACK"));
            }
            Way::Committed => {
                drop(common::ok(client, "BEGIN"));
                drop(common::ok(client, &sql));
                drop(common::ok(client, "SAVEPOINT a; ROLLBACK TO a; COMMIT"));
            }
            Way::RolledBack => {
                drop(common::ok(client, "BEGIN"));
                drop(common::ok(client, &sql));
                drop(common::ok(client, "ROLLBACK"));
            }
            Way::Failed => {
                fails(client, "BEGIN; GRANT no_such TO nobody");
                fails(client, &sql);
                drop(common::ok(client, "ROLLBACK"));
            }
            Way::Multi => fails(client, &format!("CREATE ROLE r{number}; {sql}; CREATE ROLE admin; {sql}")),
            Way::Explained if form == Form::CreateOrg => fails(client, &format!("EXPLAIN {sql}")),
            Way::Explained => {
                drop(common::ok(client, &format!("EXPLAIN {sql}")));
                drop(common::ok(client, &format!("EXPLAIN (FORMAT json, VERBOSE) {sql}")));
            }
            Way::Bound => assert_eq!(error_of(&client.extended(&parameter, &[Some(text)]).unwrap()), None),
            Way::Prepared => {
                let run = [bind_message("p", "s", &[Some(text)]), describe_message(b'P', "p"), execute_message("p", 0)];
                let all =
                    [parse_message("s", &parameter, &[]), describe_message(b'S', "s"), run.concat(), sync_message()];
                let close = frame(b'C', b"Ss\0");
                drop(answers(client, &[all.concat(), run.concat(), close, sync_message()].concat(), 2));
            }
            Way::BoundBadly => {
                let bad = client.extended(&parameter, &[Some(text), Some(text)]).unwrap();
                assert!(error_of(&bad).is_some());
                let wrong_type =
                    [parse_message("", &parameter, &[23]), bind_message("", "", &[Some(text)]), sync_message()];
                drop(answers(client, &wrong_type.concat(), 1));
                let messages = client.extended("SHOW CATALOGS", &[Some(text)]).unwrap();
                assert!(error_of(&messages).is_some());
            }
            Way::BoundBytes => {
                for tail in [&b"\xff"[..], b"\0"] {
                    let value = [text.as_bytes(), tail].concat();
                    let mut body = b"\0\0\0\0\0\x01".to_vec();
                    body.extend_from_slice(&i32::try_from(value.len()).unwrap().to_be_bytes());
                    body.extend_from_slice(&value);
                    body.extend_from_slice(&[0, 0]);
                    let all = [
                        parse_message("", &parameter, &[]),
                        frame(b'B', &body),
                        execute_message("", 0),
                        sync_message(),
                    ];
                    assert!(error_of(&answers(client, &all.concat(), 1)).is_some());
                }
            }
            Way::Trailing => fails(client, &format!("{sql} BEHIND THE END")),
            Way::Leading => {
                fails(client, &format!("NOW {sql}"));
                fails(client, &sql.replacen("CREATE", "CRATE", 1).replacen("ALTER", "ATLER", 1));
            }
            Way::Unterminated => {
                fails(client, &format!("{sql} COMMENT 'no end"));
                fails(client, &format!("{sql} COMMENT \"no end"));
                fails(client, &format!("{sql} /* no end"));
                fails(client, &filled(template, number, &format!("'{}", canary.word()), canary.word()));
                fails(client, &filled(template, number, &format!("$x${}", canary.word()), canary.word()));
                fails(client, &filled(template, number, &format!("E'{}\\", canary.word()), canary.word()));
            }
            Way::Unquoted => {
                for value in [
                    canary.word().to_owned(),
                    format!("\"{}\"", text.replace('"', "\"\"")),
                    format!("1{}", canary.word()),
                ] {
                    fails(client, &filled(template, number, &value, canary.word()));
                }
            }
            Way::Comments => {
                let word = canary.word();
                fails(client, &format!("/* {word} */ -- {word}\n SELEKT 1"));
                drop(common::ok(client, &format!("/* {word} */ {sql} -- {word}")));
            }
            Way::TooLong => {
                let long = format!("{text}{}", "x".repeat(70 << 10));
                drop(client.query(&filled(template, number, &plain(&long), canary.word())).unwrap());
                drop(client.extended(&parameter, &[Some(&long)]).unwrap());
                fails(client, &format!("{sql} COMMENT '{}'", "y".repeat(1 << 20)));
            }
            Way::NotText => {
                for tail in [&b"\xff"[..], b"\0", b"\xc3"] {
                    let sql = [sql.as_bytes(), tail, b"\0"].concat();
                    let messages = answers(client, &frame(b'Q', &sql), 1);
                    assert!(error_of(&messages).is_some(), "{template}");
                }
            }
            Way::Forbidden => {
                let mut nobody = common::login(address, "nobody");
                drop(nobody.query(&sql).unwrap());
                drop(nobody.query(&format!("EXPLAIN {sql}")).unwrap());
                drop(nobody.extended(&parameter, &[Some(text)]).unwrap());
                // And a message that is none, after which there is no connection any more.
                nobody.send(&[query_message(&sql), frame(b'B', text.as_bytes())].concat()).unwrap();
                while nobody.read().is_ok() {}
            }
            Way::PreparedBySql => {
                fails(client, &format!("PREPARE p AS {sql}"));
                fails(client, &format!("EXECUTE p ({})", spelling(text)));
            }
        }
    }
}

/// The answers to all that is sent, which holds so many Syncs and Queries.
fn answers(client: &mut Client, bytes: &[u8], count: usize) -> Vec<Message> {
    client.send(bytes).unwrap();
    (0..count).flat_map(|_| client.read_to_ready().unwrap()).collect()
}
