//! Statements: everything that a client can send.

use crate::command::{Behavior, GranteeSpec, OnExisting, OnMissing, PasswordChange};
use crate::{At, Command, GrantTarget, Kind, Name, ObjectRef, OrgName, SchemaRef, Seq, TableRef, TransactionId};

/// Everything that a client can send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement<V> {
    /// DDL.
    Change(Command<V>),
    /// CREATE ORG, DROP ORG.
    Org(OrgCommand<V>),
    /// SHOW, DESCRIBE, EXPLAIN: rows out, nothing changes.
    Read(Read<V>),
    /// BEGIN and its kin.
    Transaction(TransactionCommand),
    /// SET and its kin.
    Session(SessionCommand),
    /// SELECT.
    Select(SelectQuery),
    /// `REWRAP SECRETS`: all that needs another master key than the primary one is wrapped or sealed anew. Many
    /// transactions, so never in a block.
    Rewrap,
}

/// Statements on orgs, for the superusers of the org `default`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrgCommand<V> {
    /// `CREATE ORG [IF NOT EXISTS] name [ADMIN user [PASSWORD …]]`
    Create {
        /// The new name.
        name: At<OrgName>,
        /// What to do when it exists: an error or nothing.
        on_existing: OnExisting,
        /// The org's first superuser; `admin` if not named.
        admin: Option<At<Name>>,
        /// That user's password.
        password: Option<At<PasswordChange<V>>>,
    },
    /// `DROP ORG [IF EXISTS] name [CASCADE]`
    Drop {
        /// Which.
        name: At<OrgName>,
        /// What to do when it does not exist.
        on_missing: OnMissing,
        /// RESTRICT refuses an org that holds anything but its first superuser.
        behavior: Behavior,
    },
}

impl<V> OrgCommand<V> {
    /// The command tag.
    pub const fn tag(&self) -> &'static str {
        match self {
            OrgCommand::Create { .. } => "CREATE ORG",
            OrgCommand::Drop { .. } => "DROP ORG",
        }
    }
}

/// Statements that answer rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read<V> {
    /// `SHOW …` of objects.
    Show(Show),
    /// `DESCRIBE kind name`
    Describe(Describe),
    /// `EXPLAIN ddl`
    Explain(Explain<V>),
}

/// `EXPLAIN [(FORMAT …, VERBOSE)] ddl`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explain<V> {
    /// How to print it.
    pub format: ExplainFormat,
    /// What would be done.
    pub command: Box<Command<V>>,
}

/// How EXPLAIN prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum ExplainFormat {
    Text,
    Json,
}

/// `SHOW …` of objects. `SHOW setting` is a [`SessionCommand`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Show {
    /// `SHOW CATALOGS` and its kin.
    Objects {
        /// Which kind, or union of kinds.
        kind: ShowKind,
        /// `IN CATALOG c`, `IN SCHEMA c.s`
        within: Option<ShowScope>,
        /// `ON table`: the policies of a table.
        on: Option<TableRef>,
        /// `LIKE 'pattern'`, with its escape character (backslash if not given; `None`: no escape).
        like: Option<(String, Option<char>)>,
    },
    /// `SHOW GRANTS …`
    Grants(ShowGrants),
    /// `SHOW CURRENT ROLES`: the roles whose rights the session has now.
    CurrentRoles,
    /// `SHOW ROLE GRANTS`: memberships.
    RoleGrants,
    /// `SHOW [REDACTED] CREATE kind name`
    Create(At<ObjectRef>),
    /// `SHOW DEPENDENCIES OF kind name` (what it depends on), `ON kind name` (what depends on it).
    Dependencies {
        /// Of which.
        object: At<ObjectRef>,
        /// Which direction: `true` for ON.
        dependents: bool,
    },
    /// `SHOW CHANGES SINCE n [LIMIT m]`
    Changes {
        /// Those after it.
        since: Seq,
        /// At most so many.
        limit: Option<u64>,
    },
    /// `SHOW TRANSACTION STATUS 'id'`
    TransactionStatus(TransactionId),
    /// `SHOW ORGS`
    Orgs,
    /// `SHOW SECRET KEYS`: the master keys that are loaded or needed.
    SecretKeys,
    /// `SHOW SECRET PROBLEMS`: what is sealed and does not open, or is not what history recorded.
    SecretProblems,
}

