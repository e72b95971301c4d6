//! The planner, as the committer calls it.
//!
//! A transaction that was planned on an overlay is taken as it is if its base is still the newest
//! image: planning is pure, so it would come to the same. Otherwise every statement is authorized and
//! planned again, and one that now answers otherwise than its session was told refuses the whole.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use dataglot_grammar::{Limits, Parameters, ParseCx, parse};
use dataglot_model::{
    Actor, ChangedStatement, Command, HeadRecord, Mutation, Name, Notice, OrgCommand, OrgName, Problem, SchemaRef,
    Sealed, Seq, SqlState, Statement, Timestamp,
};
use dataglot_planner::{
    Image, OrgEffect, Plan, PlanCx, PlanError, RESET_TAG, RewrapBatch, authorize, authorize_org, current_actor,
    plan_into, plan_org, plan_reset, plan_rewrap,
};
use dataglot_store::{Compiled, Compiler, MetaStore, OrgWrite, State};
use dataglot_vault::KeyRing;

use crate::error::SessionError;
use crate::{reset, seal};

/// An org's image, as the store keeps it.
#[derive(Clone)]
pub struct OrgState(pub(crate) Image);

impl State for OrgState {
    fn new(org: OrgName, head: HeadRecord) -> Self {
        OrgState(Image::new(org, head))
    }
    fn head(&self) -> HeadRecord {
        self.0.head()
    }
    fn apply(&mut self, mutation: &Mutation) {
        self.0.apply(mutation);
    }
    fn advance(&mut self, seq: Seq, at: Timestamp) {
        self.0.advance(seq, at);
    }
    fn set_head(&mut self, head: HeadRecord) {
        self.0.set_head(head);
    }
    fn mark_unreadable(&mut self, secret: &Name) {
        self.0.mark_unreadable(secret, true);
    }
}

/// A transaction on its way to the committer.
pub(crate) enum Request {
    /// One statement, not planned before.
    Direct(Box<Direct>),
    /// A statement on orgs.
    Org(Box<OrgRequest>),
    /// A part of REWRAP SECRETS.
    Rewrap(Box<RewrapRequest>),
    /// The reset of what no key opens.
    Reset(Box<ResetRequest>),
    /// Statements that were planned on an overlay, and whose answers the client has.
    Planned(Box<Planned>),
}

/// One statement, not planned before.
pub(crate) struct Direct {
    pub(crate) actor: Arc<Actor>,
    pub(crate) now: Timestamp,
    pub(crate) step: Step,
}

/// What can be planned, and planned again.
pub(crate) struct Step {
    pub(crate) command: Command<Sealed>,
    /// Canonical, without any credential.
    pub(crate) sql: Arc<str>,
    pub(crate) password: Option<SeenPassword>,
}

/// The verifier that a password was found to belong to already. If the role has another one when the
/// statement is planned, the comparison says nothing.
#[derive(Clone)]
pub(crate) struct SeenPassword {
    pub(crate) role: Name,
    pub(crate) verifier: Arc<str>,
}

/// A statement on orgs.
pub(crate) struct OrgRequest {
    pub(crate) actor: Arc<Actor>,
    pub(crate) now: Timestamp,
    pub(crate) command: OrgCommand<Sealed>,
    pub(crate) sql: Arc<str>,
}

/// A part of REWRAP SECRETS.
pub(crate) struct RewrapRequest {
    pub(crate) actor: Arc<Actor>,
    pub(crate) now: Timestamp,
    pub(crate) batch: RewrapBatch,
    pub(crate) sql: Arc<str>,
}

/// The reset of what no key of `ring` opens.
pub(crate) struct ResetRequest {
    pub(crate) now: Timestamp,
    pub(crate) ring: KeyRing,
    pub(crate) store_id: [u8; 16],
}

/// A transaction that was planned on an overlay.
pub(crate) struct Planned {
    /// What the overlay was forked from.
    pub(crate) base: HeadRecord,
    /// The overlay.
    pub(crate) image: Image,
    pub(crate) now: Timestamp,
    pub(crate) statements: Vec<PlannedStatement>,
    /// About how many bytes the statements take.
    pub(crate) weight: usize,
}

