//! ParameterStatus: what a client is told of the session without asking.

use std::sync::Arc;

use dataglot_model::{Actor, Seq};
use dataglot_planner::{Image, is_superuser};

use crate::response::{Response, Sink};
use crate::session::Session;
use crate::settings::{self, Settings, VERSION_TOKEN};
use crate::transaction::Transaction;

/// What a client was told last.
#[derive(Default)]
pub(crate) struct Announced {
    settings: Vec<(&'static str, String)>,
    /// What those depend on, as it was then.
    made_for: Option<(Settings, Arc<Actor>, bool)>,
    version: Seq,
}

impl Session {
    /// The settings that a client is told at the start.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut parameters = self.announced.settings.clone();
        parameters.push((VERSION_TOKEN, self.announced.version.to_string()));
        parameters
    }

    /// What is told at the start.
    pub(crate) fn announce_first(&mut self, image: &Image) {
        self.announced = Announced { settings: self.reported(image), made_for: None, version: self.seen };
    }

    /// Sends the reported settings whose value has changed since the client was told.
    pub(crate) async fn announce(&mut self, out: &mut dyn Sink) {
        if self.terminate_reason().is_some() {
            // Its last word was said.
            return;
        }
        self.announce_settings(out).await;
        if self.announced.version != self.seen {
            self.announced.version = self.seen;
            out.send(Response::ParameterStatus(VERSION_TOKEN.to_owned(), self.seen.to_string()));
        }
    }

    async fn announce_settings(&mut self, out: &mut dyn Sink) {
        let Ok(Some(newest)) = self.engine.image(&self.org).await else { return };
        let image = self.transaction.as_ref().and_then(Transaction::image).unwrap_or(&newest.0);
        let actor = Arc::clone(&self.scoped.identity.current().actor);
        let superuser = is_superuser(image, &actor);
        let is_as_before = self.announced.made_for.as_ref().is_some_and(|(settings, role, was)| {
            settings.is_same(&self.scoped.settings) && Arc::ptr_eq(role, &actor) && *was == superuser
        });
        if is_as_before {
            return;
        }
        let now = self.reported(image);
        for (name, value) in &now {
            if !self.announced.settings.iter().any(|(n, v)| n == name && v == value) {
                out.send(Response::ParameterStatus((*name).to_owned(), value.clone()));
            }
        }
        self.announced.settings = now;
        self.announced.made_for = Some((self.scoped.settings.clone(), actor, superuser));
    }

    fn reported(&self, image: &Image) -> Vec<(&'static str, String)> {
        settings::all()
            .iter()
            .filter(|s| s.reported)
            .filter_map(|s| Some((s.name, self.setting(image, s.name)?)))
            .collect()
    }
}
