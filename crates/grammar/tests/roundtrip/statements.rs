//! Statements that are no commands.

use dataglot_model::command::{Behavior, OnExisting, PasswordChange};
use dataglot_model::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select as choose;

use crate::commands::{any_command, any_object, setting_name, target};
use crate::names::*;

type AnyStatement = Statement<Sensitive>;

pub fn org() -> impl Strategy<Value = AnyStatement> {
    let create = (
        at_of(org_name()),
        on_existing(&[OnExisting::Error, OnExisting::Skip]),
        option::of((at_of(name()), option::of(Just(at(PasswordChange::Remove))))),
    )
        .prop_map(|(name, on_existing, admin)| {
            let (admin, password) = admin.unzip();
            OrgCommand::Create { name, on_existing, admin, password: password.flatten() }
        });
    let drop = (at_of(org_name()), on_missing(), choose(&[Behavior::Restrict, Behavior::Cascade][..]))
        .prop_map(|(name, on_missing, behavior)| OrgCommand::Drop { name, on_missing, behavior });
    prop_oneof![create, drop].prop_map(Statement::Org)
}

pub fn read() -> impl Strategy<Value = AnyStatement> {
    let explain = (choose(&[ExplainFormat::Text, ExplainFormat::Json][..]), any_command())
        .prop_map(|(format, command)| Read::Explain(Explain { format, command: Box::new(command) }));
    let any_describe = prop_oneof![
        name().prop_map(|name| {
            let table = TableRef::within(&SchemaRef::default_schema(), &name.clone().into());
            DescribeName::Any { name: Some(name), table }
        }),
        table_ref().prop_map(|table| DescribeName::Any { name: None, table }),
    ];
    let describe = prop_oneof![
        any_object().prop_map(|object| (Some(object.kind()), DescribeName::Object(object))),
        any_describe.prop_map(|any| (None, any)),
    ]
    .prop_map(|(kind, object)| Read::Describe(Describe { kind, object: at(object) }));
    prop_oneof![3 => show().prop_map(Read::Show).boxed(), 1 => describe.boxed(), 1 => explain.boxed()]
        .prop_map(Statement::Read)
}

fn show() -> impl Strategy<Value = Show> {
    let kinds = [
        ShowKind::Catalogs,
        ShowKind::Secrets,
        ShowKind::Roles,
        ShowKind::Users,
        ShowKind::Masks,
        ShowKind::RowFilters,
        ShowKind::Policies,
        ShowKind::Views,
    ];
    let within = prop_oneof![name().prop_map(ShowScope::Catalog), schema_ref().prop_map(ShowScope::Schema)];
    let escape = choose(vec![None, Some('\\'), Some('!'), Some('\''), Some('é')]);
    let objects = (choose(kinds.to_vec()), option::of(within), option::of(table_ref()), option::of((text(), escape)))
        .prop_map(|(kind, within, on, like)| Show::Objects { kind, within, on, like });
    let grants = prop_oneof![
        Just(ShowGrants::All),
        at_of(target()).prop_map(ShowGrants::On),
        at_of(grantee()).prop_map(ShowGrants::To),
        at_of(name()).prop_map(ShowGrants::Of),
        at_of(grantee()).prop_map(ShowGrants::For),
    ];
    prop_oneof![
        4 => objects,
        3 => grants.prop_map(Show::Grants),
        1 => Just(Show::CurrentRoles),
        1 => Just(Show::RoleGrants),
        1 => Just(Show::Orgs),
        1 => Just(Show::SecretKeys),
        1 => Just(Show::SecretProblems),
        2 => at_of(any_object()).prop_map(Show::Create),
        2 => (at_of(any_object()), any::<bool>())
            .prop_map(|(object, dependents)| Show::Dependencies { object, dependents }),
        1 => (0..=i64::MAX as u64, option::of(0..=i64::MAX as u64))
            .prop_map(|(since, limit)| Show::Changes { since: Seq(since), limit }),
        1 => any::<u128>().prop_map(|id| Show::TransactionStatus(TransactionId(id))),
    ]
}

pub fn transaction() -> impl Strategy<Value = AnyStatement> {
    let named = || modes().prop_filter("nothing is named", |modes| *modes != TransactionModes::default());
    prop_oneof![
        (any::<bool>(), modes()).prop_map(|(start, modes)| TransactionCommand::Begin { start, modes }),
        any::<bool>().prop_map(|chain| TransactionCommand::Commit { chain }),
        any::<bool>().prop_map(|chain| TransactionCommand::Rollback { chain }),
        at_of(name()).prop_map(TransactionCommand::Savepoint),
        at_of(name()).prop_map(TransactionCommand::Release),
        at_of(name()).prop_map(TransactionCommand::RollbackTo),
        named().prop_map(TransactionCommand::SetTransaction),
        named().prop_map(TransactionCommand::SetCharacteristics),
    ]
    .prop_map(Statement::Transaction)
}