/// A statement that was planned on an overlay, with what its client was told.
#[derive(Clone)]
pub(crate) struct PlannedStatement {
    pub(crate) actor: Arc<Actor>,
    pub(crate) sql: Arc<str>,
    pub(crate) mutations: Vec<Mutation>,
    pub(crate) redo: Redo,
    pub(crate) tag: &'static str,
    pub(crate) notices: Vec<Notice>,
}

/// How to get at the command again.
#[derive(Clone)]
pub(crate) enum Redo {
    /// It is kept.
    Typed(Arc<(Command<Sealed>, Option<SeenPassword>)>),
    /// It holds no credential, so its canonical text is all of it. Keeps a long script small.
    Text,
}

/// What a transaction answers when it is durable.
pub(crate) enum Answer {
    /// What the client was told already.
    AsPlanned,
    /// What a single statement answers.
    Done {
        /// The command tag.
        tag: &'static str,
        /// In order.
        notices: Vec<Notice>,
        /// Whether anything changed.
        changed: bool,
    },
}

/// Why a transaction was refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: SessionError,
    /// A credential was sealed against a value that is there no more: seal and submit again.
    pub(crate) stale: bool,
}

impl Refusal {
    fn of(error: &PlanError) -> Self {
        Refusal { error: SessionError::of(error), stale: matches!(error, PlanError::Stale { .. }) }
    }

    fn stale() -> Self {
        Refusal { error: moved("a password was changed at the same time"), stale: true }
    }
}

/// 40001, with what happened in DETAIL.
pub(crate) fn moved(why: &str) -> SessionError {
    SessionError::new(SqlState::SerializationFailure, "could not serialize access due to concurrent update")
        .with_detail(format!("Since the transaction began, {why}."))
        .with_hint("Run the transaction again.")
}

/// Plans `step` on `image`, which stays as it is. Gives the image after it too.
pub(crate) fn plan_step(
    image: &Image,
    actor: &Actor,
    now: Timestamp,
    step: &StepRef<'_>,
) -> Result<(Plan, Image), Refusal> {
    plan_step_into(image.clone(), actor, now, step)
}

/// As [`plan_step`], in place: a refusal takes the image with it.
pub(crate) fn plan_step_into(
    image: Image,
    actor: &Actor,
    now: Timestamp,
    step: &StepRef<'_>,
) -> Result<(Plan, Image), Refusal> {
    if let Some(SeenPassword { role, verifier }) = step.password {
        let same = image.role(role).is_some_and(|r| r.def.verifier.as_ref() == Some(verifier));
        if !same {
            return Err(Refusal::stale());
        }
    }
    let authorized = authorize(&image, actor, step.command).map_err(|e| Refusal::of(&e))?;
    plan_into(image, &PlanCx { now }, authorized).map_err(|e| Refusal::of(&e))
}

/// What [`plan_step`] plans.
pub(crate) struct StepRef<'a> {
    pub(crate) command: &'a Command<Sealed>,
    pub(crate) password: Option<&'a SeenPassword>,
}

/// The planner with what it needs besides images.
pub(crate) struct Planner {
    pub(crate) limits: Limits,
    /// Says which keys seal nothing any more.
    pub(crate) store: Arc<dyn MetaStore>,
}

impl Compiler for Planner {
    type State = OrgState;
    type Request = Request;
    type Answer = Answer;
    type Refusal = Refusal;

