//! The three paths and their answers.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::watch;

use super::readiness::{NotReady, Readiness};
use super::token::Token;
use crate::metrics::{Exposition, Reading};
use crate::server::{Phase, Shared};

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the answers are made of.
struct Sources {
    token: Option<Token>,
    shared: Arc<Shared>,
    phase: watch::Receiver<Phase>,
    readiness: Readiness,
    exposition: Exposition,
}

impl Sources {
    async fn check(&self) -> Result<(), NotReady> {
        if *self.phase.borrow() == Phase::Serving { self.readiness.check().await } else { Err(NotReady::Ending) }
    }
}

/// The router. Who brings no token is told nothing, not even which paths there are.
pub(super) fn router(token: Option<Token>, shared: Arc<Shared>, phase: watch::Receiver<Phase>) -> Router {
    let readiness = Readiness::new(Arc::clone(&shared.engine));
    let exposition = Exposition::new(&shared.metrics, &shared.engine, shared.config.connections_max);
    let sources = Arc::new(Sources { token, shared, phase, readiness, exposition });
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(|| async { answer(StatusCode::NOT_FOUND, TEXT, "not found\n") })
        .method_not_allowed_fallback(|| async { answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET only\n") })
        .layer(from_fn_with_state(Arc::clone(&sources), guard))
        .with_state(sources)
}

/// Lets requests in that bring the token, if there is one, and closes the connection after each.
async fn guard(State(sources): State<Arc<Sources>>, request: Request, next: Next) -> Response {
    let let_in = sources.token.as_ref().is_none_or(|token| {
        let mut brought = request.headers().get_all(AUTHORIZATION).iter();
        // Exactly one: which of two counts would be a guess.
        brought.next().is_some_and(|value| token.is_in(value.as_bytes())) && brought.next().is_none()
    });
    let mut response = if let_in {
        next.run(request).await
    } else {
        let mut refused = answer(StatusCode::UNAUTHORIZED, TEXT, "a token is required\n");
        refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        refused
    };
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The process serves requests.
async fn healthz() -> Response {
    answer(StatusCode::OK, TEXT, "ok\n")
}

/// Clients would be served.
async fn readyz(State(sources): State<Arc<Sources>>) -> Response {
    match sources.check().await {
        Ok(()) => {
            let vitals = sources.shared.engine.vitals();
            let (images, age) = (vitals.images, vitals.contact_age.as_secs_f64());
            let body = format!("{{\"ready\":true,\"images\":{images},\"contact_age_seconds\":{age:.3}}}\n");
            answer(StatusCode::OK, JSON, body)
        }
        Err(why) => {
            // The texts are ours, and have nothing to escape.
            let body = format!("{{\"ready\":false,\"reason\":\"{}\"}}\n", why.reason());
            answer(StatusCode::SERVICE_UNAVAILABLE, JSON, body)
        }
    }
}

/// All metrics.
async fn metrics(State(sources): State<Arc<Sources>>) -> Response {
    let ready = sources.readiness.check().await;
    let reading = Reading {
        ready: ready.is_ok() && *sources.phase.borrow() == Phase::Serving,
        store_up: !ready.is_err_and(NotReady::is_store),
        vitals: sources.shared.engine.vitals(),
        connections: sources.shared.admission.seats(),
        connections_waiting: sources.shared.lobby.len(),
    };
    answer(StatusCode::OK, OPEN_METRICS, sources.exposition.text(reading))
}

fn answer(status: StatusCode, kind: &'static str, body: impl Into<axum::body::Body>) -> Response {
    (status, [(CONTENT_TYPE, kind)], body.into()).into_response()
}
