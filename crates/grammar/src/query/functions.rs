//! Functions of PostgreSQL's that matter by what they are: a row filter may not ask the clock or add up
//! rows.

/// Functions whose value can differ between two rows of one statement, or that do something.
const VOLATILE: &[&str] = &[
    "clock_timestamp",
    "currval",
    "gen_random_bytes",
    "gen_random_uuid",
    "gen_salt",
    "lastval",
    "nextval",
    "notify",
    "pg_advisory_lock",
    "pg_advisory_unlock",
    "pg_cancel_backend",
    "pg_current_xact_id",
    "pg_notify",
    "pg_reload_conf",
    "pg_rotate_logfile",
    "pg_terminate_backend",
    "rand",
    "random",
    "random_normal",
    "set_config",
    "setseed",
    "setval",
    "timeofday",
    "txid_current",
    "uuid",
    "uuidv4",
    "uuidv7",
];

/// The same by how they begin: families that sleep, read files, run queries or reach out.
const VOLATILE_PREFIXES: &[&str] = &[
    "cursor_to_xml",
    "database_to_xml",
    "dblink",
    "lo_",
    "pg_advisory_",
    "pg_create_",
    "pg_drop_",
    "pg_ls_",
    "pg_read_",
    "pg_sleep",
    "pg_stat_file",
    "pg_stat_reset",
    "pg_switch_",
    "pg_try_advisory_",
    "query_to_xml",
    "schema_to_xml",
    "table_to_xml",
    "uuid_generate_",
];

/// Functions that take many rows to one value, or need to know the other rows.
const AGGREGATES: &[&str] = &[
    "any_value",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "cume_dist",
    "dense_rank",
    "every",
    "first_value",
    "grouping",
    "json_agg",
    "json_arrayagg",
    "json_object_agg",
    "json_objectagg",
    "jsonb_agg",
    "jsonb_object_agg",
    "lag",
    "last_value",
    "lead",
    "max",
    "median",
    "min",
    "mode",
    "nth_value",
    "ntile",
    "percent_rank",
    "percentile_cont",
    "percentile_disc",
    "range_agg",
    "range_intersect_agg",
    "rank",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "row_number",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
    "xmlagg",
];

/// Whether the function of that name, folded and without its schema, is volatile.
pub(super) fn is_volatile(name: &str) -> bool {
    VOLATILE.binary_search(&name).is_ok() || VOLATILE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether it is an aggregate or window function.
pub(crate) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        assert!(VOLATILE.is_sorted() && VOLATILE_PREFIXES.is_sorted() && AGGREGATES.is_sorted());
    }
}
