//! Tests on a whole one-node Kubernetes.

mod bed;
mod clusters;
mod walkthrough;
