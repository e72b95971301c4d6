//! comment
