//! Shutdown: SIGTERM and SIGINT become one token that every task holds.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

/// A token that is cancelled at the first SIGTERM or SIGINT.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = CancellationToken::new();
    let told = token.clone();
    tokio::spawn(async move {
        // Both branches only wait for a signal: nothing is lost when the other one wins.
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!(signal = name, "shutting down");
        told.cancel();
    });
    Ok(token)
}
