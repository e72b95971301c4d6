//! CREATE ORG, DROP ORG.

use dataglot_grammar::{Limits, Parameters, ParseCx, parse};
use dataglot_model::command::PasswordChange;
use dataglot_model::def::ObjectId;
use dataglot_model::{HeadRecord, OrgCommand, OrgName, Problem, SchemaRef, Sealed, Seq, Statement};

use super::{NOW, World, name};
use crate::{Image, OrgEffect, OrgPlan, PlanCx, PlanError, authorize_org, plan_org};

fn command(sql: &str) -> OrgCommand<Sealed> {
    let limits = Limits::default();
    let path = SchemaRef::default_schema();
    let cx = ParseCx { search_path: &path, parameters: Parameters::None, limits: &limits };
    let Statement::Org(command) = parse(sql, 0..sql.len(), &cx).unwrap().statement else { panic!("{sql}") };
    match command {
        OrgCommand::Create { name, on_existing, admin, password } => OrgCommand::Create {
            name,
            on_existing,
            admin,
            password: password.map(|at| {
                at.map(|change| match change {
                    PasswordChange::Set(text) => {
                        PasswordChange::Set(Sealed::Verifier { text: text.open().into(), by: None })
                    }
                    PasswordChange::Remove => PasswordChange::Remove,
                })
            }),
        },
        OrgCommand::Drop { name, on_missing, behavior } => OrgCommand::Drop { name, on_missing, behavior },
    }
}

fn run(world: &mut World, target: Option<&Image>, sql: &str) -> Result<OrgPlan, PlanError> {
    let command = command(sql);
    let allowed = authorize_org(&world.image, &world.actor, &command)?;
    let plan = plan_org(&world.image, target, &PlanCx { now: NOW }, allowed)?;
    plan.plan.mutations.iter().for_each(|m| world.image.apply(m));
    Ok(plan)
}

fn loaded(effect: &OrgEffect) -> Image {
    let OrgEffect::Create { name, org_id, mutations } = effect else { panic!("{effect:?}") };
    let head = HeadRecord { org_id: *org_id, seq: Seq(0), next_id: ObjectId(1), at: NOW };
    let mut image = Image::new(name.clone(), head);
    mutations.iter().for_each(|m| image.apply(m));
    image.check();
    image
}

#[test]
fn an_org_is_made_with_its_superuser() {
    let mut world = World::new();
    let plan = run(&mut world, None, "CREATE ORG acme ADMIN ann PASSWORD 'x'").unwrap();
    assert_eq!(plan.plan.tag, "CREATE ORG");
    assert_eq!(plan.plan.mutations.len(), 1);
    let acme = loaded(&plan.effect);
    let ann = acme.role(&name("ann")).unwrap();
    assert!(ann.def.superuser && ann.def.login && ann.def.verifier.is_some());
    assert_eq!(ann.header.created.by, name("ann"));
    assert!(world.image.org_exists(&OrgName::new("acme").unwrap()));
    let other = run(&mut world, None, "CREATE ORG other").unwrap();
    assert!(loaded(&other.effect).role(&name("admin")).is_some());
    assert_eq!(world.image.orgs().map(|(n, _)| n.as_str().to_owned()).collect::<Vec<_>>(), ["acme", "other"]);
    // Its image knows nothing of orgs, and its superusers have no say in them.
    let acme_admin = crate::org::initial_actor(&name("ann"));
    let drop = command("DROP ORG other");
    let error = authorize_org(&acme, &acme_admin, &drop).unwrap_err();
    assert_eq!(error.sqlstate().code(), "42501");
}

#[test]
fn existing_and_missing_orgs() {
    let mut world = World::new();
    run(&mut world, None, "CREATE ORG acme").unwrap();
    let error = run(&mut world, None, "CREATE ORG acme").unwrap_err();
    assert_eq!((error.sqlstate().code(), error.to_string()), ("42P04", "org \"acme\" already exists".to_owned()));
    let skipped = run(&mut world, None, "CREATE ORG IF NOT EXISTS acme").unwrap();
    assert_eq!((skipped.effect, skipped.plan.notices.len()), (OrgEffect::Nothing, 1));
    assert_eq!(run(&mut world, None, "DROP ORG nope").unwrap_err().sqlstate().code(), "3D000");
    assert_eq!(run(&mut world, None, "DROP ORG IF EXISTS nope").unwrap().effect, OrgEffect::Nothing);
    assert_eq!(run(&mut world, None, "DROP ORG \"default\"").unwrap_err().sqlstate().code(), "55006");
    assert_eq!(run(&mut world, None, "CREATE ORG \"default\"").unwrap_err().sqlstate().code(), "42P04");
}

#[test]
fn an_org_that_holds_something_needs_cascade() {
    let mut world = World::new();
    let made = run(&mut world, None, "CREATE ORG acme").unwrap();
    let actor = crate::org::initial_actor(&name("admin"));
    let mut inside = World { image: loaded(&made.effect), actor, now: NOW };
    inside.run("CREATE ROLE a; CREATE ROLE b; CREATE CATALOG c USING mock");
    let error = run(&mut world, Some(&inside.image), "DROP ORG acme").unwrap_err();
    assert_eq!(error.sqlstate().code(), "2BP01");
    assert_eq!(error.detail().unwrap(), "2 roles\n1 catalog");
    let dropped = run(&mut world, Some(&inside.image), "DROP ORG acme CASCADE").unwrap();
    assert_eq!(dropped.effect, OrgEffect::Drop { name: OrgName::new("acme").unwrap() });
    assert!(!world.image.org_exists(&OrgName::new("acme").unwrap()));
}
