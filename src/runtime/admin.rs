//! The admin listener: `/healthz`, `/readyz` with the reasons why not, `/metrics`. Plain HTTP, on a port of its own, so
//! that it answers whatever the rest of the process is doing.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::readiness::Readiness;

#[derive(Clone)]
struct Admin {
    readiness: Readiness,
    metrics: Metrics,
}

/// The routes, apart from any listener.
pub fn router(readiness: Readiness, metrics: Metrics) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render))
        .with_state(Admin { readiness, metrics })
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let missing = admin.readiness.missing();
    if missing.is_empty() {
        return "ok\n".into_response();
    }
    let reasons = missing.iter().fold(String::new(), |text, (part, why)| text + part + ": " + why + "\n");
    (StatusCode::SERVICE_UNAVAILABLE, reasons).into_response()
}

async fn render(State(admin): State<Admin>) -> Response {
    match admin.metrics.render() {
        Ok(text) => ([("content-type", prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Serves until shutdown.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(shutdown.cancelled_owned()).await
}

/// Listens on an address; the error names it.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|source| ListenError { address, source })
}

/// An address could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::{Request, StatusCode};
    use tower::ServiceExt;

    use super::{Metrics, Readiness, router};

    #[tokio::test]
    async fn readyz_says_what_is_missing() {
        let readiness = Readiness::default();
        let gate = readiness.gate("certificate");
        let app = router(readiness, Metrics::new("program", "1").unwrap());
        let ask = || app.clone().oneshot(Request::get("/readyz").body(axum::body::Body::empty()).unwrap());

        let answer = ask().await.unwrap();
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = to_bytes(answer.into_body(), 1024).await.unwrap();
        assert_eq!(body, "certificate: has not started yet\n");

        gate.ready();
        assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
    }
}
