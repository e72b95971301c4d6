//! Tests of the rules, as scripts: SQL in, what each statement answers out.
#![allow(clippy::unwrap_used, clippy::panic, clippy::wildcard_enum_match_arm)]

mod catalog;
mod comment;
mod dependency;
mod drop;
mod mask;
mod org;
mod owned;
mod rename;
mod rewrap;
mod rights;
mod role;
mod row_filter;
mod secret;
mod view;

use std::fmt::Write as _;
use std::sync::Arc;

use dataglot_grammar::{Limits, Parameters, ParseCx, parse, split};
use dataglot_model::command::{
    AlterRole, AlterSecret, Carrier, CreateRole, CreateSecret, Credential, RoleSelector, SecretAction,
};
use dataglot_model::def::{ObjectId, PolicyDef};
use dataglot_model::{
    Actor, Command, HeadRecord, Mutation, Name, Notice, ObjectRef, OrgName, Problem, Row, RowKey, SchemaRef, Sealed,
    SecretHash, Sensitive, Seq, Statement, Timestamp,
};

use crate::{Image, Plan, PlanCx, authorize, plan, plan_onto};

/// Noon of a day in 2026.
pub(crate) const NOW: Timestamp = Timestamp(1_780_000_000_000_000);

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// An org with the superuser `admin`, who runs the scripts.
pub(crate) struct World {
    pub(crate) image: Image,
    pub(crate) actor: Actor,
    pub(crate) now: Timestamp,
}

impl World {
    pub(crate) fn new() -> Self {
        let head = HeadRecord { org_id: 1, seq: Seq(0), next_id: ObjectId(1), at: NOW };
        let mut image = Image::new(OrgName::default_org(), head);
        for mutation in crate::initial_superuser(&name("admin"), None, NOW) {
            image.apply(&mutation);
        }
        image.advance(Seq(1), NOW);
        World { image, actor: crate::org::initial_actor(&name("admin")), now: NOW }
    }

    /// After a script of which every statement must succeed.
    pub(crate) fn with(script: &str) -> Self {
        let mut world = World::new();
        let answers = world.run(script);
        assert!(!answers.contains("ERROR"), "{answers}");
        world
    }

    /// Runs each statement on its own; the answers, one block each.
    pub(crate) fn run(&mut self, script: &str) -> String {
        let limits = Limits::default();
        let mut out = String::new();
        for range in split(script, &limits).unwrap() {
            let start = range.start;
            let path = SchemaRef::default_schema();
            let cx = ParseCx { search_path: &path, parameters: Parameters::None, limits: &limits };
            let parsed = match parse(script, range.clone(), &cx) {
                Ok(parsed) => parsed,
                Err(error) => {
                    writeln!(out, "SYNTAX {}: {error}", error.sqlstate().code()).unwrap();
                    continue;
                }
            };
            let Statement::Change(command) = parsed.statement else { panic!("not DDL: {}", &script[range]) };
            let command = seal(&self.image, &self.actor, command);
            out.push_str(&self.execute(&command, start));
        }
        out
    }

    /// Plans and applies one command; the answer.
    pub(crate) fn execute(&mut self, command: &Command<Sealed>, start: usize) -> String {
        let cx = PlanCx { now: self.now };
        let mut out = String::new();
        let planned = authorize(&self.image, &self.actor, command).and_then(|ok| plan(&self.image, &cx, ok));
        match planned {
            Ok(Plan { mutations, tag, notices }) => {
                let again = authorize(&self.image, &self.actor, command).unwrap();
                let (same, after) = plan_onto(&self.image, &cx, again).unwrap();
                assert_eq!(same, Plan { mutations: mutations.clone(), tag, notices: notices.clone() });
                for notice in &notices {
                    out.push_str(&notice_text(notice));
                }
                writeln!(out, "{tag}{}", if mutations.is_empty() { " (unchanged)" } else { "" }).unwrap();
                check_mutations(&self.image, &mutations);
                for mutation in &mutations {
                    self.image.apply(mutation);
                }
                assert_eq!(after.dump(), self.image.dump());
                assert_eq!(after.head(), self.image.head());
                if !mutations.is_empty() {
                    self.image.advance(self.image.seq().next(), NOW);
                }
                self.image.check();
            }
            Err(error) => {
                let place = error.span().map(|s| format!(" @{}", s.start as usize - start)).unwrap_or_default();
                writeln!(out, "ERROR {}{place}: {error}", error.sqlstate().code()).unwrap();
                if let Some(detail) = error.detail() {
                    writeln!(out, "DETAIL {}", detail.replace('\n', "\n       ")).unwrap();
                }
                if let Some(hint) = error.hint() {
                    writeln!(out, "HINT {hint}").unwrap();
                }
            }
        }
        out
    }
}

fn notice_text(notice: &Notice) -> String {
    let mut out = format!("{} {}: {}\n", notice.severity.as_str(), notice.sqlstate.code(), notice.message);
    if let Some(detail) = &notice.detail {
        writeln!(out, "DETAIL {}", detail.replace('\n', "\n       ")).unwrap();
    }
    out
}

