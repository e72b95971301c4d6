//! Statements on masks and row filters.

use dataglot_model::command::{
    AlterMask, AlterRowFilter, AudienceChange, CreateMask, CreateRowFilter, GranteeSpec, MaskAction, RoleSpec,
    RowFilterAction,
};
use dataglot_model::def::{MaskFunction, MaskTarget, RowFilterTarget};
use dataglot_model::{At, Audience, ColumnRef, Others};

use super::sql::{Sql, quote_name};

pub(super) fn print_create_mask(sql: &mut Sql, create: &CreateMask) {
    let CreateMask { name, on_existing, target, function, when, audience, priority, enabled, comment } = create;
    sql.create(*on_existing, "MASK").word(&name.value);
    print_mask_target(sql, &target.value);
    print_function(sql, function);
    if let Some(when) = when {
        sql.word("WHEN").expression(when);
    }
    print_audience(sql, audience, None);
    if *priority != 0 {
        sql.word("PRIORITY").word(priority);
    }
    if !enabled {
        sql.enable(false);
    }
    sql.comment(comment.as_deref());
}

pub(super) fn print_alter_mask(sql: &mut Sql, alter: &AlterMask) {
    let AlterMask { name, on, on_missing, expected, actions } = alter;
    sql.word("ALTER MASK").if_exists(*on_missing).word(&name.value);
    if let Some(on) = on {
        print_mask_target(sql, &on.value);
    }
    sql.if_version(expected).list(actions, |sql, action| {
        match action {
            MaskAction::Rename(to) => {
                sql.word("RENAME TO").word(&to.value);
            }
            MaskAction::Owner(owner) => {
                sql.word("OWNER TO").role(&owner.value);
            }
            MaskAction::Function(function) => {
                sql.word("SET");
                print_function(sql, function);
            }
            MaskAction::When(Some(when)) => {
                sql.word("SET WHEN").expression(when);
            }
            MaskAction::When(None) => {
                sql.word("DROP WHEN");
            }
            MaskAction::Audience(change) => print_change(sql, change),
            MaskAction::Priority(priority) => {
                sql.word("SET PRIORITY").word(priority);
            }
            MaskAction::Enable(enabled) => {
                sql.enable(*enabled);
            }
            MaskAction::Comment(text) => {
                sql.word("SET COMMENT").comment_text(text);
            }
        };
    });
}

pub(super) fn print_create_row_filter(sql: &mut Sql, create: &CreateRowFilter) {
    let CreateRowFilter { name, on_existing, target, using, audience, others, enabled, comment } = create;
    sql.create(*on_existing, "ROW FILTER").word(&name.value);
    print_row_filter_target(sql, &target.value);
    sql.word("USING").expression(using);
    print_audience(sql, audience, *others);
    if !enabled {
        sql.enable(false);
    }
    sql.comment(comment.as_deref());
}

pub(super) fn print_alter_row_filter(sql: &mut Sql, alter: &AlterRowFilter) {
    let AlterRowFilter { name, on, on_missing, expected, actions } = alter;
    sql.word("ALTER ROW FILTER").if_exists(*on_missing).word(&name.value);
    if let Some(on) = on {
        print_row_filter_target(sql, &on.value);
    }
    sql.if_version(expected).list(actions, |sql, action| {
        match action {
            RowFilterAction::Rename(to) => {
                sql.word("RENAME TO").word(&to.value);
            }
            RowFilterAction::Owner(owner) => {
                sql.word("OWNER TO").role(&owner.value);
            }
            RowFilterAction::Using(using) => {
                sql.word("SET USING").expression(using);
            }
            RowFilterAction::Audience(change) => print_change(sql, change),
            RowFilterAction::Enable(enabled) => {
                sql.enable(*enabled);
            }
            RowFilterAction::Comment(text) => {
                sql.word("SET COMMENT").comment_text(text);
            }
        };
    });
}

fn print_mask_target(sql: &mut Sql, target: &MaskTarget) {
    match target {
        MaskTarget::Column(column) => print_on_column(sql, column),
    }
}

/// `ON table (column)`
pub(super) fn print_on_column(sql: &mut Sql, column: &ColumnRef) {
    sql.word("ON").word(column.table()).word("(").raw(column.column()).raw(")");
}

fn print_row_filter_target(sql: &mut Sql, target: &RowFilterTarget) {
    sql.word("ON");
    match target {
        RowFilterTarget::Table(table) => sql.word("TABLE").word(table),
        RowFilterTarget::Schema(schema) => sql.word("SCHEMA").word(schema),
        RowFilterTarget::Catalog(catalog) => sql.word("CATALOG").word(quote_name(catalog)),
    };
}

fn print_function(sql: &mut Sql, function: &MaskFunction) {
    match function {
        MaskFunction::Constant(text) => sql.word("AS").string(text),
        MaskFunction::Expression(expression) => sql.word("AS").expression(expression),
        MaskFunction::Redact => sql.word("WITH (type = 'redact')"),
        MaskFunction::Hash => sql.word("WITH (type = 'hash')"),
        MaskFunction::Nullify => sql.word("WITH (type = 'nullify')"),
        MaskFunction::DateYear => sql.word("WITH (type = 'date_year')"),
        MaskFunction::ShowFirst(keep) => sql.word("WITH (type = 'show_first', keep = ").raw(keep).raw(")"),
        MaskFunction::ShowLast(keep) => sql.word("WITH (type = 'show_last', keep = ").raw(keep).raw(")"),
        MaskFunction::Function { name, arguments } => {
            sql.word("USING").word(name);
            if !arguments.is_empty() {
                sql.word("(").raw(arguments.join(", ")).raw(")");
            }
            sql
        }
    };
}

/// `[TO … [ELSE … ROWS]] [EXCEPT …]`
fn print_audience(sql: &mut Sql, audience: &Audience<At<GranteeSpec>, At<RoleSpec>>, others: Option<Others>) {
    let Audience { to, except } = audience;
    if let Some(to) = to {
        print_to(sql, to);
    }
    print_others(sql, others);
    if !except.is_empty() {
        print_except(sql, except);
    }
}

/// `TO a, b`. A list can lose its last member, as when a role is dropped with CASCADE; `NONE`, which no
/// role can be called, says so.
fn print_to(sql: &mut Sql, to: &[At<GranteeSpec>]) {
    sql.word("TO");
    if to.is_empty() {
        sql.word("NONE");
    } else {
        sql.grantees(to);
    }
}

/// `EXCEPT a, b`
fn print_except(sql: &mut Sql, except: &[At<RoleSpec>]) {
    sql.word("EXCEPT");
    if except.is_empty() {
        sql.word("NONE");
    } else {
        sql.roles(except);
    }
}

fn print_others(sql: &mut Sql, others: Option<Others>) {
    match others {
        None => sql,
        Some(Others::AllRows) => sql.word("ELSE ALL ROWS"),
        Some(Others::NoRows) => sql.word("ELSE NO ROWS"),
    };
}

fn print_change(sql: &mut Sql, change: &AudienceChange) {
    match change {
        AudienceChange::SetTo(to, others) => {
            sql.word("SET");
            print_to(sql, to);
            print_others(sql, *others);
        }
        AudienceChange::AddTo(to) => {
            sql.word("ADD");
            print_to(sql, to);
        }
        AudienceChange::DropTo(to) => {
            sql.word("DROP");
            print_to(sql, to);
        }
        AudienceChange::SetExcept(except) => {
            sql.word("SET");
            print_except(sql, except);
        }
    }
}