fn modes() -> impl Strategy<Value = TransactionModes> {
    let levels = [
        IsolationLevel::ReadUncommitted,
        IsolationLevel::ReadCommitted,
        IsolationLevel::RepeatableRead,
        IsolationLevel::Serializable,
    ];
    (option::of(choose(levels.to_vec())), option::of(any::<bool>()), option::of(any::<bool>()))
        .prop_map(|(isolation, read_only, deferrable)| TransactionModes { isolation, read_only, deferrable })
}

pub fn session() -> impl Strategy<Value = AnyStatement> {
    let scope = || choose(&[SetScope::Session, SetScope::Local][..]);
    prop_oneof![
        3 => (scope(), at_of(setting_name()), option::of(text()))
            .prop_map(|(scope, name, value)| SessionCommand::Set { scope, name, value }),
        1 => at_of(setting_name()).prop_map(SessionCommand::Reset),
        1 => Just(SessionCommand::ResetAll),
        1 => at_of(setting_name()).prop_map(SessionCommand::Show),
        1 => Just(SessionCommand::ShowAll),
        1 => (scope(), option::of(at_of(name()))).prop_map(|(scope, role)| SessionCommand::SetRole { scope, role }),
        1 => (scope(), option::of(at_of(name())))
            .prop_map(|(scope, role)| SessionCommand::SetAuthorization { scope, role }),
        1 => Just(SessionCommand::DiscardAll),
        1 => choose(&["PLANS", "SEQUENCES", "TEMP"][..]).prop_map(SessionCommand::DiscardNothing),
        1 => at_of(name()).prop_map(SessionCommand::Listen),
        1 => option::of(at_of(name())).prop_map(SessionCommand::Unlisten),
        1 => option::of(at_of(name())).prop_map(SessionCommand::Deallocate),
    ]
    .prop_map(Statement::Session)
}

pub fn select() -> impl Strategy<Value = AnyStatement> {
    let column = || "[a-z]{1,4}x|A b";
    let relation = (option::of("[a-z]{1,4}x|A b"), column(), option::of(column()));
    let alias = || option::of(column());
    let item = prop_oneof![
        1 => Just(SelectItem::Wildcard),
        4 => (expr(), alias()).prop_map(|(expr, alias)| SelectItem::Expr(Projection { expr, alias })),
    ];
    let order = (expr(), any::<bool>()).prop_map(|(expr, descending)| OrderBy { expr, descending });
    let rows = || option::of(0..=i64::MAX as u64);
    (vec(item, 1..4), option::of(relation), option::of(expr()), vec(order, 0..3), rows(), rows()).prop_map(
        |(items, relation, filter, order, limit, offset)| {
            let (from, alias) = match relation {
                None => (None, None),
                Some((schema, name, alias)) => (Some(at((schema, name.clone()))), Some(alias.unwrap_or(name))),
            };
            Statement::Select(SelectQuery { items, from, alias, filter, order, limit, offset })
        },
    )
}

fn expr() -> impl Strategy<Value = SelectExpr> {
    use BinaryOperator::{And, Concat, Eq, Gt, GtEq, Like, Lt, LtEq, NotEq, NotLike, Or};
    let leaf = prop_oneof![
        at_of("[a-z]{1,4}x(\\.[a-z]{1,4}x)?|A b").prop_map(SelectExpr::Column),
        Just(SelectExpr::Null),
        text().prop_map(SelectExpr::Text),
        any::<i64>().prop_map(SelectExpr::Integer),
        any::<bool>().prop_map(SelectExpr::Boolean),
        at_of(choose(&["current_user", "current_schema", "session_user", "version", "left", "a.b"][..]))
            .prop_map(|name| SelectExpr::Call { name: name.map(str::to_owned), args: Vec::new() }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let op = choose(vec![Eq, NotEq, Lt, LtEq, Gt, GtEq, And, Or, Like, NotLike, Concat]);
        let types = choose(&["text", "bigint", "regclass", "timestamp with time zone", "varchar(10)"][..]);
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (op, boxed(), boxed()).prop_map(|(op, left, right)| SelectExpr::Binary { op, left, right }),
            boxed().prop_map(SelectExpr::Not),
            (boxed(), any::<bool>()).prop_map(|(of, negated)| SelectExpr::IsNull(of, negated)),
            (boxed(), vec(inner.clone(), 1..3), any::<bool>())
                .prop_map(|(of, list, negated)| SelectExpr::In(of, list, negated)),
            (boxed(), types).prop_map(|(of, to)| SelectExpr::Cast(of, to.to_owned())),
            (at_of("f[a-z]{0,3}x"), vec(inner.clone(), 1..3)).prop_map(|(name, args)| SelectExpr::Call { name, args }),
        ]
    })
}
