//! row_filter