    fn compile(
        &self,
        state: &OrgState,
        target: &dyn Fn(&OrgName) -> Option<OrgState>,
        request: &mut Request,
    ) -> Result<Compiled<OrgState, Answer>, Refusal> {
        let work = || match request {
            Request::Direct(direct) => compile_direct(state, direct),
            Request::Org(org) => compile_org(state, target, org),
            Request::Rewrap(rewrap) => compile_rewrap(state, rewrap),
            Request::Reset(reset) => compile_reset(state, reset),
            Request::Planned(planned) => self.compile_planned(state, planned),
        };
        let compiled = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(self.panicked()))?;
        let of_new_org = compiled.org.iter().filter_map(|org| match org {
            OrgWrite::Create { statement, .. } => Some(statement),
            OrgWrite::Drop { .. } => None,
        });
        seal::retired::check(self.store.as_ref(), compiled.statements.iter().chain(of_new_org))
            .map_err(|error| Refusal { error, stale: false })?;
        Ok(compiled)
    }

    fn panicked(&self) -> Refusal {
        Refusal { error: SessionError::bug("planning panicked"), stale: false }
    }

    fn weight(&self, request: &Request) -> usize {
        match request {
            Request::Direct(direct) => 1024 + direct.step.sql.len(),
            Request::Org(_) | Request::Reset(_) => 1024,
            Request::Rewrap(rewrap) => 1024 + rewrap.batch.rows.len() * 512,
            Request::Planned(planned) => 1024 + planned.weight,
        }
    }
}

fn compile_direct(state: &OrgState, direct: &Direct) -> Result<Compiled<OrgState, Answer>, Refusal> {
    let image = &state.0;
    let actor = current_actor(image, &direct.actor).map_err(|e| Refusal::of(&e))?;
    let Step { command, sql, password } = &direct.step;
    let (plan, image) = plan_step(image, &actor, direct.now, &StepRef { command, password: password.as_ref() })?;
    Ok(Compiled {
        answer: Answer::Done { tag: plan.tag, notices: plan.notices, changed: !plan.mutations.is_empty() },
        statements: changed(sql, plan.mutations),
        state: OrgState(image),
        org: None,
    })
}

fn compile_rewrap(state: &OrgState, request: &RewrapRequest) -> Result<Compiled<OrgState, Answer>, Refusal> {
    let cx = PlanCx { now: request.now };
    let (plan, image) = plan_rewrap(&state.0, &cx, &request.actor, &request.batch).map_err(|e| Refusal::of(&e))?;
    Ok(Compiled {
        answer: Answer::Done { tag: plan.tag, notices: plan.notices, changed: !plan.mutations.is_empty() },
        statements: changed(&request.sql, plan.mutations),
        state: OrgState(image),
        org: None,
    })
}

fn compile_reset(state: &OrgState, request: &ResetRequest) -> Result<Compiled<OrgState, Answer>, Refusal> {
    let ResetRequest { now, ring, store_id } = request;
    let actor = reset::actor(&state.0).map_err(|error| Refusal { error, stale: false })?;
    let lost = reset::lost(&state.0, ring, *store_id);
    let (plan, image) = plan_reset(&state.0, &PlanCx { now: *now }, &actor, &lost);
    Ok(Compiled {
        answer: Answer::Done { tag: plan.tag, notices: plan.notices, changed: !plan.mutations.is_empty() },
        statements: changed(&RESET_TAG.into(), plan.mutations),
        state: OrgState(image),
        org: None,
    })
}

fn compile_org(
    state: &OrgState,
    target: &dyn Fn(&OrgName) -> Option<OrgState>,
    request: &OrgRequest,
) -> Result<Compiled<OrgState, Answer>, Refusal> {
    let image = &state.0;
    let actor = current_actor(image, &request.actor).map_err(|e| Refusal::of(&e))?;
    let authorized = authorize_org(image, &actor, &request.command).map_err(|e| Refusal::of(&e))?;
    let name = match &request.command {
        OrgCommand::Create { name, .. } | OrgCommand::Drop { name, .. } => &name.value,
    };
    let target = if name == image.org() { Some(state.clone()) } else { target(name) };
    let org_plan = plan_org(image, target.as_ref().map(|t| &t.0), &PlanCx { now: request.now }, authorized)
        .map_err(|e| Refusal::of(&e))?;
    let mut image = image.clone();
    org_plan.plan.mutations.iter().for_each(|m| image.apply(m));
    let org = match org_plan.effect {
        OrgEffect::Nothing => None,
        OrgEffect::Create { name, org_id, mutations } => Some(OrgWrite::Create {
            name,
            org_id,
            statement: ChangedStatement { sql: Arc::clone(&request.sql), mutations },
        }),
        OrgEffect::Drop { name } => Some(OrgWrite::Drop { name }),
    };
    Ok(Compiled {
        answer: Answer::Done {
            tag: org_plan.plan.tag,
            notices: org_plan.plan.notices,
            changed: !org_plan.plan.mutations.is_empty(),
        },
        statements: changed(&request.sql, org_plan.plan.mutations),
        state: OrgState(image),
        org,
    })
}

