//! Commands, one strategy a kind.

use dataglot_model::command::*;
use dataglot_model::connector::Connector;
use dataglot_model::def::{ExpressionText, MaskFunction, MaskTarget, OptionValue, RowFilterTarget, SecurityMode};
use dataglot_model::{
    At, Audience, Command, GrantTarget, Kind, ObjectRef, Others, PatternKind, PatternScope, Privilege, Sensitive,
    Statement, TargetClass, Timestamp,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::names::*;

type AnyCommand = Command<Sensitive>;

const REPLACE_OR_ALTER: &[OnExisting] = &[OnExisting::Error, OnExisting::Skip, OnExisting::Replace, OnExisting::Alter];
const REPLACE: &[OnExisting] = &[OnExisting::Error, OnExisting::Skip, OnExisting::Replace];
const ALTER: &[OnExisting] = &[OnExisting::Error, OnExisting::Skip, OnExisting::Alter];

fn behavior() -> impl Strategy<Value = Behavior> {
    select(&[Behavior::Restrict, Behavior::Cascade][..])
}

// --- catalogs ---

pub fn catalog() -> impl Strategy<Value = AnyCommand> {
    let create = (
        at_of(name()),
        on_existing(REPLACE_OR_ALTER),
        select(&Connector::ALL[..]),
        options(0),
        comment(),
        option::of(at_of(role_spec())),
        select(&[ValidateMode::Off, ValidateMode::Schema][..]),
    )
        .prop_map(|(name, on_existing, connector, options, comment, owner, validate)| {
            Command::CreateCatalog(CreateCatalog {
                name,
                on_existing,
                connector: at(connector),
                options,
                comment,
                owner,
                validate,
            })
        });
    let alter = (at_of(name()), on_missing(), expected(), vec(catalog_action(), 1..4)).prop_map(
        |(name, on_missing, expected, actions)| {
            Command::AlterCatalog(AlterCatalog { name, on_missing, expected, actions })
        },
    );
    prop_oneof![create, alter]
}

fn catalog_action() -> impl Strategy<Value = CatalogAction> {
    prop_oneof![
        options(1).prop_map(CatalogAction::Set),
        vec(at_of(option_key()), 1..3).prop_map(CatalogAction::Reset),
        vec(option_change(), 1..4).prop_map(CatalogAction::Options),
        options(0).prop_map(CatalogAction::Replace),
        at_of(name()).prop_map(CatalogAction::Rename),
        at_of(role_spec()).prop_map(CatalogAction::Owner),
        any::<bool>().prop_map(CatalogAction::Enable),
        comment_text().prop_map(CatalogAction::Comment),
    ]
}

fn option_change() -> impl Strategy<Value = OptionChange> {
    let entry = || {
        (option_key(), text()).prop_map(|(key, text)| OptionEntry { key: at(key), value: at(OptionValue::Text(text)) })
    };
    prop_oneof![
        entry().prop_map(OptionChange::Add),
        entry().prop_map(OptionChange::Set),
        at_of(option_key()).prop_map(OptionChange::Drop),
    ]
}

// --- secrets ---

pub fn secret() -> impl Strategy<Value = AnyCommand> {
    let create = (at_of(name()), on_existing(REPLACE), at_of(secret_value()), comment()).prop_map(
        |(name, on_existing, value, comment)| Command::CreateSecret(CreateSecret { name, on_existing, value, comment }),
    );
    let action = prop_oneof![
        (at_of(secret_value()), proptest::option::of(1u64..=30 * 86_400)).prop_map(|(value, seconds)| {
            SecretAction::Value { value, grace: seconds.and_then(Grace::from_seconds) }
        }),
        at_of(name()).prop_map(|to| SecretAction::Rename { to, resealed: None, resealed_previous: None }),
        at_of(role_spec()).prop_map(SecretAction::Owner),
    ];
    let alter = (at_of(name()), on_missing(), expected(), action).prop_map(|(name, on_missing, expected, action)| {
        Command::AlterSecret(AlterSecret { name, on_missing, expected, action })
    });
    prop_oneof![create, alter]
}

fn secret_value() -> impl Strategy<Value = SecretValue<Sensitive>> {
    prop_oneof![Just(SecretValue::Redacted), text().prop_map(SecretValue::Env), text().prop_map(SecretValue::File),]
}

// --- roles ---

pub fn role() -> impl Strategy<Value = AnyCommand> {
    let form = select(&[CreateRoleForm::Role, CreateRoleForm::User][..]);
    let create = (form, at_of(name()), on_existing(ALTER), attributes(), roles(0), roles(0), roles(0), comment())
        .prop_map(|(form, name, on_existing, mut attributes, in_roles, members, admins, comment)| {
            match form {
                CreateRoleForm::Role => {}
                CreateRoleForm::User => attributes.login = attributes.login.or(Some(at(true))),
            }
            Command::CreateRole(CreateRole { form, name, on_existing, attributes, in_roles, members, admins, comment })
        });
    let one = at_of(role_spec()).prop_map(RoleSelector::One);
    let named = (attributes(), comment()).prop_filter("nothing is named", |(attributes, comment)| {
        *attributes != RoleAttributes::default() || comment.is_some()
    });
    let own = prop_oneof![
        named.prop_map(|(attributes, comment)| AlterRoleAction::Attributes { attributes, comment }),
        at_of(name()).prop_map(|to| AlterRoleAction::Rename { to, resealed: None }),
    ];
    let any_role = prop_oneof![1 => Just(RoleSelector::All), 3 => at_of(role_spec()).prop_map(RoleSelector::One)];
    let setting = prop_oneof![
        (at_of(setting_name()), text()).prop_map(|(name, value)| AlterRoleAction::Set { name, value }),
        at_of(setting_name()).prop_map(AlterRoleAction::Reset),
        Just(AlterRoleAction::ResetAll),
    ];
    let alter = (prop_oneof![(one, own), (any_role, setting)], on_missing(), expected()).prop_map(
        |((role, action), on_missing, expected)| Command::AlterRole(AlterRole { role, on_missing, expected, action }),
    );
    prop_oneof![create, alter]
}

/// A setting's name that no other form of SET begins with.
pub fn setting_name() -> impl Strategy<Value = String> {
    "[a-z_]{1,7}_x(\\.[a-z0-9_ ]{1,4})?"
}

fn attributes() -> impl Strategy<Value = RoleAttributes<Sensitive>> {
    let flag = || option::of(at_of(any::<bool>()));
    let ignored = (option::of(any::<bool>()), option::of(any::<bool>())).prop_map(|(createdb, replication)| {
        createdb
            .map(RoleAttribute::CreateDb)
            .into_iter()
            .chain(replication.map(RoleAttribute::Replication))
            .collect::<Vec<_>>()
    });
    let until = prop_oneof![
        1 => Just(Timestamp::INFINITY),
        4 => (0..4_102_444_800_000_000i64).prop_map(Timestamp),
        2 => (0..4_102_444_800i64).prop_map(|seconds| Timestamp(seconds * 1_000_000)),
    ];
    (
        (flag(), flag(), flag(), flag(), flag()),
        option::of(at_of(-1..=i32::MAX)),
        option::of(Just(at(PasswordChange::Remove))),
        option::of(at_of(until)),
        ignored,
    )
        .prop_map(|(flags, connection_limit, password, valid_until, ignored)| {
            let (superuser, createrole, login, inherit, bypassrls) = flags;
            RoleAttributes {
                superuser,
                createrole,
                login,
                inherit,
                bypassrls,
                connection_limit,
                password,
                valid_until,
                ignored,
            }
        })
}

// --- policies ---

fn expression() -> impl Strategy<Value = ExpressionText> {
    select(
        &[
            "a = 'it''s'",
            "\"Régión\" IN ('EU', 'US') AND (x > 1 OR y IS NULL)",
            "value -- the rest",
            "/* ) */ lower(value) || E'\\n)'",
            "CASE WHEN a THEN\n\t$$ ) $$ ELSE 'x' END",
            "current_user = owner",
        ][..],
    )
    .prop_map(|text| ExpressionText { text: text.to_owned() })
}

fn audience() -> impl Strategy<Value = Audience<At<GranteeSpec>, At<RoleSpec>>> {
    (option::of(grantees(0)), roles(0)).prop_map(|(to, except)| Audience { to, except })
}

fn others() -> impl Strategy<Value = Others> {
    select(&[Others::AllRows, Others::NoRows][..])
}

fn audience_change(with_others: bool) -> impl Strategy<Value = AudienceChange> {
    let set = (grantees(0), option::of(others()))
        .prop_map(move |(to, others)| AudienceChange::SetTo(to, others.filter(|_| with_others)));
    prop_oneof![
        set,
        grantees(1).prop_map(AudienceChange::AddTo),
        grantees(1).prop_map(AudienceChange::DropTo),
        roles(0).prop_map(AudienceChange::SetExcept),
    ]
}

fn function() -> impl Strategy<Value = MaskFunction> {
    let argument = prop_oneof![
        text().prop_map(|text| dataglot_model::quote_string(&text)),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<bool>().prop_map(|yes| if yes { "TRUE" } else { "FALSE" }.to_owned()),
    ];
    prop_oneof![
        text().prop_map(MaskFunction::Constant),
        expression().prop_map(MaskFunction::Expression),
        Just(MaskFunction::Redact),
        Just(MaskFunction::Hash),
        Just(MaskFunction::Nullify),
        Just(MaskFunction::DateYear),
        any::<u32>().prop_map(MaskFunction::ShowFirst),
        any::<u32>().prop_map(MaskFunction::ShowLast),
        (name(), vec(argument, 0..3)).prop_map(|(name, arguments)| MaskFunction::Function { name, arguments }),
    ]
}

fn mask_target() -> impl Strategy<Value = MaskTarget> {
    column_ref().prop_map(MaskTarget::Column)
}

pub fn mask() -> impl Strategy<Value = AnyCommand> {
    let create = (
        (at_of(name()), on_existing(REPLACE), at_of(mask_target()), function()),
        option::of(expression()),
        audience(),
        prop_oneof![Just(0), any::<i32>()],
        any::<bool>(),
        comment(),
    )
        .prop_map(|((name, on_existing, target, function), when, audience, priority, enabled, comment)| {
            Command::CreateMask(CreateMask {
                name,
                on_existing,
                target,
                function,
                when,
                audience,
                priority,
                enabled,
                comment,
            })
        });
    let action = prop_oneof![
        at_of(name()).prop_map(MaskAction::Rename),
        at_of(role_spec()).prop_map(MaskAction::Owner),
        function().prop_map(MaskAction::Function),
        option::of(expression()).prop_map(MaskAction::When),
        audience_change(false).prop_map(MaskAction::Audience),
        any::<i32>().prop_map(MaskAction::Priority),
        any::<bool>().prop_map(MaskAction::Enable),
        comment_text().prop_map(MaskAction::Comment),
    ];
    let alter = (at_of(name()), option::of(at_of(mask_target())), on_missing(), expected(), vec(action, 1..4))
        .prop_map(|(name, on, on_missing, expected, actions)| {
            Command::AlterMask(AlterMask { name, on, on_missing, expected, actions })
        });
    prop_oneof![create, alter]
}

fn row_filter_target() -> impl Strategy<Value = RowFilterTarget> {
    prop_oneof![
        table_ref().prop_map(RowFilterTarget::Table),
        schema_ref().prop_map(RowFilterTarget::Schema),
        name().prop_map(RowFilterTarget::Catalog),
    ]
}

pub fn row_filter() -> impl Strategy<Value = AnyCommand> {
    let create = (
        at_of(name()),
        on_existing(REPLACE),
        at_of(row_filter_target()),
        expression(),
        audience(),
        others(),
        any::<bool>(),
        comment(),
    )
        .prop_map(|(name, on_existing, target, using, audience, others, enabled, comment)| {
            let others = audience.to.is_some().then_some(others);
            Command::CreateRowFilter(CreateRowFilter {
                name,
                on_existing,
                target,
                using,
                audience,
                others,
                enabled,
                comment,
            })
        });
    let action = prop_oneof![
        at_of(name()).prop_map(RowFilterAction::Rename),
        at_of(role_spec()).prop_map(RowFilterAction::Owner),
        expression().prop_map(RowFilterAction::Using),
        audience_change(true).prop_map(RowFilterAction::Audience),
        any::<bool>().prop_map(RowFilterAction::Enable),
        comment_text().prop_map(RowFilterAction::Comment),
    ];
    let alter = (at_of(name()), option::of(at_of(row_filter_target())), on_missing(), expected(), vec(action, 1..4))
        .prop_map(|(name, on, on_missing, expected, actions)| {
            Command::AlterRowFilter(AlterRowFilter { name, on, on_missing, expected, actions })
        });
    prop_oneof![create, alter]
}

// --- views ---

/// A query with its references, which only the parser can find.
fn query() -> impl Strategy<Value = At<ViewQuery>> {
    select(
        &[
            "SELECT 1",
            "TABLE a.b.c",
            "VALUES (1, 'x'), (2, ';')",
            "WITH x AS (SELECT * FROM t) SELECT x.*, \"É\".b.c.d FROM x, \"É\".b.c AS y -- c\nWHERE y.a = 'ü'",
            "SELECT *\r\n  FROM s.t /* FROM u */ JOIN v ON s.t.a = v.a",
        ][..],
    )
    .prop_map(|text| {
        let parsed = crate::read(&format!("CREATE VIEW v AS {text}"));
        let Statement::Change(Command::CreateView(create)) = parsed.statement else { panic!("{text}") };
        create.query
    })
}

fn security() -> impl Strategy<Value = SecurityMode> {
    select(&[SecurityMode::Invoker, SecurityMode::Definer][..])
}

pub fn view() -> impl Strategy<Value = AnyCommand> {
    let columns = vec(remote_name(), 1..4).prop_map(|mut columns| {
        columns.sort();
        columns.dedup();
        columns
    });
    let create = (
        at_of(table_ref()),
        on_existing(REPLACE_OR_ALTER),
        option::of(columns),
        comment(),
        option::of(security()),
        options(0),
        query(),
    )
        .prop_map(|(name, on_existing, columns, comment, security, options, query)| {
            Command::CreateView(CreateView { name, on_existing, columns, comment, security, options, query })
        });
    let action = prop_oneof![
        at_of(name().prop_map(Into::into)).prop_map(ViewAction::Rename),
        at_of(schema_ref()).prop_map(ViewAction::SetSchema),
        at_of(role_spec()).prop_map(ViewAction::Owner),
        query().prop_map(ViewAction::Query),
        security().prop_map(ViewAction::Security),
        options(1).prop_map(ViewAction::Options),
    ];
    let alter =
        (at_of(table_ref()), on_missing(), expected(), action).prop_map(|(name, on_missing, expected, action)| {
            Command::AlterView(AlterView { name, on_missing, expected, action })
        });
    prop_oneof![create, alter]
}

// --- any kind ---

/// An object of that kind; never an org.
fn object(kind: Kind) -> BoxedStrategy<ObjectRef> {
    match kind {
        Kind::Org | Kind::Role => name().prop_map(ObjectRef::Role).boxed(),
        Kind::Secret => name().prop_map(ObjectRef::Secret).boxed(),
        Kind::Catalog => name().prop_map(ObjectRef::Catalog).boxed(),
        Kind::Schema => schema_ref().prop_map(ObjectRef::Schema).boxed(),
        Kind::Table => table_ref().prop_map(ObjectRef::Table).boxed(),
        Kind::Column => column_ref().prop_map(ObjectRef::Column).boxed(),
        Kind::View => table_ref().prop_map(ObjectRef::View).boxed(),
        Kind::Mask => name().prop_map(ObjectRef::Mask).boxed(),
        Kind::RowFilter => name().prop_map(ObjectRef::RowFilter).boxed(),
    }
}

pub fn any_object() -> impl Strategy<Value = ObjectRef> {
    select(&Kind::ALL[1..]).prop_flat_map(object)
}

fn policy_target(kind: Kind) -> BoxedStrategy<Option<At<ObjectRef>>> {
    match kind {
        Kind::Mask => option::of(at_of(object(Kind::Column))).boxed(),
        Kind::RowFilter => {
            let target = select(&[Kind::Table, Kind::Schema, Kind::Catalog][..]).prop_flat_map(object);
            option::of(at_of(target)).boxed()
        }
        Kind::Org
        | Kind::Role
        | Kind::Secret
        | Kind::Catalog
        | Kind::Schema
        | Kind::Table
        | Kind::Column
        | Kind::View => Just(None).boxed(),
    }
}

pub fn drop() -> impl Strategy<Value = AnyCommand> {
    let kinds = [Kind::Catalog, Kind::Secret, Kind::Role, Kind::View, Kind::Mask, Kind::RowFilter];
    let drop = select(kinds.to_vec())
        .prop_flat_map(|kind| {
            (Just(kind), vec(at_of(object(kind)), 1..4), policy_target(kind), on_missing(), behavior())
        })
        .prop_map(|(kind, objects, on, on_missing, behavior)| {
            Command::Drop(DropObjects { kind, objects, on, on_missing, behavior })
        });
    let comment = (at_of(any_object()), on_missing(), comment_text())
        .prop_map(|(object, on_missing, text)| Command::Comment(Comment { object, on_missing, text }));
    let reassign =
        (roles(1), at_of(role_spec())).prop_map(|(from, to)| Command::ReassignOwned(ReassignOwned { from, to }));
    let owned = (roles(1), behavior()).prop_map(|(by, behavior)| Command::DropOwned(DropOwned { by, behavior }));
    prop_oneof![3 => drop, 3 => comment, 1 => reassign, 1 => owned]
}

// --- grants ---

fn targets() -> impl Strategy<Value = Vec<GrantTarget>> {
    let objects =
        select(&[Kind::Catalog, Kind::Schema, Kind::Table, Kind::View, Kind::Secret, Kind::Mask, Kind::RowFilter][..])
            .prop_flat_map(|kind| vec(object(kind).prop_map(GrantTarget::Object), 1..3));
    let in_schemas = (select(&[PatternKind::Tables, PatternKind::Views][..]), any::<bool>(), vec(schema_ref(), 1..3))
        .prop_map(|(of, future, schemas)| {
            let pattern = |schema| GrantTarget::Pattern { of, within: PatternScope::Schema(schema), future };
            schemas.into_iter().map(pattern).collect()
        });
    let kinds = [PatternKind::Tables, PatternKind::Views, PatternKind::Schemas];
    let in_catalogs = (select(kinds.to_vec()), any::<bool>(), vec(name(), 1..3)).prop_map(|(of, future, catalogs)| {
        let pattern = |catalog| GrantTarget::Pattern { of, within: PatternScope::Catalog(catalog), future };
        catalogs.into_iter().map(pattern).collect()
    });
    prop_oneof![
        6 => objects,
        2 => in_schemas,
        2 => in_catalogs,
        1 => Just(vec![GrantTarget::System]),
        1 => Just(vec![GrantTarget::AllCatalogs]),
        1 => Just(vec![GrantTarget::AllSecrets]),
    ]
}

pub fn target() -> impl Strategy<Value = GrantTarget> {
    targets().prop_map(|mut targets| targets.pop().unwrap())
}

fn privileges(class: TargetClass, named: bool) -> impl Strategy<Value = Privileges> {
    let all: Vec<Privilege> = class.all().iter().collect();
    let item = (select(all), vec(remote_name(), 0..3)).prop_map(move |(privilege, columns)| {
        let columns = if privilege == Privilege::Select && named { columns } else { Vec::new() };
        at(PrivilegeItem { privilege, columns })
    });
    prop_oneof![1 => Just(Privileges::All), 4 => vec(item, 1..4).prop_map(Privileges::List)]
}

fn on_targets() -> impl Strategy<Value = (Privileges, Vec<At<GrantTarget>>)> {
    targets().prop_flat_map(|targets| {
        let class = targets.first().and_then(GrantTarget::class).unwrap();
        // A column is one of a table that is named, not of all that fit a pattern.
        let named = targets.iter().all(|target| matches!(target, GrantTarget::Object(_)));
        (privileges(class, named), Just(targets.into_iter().map(at).collect::<Vec<_>>()))
    })
}

pub fn grant() -> impl Strategy<Value = AnyCommand> {
    let by = || option::of(at_of(role_spec()));
    let grant = (on_targets(), grantees(1), any::<bool>(), by()).prop_map(
        |((privileges, targets), grantees, grant_option, granted_by)| {
            let grant_option = grant_option && grantees.iter().all(|g| g.value != GranteeSpec::Public);
            Command::GrantPrivileges(GrantPrivileges { privileges, targets, grantees, grant_option, granted_by })
        },
    );
    let revoke = (any::<bool>(), on_targets(), grantees(1), by(), behavior()).prop_map(
        |(grant_option_only, (privileges, targets), grantees, granted_by, behavior)| {
            Command::RevokePrivileges(RevokePrivileges {
                grant_option_only,
                privileges,
                targets,
                grantees,
                granted_by,
                behavior,
            })
        },
    );
    let flag = || option::of(any::<bool>());
    let member = (roles(1), roles(1), flag(), flag(), flag(), by()).prop_map(
        |(roles, members, admin, inherit, set, granted_by)| {
            Command::GrantMembership(GrantMembership { roles, members, admin, inherit, set, granted_by })
        },
    );
    let options = [MembershipOption::Admin, MembershipOption::Inherit, MembershipOption::Set];
    let no_member = (option::of(select(options.to_vec())), roles(1), roles(1), by(), behavior()).prop_map(
        |(option_only, roles, members, granted_by, behavior)| {
            Command::RevokeMembership(RevokeMembership { option_only, roles, members, granted_by, behavior })
        },
    );
    prop_oneof![grant, revoke, member, no_member]
}

pub fn any_command() -> impl Strategy<Value = AnyCommand> {
    proptest::strategy::Union::new([
        catalog().boxed(),
        secret().boxed(),
        role().boxed(),
        mask().boxed(),
        row_filter().boxed(),
        view().boxed(),
        drop().boxed(),
        grant().boxed(),
    ])
}
