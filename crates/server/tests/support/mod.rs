//! A server of one's own on a free port, and a client that sends any bytes one likes.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

pub mod client;
pub mod encrypted;
pub mod http;
pub mod login;
pub mod pki;
pub mod served;
pub mod slapd;

pub use client::Client;
pub use served::Served;