fn changed(sql: &Arc<str>, mutations: Vec<Mutation>) -> Vec<ChangedStatement> {
    if mutations.is_empty() { Vec::new() } else { vec![ChangedStatement { sql: Arc::clone(sql), mutations }] }
}

impl Planner {
    fn compile_planned(&self, state: &OrgState, planned: &mut Planned) -> Result<Compiled<OrgState, Answer>, Refusal> {
        let (base, now) = (state.0.head(), planned.now);
        if (base.org_id, base.seq) == (planned.base.org_id, planned.base.seq) {
            // The same state, so the same plan. The mutations are moved out: a second call (the store
            // lost a race) finds another base and plans again, for which it needs none of them.
            planned.base.seq = Seq(u64::MAX);
            let statements = planned
                .statements
                .iter_mut()
                .filter(|s| !s.mutations.is_empty())
                .map(|s| ChangedStatement { sql: Arc::clone(&s.sql), mutations: std::mem::take(&mut s.mutations) })
                .collect();
            let state = OrgState(planned.image.clone());
            return Ok(Compiled { statements, state, answer: Answer::AsPlanned, org: None });
        }
        let mut image = state.0.clone();
        let mut statements = Vec::new();
        for told in &planned.statements {
            let fails = |refusal: Refusal| Refusal { error: refusal.error.nowhere(), stale: false };
            let actor = current_actor(&image, &told.actor).map_err(|e| fails(Refusal::of(&e)))?;
            let plan = match &told.redo {
                Redo::Typed(kept) => {
                    let (command, password) = &**kept;
                    plan_step(&image, &actor, now, &StepRef { command, password: password.as_ref() })
                }
                Redo::Text => {
                    let command = self.reread(&told.sql).map_err(fails)?;
                    plan_step(&image, &actor, now, &StepRef { command: &command, password: None })
                }
            };
            // It answered once, and the client knows the answer.
            let (plan, after) = plan.map_err(|refusal| Refusal {
                error: moved("a statement of it would fail")
                    .with_detail(format!("Since the transaction began, {} would fail: {}.", told.tag, refusal.error)),
                stale: false,
            })?;
            if plan.tag != told.tag || plan.notices != told.notices {
                let error = moved("another transaction changed what a statement of it answers");
                return Err(Refusal { error, stale: false });
            }
            image = after;
            statements.extend(changed(&told.sql, plan.mutations));
        }
        Ok(Compiled { statements, state: OrgState(image), answer: Answer::AsPlanned, org: None })
    }

    /// The command of a canonical text that holds no credential.
    fn reread(&self, sql: &str) -> Result<Command<Sealed>, Refusal> {
        let path = SchemaRef::default_schema();
        let cx = ParseCx { search_path: &path, parameters: Parameters::None, limits: &self.limits };
        let bug = |what: &str| Refusal { error: SessionError::bug(what), stale: false };
        let parsed = parse(sql, 0..sql.len(), &cx).map_err(|e| {
            tracing::error!(sqlstate = e.sqlstate().code(), "canonical text does not parse");
            bug("canonical text does not parse")
        })?;
        match parsed.statement {
            Statement::Change(command) => {
                let (command, credential) = seal::detach(command);
                if credential.is_some() {
                    return Err(bug("canonical text holds a credential"));
                }
                Ok(command)
            }
            Statement::Org(_)
            | Statement::Read(_)
            | Statement::Transaction(_)
            | Statement::Session(_)
            | Statement::Select(_)
            | Statement::Rewrap => Err(bug("canonical text is no command")),
        }
    }
}
