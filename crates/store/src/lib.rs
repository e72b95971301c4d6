//! Durable homes of the control plane's state, the committer and the change feed.
