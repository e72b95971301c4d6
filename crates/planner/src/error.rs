//! Why a command is refused.

use dataglot_model::{Kind, Name, ObjectRef, Problem, Report, Span, SqlState};

/// How many dependents a DETAIL lists; the others are counted.
pub const DEPENDENTS_LISTED_MAX: usize = 100;

/// Why a command is refused. Texts name objects, never literals.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The object does not exist.
    #[error("{object} does not exist")]
    Undefined {
        /// Which.
        object: ObjectRef,
        /// Where it is named.
        span: Option<Span>,
    },
    /// The object exists already.
    #[error("{object} already exists")]
    Exists {
        /// Which.
        object: ObjectRef,
        /// Where it is named.
        span: Option<Span>,
    },
    /// The name is that of an object of another kind.
    #[error("\"{name}\" is not a {}", wanted.noun())]
    WrongKind {
        /// The name.
        name: String,
        /// What the statement takes it for.
        wanted: Kind,
        /// What it is.
        found: Kind,
        /// The words before the kind in the statement to use: `DROP`.
        verb: &'static str,
        /// Where it is named.
        span: Option<Span>,
    },
    /// The caller may not do this.
    #[error("permission denied to {action}")]
    Denied {
        /// `create role`
        action: String,
        /// What right is missing, a sentence.
        detail: String,
    },
    /// The name is kept for the system.
    #[error("{} name \"{name}\" is reserved", kind.noun())]
    Reserved {
        /// Of what.
        kind: Kind,
        /// The name.
        name: String,
        /// Why, a sentence.
        detail: &'static str,
        /// Where it stands.
        span: Option<Span>,
    },
    /// `IF VERSION n` names another version than the present one.
    #[error("{object} is at version {version}, which is not the expected one")]
    Version {
        /// Of what.
        object: ObjectRef,
        /// The present version.
        version: u64,
        /// Where the expected one stands.
        span: Option<Span>,
    },
    /// Other objects depend on this one.
    #[error("{message}")]
    Dependents {
        /// First line.
        message: String,
        /// One line each.
        list: Vec<String>,
        /// What to do, a sentence.
        hint: String,
    },
    /// The sealed credential was made against a state that is gone: seal it again and plan again.
    #[error("could not serialize access to {object} due to a concurrent update")]
    Stale {
        /// What it is the credential of.
        object: ObjectRef,
    },
    /// The org would be left without a superuser who can log in.
    #[error("role \"{}\" is the last superuser that can log in", role.as_str())]
    LastSuperuser {
        /// Which.
        role: Name,
        /// Where it is named.
        span: Option<Span>,
    },
    /// The role that a session runs as is gone.
    #[error("role \"{}\" was dropped", role.as_str())]
    RoleDropped {
        /// The name that it had.
        role: Name,
    },
    /// Any other rule.
    #[error("{}", .0.message)]
    Rule(Box<Report>),
}

impl PlanError {
    /// An error of a rule of its own.
    pub(crate) fn rule(sqlstate: SqlState, message: impl Into<String>) -> Self {
        PlanError::Rule(Box::new(Report::error(sqlstate, message)))
    }

    /// The same error, with a hint if it has none of its own.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        if let PlanError::Rule(report) = &mut self {
            report.hint = Some(hint.into());
        }
        self
    }

    /// The same error, with a detail if it has none of its own.
    #[must_use]
    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        if let PlanError::Rule(report) = &mut self {
            report.detail = Some(detail.into());
        }
        self
    }

    /// The same error, pointing at `at`; a span of nowhere points at nothing.
    #[must_use]
    pub(crate) fn at(mut self, at: Span) -> Self {
        let place = (at.end > at.start).then_some(at);
        match &mut self {
            PlanError::Undefined { span, .. }
            | PlanError::Exists { span, .. }
            | PlanError::WrongKind { span, .. }
            | PlanError::Reserved { span, .. }
            | PlanError::Version { span, .. }
            | PlanError::LastSuperuser { span, .. } => *span = place,
            PlanError::Rule(report) => report.span = place,
            PlanError::Denied { .. }
            | PlanError::Dependents { .. }
            | PlanError::Stale { .. }
            | PlanError::RoleDropped { .. } => {}
        }
        self
    }

    /// `object` does not exist.
    pub(crate) fn undefined(object: ObjectRef, at: Span) -> Self {
        PlanError::Undefined { object, span: None }.at(at)
    }

    /// `object` exists already.
    pub(crate) fn exists(object: ObjectRef, at: Span) -> Self {
        PlanError::Exists { object, span: None }.at(at)
    }

    /// `object` cannot be dropped while those of `list` are there.
    pub(crate) fn dependents(object: &ObjectRef, list: Vec<String>) -> Self {
        PlanError::Dependents {
            message: format!("cannot drop {object} because other objects depend on it"),
            list,
            hint: "Use DROP ... CASCADE to drop the dependent objects too.".to_owned(),
        }
    }
}

