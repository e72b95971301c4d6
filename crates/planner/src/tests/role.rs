//! role
