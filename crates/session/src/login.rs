//! What a client says of itself before its session starts.

/// A client that the front door has let in.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// The user's name, authenticated.
    pub user: String,
    /// The database that it asked for: the org.
    pub database: Option<String>,
    /// The other startup parameters, `application_name` and `options` among them.
    pub parameters: Vec<(String, String)>,
    /// The client's address, for people who read the log.
    pub client: String,
    /// The number that the session goes by.
    pub pid: i32,
}