/// Runs `before`, which must succeed, then `script`, whose answers must be `want`.
#[track_caller]
pub(crate) fn check(before: &str, script: &str, want: &str) -> World {
    let mut world = World::with(before);
    let got = world.run(script);
    let want: String = want.trim().lines().map(|line| format!("{}\n", line.trim())).collect();
    let got: String = got.lines().map(|line| format!("{}\n", line.trim())).collect();
    assert!(got == want, "\n--- got\n{got}--- want\n{want}");
    world
}

/// Each row at most once; puts change something, deletes find something.
fn check_mutations(image: &Image, mutations: &[Mutation]) {
    let mut keys = std::collections::BTreeSet::new();
    for mutation in mutations {
        let (key, useful) = match mutation {
            Mutation::Put(row) => (row.key(), image.row(&row.key()).as_ref() != Some(row)),
            Mutation::Delete(key) => (key.clone(), image.has(key)),
        };
        assert!(useful, "{key:?} does not change");
        assert!(keys.insert(key.clone()), "{key:?} twice");
    }
}

impl Image {
    /// Every row.
    pub(crate) fn all_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut header = |object: ObjectRef| {
            let header = self.header(&object).unwrap().clone();
            rows.push(Row::Header(object, header));
        };
        self.orgs().for_each(|(n, _)| header(ObjectRef::Org(n.clone())));
        self.roles().for_each(|(n, _)| header(ObjectRef::Role(n.clone())));
        self.secrets().for_each(|(n, _)| header(ObjectRef::Secret(n.clone())));
        self.catalogs().for_each(|(n, _)| header(ObjectRef::Catalog(n.clone())));
        self.views().for_each(|(n, _)| header(ObjectRef::View(n.clone())));
        self.comments().for_each(|(o, _)| header(o.clone()));
        self.policies().for_each(|(n, p)| match **p.def {
            PolicyDef::Mask(_) => header(ObjectRef::Mask(n.clone())),
            PolicyDef::RowFilter(_) => header(ObjectRef::RowFilter(n.clone())),
        });
        rows.extend(self.roles().map(|(n, o)| Row::Role(n.clone(), o.def.clone())));
        rows.extend(self.catalogs().map(|(n, o)| Row::Catalog(n.clone(), o.def.clone())));
        rows.extend(self.views().map(|(n, o)| Row::View(n.clone(), o.def.clone())));
        rows.extend(self.policies().map(|(n, o)| Row::Policy(n.clone(), o.def.clone())));
        rows.extend(self.secrets().filter_map(|(n, s)| {
            let bytes = s.envelope?.clone();
            let hash = hash_of(&bytes);
            Some(Row::Secret(n.clone(), bytes, hash))
        }));
        rows.extend(self.secrets().filter_map(|(n, s)| {
            let bytes = s.previous?.clone();
            let hash = hash_of(&bytes);
            Some(Row::PreviousSecret(n.clone(), bytes, hash))
        }));
        rows.extend(self.data_keys().map(|(no, bytes, hash)| Row::DataKey(no, bytes.clone(), hash)));
        rows.extend(self.grants().map(|(k, r)| Row::Grant(k.clone(), r.clone())));
        rows.extend(self.memberships().map(|(k, r)| Row::Membership(k.clone(), r.clone())));
        rows
    }

    /// Every row and every index, as text.
    pub(crate) fn dump(&self) -> String {
        let mut rows: Vec<String> = self.all_rows().iter().map(|row| format!("{row:?}")).collect();
        rows.sort();
        format!("{}\n{}", rows.join("\n"), self.indices())
    }

    /// Nothing is left over, and loading the same rows backwards gives the same indices.
    pub(crate) fn check(&self) {
        assert_eq!(self.damaged(), []);
        let mut again = Image::new(self.org().clone(), HeadRecord { next_id: ObjectId(1), ..self.head() });
        let rows = self.all_rows();
        for row in rows.iter().rev() {
            again.apply(&Mutation::Put(row.clone()));
        }
        assert_eq!(again.dump(), self.dump());
        assert_no_dangling(self);
        for row in rows {
            again.apply(&Mutation::Delete(row.key()));
        }
        assert!(again.is_empty_inside(), "{}", again.dump());
    }
}

