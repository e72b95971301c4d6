//! Certificates that are renewed while the server runs.

use std::sync::Arc;

use dataglot_session::{Clock as _, SystemClock};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

use super::Tls;
use crate::server::Shared;

/// How long before its end a certificate that is still served is worth a warning.
const EXPIRES_SOON_SECONDS: i64 = 7 * 24 * 60 * 60;

/// Reads certificate, key and CAs again whenever they change, and on SIGHUP. Connections that are open, and
/// handshakes that have begun, go on as they are. SIGHUP is taken without TLS, too, where it would end the process
/// else: from this call on, not only once the future is driven. That never ends.
pub(crate) fn renew(shared: Arc<Shared>) -> impl Future<Output = ()> {
    let hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => Some(hangups),
        Err(error) => {
            tracing::warn!(%error, "SIGHUP can't be watched; certificates are still looked at in intervals");
            None
        }
    };
    renew_on(hangups, shared)
}

async fn renew_on(mut hangups: Option<Signal>, shared: Arc<Shared>) {
    let Some(tls) = &shared.tls else {
        loop {
            hung_up(&mut hangups).await;
            tracing::info!("SIGHUP: there is nothing to read again without TLS");
        }
    };
    shared.metrics.certificates(tls.expiry());
    tell(tls);
    let mut ticks = interval(tls.config.poll_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let at_any_rate = tokio::select! {
            _ = ticks.tick() => false,
            () = hung_up(&mut hangups) => true,
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

/// The next SIGHUP; never, if none can come.
async fn hung_up(hangups: &mut Option<Signal>) {
    if let Some(hangups) = hangups
        && hangups.recv().await.is_some()
    {
        return;
    }
    std::future::pending().await
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