/// The lines of a DETAIL, cut to [`DEPENDENTS_LISTED_MAX`].
pub(crate) fn listed(lines: &[String]) -> String {
    let mut text = lines.iter().take(DEPENDENTS_LISTED_MAX).map(String::as_str).collect::<Vec<_>>().join("\n");
    let rest = lines.len().saturating_sub(DEPENDENTS_LISTED_MAX);
    if rest > 0 {
        let noun = if rest == 1 { "object" } else { "objects" };
        text.push_str(&format!("\nand {rest} other {noun}"));
    }
    text
}

impl Problem for PlanError {
    fn sqlstate(&self) -> SqlState {
        match self {
            PlanError::Undefined { object, .. } => object.kind().undefined(),
            PlanError::Exists { object, .. } => object.kind().duplicate(),
            PlanError::WrongKind { .. } => SqlState::WrongObjectType,
            PlanError::Denied { .. } => SqlState::InsufficientPrivilege,
            PlanError::Reserved { .. } => SqlState::ReservedName,
            PlanError::Version { .. } | PlanError::Stale { .. } => SqlState::SerializationFailure,
            PlanError::Dependents { .. } => SqlState::DependentsExist,
            PlanError::LastSuperuser { .. } => SqlState::ObjectNotInPrerequisiteState,
            PlanError::RoleDropped { .. } => SqlState::InvalidAuthorization,
            PlanError::Rule(report) => report.sqlstate,
        }
    }

    fn detail(&self) -> Option<String> {
        match self {
            PlanError::Denied { detail, .. } => Some(detail.clone()),
            PlanError::Reserved { detail, .. } => Some((*detail).to_owned()),
            PlanError::Dependents { list, .. } => Some(listed(list)).filter(|text| !text.is_empty()),
            PlanError::LastSuperuser { .. } => {
                Some("An org keeps at least one role that is SUPERUSER, may log in and has not expired.".to_owned())
            }
            PlanError::Rule(report) => report.detail.clone(),
            PlanError::Undefined { .. }
            | PlanError::Exists { .. }
            | PlanError::WrongKind { .. }
            | PlanError::Version { .. }
            | PlanError::Stale { .. }
            | PlanError::RoleDropped { .. } => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            PlanError::WrongKind { found, verb, .. } => Some(format!("Use {verb} {}.", found.keyword())),
            PlanError::Dependents { hint, .. } => Some(hint.clone()),
            PlanError::LastSuperuser { .. } => Some("Make another role SUPERUSER LOGIN first.".to_owned()),
            PlanError::Version { .. } => Some("Read the object again and decide anew.".to_owned()),
            PlanError::Rule(report) => report.hint.clone(),
            PlanError::Undefined { .. }
            | PlanError::Exists { .. }
            | PlanError::Denied { .. }
            | PlanError::Reserved { .. }
            | PlanError::Stale { .. }
            | PlanError::RoleDropped { .. } => None,
        }
    }

    fn span(&self) -> Option<Span> {
        match self {
            PlanError::Undefined { span, .. }
            | PlanError::Exists { span, .. }
            | PlanError::WrongKind { span, .. }
            | PlanError::Reserved { span, .. }
            | PlanError::Version { span, .. }
            | PlanError::LastSuperuser { span, .. } => *span,
            PlanError::Rule(report) => report.span,
            PlanError::Denied { .. }
            | PlanError::Dependents { .. }
            | PlanError::Stale { .. }
            | PlanError::RoleDropped { .. } => None,
        }
    }
}
