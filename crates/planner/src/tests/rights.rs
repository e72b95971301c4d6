//! authorize
