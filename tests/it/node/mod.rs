//! Tests on a whole one-node Kubernetes.

mod admission;
mod bed;
mod bench;
mod clusters;
mod platform;
mod scene;
mod snapshots;
mod walkthrough;
mod writer;
