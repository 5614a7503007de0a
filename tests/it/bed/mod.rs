//! The test bed: real parts, brought up and taken down.
//!
//! - [`Balancer`]: what a Service does, for processes of this host
//! - [`ControlPlane`]: etcd and kube-apiserver, on request kube-controller-manager, as processes of this host
//! - [`Node`]: all of Kubernetes with one node, in namespaces of its own
//! - [`Etcd`]: an etcd cluster of any version that we support, as processes of this host
//! - [`StandInKubelet`]: Pods as processes of this host, for a control plane without nodes
//! - [`fault_proxy`]: between a client of ours and any of these, to make things go wrong
//! - [`S3Server`]: SeaweedFS with S3 over TLS, as a process of this host
//! - [`Warden`]: `etcd-warden serve`, as a process of this host
//!
//! Whatever a handle starts ends with it, and with this process at the latest, however that one ends: every daemon is
//! held by a [`leash`]. A tier that is not set up fails with the command which sets it up; nothing is skipped.
#![allow(dead_code, reason = "a bed offers what tests will need; which of them use what changes with every test")]
#![allow(clippy::print_stderr, reason = "a failed test tells where its logs are")]

pub mod api_server;
pub mod balancer;
pub mod control_plane;
pub mod creates;
pub mod etcd;
pub mod fault_proxy;
pub mod guides;
pub mod installation;
pub mod leash;
pub mod node;
pub mod pki;
pub mod ports;
pub mod programs;
pub mod remains;
pub mod s3;
pub mod stand_in;
pub mod tools;
pub mod wait;
pub mod warden;

pub use api_server::Identity;
pub use balancer::Balancer;
pub use control_plane::ControlPlane;
pub use etcd::Etcd;
pub use node::Node;
pub use s3::S3Server;
pub use stand_in::StandInKubelet;
pub use wait::wait_for;
pub use warden::Warden;

/// Chooses ring for everything in this process that speaks TLS and was not told what to use.
pub fn use_ring() {
    // The second call is refused, which is what makes calling it from everywhere right.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
