//! Tests on a whole one-node Kubernetes.

mod admission;
mod bed;
mod clusters;
mod walkthrough;
