//! owned
