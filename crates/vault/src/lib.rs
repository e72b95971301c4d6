//! Seals secrets and makes password verifiers.
