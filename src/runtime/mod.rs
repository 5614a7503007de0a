//! What every long-running process needs: admin endpoints, leadership, metrics, shutdown, telemetry.
