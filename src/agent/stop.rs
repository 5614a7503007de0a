//! When to stop: SIGTERM, SIGINT, or the time given.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use crate::api::agent::Reason;

/// What is kept of the time given, at least, for whatever is being retried to find that its time is over: as long as
/// pauses between tries and a last connection may take. Half of the time where there is little.
const RESERVE: Duration = Duration::from_secs(12);

/// Tells a task to stop. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    token: CancellationToken,
    deadline: Option<Instant>,
}

impl Stop {
    /// Listens for signals and counts the time from now.
    ///
    /// # Errors
    /// The system does not let signals be listened for.
    pub(crate) fn install(limit: Option<Duration>) -> Result<Self, Failure> {
        let token = CancellationToken::new();
        let failed = |error: std::io::Error| Failure::new(Reason::Internal, "cannot listen for signals").because(error);
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let stop = Self { token: token.clone(), deadline: limit.map(|limit| Instant::now() + most_of(limit)) };
        tokio::spawn(async move {
            // Any of the three ends the task; none holds state that a lost branch could lose.
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = sleep(limit) => {}
            }
            token.cancel();
        });
        Ok(stop)
    }

    /// The moment after which nothing new begins, a little before the end: what was being retried then still has the
    /// time to say why.
    #[must_use]
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Waits for the work, or for the word to stop. The work is dropped then: what it left behind is the caller's to
    /// clean up, which its error path does anyway.
    pub(crate) async fn unless<T, E: Into<Failure>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure> {
        // Biased, so that work which is always ready cannot hide the word to stop.
        tokio::select! {
            biased;
            () = self.token.cancelled() => Err(self.failure()),
            done = work => done.map_err(Into::into),
        }
    }

    fn failure(&self) -> Failure {
        let late = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        Failure::new(Reason::Interrupted, if late { "the time given ran out" } else { "told to stop" })
    }
}

fn most_of(limit: Duration) -> Duration {
    limit.saturating_sub((limit / 10).max(RESERVE.min(limit / 2)))
}

async fn sleep(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_the_time_is_kept_to_say_why() {
        for (limit, most) in [(8, 4), (20, 10), (60, 48), (1800, 1620)] {
            assert_eq!(most_of(Duration::from_secs(limit)), Duration::from_secs(most));
        }
    }
}
