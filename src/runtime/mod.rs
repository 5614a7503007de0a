//! What every long-running process needs: admin endpoints, leadership, metrics, readiness, shutdown, telemetry. No word
//! of the product.

pub mod admin;
pub mod folder;
pub mod leader;
pub mod metrics;
pub mod readiness;
pub mod shutdown;
pub mod telemetry;