/// What `SHOW` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowKind {
    /// `CATALOGS`
    Catalogs,
    /// `SECRETS`
    Secrets,
    /// `ROLES`: every role, users among them.
    Roles,
    /// `USERS`: the roles that may log in.
    Users,
    /// `MASKS`
    Masks,
    /// `ROW FILTERS`
    RowFilters,
    /// `POLICIES`: masks and row filters.
    Policies,
    /// `VIEWS`
    Views,
}

/// Where `SHOW` looks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum ShowScope {
    Catalog(Name),
    Schema(SchemaRef),
}

/// The forms of `SHOW GRANTS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShowGrants {
    /// All that the caller may see.
    All,
    /// `ON object`: on that object.
    On(At<GrantTarget>),
    /// `TO grantee`: made to exactly that grantee.
    To(At<GranteeSpec>),
    /// `OF role`: the memberships in that role.
    Of(At<Name>),
    /// `FOR grantee`, `SHOW EFFECTIVE GRANTS FOR grantee`: all that it has, by whatever way.
    For(At<GranteeSpec>),
}

/// `DESCRIBE [kind] name`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Describe {
    /// The kind, if the statement names one.
    pub kind: Option<Kind>,
    /// The parts of the name as written.
    pub object: At<DescribeName>,
}

/// What DESCRIBE names: with a kind it is an address; without one it can be several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribeName {
    /// `DESCRIBE CATALOG pg`
    Object(ObjectRef),
    /// `DESCRIBE pg`: the first of catalog, view, secret, role, mask and row filter that has the name.
    Any {
        /// As a name of one part, if it has one part.
        name: Option<Name>,
        /// As a table's name, resolved in full.
        table: TableRef,
    },
}