/// Every name that a row refers to is there.
fn assert_no_dangling(image: &Image) {
    let role = |n: &Name| assert!(image.role(n).is_some(), "no role {n}");
    for row in image.all_rows() {
        match row {
            Row::Header(_, header) => header.owner.iter().for_each(role),
            Row::Grant(key, _) => {
                role(&key.grantor);
                if let dataglot_model::Grantee::Role(n) = &key.grantee {
                    role(n);
                }
            }
            Row::Membership(key, record) => {
                role(&key.role);
                role(&key.member);
                record.by.keys().for_each(role);
            }
            Row::Policy(_, def) => {
                crate::image::roles_of(&def).for_each(role);
            }
            Row::Catalog(_, def) => {
                crate::image::secrets_of(&def).for_each(|s| assert!(image.secret(s).is_some(), "no secret {s}"));
            }
            Row::View(view, def) => {
                for reference in &def.references {
                    let written = &def.query[reference.start as usize..reference.end as usize];
                    assert!(!written.is_empty(), "{view}");
                    if reference.table.catalog().as_str() == "dataglot" {
                        assert!(image.view(&reference.table).is_some(), "{view} names {}", reference.table);
                    } else {
                        assert!(image.catalog(&reference.table.catalog()).is_some(), "{view}: {}", reference.table);
                    }
                }
            }
            Row::Secret(..) | Row::PreviousSecret(..) | Row::Role(..) | Row::DataKey(..) => {}
        }
    }
}

/// A stand-in for SHA-256 that is good enough here.
pub(crate) fn hash_of(bytes: &[u8]) -> SecretHash {
    let mut hash = [0u8; 32];
    let mut state = 0xcbf2_9ce4_8422_2325u64;
    for byte in bytes {
        state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash[..8].copy_from_slice(&state.to_be_bytes());
    SecretHash(hash)
}

/// A stand-in for an envelope that shows what it is bound to.
fn envelope(image: &Image, secret: &Name, version: u64, text: &str) -> Sealed {
    let bytes: Arc<[u8]> = Arc::from(format!("{}/{version}/{text}", secret.as_str()).into_bytes());
    let hash = hash_of(&bytes);
    Sealed::Envelope { bytes, hash, value_version: version, seen: image.sealed_hash(secret), by: None }
}

fn opened(image: &Image, secret: &Name) -> Option<String> {
    if image.is_unreadable(secret) {
        return None;
    }
    text_of(image.secret(secret)?.envelope?)
}

fn text_of(envelope: &[u8]) -> Option<String> {
    std::str::from_utf8(envelope).ok()?.splitn(3, '/').nth(2).map(str::to_owned)
}

/// What the session does between parsing and planning.
pub(crate) fn seal(image: &Image, actor: &Actor, command: Command<Sensitive>) -> Command<Sealed> {
    let target = match command.carrier() {
        Some(Carrier::CreateSecret(CreateSecret { name, .. }) | Carrier::AlterSecret(AlterSecret { name, .. })) => {
            Some(name.value.clone())
        }
        Some(Carrier::CreateRole(CreateRole { name, .. })) => Some(name.value.clone()),
        Some(Carrier::AlterRole(AlterRole { role, .. })) => match role {
            RoleSelector::One(spec) => Some(spec.value.resolve(actor).clone()),
            RoleSelector::All => None,
        },
        None => None,
    };
    let mut command = command.map_credential(|credential| match credential {
        Credential::Secret(text) => value(image, target.as_ref().unwrap(), &text),
        Credential::Password(text) => verifier(image, target.as_ref(), &text),
    });
    if let Command::AlterSecret(AlterSecret { name, action, .. }) = &mut command
        && let SecretAction::Rename { to, resealed, resealed_previous } = action
        && let Some(secret) = image.secret(name)
    {
        let again = |version, text: &str, seen| match envelope(image, to, version, text) {
            Sealed::Envelope { bytes, hash, value_version, seen: _, by } => {
                Sealed::Envelope { bytes, hash, value_version, seen, by }
            }
            other => other,
        };
        *resealed_previous = secret.meta.previous.as_ref().and_then(|previous| {
            Some(again(previous.value_version, &text_of(secret.previous?)?, image.previous_hash(name)))
        });
        *resealed = opened(image, name).map(|text| again(secret.meta.value_version, &text, image.sealed_hash(name)));
    }
    command
}

fn value(image: &Image, secret: &Name, text: &Sensitive) -> Sealed {
    match image.secret(secret) {
        Some(_) if opened(image, secret).as_deref() == Some(text.open()) => {
            Sealed::Unchanged { seen: image.sealed_hash(secret) }
        }
        Some(old) => envelope(image, secret, old.meta.value_version + 1, text.open()),
        None => envelope(image, secret, 1, text.open()),
    }
}

fn verifier(image: &Image, role: Option<&Name>, text: &Sensitive) -> Sealed {
    if text.open().is_empty() {
        return Sealed::EmptyPassword;
    }
    let verifier = format!("verifier of {}", text.open());
    let old = role.and_then(|role| image.role(role)).and_then(|role| role.def.verifier.clone());
    if old.as_deref() == Some(&verifier) {
        Sealed::Unchanged { seen: None }
    } else {
        Sealed::Verifier { text: verifier.into(), by: None }
    }
}

#[test]
fn a_new_org_is_whole() {
    let world = World::new();
    world.image.check();
    assert_eq!(world.image.head().next_id, ObjectId(2));
    assert_eq!(world.image.bootstrap_superuser(), Some(&name("admin")));
    assert!(!world.image.has(&RowKey::Role { name: name("admin"), login: false }));
}
