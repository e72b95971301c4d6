//! `policies`: masks and row filters.

use dataglot_model::def::{
    ExpressionText, Extra, MaskDef, MaskFunction, MaskTarget, PolicyDef, RowFilterDef, RowFilterTarget,
};
use dataglot_model::{Audience, ColumnRef, Grantee, Name, Others, SchemaRef, TableRef};
use serde::{Deserialize, Serialize};

use super::{Bad, Record, is_true, is_zero, read, write, yes};

/// Stored form of [`PolicyDef`]: flat, told apart by `kind`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyRecord {
    kind: PolicyKindRecord,
    target: TargetRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    function: Option<FunctionRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    when: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    using: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<Vec<GranteeRecord>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    except: Vec<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    others: Option<OthersRecord>,
    #[serde(default, skip_serializing_if = "is_zero")]
    priority: i32,
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    enabled: bool,
}

impl Record for PolicyRecord {
    const FIELDS: &'static [&'static str] =
        &["kind", "target", "function", "when", "using", "to", "except", "others", "priority", "enabled"];
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PolicyKindRecord {
    Mask,
    RowFilter,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TargetRecord {
    Column(ColumnRef),
    Table(TableRef),
    Schema(SchemaRef),
    Catalog(Name),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FunctionRecord {
    Constant(String),
    Expression(String),
    Redact,
    Hash,
    Nullify,
    DateYear,
    ShowFirst(u32),
    ShowLast(u32),
    Function { name: Name, arguments: Vec<String> },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GranteeRecord {
    Public,
    Role(Name),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OthersRecord {
    AllRows,
    NoRows,
}

impl From<&MaskFunction> for FunctionRecord {
    fn from(function: &MaskFunction) -> Self {
        match function {
            MaskFunction::Constant(text) => FunctionRecord::Constant(text.clone()),
            MaskFunction::Expression(ExpressionText { text }) => FunctionRecord::Expression(text.clone()),
            MaskFunction::Redact => FunctionRecord::Redact,
            MaskFunction::Hash => FunctionRecord::Hash,
            MaskFunction::Nullify => FunctionRecord::Nullify,
            MaskFunction::DateYear => FunctionRecord::DateYear,
            MaskFunction::ShowFirst(keep) => FunctionRecord::ShowFirst(*keep),
            MaskFunction::ShowLast(keep) => FunctionRecord::ShowLast(*keep),
            MaskFunction::Function { name, arguments } => {
                FunctionRecord::Function { name: name.clone(), arguments: arguments.clone() }
            }
        }
    }
}

impl From<FunctionRecord> for MaskFunction {
    fn from(record: FunctionRecord) -> Self {
        match record {
            FunctionRecord::Constant(text) => MaskFunction::Constant(text),
            FunctionRecord::Expression(text) => MaskFunction::Expression(ExpressionText { text }),
            FunctionRecord::Redact => MaskFunction::Redact,
            FunctionRecord::Hash => MaskFunction::Hash,
            FunctionRecord::Nullify => MaskFunction::Nullify,
            FunctionRecord::DateYear => MaskFunction::DateYear,
            FunctionRecord::ShowFirst(keep) => MaskFunction::ShowFirst(keep),
            FunctionRecord::ShowLast(keep) => MaskFunction::ShowLast(keep),
            FunctionRecord::Function { name, arguments } => MaskFunction::Function { name, arguments },
        }
    }
}

fn grantees(audience: &Audience<Grantee, Name>) -> Option<Vec<GranteeRecord>> {
    let record = |grantee: &Grantee| match grantee {
        Grantee::Public => GranteeRecord::Public,
        Grantee::Role(name) => GranteeRecord::Role(name.clone()),
    };
    audience.to.as_ref().map(|to| to.iter().map(record).collect())
}

fn audience(to: Option<Vec<GranteeRecord>>, except: Vec<Name>) -> Audience<Grantee, Name> {
    let grantee = |record| match record {
        GranteeRecord::Public => Grantee::Public,
        GranteeRecord::Role(name) => Grantee::Role(name),
    };
    Audience { to: to.map(|to| to.into_iter().map(grantee).collect()), except }
}

impl From<&PolicyDef> for PolicyRecord {
    fn from(def: &PolicyDef) -> Self {
        match def {
            PolicyDef::Mask(mask) => {
                let MaskDef { target, function, when, audience, priority, enabled, extra: _ } = mask;
                let MaskTarget::Column(column) = target;
                PolicyRecord {
                    kind: PolicyKindRecord::Mask,
                    target: TargetRecord::Column(column.clone()),
                    function: Some(function.into()),
                    when: when.as_ref().map(|e| e.text.clone()),
                    using: None,
                    to: grantees(audience),
                    except: audience.except.clone(),
                    others: None,
                    priority: *priority,
                    enabled: *enabled,
                }
            }
            PolicyDef::RowFilter(filter) => {
                let RowFilterDef { target, using, audience, others, enabled, extra: _ } = filter;
                PolicyRecord {
                    kind: PolicyKindRecord::RowFilter,
                    target: match target {
                        RowFilterTarget::Table(name) => TargetRecord::Table(name.clone()),
                        RowFilterTarget::Schema(name) => TargetRecord::Schema(name.clone()),
                        RowFilterTarget::Catalog(name) => TargetRecord::Catalog(name.clone()),
                    },
                    function: None,
                    when: None,
                    using: Some(using.text.clone()),
                    to: grantees(audience),
                    except: audience.except.clone(),
                    others: others.map(|o| match o {
                        Others::AllRows => OthersRecord::AllRows,
                        Others::NoRows => OthersRecord::NoRows,
                    }),
                    priority: 0,
                    enabled: *enabled,
                }
            }
        }
    }
}

pub(super) fn extra(def: &PolicyDef) -> &Extra {
    match def {
        PolicyDef::Mask(mask) => &mask.extra,
        PolicyDef::RowFilter(filter) => &filter.extra,
    }
}

pub(super) fn encode(def: &PolicyDef, out: &mut Vec<u8>) -> Result<(), Bad> {
    write(&PolicyRecord::from(def), extra(def), out)
}

pub(super) fn decode(json: &[u8]) -> Result<PolicyDef, Bad> {
    let (record, extra) = read::<PolicyRecord>(json)?;
    let PolicyRecord { kind, target, function, when, using, to, except, others, priority, enabled } = record;
    let audience = audience(to, except);
    match kind {
        PolicyKindRecord::Mask => {
            let TargetRecord::Column(column) = target else { return Err(Bad::Value) };
            Ok(PolicyDef::Mask(MaskDef {
                target: MaskTarget::Column(column),
                function: function.ok_or(Bad::Value)?.into(),
                when: when.map(|text| ExpressionText { text }),
                audience,
                priority,
                enabled,
                extra,
            }))
        }
        PolicyKindRecord::RowFilter => Ok(PolicyDef::RowFilter(RowFilterDef {
            target: match target {
                TargetRecord::Column(_) => return Err(Bad::Value),
                TargetRecord::Table(name) => RowFilterTarget::Table(name),
                TargetRecord::Schema(name) => RowFilterTarget::Schema(name),
                TargetRecord::Catalog(name) => RowFilterTarget::Catalog(name),
            },
            using: ExpressionText { text: using.ok_or(Bad::Value)? },
            audience,
            others: others.map(|o| match o {
                OthersRecord::AllRows => Others::AllRows,
                OthersRecord::NoRows => Others::NoRows,
            }),
            enabled,
            extra,
        })),
    }
}