/// BEGIN and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionCommand {
    /// `BEGIN`, `START TRANSACTION` (which differ in their tag).
    Begin {
        /// The words were START TRANSACTION.
        start: bool,
        /// Modes given.
        modes: TransactionModes,
    },
    /// `COMMIT [AND CHAIN]`
    Commit {
        /// `AND CHAIN`
        chain: bool,
    },
    /// `ROLLBACK [AND CHAIN]`
    Rollback {
        /// `AND CHAIN`
        chain: bool,
    },
    /// `SAVEPOINT name`
    Savepoint(At<Name>),
    /// `RELEASE [SAVEPOINT] name`
    Release(At<Name>),
    /// `ROLLBACK TO [SAVEPOINT] name`
    RollbackTo(At<Name>),
    /// `SET TRANSACTION modes`
    SetTransaction(TransactionModes),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION modes`
    SetCharacteristics(TransactionModes),
}

/// Modes of a transaction. `None`: not named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// `ISOLATION LEVEL …`. Every transaction is serializable, whatever is asked for.
    pub isolation: Option<IsolationLevel>,
    /// `READ ONLY` (true), `READ WRITE` (false)
    pub read_only: Option<bool>,
    /// `[NOT] DEFERRABLE`
    pub deferrable: Option<bool>,
}

/// The four isolation levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl IsolationLevel {
    /// As `SHOW transaction_isolation` prints it.
    pub const fn as_str(self) -> &'static str {
        match self {
            IsolationLevel::ReadUncommitted => "read uncommitted",
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::RepeatableRead => "repeatable read",
            IsolationLevel::Serializable => "serializable",
        }
    }
}

/// How long a SET lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetScope {
    /// `SET`, `SET SESSION`
    Session,
    /// `SET LOCAL`: to the end of the transaction.
    Local,
}

/// SET and its kin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCommand {
    /// `SET name TO value, …`; `None`: `DEFAULT`. A list is joined with `, `.
    Set {
        /// How long.
        scope: SetScope,
        /// Lower case; `TIME ZONE` is `timezone`.
        name: At<String>,
        /// The value as text.
        value: Option<String>,
    },
    /// `RESET name`
    Reset(At<String>),
    /// `RESET ALL`
    ResetAll,
    /// `SHOW name`
    Show(At<String>),
    /// `SHOW ALL`
    ShowAll,
    /// `SET ROLE role`; `None`: `NONE`, `RESET ROLE`.
    SetRole {
        /// How long.
        scope: SetScope,
        /// Which.
        role: Option<At<Name>>,
    },
    /// `SET SESSION AUTHORIZATION role`; `None`: `DEFAULT`.
    SetAuthorization {
        /// How long.
        scope: SetScope,
        /// Which.
        role: Option<At<Name>>,
    },
    /// `DISCARD ALL`
    DiscardAll,
    /// `DISCARD PLANS | SEQUENCES | TEMP`: nothing to discard.
    DiscardNothing(&'static str),
    /// `LISTEN channel`
    Listen(At<Name>),
    /// `UNLISTEN channel`; `None`: `*`.
    Unlisten(Option<At<Name>>),
    /// `DEALLOCATE [PREPARE] name`; `None`: `ALL`.
    Deallocate(Option<At<Name>>),
}

/// A SELECT of the small surface that is there: one relation of the system's at most, no joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectQuery {
    /// What it asks for.
    pub items: Vec<SelectItem>,
    /// `FROM [schema.]relation [alias]`: schema and name, lower case.
    pub from: Option<At<(Option<String>, String)>>,
    /// The alias, or the relation's own name.
    pub alias: Option<String>,
    /// `WHERE`
    pub filter: Option<SelectExpr>,
    /// `ORDER BY`
    pub order: Vec<OrderBy>,
    /// `LIMIT`
    pub limit: Option<u64>,
    /// `OFFSET`
    pub offset: Option<u64>,
}

/// One item of a select list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectItem {
    /// `*`
    Wildcard,
    /// An expression, perhaps with a name.
    Expr(Projection),
}

/// An expression of the select list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    /// What.
    pub expr: SelectExpr,
    /// `AS name`
    pub alias: Option<String>,
}

/// A key of ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    /// What.
    pub expr: SelectExpr,
    /// `DESC`
    pub descending: bool,
}

/// An expression of the small SELECT.
#[derive(Clone, PartialEq, Eq)]
pub enum SelectExpr {
    /// `[alias.]column`, lower case.
    Column(At<String>),
    /// NULL.
    Null,
    /// `'text'`, or a bound parameter.
    Text(String),
    /// `1`
    Integer(i64),
    /// `true`
    Boolean(bool),
    /// `[schema.]name(arguments)`, lower case without `pg_catalog.`; also `current_user` and its kin.
    Call {
        /// The function.
        name: At<String>,
        /// Its arguments.
        args: Vec<SelectExpr>,
    },
    /// `value::type`: the type, lower case.
    Cast(Box<SelectExpr>, String),
    /// `a op b`
    Binary {
        /// The operator.
        op: BinaryOperator,
        /// Left.
        left: Box<SelectExpr>,
        /// Right.
        right: Box<SelectExpr>,
    },
    /// `NOT a`
    Not(Box<SelectExpr>),
    /// `a IS [NOT] NULL`
    IsNull(Box<SelectExpr>, bool),
    /// `a [NOT] IN (b, c)`
    In(Box<SelectExpr>, Vec<SelectExpr>, bool),
}

impl std::fmt::Debug for SelectExpr {
    /// The form only: literals are the user's.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SelectExpr::Column(name) => write!(f, "{}", name.value),
            SelectExpr::Null => f.write_str("null"),
            SelectExpr::Text(_) => f.write_str("text"),
            SelectExpr::Integer(_) => f.write_str("integer"),
            SelectExpr::Boolean(_) => f.write_str("boolean"),
            SelectExpr::Call { name, args } => f.debug_tuple(&name.value).field(args).finish(),
            SelectExpr::Cast(of, to) => write!(f, "{of:?}::{to}"),
            SelectExpr::Binary { op, left, right } => write!(f, "({left:?} {op:?} {right:?})"),
            SelectExpr::Not(of) => write!(f, "not {of:?}"),
            SelectExpr::IsNull(of, negated) => write!(f, "{of:?} is null {negated}"),
            SelectExpr::In(of, list, negated) => write!(f, "{of:?} in {list:?} {negated}"),
        }
    }
}

/// An operator of the small SELECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in SQL")]
pub enum BinaryOperator {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    And,
    Or,
    Like,
    NotLike,
    Concat,
}

impl<V> Statement<V> {
    /// Whether it may run in a transaction that has failed.
    pub const fn allowed_when_failed(&self) -> bool {
        match self {
            Statement::Transaction(command) => match command {
                TransactionCommand::Commit { .. }
                | TransactionCommand::Rollback { .. }
                | TransactionCommand::RollbackTo(_) => true,
                TransactionCommand::Begin { .. }
                | TransactionCommand::Savepoint(_)
                | TransactionCommand::Release(_)
                | TransactionCommand::SetTransaction(_)
                | TransactionCommand::SetCharacteristics(_) => false,
            },
            Statement::Change(_)
            | Statement::Org(_)
            | Statement::Read(_)
            | Statement::Session(_)
            | Statement::Select(_)
            | Statement::Rewrap => false,
        }
    }
}
