//! Certificates that are renewed while the server runs.

use std::sync::Arc;

use dataglot_session::{Clock as _, SystemClock};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use super::Tls;
use crate::server::Shared;

/// How long before its end a certificate that is still served is worth a warning.
const EXPIRES_SOON_SECONDS: i64 = 7 * 24 * 60 * 60;

/// Reads certificate, key and CAs again whenever they change, and on SIGHUP. Connections that are open, and
/// handshakes that have begun, go on as they are. Ends at once without TLS, and else never.
pub(crate) async fn renew(shared: Arc<Shared>) {
    let Some(tls) = &shared.tls else { return };
    shared.metrics.certificates(tls.expiry());
    tell(tls);
    let mut ticks = interval(tls.config.poll_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => Some(hangups),
        Err(error) => {
            tracing::warn!(%error, "SIGHUP can't be watched; certificates are still looked at in intervals");
            None
        }
    };
    loop {
        let hung_up = async {
            match &mut hangups {
                Some(hangups) => hangups.recv().await,
                None => std::future::pending().await,
            }
        };
        let at_any_rate = tokio::select! {
            _ = ticks.tick() => false,
            _ = hung_up => true,
        };
        let now = Arc::clone(tls);
        // Files block.
        match tokio::task::spawn_blocking(move || now.reload(at_any_rate)).await {
            Ok(Ok(true)) => {
                shared.metrics.certificates(tls.expiry());
                tell(tls);
            }
            Ok(Ok(false)) => {}
            Ok(Err(error)) => {
                shared.metrics.certificates_refused();
                tracing::error!(%error, "TLS files not taken; what was served before still is");
            }
            Err(_) => tracing::error!("TLS files not read"),
        }
    }
}

/// What an operator should know of the certificate.
fn tell(tls: &Tls) {
    let served = tls.served();
    tracing::info!(
        expires = served.expiry,
        channel_binding = served.end_point_hash.is_some(),
        client_certificates = tls.config.client_ca.is_some(),
        "TLS certificate taken"
    );
    if served.expiry < SystemClock.now().0 / 1_000_000 + EXPIRES_SOON_SECONDS {
        tracing::warn!(expires = served.expiry, "TLS certificate has expired, or does within a week");
    }
}
