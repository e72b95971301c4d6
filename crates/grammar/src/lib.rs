//! SQL text to typed commands, and back.
