//! Waiting for something to become true, with a deadline and a message that says what was seen instead.

use std::fmt::Display;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(50);

/// Calls `probe` until it gives `Ok`, whose value is returned. `Err` says what was seen instead of what is waited for.
///
/// # Panics
/// When `within` has passed: with `what`, the time, and what the last probe saw.
pub async fn wait_for<T>(what: impl Display, within: Duration, mut probe: impl AsyncFnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + within;
    loop {
        let seen = match tokio::time::timeout(within, probe()).await {
            Ok(Ok(value)) => return value,
            Ok(Err(seen)) => seen,
            Err(_) => "the probe itself did not come back".to_owned(),
        };
        assert!(Instant::now() < end, "waited {within:?} for {what}; last seen: {seen}");
        tokio::time::sleep(PAUSE).await;
    }
}
